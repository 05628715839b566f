//! `diorama bench clock`

use super::Figure;
use crate::failure::Failure;

/// Measures the mechanism here and now.
pub fn measure() -> Result<Vec<Figure>, Failure> {
    Err(Failure::machine("not built yet"))
}
