//! Events on both engines.
