//! Verbs of `diorama` without a run: no test here takes the cores from another.

mod check;
mod dilate;
mod docs;
mod doctor;
mod harness;
mod map;
mod memory;
mod scripts;
mod support;
