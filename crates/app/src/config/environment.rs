//! Settings from the environment: `TIDINGS_HTTP__LISTEN` is `http.listen`.

use std::collections::BTreeMap;

const PREFIX: &str = "TIDINGS_";

/// Names the configuration file. It is no setting.
pub(super) const FILE_VARIABLE: &str = "TIDINGS_CONFIG";

/// The variables of this process that are meant for us.
pub(super) fn of_the_process() -> BTreeMap<String, Result<String, ()>> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
            Some((name, value.into_string().map_err(|_| ())))
        })
        .collect()
}

/// The key that a variable sets, whether or not there is such a key. `None` for what is no setting.
pub(super) fn key_of(variable: &str) -> Option<String> {
    let rest = variable.strip_prefix(PREFIX)?;
    // `TIDINGS_TEST_*` tells our own tests where their servers are; it may be in a developer's shell.
    if variable == FILE_VARIABLE || rest.starts_with("TEST_") || is_service_link(rest) {
        return None;
    }
    Some(rest.to_lowercase().replace("__", "."))
}

/// The variable that sets a key.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', "__"))
}

/// Kubernetes gives every pod `<SERVICE>_SERVICE_HOST`, `<SERVICE>_PORT_8080_TCP` and the like for each
/// service of its namespace, and a service for Tidings is likely to be called `tidings`.
fn is_service_link(rest: &str) -> bool {
    rest == "PORT"
        || rest.starts_with("PORT_")
        || rest == "SERVICE_HOST"
        || rest == "SERVICE_PORT"
        || rest.starts_with("SERVICE_PORT_")
}
