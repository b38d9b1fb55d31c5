//! Campaigns on both engines.
