//! Who listens on a TCP port: of this machine, or by the tables of another network namespace.

use std::fs;
use std::path::Path;

use crate::visible;

/// The state of a socket that listens, in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// The process that listens on a TCP port here, as a person would call it: `nginx (process 123)`. `None` if there is
/// none, or this process may not see whose the socket is.
pub fn listener(port: u16) -> Option<String> {
    let sockets = ["tcp", "tcp6"].map(|file| fs::read_to_string(Path::new("/proc/thread-self/net").join(file)));
    let inode = sockets.iter().flatten().find_map(|text| inode(text, port))?;
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

/// Whether a socket listens on the port, by the text of `/proc/net/tcp` or `tcp6`.
pub fn listens(text: &str, port: u16) -> bool {
    inode(text, port).is_some()
}

/// The inode of the socket that listens on the port, by such a text.
fn inode(text: &str, port: u16) -> Option<u64> {
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

    #[test]
    fn a_listening_socket_is_told_from_a_connection() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                    0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77\n\
                    1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 78\n";
        assert!(listens(text, 80));
        assert!(!listens(text, 8080), "an established connection is no server");
        assert!(!listens(text, 5));
    }
}
