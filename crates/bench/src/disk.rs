//! How exactly a node's disk keeps to its model: requests past the page cache, one at a time.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use device::{DiskSetup, Disks};
use disk::Parameters;
use scale::Tdf;
use serde_json::json;

use crate::cores::{Filler, first_and_last};
use crate::{Error, Notify, Row};

/// One for each family of disks, and how many requests of a kind it gets: those of platters take long.
const DISKS: [(&str, u64); 3] = [("hdd-7200", 40), ("ssd-sata", 400), ("nvme", 400)];
/// How much of it is used; the beginning.
const SIZE: u64 = 4 << 30;
/// How far a request may be off, per cent: what a verdict asks for, if nobody says otherwise.
const GOAL: f64 = 5.0;
const SMALL: usize = 4096;
const LARGE: usize = 1 << 20;

/// A buffer as direct I/O needs it.
#[repr(align(4096))]
struct Buffer([u8; LARGE]);

/// What a request of a disk takes at TDF 1 and 10, beside what its model says, and what it is on its way. Takes a
/// minute; needs root.
///
/// # Errors
///
/// If there can be no disks here, or a request fails.
pub fn measure(notify: Notify) -> Result<Vec<Row>, Error> {
    notify("measuring three disks, each at two factors: this takes a minute");
    // In a run no core sleeps: whoever is woken there is there sooner.
    let (first, last) = first_and_last()?;
    let _awake = [Some(first), last].into_iter().flatten().map(Filler::start).collect::<Result<Vec<_>, _>>()?;
    let dir = tempfile::Builder::new().prefix("diorama-bench-").tempdir_in("/var/tmp").map_err(Error::failed)?;
    let mut rows = Vec::new();
    for (name, count) in DISKS {
        for tdf in [1, 10] {
            let tdf = Tdf::new(tdf, 1).map_err(Error::failed)?;
            rows.extend(of_disk(name, count, tdf, &dir.path().join(format!("{name}-{tdf}")))?);
        }
    }
    Ok(rows)
}

fn of_disk(name: &str, count: u64, tdf: Tdf, place: &Path) -> Result<Vec<Row>, Error> {
    let changes = serde_json::Map::from_iter([("capacity-bytes".to_string(), json!(SIZE))]);
    let parameters = Parameters::like(name, &changes).map_err(Error::failed)?;
    let setup = DiskSetup { name: name.into(), parameters, seed: 1, may_lose_power: false, durable: false };
    let mut disks = Disks::make(Disks::command().spawn().map_err(Error::failed)?, place, &[setup])?;
    let path = disks.devices().first().ok_or_else(|| Error::failed("there is no device"))?.clone();
    let failed = |e: std::io::Error| Error::failed(format!("{}: {e}", path.display()));
    let open = || File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path);
    let device = open().map_err(failed)?;
    let mut buffer = Box::new(Buffer([1; LARGE]));
    // What is read is there.
    for at in 0..count {
        device.write_all_at(&buffer.0, at * LARGE as u64).map_err(failed)?;
    }
    disks.begin(host::now(), tdf)?;
    let mut rows = vec![Row::new(
        "disk_on_its_way",
        json!({ "disk": name, "tdf": tdf }),
        disks.spent().as_nanos() as f64 / 1e3,
        "real us",
    )];
    // Far from one another, in an order that no drive reads ahead of.
    let place_of = |n: u64| (n * 797 % count) * LARGE as u64;
    for (request, bytes) in [("read", SMALL), ("write", SMALL), ("write and flush", SMALL), ("read in order", LARGE)] {
        let before = disks.count()?.disks[0];
        let begin = host::now();
        for n in 0..count {
            let part = &mut buffer.0[..bytes];
            match request {
                "read" => device.read_exact_at(part, place_of(n)),
                "write" => device.write_all_at(part, place_of(n)),
                "write and flush" => device.write_all_at(part, place_of(n)).and_then(|()| device.sync_data()),
                _ => device.read_exact_at(part, n * LARGE as u64),
            }
            .map_err(failed)?;
        }
        let took = tdf.to_virtual(host::now().since(begin)).as_secs_f64();
        let after = disks.count()?.disks[0];
        // Not the sum of what requests took: the kernel has made two of a long one, which are under way together.
        let modelled = after.busy.saturating_sub(before.busy).as_secs_f64();
        let late = after.all(|kind| kind.late) - before.all(|kind| kind.late);
        let params = json!({ "disk": name, "tdf": tdf, "request": request, "bytes": bytes, "n": count, "late": late });
        let each = |s: f64| 1e3 * s / count as f64;
        rows.push(Row::new("disk_request", params, each(took), "virtual ms").within(GOAL, each(modelled)));
    }
    Ok(rows)
}
