//! The types of messages of `lead-events` that are no events: they ask for everything of somebody to be derived again.
//!
//! Here: their names, which nobody outside can give to an event. Not here: who asks for it, and what is derived (`leads`).

/// Two contacts are one person from now on, and two again. Endpoints are told so under the same names.
const MERGED: &str = "contact.merged";
const UNMERGED: &str = "contact.unmerged";
/// An operator wants it.
pub const REBUILD: &str = "contact.rebuild";
/// An event was judged again: whoever it belongs to is meant, and not the timeline that is named.
pub const REVISED: &str = "contact.revised";

/// Whether it is one of these.
pub fn is_order(event_type: &str) -> bool {
    [MERGED, UNMERGED, REBUILD, REVISED].contains(&event_type)
}
