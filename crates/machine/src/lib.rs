//! One machine's side of Diorama: the site that does what a run asks, the registry of live runs, what is kept from run
//! to run (images, suspended runs, the usual speed of the machine), and what other commands do with a live run here.
//!
//! The only room that knows all mechanisms. It knows plans, and nothing of who drives a run (`crates/run`).

mod about;
mod claim;
mod control;
mod damaged_state;
pub mod doctor;
mod error;
mod exec;
mod facts;
mod guests;
mod helper;
pub mod host_speed;
mod images;
mod interrupt;
mod live;
mod local;
mod logs;
mod places;
mod registry;
mod request_client;
mod requests;
mod state_file;
mod suspended;
mod sweep;
mod visitors;

pub use about::LocalMachine;
pub use claim::{Wanted, claim_one};
pub use control::RunRequest;
pub use damaged_state::set_apart;
pub use error::{Error, Result};
pub use exec::exec;
pub use facts::{plan_on, supply_of_plan};
pub use guests::installed;
pub use helper::become_helper;
pub use images::{
    ImageFile, ImageSource, ListedImage, damaged_images, image_reference, images, kept_image, must_be_kept, pull_image,
    remove_image, save_image,
};
pub use interrupt::{Interrupts, listen as interrupts, set_up, setting_up};
pub use live::{LiveRun, Progress, begun, idle_s, live_runs, progress, sees_live_runs, with_live_directories};
pub use local::{LocalSite, Place};
pub use logs::{find_live, find_run, print as print_logs};
pub use node::Inspected as ImageContents;
pub use places::make_state_directory;
pub use registry::{CoreLocks, ProgressFile, Registration};
pub use request_client::{event, swap_out};
pub use requests::{Request, Requests};
pub use site::KeptAbout;
pub use suspended::{
    Files, Listed, State as SuspendedState, damaged, read_experiment, remove_damaged, suspended_runs, take_suspended,
};
pub use sweep::sweep;
pub use visitors::Visitors;
