//! `diorama explain`: print what the documentation says of a check, a key, a metric of a flow or another word.

mod find;
mod page;
mod show;

use std::process::ExitCode;

use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama explain`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A check, a key of the experiment's file (`delay`, `links.delay`, `do`), a metric of a flow, or another word of
    /// the documentation
    #[arg(required = true)]
    word: Vec<String>,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let word = args.word.join(" ");
    let pieces = page::all();
    let found = find::explained(&pieces, &word);
    if found.is_empty() {
        return Err(Failure::input(unknown(&pieces, &word)));
    }
    terminal::print(show::text(&found))?;
    Ok(ExitCode::SUCCESS)
}

fn unknown(pieces: &[page::Piece], word: &str) -> String {
    let near = find::near(pieces, word).map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
    format!(
        "the documentation explains no `{word}`.{near} A metric that an experiment names itself is what its `metrics` \
         says: try `diorama explain metrics`, or any check, key or word of a verdict"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(word: &str) -> String {
        show::text(&find::explained(&page::all(), word))
    }

    #[test]
    fn a_check_has_its_row_and_its_paragraph() {
        let text = explain("steal");
        assert!(text.contains("time that the hypervisor took from a core of the run"), "{text}");
        assert!(text.contains("What the hypervisor takes is missing everywhere at once"), "{text}");
        assert!(!text.contains("](") && !text.contains("**"), "{text}");
    }

    #[test]
    fn a_key_can_be_named_with_the_one_that_it_is_in() {
        let both = explain("from");
        let (links, metrics) = ("patterns of nodes or switches", "`stdout` or `stderr`");
        assert!(both.contains(links) && both.contains(metrics), "{both}");
        let one = explain("links.from");
        assert!(one.contains(links) && !one.contains(metrics), "{one}");
        for (word, says) in [
            ("machines.disk.size", "how much of it the node has"),
            ("links.queue.red.max_p", "random early detection"),
            ("nodes.ready.every", "again and again"),
            ("lans.jitter", "how the delay varies"),
            ("kill", "SIGKILL to the node's program"),
            ("flap", "the links go down again and again"),
        ] {
            assert!(explain(word).contains(says), "{word}: {}", explain(word));
        }
    }

    #[test]
    fn metrics_of_flows_and_statistics_are_explained() {
        assert!(explain("video-loss").contains("that did not"), "{}", explain("video-loss"));
        assert!(explain("p99").contains("below which"), "{}", explain("p99"));
        assert!(explain("idle burner").contains("burns it"), "{}", explain("idle burner"));
    }

    #[test]
    fn a_word_that_nothing_explains_has_a_neighbour() {
        assert!(find::explained(&page::all(), "emulator-latenes").is_empty());
        assert!(unknown(&page::all(), "emulator-latenes").contains("Did you mean `emulator-lateness`?"));
    }
}
