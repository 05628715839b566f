//! Who listens on a TCP port of this machine.

use std::fs;
use std::path::Path;

use crate::visible;

/// The state of a socket that listens, in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// The process that listens on a TCP port here, as a person would call it: `nginx (process 123)`. `None` if there is
/// none, or this process may not see whose the socket is.
pub fn listener(port: u16) -> Option<String> {
    let sockets = ["tcp", "tcp6"].map(|file| fs::read_to_string(Path::new("/proc/thread-self/net").join(file)));
    let inode = sockets.iter().flatten().find_map(|text| listening_inode(text, port))?;
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let holds = |process: &Path| {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        open.map(|entry| entry.path()).any(|fd| fs::read_link(fd).is_ok_and(|target| target == Path::new(&socket)))
    };
    let holder = processes.filter(|process| is_number(process)).find(|process| holds(process))?;
    let name = fs::read_to_string(holder.join("comm")).unwrap_or_default();
    Some(format!("{} (process {})", visible(name.trim()), holder.file_name()?.to_str()?))
}

fn is_number(process: &Path) -> bool {
    process.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

/// The inode of the socket that listens on the port, of the text of `/proc/net/tcp` or `tcp6`.
fn listening_inode(text: &str, port: u16) -> Option<u64> {
    text.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let (local, state) = (fields.nth(1)?, fields.nth(1)?);
        let is_it = local.rsplit_once(':').is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
        // Then queues, timers, retransmissions, the user and a time-out.
        (is_it && state == LISTENS).then(|| fields.nth(5)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn who_listens_is_named() {
        let open = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = open.local_addr().unwrap().port();
        let found = listener(port).expect("this process listens");
        assert!(found.ends_with(&format!("(process {})", std::process::id())), "{found}");
        drop(open);
        assert_eq!(listener(port), None);
    }
}
