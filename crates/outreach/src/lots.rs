//! The number that draws somebody's lot, as seed 000 has it: what decides which of several mails he gets.
//!
//! Whoever asks again, on whichever node, gets the same answer. Not here: what is drawn with it (`campaigns::variants`, and
//! the variants of sequences).

use sha2::{Digest as _, Sha256};

/// The first four bytes of the SHA-256 of a text such as `ada@example.org:spring`, the highest first.
pub fn number(text: &str) -> u64 {
    let digest = Sha256::digest(text);
    digest[..4].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
