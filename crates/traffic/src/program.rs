//! `traffic source …` and `traffic sink …`: the two ends of a flow, in nodes.

mod departures;
mod tool;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(what) = tool::run(&words) {
        eprintln!("traffic: {what}");
        std::process::exit(1);
    }
}
