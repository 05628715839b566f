//! fidelity
