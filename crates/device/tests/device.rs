//! Disks of this machine: a real process, block devices over each transport that there is, and ext4. Needs root.
//!
//! No absolute time is asserted: what the device does is compared with what the same device does without its model,
//! and with what the model says.

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::*;
use counters::DiskCounters;
use diorama_device::{Change, DiskSetup, Disks, QUIET, await_unmounted};
use disk::Op;
use rustix::mount::{MountFlags, UnmountFlags};
use scale::{RealDuration, Tdf};
use serde_json::json;

fn main() {
    main_of(&[
        ("what_is_written_is_read", what_is_written_is_read),
        ("requests_take_what_the_model_says", requests_take_what_the_model_says),
        ("a_device_is_taken_for_what_its_model_is", a_device_is_taken_for_what_its_model_is),
        ("a_file_system_is_on_each_disk", a_file_system_is_on_each_disk),
        ("a_kernel_leaves_a_disk_alone_that_nobody_uses", a_kernel_leaves_a_disk_alone_that_nobody_uses),
        ("what_was_synced_survives_power_cuts", what_was_synced_survives_power_cuts),
        ("a_drive_that_lies_loses_what_was_synced", a_drive_that_lies_loses_what_was_synced),
        ("what_is_to_be_durable_at_once_is_told_to_the_model", what_is_to_be_durable_at_once_is_told_to_the_model),
        ("nothing_is_left_when_the_process_is_killed", nothing_is_left_when_the_process_is_killed),
    ]);
}

fn what_is_written_is_read() {
    let dir = place();
    let mut disks = disks(dir.path(), &[small("a"), setup("b", "nvme", json!({ "capacity-bytes": 1_u64 << 30 }))]);
    assert_eq!(disks.devices().len(), 2);
    disks.begin(host::now(), Tdf::ONE).unwrap();
    for (n, path) in disks.devices().to_vec().iter().enumerate() {
        let device = open(path);
        let mut block = Box::new(Block([0; 65536]));
        block.0.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * (n + 3) % 251) as u8);
        let written = block.0;
        device.write_all_at(&block.0, 512 << 20).unwrap();
        device.sync_all().unwrap();
        block.0.fill(0);
        device.read_exact_at(&mut block.0, 512 << 20).unwrap();
        assert!(block.0 == written, "disk {n} gave back something else");
    }
    let counted = disks.count().unwrap();
    for disk in &counted.disks {
        assert!(disk.writes.count >= 1 && disk.writes.bytes == 65536, "{disk:?}");
        assert!(disk.reads.count >= 1 && disk.reads.bytes == 65536 && disk.flushes.count >= 1, "{disk:?}");
        assert!(disk.reads.took.as_nanos() > 0 && disk.failed == 0, "{disk:?}");
    }
    assert!(
        counted.disks[0].reads.took > counted.disks[1].reads.took,
        "platters take longer than flash memory: {counted:?}"
    );
}

/// Reads at places far apart, one at a time, other places in each round: what a drive has read once is in its cache.
/// How long all took.
fn reads(device: &File, round: u64, count: u64) -> Duration {
    let mut block = Box::new(Block([0; 65536]));
    let begin = Instant::now();
    for n in round * count..(round + 1) * count {
        let at = (n * 797 % 2000) << 20;
        device.read_exact_at(&mut block.0[..4096], at).unwrap();
    }
    begin.elapsed()
}

