//! All tests that make runs, in one program: to link one for each file takes longer. They need root, two cores and crun
//! or runc, and wait for one another.

mod captures;
mod clocks;
mod compose;
mod cpus;
mod disks;
mod experiments;
mod far_runs;
mod faults;
mod guests;
mod image;
mod looks;
mod many;
mod monitor;
mod new;
mod nothing_left;
mod observe;
mod packets;
mod ports;
mod power;
mod queues;
mod requirements;
mod runs;
mod serve;
mod support;
mod swap;
mod traffic;
mod verdicts;
mod watch;
