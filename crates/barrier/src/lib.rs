//! Barriers: programs on several nodes wait for one another.
//!
//! One node serves them ([`serving`]); on any node a program calls [`PROGRAM`] as Emulab's `emulab-sync` is called,
//! with the same options, and goes on when all are there. `docs/barriers.md` describes it.

mod client;
mod server;
mod wire;

use std::ffi::OsStr;
use std::path::Path;

/// The program, static, as a file's content.
pub const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/barrier"));

/// Where a node finds it: here, and where Emulab has it.
pub const PATHS: [&str; 2] = ["/.diorama/barrier", "/usr/local/etc/emulab/emulab-sync"];

/// The environment variable that names the node which serves.
pub const SERVER: &str = wire::SERVER;

/// The command line of the server's node.
pub fn serving() -> Vec<String> {
    vec![PATHS[0].to_owned(), "serve".to_owned()]
}

/// Does what the program does with these arguments, in the present process; its exit code.
///
/// # Errors
/// Which argument is wrong and what would be right, or what the system refused.
pub fn run(arguments: &[String], server: Option<&OsStr>) -> Result<u8, String> {
    match arguments.first().map(String::as_str) {
        Some("serve") => server::run(wire::PORT),
        _ => client::run(arguments, server, Path::new("/etc/hosts")),
    }
}
