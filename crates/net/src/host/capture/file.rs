//! Records as pcapng, which tcpdump, tshark and Wireshark read.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::{DataLink, Endianness, PcapError};

use crate::links::sniffer::Header;

/// Times are in units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// A pcapng file: an interface per pipe, stamps in nanoseconds.
pub(super) struct PacketFile<W: Write> {
    writer: PcapNgWriter<W>,
    /// The date of the last packet.
    last: u64,
}

impl<W: Write> PacketFile<W> {
    /// Begins a file with an interface for each of `names`, of whose frames `snap` bytes are kept.
    pub fn new(out: W, names: &[&str], snap: usize) -> io::Result<Self> {
        // Big-endian, because the format keeps a time as two halves, the higher first, and the library writes that of
        // the statistics as one number: only so is it the same.
        let mut writer = PcapNgWriter::with_endianness(out, Endianness::Big).map_err(as_io)?;
        for name in names {
            let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, snap as u32);
            interface.options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfDescription("frames as they come to this direction of the link".into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            writer.write_pcapng_block(interface).map_err(as_io)?;
        }
        Ok(PacketFile { writer, last: 0 })
    }

    /// Adds a packet; `date` is in nanoseconds since 1970.
    pub fn packet(&mut self, interface_id: u32, date: u64, header: &Header, data: &[u8]) -> io::Result<()> {
        let comments = header.impairments.comments().map(|said| EnhancedPacketOption::Comment(said.into()));
        let mut options: Vec<_> = comments.collect();
        if header.missed > 0 {
            options.push(EnhancedPacketOption::DropCount(header.missed.into()));
        }
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: Duration::from_nanos(date),
            original_len: header.len.into(),
            data: Cow::Borrowed(data),
            options,
        };
        self.last = self.last.max(date);
        self.writer.write_pcapng_block(block).map(drop).map_err(as_io)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.get_mut().flush()
    }

    /// Ends the file, with the number of frames missed on each interface.
    pub fn close(&mut self, missed: impl Iterator<Item = u64>) -> io::Result<()> {
        for (interface, missed) in missed.enumerate() {
            let block = InterfaceStatisticsBlock {
                interface_id: interface as u32,
                timestamp: self.last,
                options: vec![InterfaceStatisticsOption::IsbIfDrop(missed)],
            };
            self.writer.write_pcapng_block(block).map_err(as_io)?;
        }
        self.flush()
    }
}

fn as_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(e) => e,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::impairments::Impairments;
    use pcap_file::pcapng::{Block, PcapNgReader};

    #[test]
    fn what_is_written_is_read_back() {
        let date = 1_790_000_000_123_456_789;
        let header = Header { at: 0, pipe: 0, missed: 0, len: 60, kept: 40, impairments: Impairments::default() };
        let mut bytes = Vec::new();
        let mut file = PacketFile::new(&mut bytes, &["a--b/ab", "a--b/ba"], 40).unwrap();
        file.packet(0, date, &header, &[1; 40]).unwrap();
        file.packet(1, date + 1, &Header { missed: 3, impairments: Impairments(2), ..header }, &[2; 40]).unwrap();
        file.close([0, 3].into_iter()).unwrap();
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let mut blocks = Vec::new();
        while let Some(block) = reader.next_block() {
            blocks.push(block.unwrap().into_owned());
        }
        let [
            Block::InterfaceDescription(ab),
            _,
            Block::EnhancedPacket(first),
            Block::EnhancedPacket(second),
            _,
            Block::InterfaceStatistics(end),
        ] = &blocks[..]
        else {
            panic!("{blocks:?}")
        };
        assert_eq!((ab.linktype, ab.snaplen), (DataLink::ETHERNET, 40));
        assert!(ab.options.contains(&InterfaceDescriptionOption::IfName("a--b/ab".into())));
        assert!(ab.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
        assert_eq!((first.interface_id, first.timestamp, first.original_len), (0, Duration::from_nanos(date), 60));
        assert_eq!((&first.data[..], &first.options[..]), (&[1; 40][..], &[][..]));
        assert_eq!((second.interface_id, second.timestamp), (1, Duration::from_nanos(date + 1)));
        let said =
            [EnhancedPacketOption::Comment("dropped: the queue was full".into()), EnhancedPacketOption::DropCount(3)];
        assert_eq!(second.options, said);
        assert_eq!((end.interface_id, end.timestamp), (1, date + 1));
        assert_eq!(end.options, [InterfaceStatisticsOption::IsbIfDrop(3)]);
    }
}
