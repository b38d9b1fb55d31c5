//! Telling others what happened: their endpoints, the signed deliveries, and what became of each.
//!
//! Not here: what happens (the features say so with an announcement).
