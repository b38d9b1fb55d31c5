//! How an event may be called.

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 100 letters, digits, spaces inside, and . _ : - /, such as user.signed_up")]
pub struct EventNameError;

/// Whether an event can have this name.
pub fn check_event_name(name: &str) -> Result<(), EventNameError> {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | ':' | '-' | '/' | ' ');
    let well_formed = (1..=100).contains(&name.chars().count())
        && name.chars().all(allowed)
        && !name.starts_with(' ')
        && !name.ends_with(' ');
    if well_formed { Ok(()) } else { Err(EventNameError) }
}
