//! Senders that wait for an acknowledgement: what tells a delayed acknowledgement that costs time from one that does
//! not.
//!
//! Nagle's algorithm keeps a last, small segment back while another small one is unacknowledged. A receiver whose
//! delayed-acknowledgement timer cannot be scaled lets such a sender go TDF times too early. The kernel has no counter
//! for it, but a socket that is in this state when it is looked at shows it: something is in flight, the congestion
//! window has room, and less than a segment is not sent. The kernel's socket diagnostics (`sock_diag(7)`) list all
//! sockets of a namespace.

/// A request for all IPv4 TCP sockets that may be sending, with their `tcp_info`.
pub(super) fn request() -> Vec<u8> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const NLM_F_REQUEST_DUMP: u16 = 0x301;
    const AF_INET: u8 = 2;
    const IPPROTO_TCP: u8 = 6;
    const ESTABLISHED: u32 = 1 << 1;
    const FIN_WAIT1: u32 = 1 << 4;
    const CLOSE_WAIT: u32 = 1 << 8;
    let mut bytes = Vec::with_capacity(REQUEST);
    bytes.extend((REQUEST as u32).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([AF_INET, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0]);
    bytes.extend((ESTABLISHED | FIN_WAIT1 | CLOSE_WAIT).to_ne_bytes());
    bytes.resize(REQUEST, 0);
    bytes
}

/// Header, `inet_diag_req_v2`.
const REQUEST: usize = HEADER + 56;
const HEADER: usize = 16;
/// `inet_diag_msg`, before its attributes.
const SOCKET: usize = 72;
const INET_DIAG_INFO: u16 = 2;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// The size of one datagram of the answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// How many sockets in it wait.
    pub waiting: u64,
    /// Whether it is the last.
    pub last: bool,
}

/// Reads one datagram of the answer.
pub(super) fn read(mut datagram: &[u8]) -> Result<Part, String> {
    let mut part = Part { waiting: 0, last: false };
    while datagram.len() >= HEADER {
        let length = u32_at(datagram, 0).unwrap_or(0) as usize;
        if length < HEADER || length > datagram.len() {
            return Err("the kernel's list of sockets ends in the middle".into());
        }
        let message = &datagram[HEADER..length];
        match u16_at(datagram, 4) {
            Some(NLMSG_DONE) => part.last = true,
            Some(NLMSG_ERROR) => {
                let code = u32_at(message, 0).unwrap_or(0).cast_signed();
                return Err(format!("the kernel does not list sockets: {}", std::io::Error::from_raw_os_error(-code)));
            }
            _ => part.waiting += u64::from(attribute(message, INET_DIAG_INFO).is_some_and(waits)),
        }
        datagram = &datagram[aligned(length).min(datagram.len())..];
    }
    Ok(part)
}

/// Whether a socket with this `tcp_info` keeps a small segment back until an acknowledgement comes.
fn waits(info: &[u8]) -> bool {
    // Offsets in linux/tcp.h; the structure only ever grows at its end.
    let at = |offset| u32_at(info, offset).unwrap_or(0);
    let (mss, in_flight, window, not_sent) = (at(16), at(24), at(80), at(144));
    in_flight > 0 && in_flight < window && not_sent > 0 && not_sent < mss
}

fn attribute(message: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = message.get(SOCKET..)?;
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let length = usize::from(length);
        let value = rest.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(aligned(length)..)?;
    }
    None
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(mss: u32, in_flight: u32, window: u32, not_sent: u32) -> Vec<u8> {
        let mut info = vec![0; 160];
        for (offset, value) in [(16, mss), (24, in_flight), (80, window), (144, not_sent)] {
            info[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        }
        info
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    /// A socket with an attribute of three bytes before its information.
    fn socket(info: &[u8]) -> Vec<u8> {
        let mut body = vec![0; SOCKET];
        body.extend([7, 0, 9, 0, 1, 2, 3, 0]);
        body.extend(((info.len() + 4) as u16).to_ne_bytes());
        body.extend(INET_DIAG_INFO.to_ne_bytes());
        body.extend(info);
        message(20, &body)
    }

    #[test]
    fn only_a_sender_that_keeps_a_small_segment_back_waits() {
        assert!(waits(&info(1448, 1, 10, 200)));
        assert!(!waits(&info(1448, 0, 10, 200)), "nothing in flight: it is about to send");
        assert!(!waits(&info(1448, 10, 10, 200)), "the window is full");
        assert!(!waits(&info(1448, 3, 10, 0)), "all is sent");
        assert!(!waits(&info(1448, 3, 10, 1448)), "a whole segment is not kept back by Nagle");
        assert!(!waits(&info(1448, 1, 10, 200)[..100]), "an old kernel without the field");
    }

    #[test]
    fn all_sockets_of_an_answer_are_counted() {
        let (waiting, idle) = (socket(&info(1448, 1, 10, 200)), socket(&info(1448, 0, 10, 0)));
        assert_eq!(read(&[waiting.clone(), idle, waiting].concat()), Ok(Part { waiting: 2, last: false }));
        assert_eq!(read(&message(NLMSG_DONE, &[0; 4])), Ok(Part { waiting: 0, last: true }));
    }

    #[test]
    fn a_refusal_and_a_torn_answer_are_errors() {
        let refusal = message(NLMSG_ERROR, &(-2i32).to_ne_bytes());
        assert!(read(&refusal).unwrap_err().contains("No such file"), "ENOENT: built without INET_DIAG");
        let whole = socket(&info(1448, 1, 10, 200));
        assert!(read(&whole[..whole.len() - 8]).unwrap_err().contains("ends in the middle"));
        let mut endless = whole;
        endless[..4].copy_from_slice(&0u32.to_ne_bytes());
        assert!(read(&endless).is_err());
        assert_eq!(read(&[]), Ok(Part { waiting: 0, last: false }));
    }
}
