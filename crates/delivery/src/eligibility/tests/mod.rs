//! Who gets what, and who does not.

mod many;
mod stories;
mod tables;