fn requests_take_what_the_model_says() {
    const READS: u64 = 12;
    let dir = place();
    let mut disks = disks(dir.path(), &[small("a")]);
    let device = open(&disks.devices()[0]);
    let without = reads(&device, 0, READS).min(reads(&device, 1, READS));
    for (tdf, rounds) in [(1, 2..5), (5, 5..8)] {
        let tdf = Tdf::new(tdf, 1).unwrap();
        disks.begin(host::now(), tdf).unwrap();
        let mut late = Vec::new();
        for round in rounds {
            let before = disks.count().unwrap().disks[0];
            let took = reads(&device, round, READS);
            let after = disks.count().unwrap().disks[0];
            assert_eq!(after.reads.count - before.reads.count, READS);
            let modelled = tdf.to_real(after.reads.took.saturating_sub(before.reads.took));
            let ratio = RealDuration::from(took).as_secs_f64() / modelled.as_secs_f64();
            println!("TDF {tdf}: {took:?} for what the model says takes {modelled}; {without:?} without it");
            assert!(ratio > 0.97, "TDF {tdf}: {took:?} in place of {modelled}: no request can be answered too early");
            assert!(took > without * 2, "{took:?}, and {without:?} without a model");
            late.push(ratio);
        }
        disks.pass().unwrap();
        // The machine may be busy with something else in one round.
        assert!(late.iter().any(|ratio| *ratio < 1.5), "TDF {tdf}: {late:.2?} times what the model says");
    }
    let again = reads(&device, 8, READS);
    assert!(again < without * 20 && again < Duration::from_secs(1), "{again:?} after the models, {without:?} before");
}

