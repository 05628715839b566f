//! Addresses: places in 10.0.0.0/9, given out in the order of the links, and to each LAN a block of its own after them.
//!
//! The last byte runs from 1 to 254, because some programs take 0 and 255 for a network and a broadcast address
//! whatever the prefix. 10.128.0.0/9 is left for the gateways that routes name (see `tap.rs`).

use std::net::Ipv4Addr;

const PER_BLOCK: u32 = 254;
/// How many blocks there are: a block is what has its first three bytes in common.
pub(crate) const BLOCKS: u32 = 1 << 15;
/// How many addresses there are to give out.
pub(crate) const MAX_PORTS: usize = (BLOCKS * PER_BLOCK) as usize;

/// The address at a place.
pub(crate) fn of_place(place: usize) -> Ipv4Addr {
    let place = place as u32;
    let (block, last) = (place / PER_BLOCK, place % PER_BLOCK + 1);
    Ipv4Addr::new(10, (block >> 8) as u8, block as u8, last as u8)
}

/// The place of the address `bytes`, if it is one that [`of_place`] can give.
pub(crate) fn place_of(bytes: [u8; 4]) -> Option<usize> {
    let [10, high @ 0..128, low, last @ 1..=254] = bytes else { return None };
    Some((usize::from(high) << 8 | usize::from(low)) * PER_BLOCK as usize + usize::from(last) - 1)
}

/// The next hop of every route on the interface of port number `port`. Nothing is there: it gives the kernel one
/// neighbour per interface in place of one per destination.
pub(crate) fn gateway(port: usize) -> Ipv4Addr {
    let [a, b, c, d] = of_place(port).octets();
    Ipv4Addr::new(a, b | 0x80, c, d)
}

/// Whether an address is one of those left for gateways.
pub(crate) fn is_gateway(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [10, 128..=255, ..])
}

/// The address of which [`mac`] makes this hardware address, if it makes it at all.
pub(crate) fn of_mac(mac: [u8; 6]) -> Option<Ipv4Addr> {
    match mac {
        [2, 0, a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d)),
        _ => None,
    }
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
    fn every_place_has_an_address_of_its_own_and_back() {
        for port in (0..2000).chain([65_023, 65_024, 65_025, MAX_PORTS - 1]) {
            assert_eq!(place_of(of_place(port).octets()), Some(port), "{}", of_place(port));
        }
        assert_eq!(of_place(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(of_place(254), Ipv4Addr::new(10, 0, 1, 1));
    }

    #[test]
    fn addresses_of_no_place_are_refused() {
        for bytes in
            [[10, 0, 0, 0], [10, 0, 0, 255], [10, 128, 0, 1], gateway(5).octets(), [11, 0, 0, 1], [127, 0, 0, 1]]
        {
            assert_eq!(place_of(bytes), None, "{bytes:?}");
        }
    }
}
