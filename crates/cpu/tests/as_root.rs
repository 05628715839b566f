//! All tests that put nodes on a core, one after another and in one program: to link one for each file takes longer.

mod common;
mod cores;
mod node_clock;
mod shares;
mod teardown;
mod work;
