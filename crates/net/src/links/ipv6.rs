//! IPv6: every address has a twin, so that whatever is worked out for IPv4 (ways, prefixes, given routes) holds for
//! both.
//!
//! The twin of an IPv4 address is that address behind 96 bits which are the same in every network: a prefix for local
//! use (RFC 4193, section 3.1), whose 40 free bits spell `diora`.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::links::prefix::Prefix;

/// Length of the beginning that all twins share, in bytes.
const BEGINNING: [u8; 12] = [0xfd, b'd', b'i', b'o', b'r', b'a', 0, 0, 0, 0, 0, 0];
/// How many bits that is.
const BITS: u8 = 96;

/// The least MTU of a link that carries IPv6 (RFC 8200, section 5).
pub const LEAST_MTU: u16 = 1280;

/// The IPv6 address of the interface that has an IPv4 address.
pub fn twin(address: Ipv4Addr) -> Ipv6Addr {
    let mut bytes = [0; 16];
    bytes[..12].copy_from_slice(&BEGINNING);
    bytes[12..].copy_from_slice(&address.octets());
    bytes.into()
}

/// The address of which this is the [`twin`], if it is one.
pub(crate) fn of_twin(twin: &[u8; 16]) -> Option<[u8; 4]> {
    twin.strip_prefix(&BEGINNING)?.try_into().ok()
}

/// The twins of a block of addresses: the first, and how many bits all have in common.
pub(crate) fn block(prefix: Prefix) -> (Ipv6Addr, u8) {
    (twin(prefix.address), BITS + prefix.length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_that_of_its_twin() {
        let address = Ipv4Addr::new(10, 0, 1, 254);
        assert_eq!(twin(address), "fd64:696f:7261::a00:1fe".parse::<Ipv6Addr>().unwrap());
        assert_eq!(of_twin(&twin(address).octets()), Some(address.octets()));
        for other in ["::ffff:10.0.1.254", "fd64:696f:7261::1:a00:1fe", "fe80::1", "::1"] {
            assert_eq!(of_twin(&other.parse::<Ipv6Addr>().unwrap().octets()), None, "{other}");
        }
        assert_eq!(block(Prefix { address, length: 9 }), (twin(address), 105));
    }
}
