//! What calls mean, without a Tcl.
