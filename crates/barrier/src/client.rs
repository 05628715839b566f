//! Who comes to a barrier, and waits.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::wire::{Arrival, LONGEST_NAME, PORT};

/// How long to wait before trying again to connect: the server's node may start later.
const AGAIN: Duration = Duration::from_millis(100);

const USAGE: &str = "write `[-n NAME] [-s SERVER] [-p PORT] [-i COUNT] [-a] [-e CODE]`";

/// Arguments of the command line.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    arrival: Arrival,
    server: Option<String>,
    port: u16,
    /// Whether to go on at once, though others are waited for.
    at_once: bool,
}

/// Comes to a barrier; the exit code when all are there.
pub(super) fn run(words: &[String], server: Option<&OsStr>, hosts: &Path) -> Result<u8, String> {
    let asked = read(words)?;
    let named = asked.server.clone().or_else(|| server.map(|s| s.to_string_lossy().into_owned()));
    let server = named.ok_or("no node serves barriers: name it with `-s NODE`, or in the experiment's `barriers`")?;
    let text = std::fs::read_to_string(hosts).map_err(|e| format!("{}: {e}", hosts.display()))?;
    let address = address(&text, &server).ok_or_else(|| format!("there is no node `{server}`"))?;
    wait(&asked, (address, asked.port))
}

fn wait(asked: &Asked, at: (IpAddr, u16)) -> Result<u8, String> {
    let broke = |e: std::io::Error| format!("the node that serves barriers broke the connection: {e}");
    let mut stream = loop {
        match TcpStream::connect(at) {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(AGAIN),
        }
    };
    stream.write_all(asked.arrival.line().as_bytes()).map_err(broke)?;
    if asked.at_once {
        // Bytes that were written arrive before the end of the connection does.
        stream.shutdown(Shutdown::Write).map_err(broke)?;
        return Ok(0);
    }
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(broke)?;
    match answer.trim().strip_prefix('?') {
        Some(what) => Err(what.trim().to_owned()),
        None => answer.trim().parse().map_err(|_| "the node that serves barriers has ended".into()),
    }
}

/// The address of a node, which `/etc/hosts` of each has.
fn address(hosts: &str, name: &str) -> Option<IpAddr> {
    if let Ok(address) = name.parse() {
        return Some(address);
    }
    let all = hosts.lines().filter_map(|line| {
        let (address, names) = line.split('#').next()?.trim().split_once(char::is_whitespace)?;
        names.split_whitespace().any(|n| n.eq_ignore_ascii_case(name)).then(|| address.parse().ok())?
    });
    let all: Vec<IpAddr> = all.collect();
    all.iter().find(|a| a.is_ipv4()).or(all.first()).copied()
}

fn read(words: &[String]) -> Result<Asked, String> {
    let arrival = Arrival { name: "barrier".into(), others: None, code: 0 };
    let mut asked = Asked { arrival, server: None, port: PORT, at_once: false };
    let mut words = words.iter();
    while let Some(option) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{option}` has no value: {USAGE}"));
        let wrong = |value: &str| format!("`{option} {value}` is no number that could be meant: {USAGE}");
        match option.as_str() {
            "-n" => asked.arrival.name.clone_from(value()?),
            "-s" => asked.server = Some(value()?.clone()),
            "-p" => {
                let text = value()?;
                asked.port = text.parse().map_err(|_| wrong(text))?;
            }
            "-i" => {
                let text = value()?;
                asked.arrival.others = Some(text.parse().map_err(|_| wrong(text))?);
            }
            "-e" => {
                let text = value()?;
                asked.arrival.code = text.parse().map_err(|_| wrong(text))?;
            }
            "-a" => asked.at_once = true,
            // As Emulab's: to say more, and to use UDP.
            "-d" | "-u" => {}
            _ => return Err(format!("there is no option `{option}`: {USAGE}")),
        }
    }
    let name = &asked.arrival.name;
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_whitespace) {
        return Err(format!("the name of a barrier has 1 to {LONGEST_NAME} bytes without spaces"));
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_options_of_emulab_are_understood() {
        let asked = read(&words("-d -s hub -n go -i 3 -e 7 -a")).unwrap();
        assert_eq!(asked.arrival, Arrival { name: "go".into(), others: Some(3), code: 7 });
        assert_eq!((asked.server.as_deref(), asked.port, asked.at_once), (Some("hub"), PORT, true));
        for (wrong, part) in [("-i", "has no value"), ("-i x", "`-i x`"), ("-e 300", "`-e 300`"), ("-z", "`-z`")] {
            assert!(read(&words(wrong)).unwrap_err().contains(part), "{wrong}");
        }
        assert!(read(&["-n".into(), "a b".into()]).unwrap_err().contains("without spaces"));
        let nobody = run(&[], None, Path::new("/etc/hosts")).unwrap_err();
        assert!(nobody.contains("-s NODE"), "{nobody}");
    }

    #[test]
    fn nodes_are_found_in_hosts() {
        let hosts = "127.0.0.1 localhost\nfd00::2\tHub\n10.0.0.2 hub hub-1 # it\n";
        assert_eq!(address(hosts, "hub").map(|a| a.to_string()).as_deref(), Some("10.0.0.2"));
        assert_eq!(address(hosts, "it"), None);
    }

    #[test]
    fn who_waits_is_told_and_a_server_that_ends_is_named() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = (IpAddr::from([127, 0, 0, 1]), listener.local_addr().unwrap().port());
        let server = std::thread::spawn(move || {
            for answer in ["7\n", "? no\n", ""] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                assert_eq!(line, "barrier 1 0\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let asked = read(&words("-i 1")).unwrap();
        assert_eq!(wait(&asked, at), Ok(7));
        assert_eq!(wait(&asked, at), Err("no".into()));
        assert!(wait(&asked, at).unwrap_err().contains("has ended"));
        server.join().unwrap();
    }
}
