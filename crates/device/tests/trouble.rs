//! Disks in trouble: a host's file system that is full, or that knows no holes; the process killed while a thousand
//! requests wait. Needs root.

mod common;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::*;
use diorama_device::Disks;
use rustix::mount::{MountFlags, UnmountFlags};
use scale::Tdf;
use serde_json::json;

fn main() {
    main_of(&[
        ("a_full_host_fails_what_it_has_no_room_for", a_full_host_fails_what_it_has_no_room_for),
        ("a_host_without_holes_takes_what_is_trimmed", a_host_without_holes_takes_what_is_trimmed),
        ("a_thousand_requests_end_with_the_run", a_thousand_requests_end_with_the_run),
        ("a_device_that_somebody_uses_goes_when_it_is_free", a_device_that_somebody_uses_goes_when_it_is_free),
        ("disks_of_two_runs_may_have_the_same_names", disks_of_two_runs_may_have_the_same_names),
    ]);
}

/// A file system of the host's, for what is behind the disks.
struct Host {
    dir: tempfile::TempDir,
}

impl Host {
    fn of(kind: &str, options: &std::ffi::CStr) -> Host {
        let dir = place();
        rustix::mount::mount("host", dir.path(), kind, MountFlags::empty(), Some(options)).unwrap();
        Host { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("disks")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.dir.path(), UnmountFlags::DETACH);
    }
}

fn a_full_host_fails_what_it_has_no_room_for() {
    const BLOCKS: u64 = 1024;
    let host = Host::of("tmpfs", c"size=24m");
    let mut disks = disks(&host.path(), &[setup("a", "nvme", json!({ "capacity-bytes": 1_u64 << 30 }))]);
    disks.begin(host::now(), Tdf::ONE).unwrap();
    let device = open(&disks.devices()[0]);
    let mut block = Box::new(Block([0; 65536]));
    let place_of = |n: u64| (512 << 20) + n * 65536;
    let refused = (0..BLOCKS).find_map(|n| {
        block.0.fill(n as u8);
        device.write_all_at(&block.0, place_of(n)).err().map(|e| (n, e))
    });
    let (written, why) = refused.expect("64 MiB are more than there is room for");
    assert!(written > 16, "{written} blocks");
    assert_eq!(why.raw_os_error(), Some(libc::EIO), "as of a drive that fails: {why}");
    // The trimmed place is there, and the disk does whatever needs no room.
    for n in 0..written {
        device.read_exact_at(&mut block.0, place_of(n)).unwrap();
        assert!(block.0 == [n as u8; 65536], "block {n}");
    }
    device.sync_all().unwrap();
    let said = disks.count().unwrap_err().to_string();
    assert!(said.contains("No space left on device") && said.contains("a.img"), "{said}");
}

