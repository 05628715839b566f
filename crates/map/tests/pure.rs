//! All tests of this crate's behaviour that need no root, in one program: to link one for each file takes longer than
//! to run them.

mod catalogs;
mod families;
mod mutated;
mod quality;
mod rules;
mod wide_area;
