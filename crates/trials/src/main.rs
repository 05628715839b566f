//! trials
fn main() {}
