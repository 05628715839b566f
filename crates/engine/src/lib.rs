//! The life of an experiment: its plan, its start, its events, what is collected, and its end.
//!
//! This is the only room that knows all the others. A plan says beforehand what every node and link gets. A
//! [`run`](run()) decides what happens and when, on a [`site::Site`], which does it.

mod accuracy;
mod aside;
mod by_hand;
mod claim;
pub mod confirm;
mod control;
pub mod dilate;
pub mod doctor;
mod error;
mod exec;
mod helper;
pub mod host_speed;
mod images;
mod interrupt;
mod load;
mod logs;
mod notice;
pub mod plan;
mod registry;
mod run;
pub mod schedule;
pub mod site;
mod state_file;
mod timeline;

pub use accuracy::asked as accuracy;
pub use aside::{
    Aside, Files, Listed, State as SwappedState, damaged as damaged_swapped, remove_damaged, swapped, take_swapped,
};
pub use by_hand::{event, swap_out};
pub use claim::Wanted;
pub use cpu::PLANNED_USABLE;
pub use error::{Error, ErrorReport, Kind, Result};
pub use exec::exec;
pub use helper::become_helper;
pub use images::{
    ImageFile, ImageSource, KeptAbout, ListedImage, image_reference, images, kept_image, pull_image, remove_image,
    save_image,
};
pub use interrupt::{Interrupts, listen as interrupts};
pub use load::{Description, Opened, load};
pub use logs::{find_live, find_run, print as print_logs};
pub use model::Experiment;
pub use node::Inspected as ImageContents;
pub use notice::{Notice, Tick, visible, warn};
pub use plan::{CoreChoice, Plan, SMALLEST_SHARE, Supply};
pub use registry::{CoreLocks, LiveRun, begun, idle_s, live_runs, make_state_directory, sweep};
pub use run::{Outcome, Request, claim_directory, run, run_through};
pub use scale::Tdf;
pub use site::Recording;
