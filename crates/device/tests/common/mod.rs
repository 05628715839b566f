//! Code that the tests of real disks share. The process that serves disks is the test's program again, so each has a
//! `main` of its own.

#![allow(dead_code)] // Each test program uses a part of this.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use diorama_device::{DiskSetup, Disks, Transport};
use disk::Parameters;
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;
use serde_json::json;

/// Whether disks are made over ublk now.
static UBLK: AtomicBool = AtomicBool::new(false);

pub fn over_ublk() -> bool {
    UBLK.load(Ordering::Relaxed)
}

/// Runs those tests whose names contain one of the program's arguments, or all, if it has none: over FUSE and loop
/// devices, and over ublk, where this machine has that.
pub fn main_of(tests: &[(&str, fn())]) {
    if std::env::args().nth(1).as_deref() == Some("__disks") {
        diorama_device::disks_main();
    }
    // Like a run: in a mount namespace of its own. Nothing is mounted where others see it.
    // SAFETY: there is one thread yet, and it changes neither root nor working directory.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.expect("run as root");
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).unwrap();
    let only: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let mut transports = vec![Transport::FuseAndLoop];
    match Transport::likely() {
        Transport::Ublk => transports.push(Transport::Ublk),
        Transport::FuseAndLoop => println!("not here: the same over ublk, which this kernel does not have"),
    }
    for over in transports {
        UBLK.store(over == Transport::Ublk, Ordering::Relaxed);
        for (name, test) in tests {
            let name = format!("{name} over {over}");
            if only.is_empty() || only.iter().any(|o| name.contains(o)) {
                let before = free_loop_devices();
                test();
                let left: Vec<_> = free_loop_devices().difference(&before).cloned().collect();
                assert!(left.is_empty(), "{name} has left {left:?}");
                println!("test {name} ... ok");
            }
        }
    }
}

/// The loop devices of this machine that are on nothing.
fn free_loop_devices() -> BTreeSet<String> {
    let all = std::fs::read_dir("/sys/block").unwrap().flatten();
    let free = all.filter(|device| !device.path().join("loop/backing_file").exists());
    free.filter_map(|device| device.file_name().into_string().ok()).filter(|name| name.starts_with("loop")).collect()
}

pub fn setup(name: &str, like: &str, changes: serde_json::Value) -> DiskSetup {
    let parameters = Parameters::like(like, changes.as_object().unwrap()).unwrap();
    DiskSetup { name: name.into(), parameters, seed: 7, may_lose_power: false, durable: false, clock: None }
}

pub fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub fn disks(directory: &Path, all: &[DiskSetup]) -> Disks {
    let process = Disks::command().spawn().unwrap();
    let over = if over_ublk() { Transport::Ublk } else { Transport::FuseAndLoop };
    let disks = Disks::make(process, directory, all, Some(over), None).unwrap();
    assert_eq!(disks.transport(), over);
    disks
}

/// A small drive, whose file system is made in no time.
pub fn small(name: &str) -> DiskSetup {
    setup(name, "hdd-7200", json!({ "capacity-bytes": 2_u64 << 30 }))
}

#[repr(align(4096))]
pub struct Block(pub [u8; 65536]);

/// The device, for requests that reach it as they are.
pub fn open(path: &Path) -> File {
    File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).unwrap()
}

/// Whether a device is there: of loop devices, whether it is on a file.
pub fn is_there(device: &Path) -> bool {
    let listed = Path::new("/sys/block").join(device.file_name().unwrap());
    if over_ublk() { listed.exists() } else { listed.join("loop/backing_file").exists() }
}

/// The kernel's character device beside a ublk block device, and until it is removed.
pub fn beside(device: &Path) -> PathBuf {
    let name = device.file_name().unwrap().to_str().unwrap().replace("ublkb", "ublkc");
    Path::new("/sys/class/ublk-char").join(name)
}
