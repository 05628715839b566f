//! Drives of flash memory. What manufacturers publish is what the drive does, not what it is made of: capacities, rates
//! and latencies are published; dies, their times and overheads were chosen so that these follow ("fitted").

use crate::parameters::Parameters;
use crate::ssd::{Cache, Fast, Flash, SsdParameters, State};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// *Intel SSD Data Center S4500/S4600 Series Product Specification*: 4 KiB at random, queue depth 32, full range:
/// 72,000 reads and up to 33,000 writes a second; 500 and 490 MB/s; latency at random 110 and 52 µs, in order 36 µs;
/// protected against power loss.
pub(super) fn intel_s4500() -> Parameters {
    Parameters::Ssd(SsdParameters {
        capacity_bytes: 960_197_124_096,
        link_bytes_per_s: 500e6,
        full_duplex: false,
        queue_depth: 32,
        command_us: 13.7,
        read_overhead_us: 8.0,
        write_overhead_us: 30.0,
        ..intel_3d_tlc()
    })
}

/// *Intel P4500 Entry NVMe SSDs*, product guide of Lenovo Press, table 2, for 1.0 TB: 4 KiB at random: 279,500 reads
/// and 30,500 writes a second; 3.2 and 0.6 GB/s; latency at random 85 and 20 µs. Capacitors: as in all of that series.
pub(super) fn intel_p4500() -> Parameters {
    Parameters::Ssd(SsdParameters {
        capacity_bytes: 1_000_204_886_016,
        link_bytes_per_s: 3.2e9,
        full_duplex: true,
        queue_depth: 1024,
        command_us: 1.5,
        read_overhead_us: 2.0,
        write_overhead_us: 17.0,
        ..intel_3d_tlc()
    })
}

/// The flash memory of both, which is taken to be the same: as many dies as 384 Gbit each make a terabyte.
fn intel_3d_tlc() -> SsdParameters {
    SsdParameters {
        capacity_bytes: 0,
        // Fitted to the random writes of the P4500.
        spare: 0.13,
        state: State::Steady,
        flash: Flash {
            channels: 12,
            dies_per_channel: 2,
            channel_bytes_per_s: 400e6,
            page_bytes: 16 * KIB,
            program_bytes: 32 * KIB,
            block_bytes: 16 * MIB,
            read_us: 70.0,
            read_spread: 0.2,
            // 24 dies write 0.6 GB/s.
            program_us: 1_300.0,
            erase_us: 5_000.0,
            suspend_us: Some(40.0),
        },
        link_bytes_per_s: 0.0,
        full_duplex: true,
        queue_depth: 32,
        command_us: 0.0,
        read_overhead_us: 0.0,
        write_overhead_us: 0.0,
        read_ahead_bytes: 256 * KIB,
        cache: Cache { bytes: 16 * MIB, power_loss_protection: true, ignores_flush: false },
        fast: None,
    }
}

/// *Samsung SSD 850 EVO Data Sheet*, 1 TB: 4 KiB at random at queue depths 1 and 32: 10,000 and 98,000 reads, 40,000
/// and 90,000 writes a second; 540 and 520 MB/s.
pub(super) fn samsung_850_evo() -> Parameters {
    Parameters::Ssd(SsdParameters {
        capacity_bytes: 1_000_204_886_016,
        spare: 0.0995,
        state: State::Fresh,
        flash: Flash {
            channels: 8,
            dies_per_channel: 8,
            channel_bytes_per_s: 400e6,
            page_bytes: 16 * KIB,
            program_bytes: 32 * KIB,
            block_bytes: 16 * MIB,
            read_us: 62.0,
            read_spread: 0.2,
            program_us: 1_500.0,
            erase_us: 5_000.0,
            suspend_us: Some(40.0),
        },
        link_bytes_per_s: 540e6,
        full_duplex: false,
        queue_depth: 32,
        command_us: 10.2,
        read_overhead_us: 10.0,
        write_overhead_us: 7.2,
        read_ahead_bytes: 512 * KIB,
        cache: Cache { bytes: 16 * MIB, power_loss_protection: false, ignores_flush: false },
        fast: Some(Fast { bytes: 12_000_002_048, program_us: 400.0 }),
    })
}

/// *Samsung SSD 970 EVO Plus Data Sheet*, 1 TB: 4 KiB at random: 19,000 reads and 60,000 writes a second at queue depth
/// 1, 600,000 and 550,000 at 128 (four threads of 32); 3500 and 3300 MB/s, 1700 MB/s after 42 GB.
pub(super) fn samsung_970_evo_plus() -> Parameters {
    Parameters::Ssd(SsdParameters {
        capacity_bytes: 1_000_204_886_016,
        spare: 0.0995,
        state: State::Fresh,
        flash: Flash {
            channels: 8,
            dies_per_channel: 4,
            channel_bytes_per_s: 1e9,
            page_bytes: 16 * KIB,
            program_bytes: 64 * KIB,
            block_bytes: 32 * MIB,
            read_us: 38.0,
            read_spread: 0.2,
            // 32 dies write 1.7 GB/s.
            program_us: 1_220.0,
            erase_us: 5_000.0,
            suspend_us: Some(20.0),
        },
        link_bytes_per_s: 3.5e9,
        full_duplex: true,
        queue_depth: 1024,
        command_us: 1.7,
        read_overhead_us: 7.5,
        write_overhead_us: 13.8,
        read_ahead_bytes: 512 * KIB,
        cache: Cache { bytes: 64 * MIB, power_loss_protection: false, ignores_flush: false },
        // 32 dies write 3.3 GB/s.
        fast: Some(Fast { bytes: 42_000_000_000 / 512 * 512, program_us: 630.0 }),
    })
}
