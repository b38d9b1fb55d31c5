//! Whom a campaign means: a condition over what is known of people, and the walk over those who meet it.
//!
//! Here: the language of conditions (`Condition`, read and written as JSON), the pure answer whether somebody meets one
//! (`matches`, `explain`), the walk that finds all who do without ever holding them all (`page`), and the preview that
//! counts them; and what has to be asked of everybody whom a mailing means (`Gate`). Not here: whether somebody may be written
//! to (`delivery::eligibility`, which answers that), and what a campaign does with those it means (`campaigns`).

mod condition;
mod cursor;
mod facts;
mod gate;
mod matching;
mod members;
mod names;
mod parse;
mod preview;
mod standing;
#[cfg(test)]
mod tests;
mod walk;

pub use condition::{Addresses, Condition, Subject, Test};
pub use facts::Facts;
pub use gate::{Gate, Own};
pub use matching::{Told, explain, matches};
pub use names::{unknown_audiences, unknown_features, unknown_names, unknown_segments};
pub use parse::{MAX_ADDRESSES, MAX_CONDITIONS, MAX_DEPTH, Violation};
pub use preview::{Counting, Preview, Previewed, Sample, preview, preview_of};
pub use walk::{Found, Known, Member, Walk, Why, known, page, why, why_of};
