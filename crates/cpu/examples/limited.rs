//! Programs that the tests of this room start.
//!
//! `limited __keeper …` answers as the `diorama` binary does. `limited hold RUN CORE SHARE…` puts nodes
//! `n0`, `n1`, … on that core under limits, says `engaged`, and holds them until its input ends or it is killed.

use std::io::Read;

use diorama_cpu::{CpuGroups, NodeShare, Policy, Terms, keeper_main};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("__keeper") => keeper_main(args[1..].to_vec()),
        Some("hold") => hold(&args[1], args[2].parse().expect("a core"), &args[3..]),
        _ => panic!("what is `{args:?}`? See the beginning of crates/cpu/examples/limited.rs"),
    }
}

fn hold(run_id: &str, core: usize, shares: &[String]) {
    let node = |(i, share): (usize, &String)| NodeShare::new(format!("n{i}"), core, share.parse().expect("a share"));
    let shares: Vec<_> = shares.iter().enumerate().map(node).collect();
    let mut groups = CpuGroups::create(run_id, &shares, Policy::Slots, Terms::default()).expect("groups");
    let keeper = groups.keeper().map(|mut command| command.spawn().expect("the keeper"));
    groups.engage(keeper).expect("limits");
    println!("engaged");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    groups.release().expect("release");
}
