//! Templates: subject and body of what is sent, stored in versions that never change.
//!
//! Here: putting a version, which one is active, what a template may name and what the variables of a person are. Not
//! here: the language itself (`tidings_templates`), and who gets what (`transactional`).
//!
//! Items are those of seed 002: `TEMPLATE#<key> / VERSION#<n>`. Beside them stands `TEMPLATE#<key> / CURRENT`, which says
//! which version is active and which is the newest; a change of either is one transaction on it, so one version is active at
//! most. A version holds the partials that it was compiled with: a new footer does not change what was approved.

mod cache;
mod change;
mod content;
pub mod display_names;
mod key;
mod preview;
mod read;
mod store;
#[cfg(test)]
mod tests;
mod variables;
mod wanted;

pub use cache::Templates;
pub use change::{
    Activate, ActivateError, Change, Compared, Put, PutError, PutOutcome, Then, activate, compare,
    deactivate, put, validate,
};
pub use content::{Content, MAX_STORED, Validated};
pub use key::{KeyError, TemplateKey};
pub use preview::{Preview, PreviewError, Previewed, Which, preview};
pub use read::{Pick, Summary, VersionSummary, find, list, versions};
pub use store::{Status, Stored};
pub use variables::{
    Known, Learned, Recipient, learned_of, missing, variables_for, variables_known,
    variables_wanted,
};
pub use wanted::{Wanted, others_of};
