//! The first line that each side of a stream says: what it is, and of which version. Any version can read that of any
//! other, and whoever looks at the stream, too.

use std::io::{Read, Write};

use crate::error::{Error, Result};
use crate::wire::{VERSION, broken};

/// Its first word: what begins otherwise is no site, but a shell, a greeting of the machine's, or an error message.
const WORD: &str = "diorama-site";
/// How long it may be, in bytes.
const LONGEST: usize = 256;

/// Says which version speaks, and hears which answers. `release` is the program's, with its commit.
///
/// # Errors
///
/// If nobody answers, if that is no site, or of another version or release, which is named beside this one.
pub(crate) fn greet(from: &mut impl Read, to: &mut impl Write, release: &str) -> Result<()> {
    let line = format!("{WORD} {VERSION} {release}\n");
    to.write_all(line.as_bytes()).and_then(|()| to.flush()).map_err(broken)?;
    let heard = first_line(from)?;
    let mut words = heard.splitn(3, ' ');
    let (word, version, theirs) = (words.next(), words.next(), words.next());
    match (word, version.and_then(|v| v.parse::<u32>().ok()), theirs) {
        (Some(WORD), Some(version), Some(theirs)) if version == VERSION && theirs == release => Ok(()),
        (Some(WORD), Some(version), Some(theirs)) => Err(Error::machine(
            format_args!(
                "the other side is Diorama {theirs} with version {version} of the interface, and this one {release} \
                 with version {VERSION}"
            ),
            "install one version of Diorama on all machines",
        )),
        _ => Err(Error::machine(
            format_args!("what answers there is no `diorama site`: it says `{}`", heard.escape_debug()),
            "the command must do nothing but run `diorama site` there: no greeting, no terminal (`docker exec -i`, not \
             -it)",
        )),
    }
}

/// Up to the end of a line, or as much as that may be.
fn first_line(from: &mut impl Read) -> Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LONGEST {
        match from.read(&mut byte) {
            Ok(0) if line.is_empty() => return Err(broken("it was closed")),
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) => line.push(byte[0]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(broken(e)),
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(line: &str) -> Result<()> {
        greet(&mut line.as_bytes(), &mut Vec::new(), "0.2.0 (abc)")
    }

    #[test]
    fn one_version_of_one_release_speaks_with_itself() {
        let mut said = Vec::new();
        greet(&mut format!("diorama-site {VERSION} 0.2.0 (abc)\n").as_bytes(), &mut said, "0.2.0 (abc)").unwrap();
        assert_eq!(heard(std::str::from_utf8(&said).unwrap()), Ok(()));
    }

    #[test]
    fn others_are_refused_and_both_named() {
        for line in [format!("diorama-site {} 0.2.0 (abc)\n", VERSION + 1), format!("diorama-site {VERSION} 0.3 (x)\n")]
        {
            let refused = heard(&line).unwrap_err();
            assert_eq!(refused.code(), 3);
            let theirs = line.trim_end().rsplit_once("site ").unwrap().1.split_once(' ').unwrap();
            for part in [theirs.1, theirs.0, "0.2.0 (abc)", &VERSION.to_string()] {
                assert!(refused.what.contains(part), "no {part} in {refused}");
            }
        }
    }

    #[test]
    fn what_is_no_site_is_quoted() {
        let endless = "x".repeat(100_000);
        for line in ["Welcome to a.lab!\r\n", "bash: diorama: command not found", "diorama-site x y\n", &endless, "\n"]
        {
            let refused = heard(line).unwrap_err();
            let said = line.lines().next().unwrap().chars().take(LONGEST).collect::<String>();
            assert!(
                refused.what.contains("is no `diorama site`") && refused.what.contains(said.trim_end()),
                "{refused}"
            );
        }
        assert!(heard("").unwrap_err().to_string().contains("it was closed"));
        assert!(heard("\u{1b}[31mred\n").unwrap_err().what.contains("\\u{1b}[31mred"));
    }
}
