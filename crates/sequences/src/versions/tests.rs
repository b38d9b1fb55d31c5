//! Versions on both engines.
