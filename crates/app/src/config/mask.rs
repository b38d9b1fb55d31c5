//! Hiding what must not be shown: passwords inside URLs, and whole secrets.

const HIDDEN: &str = "***";

/// The value as it may be shown. A URL keeps its host and loses its password, secret or not; a secret
/// that is no URL is hidden whole.
pub(super) fn mask(text: &str, secret: bool) -> String {
    match masked_url(text) {
        Some(url) => url,
        None if secret => HIDDEN.to_owned(),
        None => text.to_owned(),
    }
}

fn masked_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    // A password may hold an unescaped '/', '?' or '@'. Taking the last '@' of all hides too much rather than
    // too little.
    let query_begins = rest.rfind('@').unwrap_or(0);
    let (before_query, query) = match rest[query_begins..].find('?') {
        Some(place) => (&rest[..query_begins + place], Some(&rest[query_begins + place + 1..])),
        None => (rest, None),
    };
    let shown = match before_query.rsplit_once('@') {
        Some((user_info, host)) => {
            let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
            if user.contains(['/', '?']) {
                // The '@' is part of something else, perhaps of a password among the parameters.
                return Some(format!("{scheme}://{HIDDEN}"));
            }
            if password.is_empty() {
                format!("{user}@{host}")
            } else {
                format!("{user}:{HIDDEN}@{host}")
            }
        }
        None => before_query.to_owned(),
    };
    let query = query.map(|query| {
        let parameters: Vec<_> = query.split('&').map(masked_parameter).collect();
        format!("?{}", parameters.join("&"))
    });
    Some(format!("{scheme}://{shown}{}", query.unwrap_or_default()))
}

fn masked_parameter(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, _)) if ["pass", "secret", "token", "key"].iter().any(|w| name.contains(w)) => {
            format!("{name}={HIDDEN}")
        }
        _ => parameter.to_owned(),
    }
}
