//! Keeping to the way to each device while it changes, by what the kernel counts of the devices.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use host::sched::{self, Class};
use scale::RealDuration;

use crate::blk_queue::{self, Stat};
use crate::drift::Drift;
use crate::error::Error;
use crate::shared::Shared;

/// How often that is looked at. The kernel is asked only of devices that had enough requests since.
const EVERY: Duration = Duration::from_millis(10);
/// How often it is asked at a time, until both counts are of one instant: of a fast disk a request is nearly always on
/// its way back.
const TRIES: usize = 10;

/// Below all others in real time.
const PRIORITY: u8 = 1;

/// A tracker of the ways to all devices until this process ends.
pub(crate) struct Follow(Arc<Mutex<Vec<Option<Drift>>>>);

impl Follow {
    /// Begins, if it is known of how much of a way the kernel does not count.
    pub fn start(shared: &Arc<Shared>, devices: &[PathBuf], outside: Option<RealDuration>) -> Result<Follow, Error> {
        let drifts = Arc::new(Mutex::new(vec![None; devices.len()]));
        let follow = Follow(drifts.clone());
        let Some(outside) = outside else { return Ok(follow) };
        let (shared, devices) = (shared.clone(), devices.to_vec());
        let work = move || {
            // Whoever is on time waits for it at what they share: it must not be held up there. Without that right it
            // may be, and is seldom.
            let _ = sched::set(Class::RealTime { priority: PRIORITY, inherited: false });
            loop {
                for (disk, device) in devices.iter().enumerate() {
                    look(&shared, disk, device, &mut locked(&drifts)[disk], outside);
                }
                thread::sleep(EVERY);
            }
        };
        let started = thread::Builder::new().name("follow".into()).spawn(work);
        started.map_err(|e| Error::system("cannot start a thread for the disks", e))?;
        Ok(follow)
    }

    /// The kernel's counts until now are none of the model's.
    pub fn anew(&self) {
        locked(&self.0).fill(None);
    }
}

fn locked(drifts: &Mutex<Vec<Option<Drift>>>) -> MutexGuard<'_, Vec<Option<Drift>>> {
    drifts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look(shared: &Shared, disk: usize, device: &Path, drift: &mut Option<Drift>, outside: RealDuration) {
    for _ in 0..TRIES {
        let own = || {
            let state = shared.state();
            let queue = &state.disks[disk].queue;
            (queue.expected(), queue.is_idle())
        };
        let before = own();
        if drift.as_ref().is_some_and(|drift| !drift.wants(&before.0)) {
            return;
        }
        let Some(Stat { sums, under_way }) = blk_queue::stat(device) else { return };
        let (expected, idle) = own();
        if (expected, idle) != before {
            continue;
        }
        let quiet = idle && under_way == 0;
        match drift {
            Some(drift) => {
                let changes = drift.follow(&sums, &expected);
                let mut state = shared.state();
                changes.into_iter().for_each(|change| state.disks[disk].queue.change_way(change));
                drop(state);
                if quiet {
                    drift.reconcile(&sums, &expected);
                }
            }
            None if quiet => *drift = Some(Drift::new(outside, sums, expected)),
            None => {}
        }
    }
}
