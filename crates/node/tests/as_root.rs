//! All tests of this crate that need root, in one program: to link one for each file takes longer, and what waits in
//! one file leaves the processor to another.

mod archive;
mod common;
mod image;
mod isolation;
mod life;
mod memory;
mod save;
mod users;
