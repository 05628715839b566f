//! One container per node: root file system, namespaces, limits, OCI bundle, kernel settings.
//!
//! A run owns one [`Enclosure`]: a private mount namespace and a PID namespace whose first process
//! dies with the engine. Every container of the run lives in it, so a run that is killed leaves no
//! process and no mount behind, whatever state it was in. A [`Node`] is an OCI container that crun
//! or runc (a [`Runtime`]) makes from the bundle written here; its network is a [`host::NetNamespace`]
//! that has no name on the host.

mod bundle;
mod container;
mod enclosure;
mod error;
mod exits;
mod host_view;
mod image;
mod init;
mod kernel;
mod layer;
mod life;
mod masked_paths;
mod mount_namespace;
mod own_files;
mod prepare;
mod remove;
mod rootfs;
mod runtime;
mod seccomp;
mod spawn;
mod volume;

pub use enclosure::{Enclosure, EnclosureOptions};
pub use error::Error;
pub use exits::Exit;
pub use image::{About, Base, Host, Inspected, Saved, Unpacked, accounts, inspect, save, unpack};
pub use init::init_main;
pub use kernel::{NotApplied, ParentNamespace, apply, apply_to_devices};
pub use life::{Exec, ExecSpec, Io, Node, in_parallel};
pub use prepare::{NodeSpec, PATH, Root};
pub use remove::remove_tree;
pub use runtime::Runtime;
pub use volume::NodeDisk;
