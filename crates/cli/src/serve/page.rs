//! The page, as it was when the program was built: nothing of it is fetched from anywhere else.

use super::door::May;

/// The style of the page.
pub const STYLE: &str = include_str!("page/page.css");
/// Its program.
pub const SCRIPT: &str = include_str!("page/page.js");
const PAGE: &str = include_str!("page/page.html");

/// The page for somebody who may do so much.
pub fn page(may: May) -> String {
    let word = match may {
        May::Look => "look",
        May::Everything => "everything",
    };
    PAGE.replace("@MAY@", word).replace("@VERSION@", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_fetched_from_elsewhere_and_nothing_runs_that_the_policy_forbids() {
        let page = page(May::Look);
        assert!(page.contains("data-may=\"look\"") && !page.contains('@'), "{page}");
        for text in [&page, STYLE, SCRIPT] {
            let links: Vec<_> = text.split("//").skip(1).filter(|rest| rest.starts_with("www.")).collect();
            // The name of a namespace is no address.
            assert!(links.iter().all(|rest| rest.starts_with("www.w3.org/2000/svg")), "{links:?}");
            assert!(!text.contains("https:"), "{text}");
        }
        // Names of nodes and events are text, never markup.
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
            assert!(!SCRIPT.contains(word), "{word}");
        }
        assert!(!page.contains("style=") && !page.contains("onclick"), "{page}");
    }
}
