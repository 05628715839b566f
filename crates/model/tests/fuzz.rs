//! No file, however broken, makes the reader panic or take long.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use diorama_model::load;
use proptest::prelude::*;

/// Pieces of text that mean something to YAML or to an experiment.
const PIECES: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "- ",
    "? ",
    "&a ",
    "*a",
    "!t ",
    "|\n",
    ">\n",
    "'",
    "\"",
    "#",
    "%",
    "\n",
    "\n  ",
    "\t",
    ",",
    "---\n",
    "...\n",
    "~",
    "null",
    "\\",
    "\u{feff}",
    "\u{0}",
    "é",
    "\u{2028}",
    "1e300",
    "-1",
    "99999999999999999999",
    "10ms",
    "..",
    "--",
    "<<",
    "a*",
    "0%",
    "=",
];

#[derive(Clone, Debug)]
enum Change {
    Insert(usize, usize),
    Delete(usize, usize),
    Copy(usize, usize, usize),
    Swap(usize, usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = 0..4096usize;
    let change = prop_oneof![
        3 => (at.clone(), 0..PIECES.len()).prop_map(|(a, p)| Change::Insert(a, p)),
        2 => (at.clone(), 1..40usize).prop_map(|(a, n)| Change::Delete(a, n)),
        1 => (at.clone(), 1..200usize, at.clone()).prop_map(|(a, n, b)| Change::Copy(a, n, b)),
        1 => (at.clone(), at).prop_map(|(a, b)| Change::Swap(a, b)),
    ];
    prop::collection::vec(change, 1..8)
}

fn changed(text: &str, changes: &[Change]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for change in changes {
        let len = chars.len();
        if len == 0 {
            break;
        }
        match *change {
            Change::Insert(at, piece) => {
                let at = at % (len + 1);
                chars.splice(at..at, PIECES[piece].chars());
            }
            Change::Delete(at, n) => {
                let at = at % len;
                chars.drain(at..(at + n).min(len));
            }
            Change::Copy(from, n, to) => {
                let from = from % len;
                let part = chars[from..(from + n).min(len)].to_vec();
                let to = to % (len + 1);
                chars.splice(to..to, part);
            }
            Change::Swap(a, b) => chars.swap(a % len, b % len),
        }
    }
    chars.into_iter().collect()
}

fn survives(dir: &Path, text: &[u8]) -> Result<(), TestCaseError> {
    let path = dir.join("experiment.yaml");
    fs::write(&path, text).unwrap();
    let begun = Instant::now();
    match load(&path, &[]) {
        Err(error) => {
            prop_assert!(!error.to_string().is_empty());
            prop_assert!(!error.render().is_empty());
        }
        Ok(mut first) => {
            // An accepted file is also recorded faithfully.
            fs::write(&path, &first.resolved).unwrap();
            let again = load(&path, &[]);
            prop_assert!(again.is_ok(), "{}\n{}", first.resolved, again.unwrap_err());
            let mut second = again.unwrap();
            // They stand elsewhere.
            first.nodes.iter_mut().chain(&mut second.nodes).for_each(|node| node.place = None);
            prop_assert_eq!(format!("{:?}", first.nodes), format!("{:?}", second.nodes));
            prop_assert_eq!(format!("{:?}", first.links), format!("{:?}", second.links));
        }
    }
    prop_assert!(begun.elapsed() < Duration::from_secs(20));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutations_of_good_files_never_panic(which in 0..2usize, changes in changes()) {
        let file = ["web-busy.yaml", "everything.yaml"][which];
        let good = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good");
        let text = fs::read_to_string(good.join(file)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::copy(good.join("nginx.conf"), dir.path().join("nginx.conf")).unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        survives(dir.path(), changed(&text, &changes).as_bytes())?;
    }

    #[test]
    fn soups_of_pieces_never_panic(pieces in prop::collection::vec(0..PIECES.len(), 0..60)) {
        let dir = tempfile::tempdir().unwrap();
        let text: String = pieces.iter().map(|p| PIECES[*p]).collect();
        survives(dir.path(), text.as_bytes())?;
        survives(dir.path(), format!("name: {text}\ntdf: 1\n").as_bytes())?;
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let dir = tempfile::tempdir().unwrap();
        survives(dir.path(), &bytes)?;
    }

    #[test]
    fn overrides_never_panic(path in "[a-z.*0-9/-]{0,20}", value in "\\PC{0,30}") {
        let good = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good/web-busy.yaml");
        let _ = load(&good, &[(path, value)]);
    }
}
