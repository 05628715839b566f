//! Addresses: a port's number, in the order of the links, is its place in 10.0.0.0/9.
//!
//! The last byte runs from 1 to 254, because some programs take 0 and 255 for a network and a broadcast address
//! whatever the prefix. 10.128.0.0/9 is left for the gateways that routes name (see `tap.rs`).

use std::net::Ipv4Addr;

const PER_BLOCK: u32 = 254;
/// How many ports have an address.
pub(crate) const MAX_PORTS: usize = (1 << 15) * PER_BLOCK as usize;

/// The address of port number `port`.
pub(crate) fn of_port(port: usize) -> Ipv4Addr {
    let port = port as u32;
    let (block, last) = (port / PER_BLOCK, port % PER_BLOCK + 1);
    Ipv4Addr::new(10, (block >> 8) as u8, block as u8, last as u8)
}

/// The number of the port with the address `bytes`, if it is one that [`of_port`] can give.
pub(crate) fn port_of(bytes: [u8; 4]) -> Option<usize> {
    let [10, high @ 0..128, low, last @ 1..=254] = bytes else { return None };
    Some((usize::from(high) << 8 | usize::from(low)) * PER_BLOCK as usize + usize::from(last) - 1)
}

/// The next hop of every route on the interface with this address. Nothing is there: it gives the kernel one neighbour
/// per interface in place of one per destination.
pub(crate) fn gateway(address: Ipv4Addr) -> Ipv4Addr {
    let [a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b | 0x80, c, d)
}

/// The hardware address of the port with this address: locally administered, unicast.
pub(crate) fn mac(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [2, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_has_an_address_of_its_own_and_back() {
        for port in (0..2000).chain([65_023, 65_024, 65_025, MAX_PORTS - 1]) {
            assert_eq!(port_of(of_port(port).octets()), Some(port), "{}", of_port(port));
        }
        assert_eq!(of_port(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(of_port(254), Ipv4Addr::new(10, 0, 1, 1));
    }

    #[test]
    fn addresses_of_no_port_are_refused() {
        for bytes in [
            [10, 0, 0, 0],
            [10, 0, 0, 255],
            [10, 128, 0, 1],
            gateway(of_port(5)).octets(),
            [11, 0, 0, 1],
            [127, 0, 0, 1],
        ] {
            assert_eq!(port_of(bytes), None, "{bytes:?}");
        }
    }
}
