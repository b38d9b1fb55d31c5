//! Who may call: workspaces, the applications in them, their keys, and the question that every request asks.
//!
//! Here: `Cx`, which every operation inside a workspace works with; what a workspace, a client and an API key are, how each comes and goes, and `authenticate`. Not here: how
//! a key travels (`http-api`), how often it may be used (there too: that is counted on each node), people who log
//! in to the console.

mod access;
mod audit;
mod bootstrap;
mod caller;
pub mod clients;
pub mod keys;
mod last_use;
mod names;
mod page;
mod rows;
mod scopes;
#[cfg(test)]
mod tests;
mod trouble;
pub mod workspaces;

pub use access::{Access, Cx};
pub use audit::Actor;
pub use bootstrap::{Bootstrap, BootstrapError, Bootstrapped, bootstrap};
pub use caller::{AuthError, Caller, authenticate};
pub use names::{DisplayName, NameError, Slug, SlugError};
pub use page::{Limit, LimitError, Page};
pub use rows::{ClientId, KeyId, WorkspaceId, in_millis};
pub use scopes::{Scope, ScopeError, Scopes};
/// What the store can fail with.
pub use tidings_sql::DatabaseError as StoreError;
pub use trouble::StorageError;
