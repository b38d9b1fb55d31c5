//! Who gets what, and who does not.

mod stories;
mod tables;
