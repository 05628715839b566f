//! Meanings of calls, without a Tcl.