/// Has a device forget what lies in a range.
fn discard(device: &File, offset: u64, length: u64) -> io::Result<()> {
    const DISCARD: libc::c_ulong = 0x1277;
    let range = [offset, length];
    // SAFETY: BLKDISCARD reads two numbers of 64 bits.
    match unsafe { libc::ioctl(device.as_raw_fd(), DISCARD, range.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn a_host_without_holes_takes_what_is_trimmed() {
    // Files of a ramfs have no fallocate.
    for kind in ["ramfs", "tmpfs"] {
        let host = Host::of(kind, c"");
        let mut disks = disks(&host.path(), &[small("a")]);
        let device = open(&disks.devices()[0]);
        let mut block = Box::new(Block([7; 65536]));
        for n in 0..64 {
            device.write_all_at(&block.0, (1 << 30) + n * 65536).unwrap();
        }
        discard(&device, (1 << 30) + 65536, 62 * 65536).unwrap();
        for (n, byte) in [(0, 7), (1, 0), (62, 0), (63, 7)] {
            device.read_exact_at(&mut block.0, (1 << 30) + n * 65536).unwrap();
            assert!(block.0 == [byte; 65536], "{kind}: block {n}");
        }
        disks.count().unwrap();
    }
}

/// Reads that wait: 125 of each disk.
fn thousand(disks: &Disks) -> Vec<JoinHandle<io::Result<()>>> {
    let read = |device: &Path, n: u64| {
        let device = open(device);
        std::thread::spawn(move || device.read_exact_at(&mut Box::new(Block([0; 65536])).0[..4096], n << 20))
    };
    let waiting: Vec<_> = disks.devices().iter().flat_map(|device| (0..125).map(|n| read(device, n))).collect();
    let under_way = || disks.devices().iter().map(|device| outstanding(device)).sum::<u64>();
    let begin = Instant::now();
    while under_way() < 1_000 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} are under way", under_way());
        std::thread::sleep(Duration::from_millis(10));
    }
    waiting
}

/// How many requests the kernel waits for.
fn outstanding(device: &Path) -> u64 {
    let name = device.file_name().unwrap().to_str().unwrap();
    let text = fs::read_to_string(format!("/sys/block/{name}/inflight")).unwrap();
    text.split_whitespace().map(|n| n.parse::<u64>().unwrap()).sum()
}

fn a_thousand_requests_end_with_the_run() {
    let dir = place();
    let all: Vec<_> = (0..8).map(|n| small(&format!("disk-{n}"))).collect();
    let mut disks = disks(dir.path(), &all);
    let devices = disks.devices().to_vec();
    // A factor at which each takes minutes.
    let slow = Tdf::new(50_000, 1).unwrap();
    disks.begin(host::now(), slow).unwrap();
    let waiting = thousand(&disks);
    let begin = Instant::now();
    // As a run ends: nobody waits for a model any more.
    disks.pass().unwrap();
    assert!(waiting.into_iter().all(|read| read.join().unwrap().is_ok()));
    println!("1,000 requests were answered after {:?}", begin.elapsed());
    disks.begin(host::now(), slow).unwrap();
    let waiting = thousand(&disks);
    let begin = Instant::now();
    // As it is killed.
    let kill = Command::new("kill").args(["-9", &disks.pid().to_string()]).status().unwrap();
    assert!(kill.success());
    assert!(waiting.into_iter().all(|read| read.join().unwrap().is_err()), "a read that nobody answers must fail");
    println!("1,000 requests failed after {:?}", begin.elapsed());
    drop(disks);
    while devices.iter().any(|device| is_there(device)) {
        assert!(begin.elapsed() < Duration::from_secs(60), "devices are there still");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(devices.iter().all(|device| !beside(device).exists()), "nothing else is left of them");
}

fn a_device_that_somebody_uses_goes_when_it_is_free() {
    if over_ublk() {
        // Those go with their server, whoever has them open.
        return;
    }
    let place = place();
    let disks = disks(place.path(), &[small("a")]);
    let path = disks.devices()[0].clone();
    let device = open(&path);
    drop(disks);
    let refused = diorama_device::remove_devices(place.path()).unwrap_err().to_string();
    assert!(refused.contains(path.to_str().unwrap()) && refused.contains("busy"), "{refused}");
    // It is still noted, and waited for.
    let closes = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(device);
    });
    diorama_device::remove_devices(place.path()).unwrap();
    closes.join().unwrap();
    assert!(!Path::new("/sys/block").join(path.file_name().unwrap()).exists(), "nobody can take it for another's");
}

fn disks_of_two_runs_may_have_the_same_names() {
    let (one, two) = (place(), place());
    let both = [disks(one.path(), &[small("a")]), disks(two.path(), &[small("a")])];
    let devices = both.each_ref().map(|disks| open(&disks.devices()[0]));
    assert_ne!(both[0].devices(), both[1].devices());
    let mut block = Box::new(Block([0; 65536]));
    for (n, device) in devices.iter().enumerate() {
        block.0.fill(n as u8 + 1);
        device.write_all_at(&block.0, 1 << 30).unwrap();
    }
    for (n, device) in devices.iter().enumerate() {
        device.read_exact_at(&mut block.0, 1 << 30).unwrap();
        assert!(block.0 == [n as u8 + 1; 65536]);
    }
}