fn a_device_is_taken_for_what_its_model_is() {
    let dir = place();
    let mut disks = disks(dir.path(), &[small("a"), setup("b", "nvme", json!({ "capacity-bytes": 1_u64 << 30 }))]);
    let told = |disks: &Disks, setting: &str| {
        let of = |device: &PathBuf| {
            let name = device.file_name().unwrap().to_str().unwrap();
            std::fs::read_to_string(format!("/sys/block/{name}/queue/{setting}")).unwrap().trim().to_string()
        };
        disks.devices().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(told(&disks, "rotational"), ["1", "0"]);
    for (tdf, latencies) in [(1, ["75000", "2000"]), (5, ["375000", "10000"])] {
        disks.begin(host::now(), Tdf::new(tdf, 1).unwrap()).unwrap();
        assert_eq!(told(&disks, "wbt_lat_usec"), latencies, "what a target's kernel takes for slow, {tdf} times");
    }
}

fn a_file_system_is_on_each_disk() {
    let dir = place();
    let mut disks = disks(dir.path(), &[small("a"), small("b")]);
    disks.begin(host::now(), Tdf::ONE).unwrap();
    let points: Vec<PathBuf> = ["x", "y"].iter().map(|name| dir.path().join(name)).collect();
    for (device, point) in disks.devices().iter().zip(&points) {
        fs::create_dir(point).unwrap();
        rustix::mount::mount(device, point, "ext4", MountFlags::NODEV, Some(c"noinit_itable")).unwrap();
    }
    for (n, point) in points.iter().enumerate() {
        let mut file = File::create(point.join("file")).unwrap();
        file.write_all(format!("on disk {n}").as_bytes()).unwrap();
        file.sync_all().unwrap();
    }
    for (n, point) in points.iter().enumerate() {
        let mut text = String::new();
        File::open(point.join("file")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("on disk {n}"));
        rustix::mount::unmount(point, UnmountFlags::empty()).unwrap();
    }
    let counted = disks.count().unwrap();
    assert!(counted.disks.iter().all(|disk| disk.flushes.count >= 1 && disk.writes.count >= 1), "{counted:?}");
    for name in ["a", "b"] {
        let image = dir.path().join(format!("{name}.img"));
        let check = Command::new("fsck.ext4").args(["-f", "-n"]).arg(&image).output().unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    }
}

/// Two whole drives, one mounted as nodes have theirs and one as everybody else has: the kernel reads the second ahead.
fn a_kernel_leaves_a_disk_alone_that_nobody_uses() {
    const STARTS_WITHIN: Duration = Duration::from_secs(5);
    const READS: u64 = 50;
    let dir = place();
    let mut disks = disks(dir.path(), &[setup("quiet", "hdd-7200", json!({})), setup("usual", "hdd-7200", json!({}))]);
    disks.begin(host::now(), Tdf::ONE).unwrap();
    let quiet = std::ffi::CString::new(QUIET).unwrap();
    let points: Vec<PathBuf> = ["x", "y"].iter().map(|name| dir.path().join(name)).collect();
    for ((device, point), options) in disks.devices().iter().zip(&points).zip([quiet.as_c_str(), c"noinit_itable"]) {
        fs::create_dir(point).unwrap();
        rustix::mount::mount(device, point, "ext4", MountFlags::NODEV, Some(options)).unwrap();
    }
    let (begin, before) = (Instant::now(), disks.count().unwrap().disks);
    let since = |disks: &mut Disks| {
        let now = disks.count().unwrap().disks;
        let all = |counted: &[DiskCounters], disk: usize| counted[disk].reads.count + counted[disk].writes.count;
        [0, 1].map(|disk| all(&now, disk) - all(&before, disk))
    };
    // The kernel begins its own work at a time of its own choice, within so many seconds.
    while begin.elapsed() < STARTS_WITHIN || since(&mut disks)[1] < READS {
        assert!(begin.elapsed() < 12 * STARTS_WITHIN, "nothing was read ahead: {:?}", since(&mut disks));
        std::thread::sleep(Duration::from_millis(20));
    }
    let [quiet, usual] = since(&mut disks);
    println!("{quiet} requests of the kernel's own, and {usual} where it does what it likes");
    // The superblock is written once after mounting.
    assert!(quiet <= 4, "{quiet} requests, and {usual} where the kernel does what it likes");
    points.iter().for_each(|point| rustix::mount::unmount(point, UnmountFlags::empty()).unwrap());
}

/// A file system that is written to while its disk loses power.
struct Cut {
    dir: tempfile::TempDir,
    disks: Disks,
    point: PathBuf,
    files: usize,
}

impl Cut {
    fn of(changes: serde_json::Value) -> Cut {
        let dir = place();
        let mut changes = changes;
        changes["capacity-bytes"] = json!(1_u64 << 30);
        let disk = DiskSetup { may_lose_power: true, ..setup("a", "hdd-7200", changes) };
        let mut disks = disks(dir.path(), &[disk]);
        let point = dir.path().join("mounted");
        fs::create_dir(&point).unwrap();
        disks.let_go(false).unwrap();
        disks.begin(host::now(), Tdf::ONE).unwrap();
        let cut = Cut { dir, disks, point, files: 0 };
        cut.mount().unwrap();
        cut
    }

    fn device(&self) -> &Path {
        &self.disks.devices()[0]
    }

    fn mount(&self) -> rustix::io::Result<()> {
        rustix::mount::mount(self.device(), &self.point, "ext4", MountFlags::NODEV, Some(c"noinit_itable"))
    }

    /// Writes files, each synced with its name, until that fails; cuts the power when some are there.
    fn cut(&mut self) -> diorama_device::Cut {
        let (point, from) = (self.point.clone(), self.files);
        let synced = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&synced);
        let writes = std::thread::spawn(move || {
            let write = |n: usize| -> std::io::Result<()> {
                let mut file = File::create(point.join(n.to_string()))?;
                file.write_all(&[n as u8; 20_000])?;
                file.sync_all()?;
                File::open(&point)?.sync_all()?;
                count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            (from..).find(|n| write(*n).is_err()).unwrap()
        });
        let begin = Instant::now();
        while synced.load(Ordering::Relaxed) < 20 && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let cut = self.disks.change(0, Change::PowerOff).unwrap();
        self.files = writes.join().unwrap();
        rustix::mount::unmount(&self.point, UnmountFlags::empty()).unwrap();
        await_unmounted(self.device()).unwrap();
        self.disks.change(0, Change::PowerOn).unwrap();
        cut
    }

    /// How many of the files that were synced are there as they were written.
    fn whole(&self) -> usize {
        let is_whole = |n: &usize| fs::read(self.point.join(n.to_string())).is_ok_and(|is| is == [*n as u8; 20_000]);
        (0..self.files).filter(is_whole).count()
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        // While there is somebody who serves the disk.
        let _ = rustix::mount::unmount(&self.point, UnmountFlags::empty());
    }
}

fn what_was_synced_survives_power_cuts() {
    let mut all = Cut::of(json!({}));
    for n in 0..3 {
        let before = all.files;
        let cut = all.cut();
        all.mount().unwrap();
        println!("cut {n}: {} files were synced; {cut:?}", all.files);
        assert!(all.files > before, "nothing was written before the power was cut");
        assert_eq!(all.whole(), all.files);
        all.disks.change(0, Change::Resume).unwrap();
    }
    rustix::mount::unmount(&all.point, UnmountFlags::empty()).unwrap();
    let check = Command::new("fsck.ext4").args(["-f", "-n"]).arg(all.dir.path().join("a.img")).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

fn a_drive_that_lies_loses_what_was_synced() {
    // Platters this slow cannot keep up: else a writer that this machine keeps waiting just before the cut would find
    // everything written.
    let mut all = Cut::of(json!({ "rpm": 1000, "write-cache": { "ignores-flush": true } }));
    let cut = all.cut();
    println!("{} files were synced; {cut:?}", all.files);
    assert!(cut.lost > 0 && cut.lost_bytes > 0, "{cut:?}");
    // The remains may be a file system, and may be none.
    let left = all.mount().map_or(0, |()| all.whole());
    assert!(left < all.files, "all {left} files are there");
}

/// A write through the cache is one request where the transport knows such, and else one with a flush behind it.
fn what_is_to_be_durable_at_once_is_told_to_the_model() {
    let dir = place();
    let mut disks = disks(dir.path(), &[small("a")]);
    disks.begin(host::now(), Tdf::ONE).unwrap();
    let flags = libc::O_DIRECT | libc::O_DSYNC;
    let device = File::options().write(true).custom_flags(flags).open(&disks.devices()[0]).unwrap();
    disks.watch(0).unwrap();
    device.write_all_at(&Box::new(Block([7; 65536])).0[..4096], 1 << 30).unwrap();
    let ops: Vec<Op> = disks.watch(0).unwrap().iter().map(|request| request.op).collect();
    let through = if over_ublk() { Op::WriteThrough } else { Op::Write };
    assert_eq!((ops.first(), ops.last()), (Some(&through), Some(&Op::Flush)), "{ops:?}");
}

fn nothing_is_left_when_the_process_is_killed() {
    let dir = place();
    let mut disks = disks(dir.path(), &[small("a")]);
    let path = disks.devices()[0].clone();
    let point = dir.path().join("mounted");
    fs::create_dir(&point).unwrap();
    rustix::mount::mount(&path, &point, "ext4", MountFlags::NODEV, Some(c"noinit_itable")).unwrap();
    // A factor at which a request takes minutes: what is under way when the process is killed has to come back.
    disks.begin(host::now(), Tdf::new(50_000, 1).unwrap()).unwrap();
    let device = open(&path);
    let waits = std::thread::spawn(move || {
        let mut block = Box::new(Block([0; 65536]));
        device.read_exact_at(&mut block.0[..4096], 1 << 30)
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(!waits.is_finished() && is_there(&path));
    let kill = Command::new("kill").args(["-9", &disks.pid().to_string()]).status().unwrap();
    assert!(kill.success());
    let begin = Instant::now();
    assert!(waits.join().unwrap().is_err(), "a read that nobody answers must fail");
    let said = disks.count().expect_err("whoever counts must hear of it").to_string();
    assert!(said.contains("the disks of a was killed by signal 9"), "{said}");
    rustix::mount::unmount(&point, UnmountFlags::empty()).unwrap();
    while is_there(&path) && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!is_there(&path), "a loop device is free again, a block device gone");
    drop(disks);
    assert!(!beside(&path).exists(), "nothing else is left of it");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("diorama-disks"), "{mounts}");
}
