//! The verbs of the command line on this machine: an experiment is opened, gets its cores and its plan, and is run on
//! the site here.
//!
//! The rooms do the work: `plan` says what nodes and links get, `run` decides what happens and when, `machine` does it
//! behind the interface of `site`. This one only joins them.

pub mod far;
mod load;
pub mod observe;
mod start;

pub use dilate;
pub use host::beneath::{Dir, open_file, write_file};
pub use host::descriptors::take_standard_streams;
pub use host::listening::listener;
pub use host::rights::{Rights, as_root, starts_as_root};
pub use host::{one_line, visible, warn};
pub use load::{Description, Opened, Unfit, load, load_text};
pub use machine::{
    CoreLocks, Error as MachineError, Files, ImageContents, ImageFile, ImageSource, Interrupts, KeptAbout, Listed,
    ListedImage, LiveRun, LocalMachine, LocalSite, Progress, SuspendedState, Wanted, become_helper, begun, damaged,
    damaged_images, doctor, event, exec, find_live, find_run, host_speed, idle_s, image_reference, images, installed,
    interrupts, kept_image, live_runs, make_state_directory, print_logs, progress, pull_image, read_experiment,
    remove_damaged, remove_image, save_image, sees_live_runs, set_apart, setting_up, suspended_runs, swap_out, sweep,
    take_suspended,
};
pub use model::Experiment;
pub use plan::{self, Facts, PLANNED_USABLE, Plan, SMALLEST_SHARE};
pub use run::{Error as RunError, Notice, Outcome, Suspension, Tick, accuracy, confirm};
pub use scale::Tdf;
pub use site::{self, CoreChoice, Error, Kind, Recording, Result};
pub use start::{Request, claim_directory, run, run_at, run_through, seconds};
