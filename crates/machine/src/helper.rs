//! Processes of a run that are this same program, started anew for one job of their own.

/// Does that job and never returns, if the arguments of this process (without the program's name) ask for one. Called
/// before anything else: such a process must do nothing but its job.
pub fn become_helper(mut arguments: impl Iterator<Item = String>) {
    match arguments.next().as_deref() {
        Some("__init") => node::init_main(),
        Some("__keeper") => cpu::keeper_main(arguments.collect()),
        Some("__disks") => device::disks_main(),
        Some("__caches") => cpu::caches_main(&arguments.collect::<Vec<_>>()),
        Some(crate::interrupt::SWEEP) => crate::interrupt::sweep_and_exit(arguments.next().is_some()),
        _ => {}
    }
}
