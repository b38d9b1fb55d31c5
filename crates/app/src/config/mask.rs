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
    let (before_query, query) = match rest.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (rest, None),
    };
    // A password may hold an unescaped '/' or '@'. Taking the last '@' hides too much rather than too little.
    let shown = match before_query.rsplit_once('@') {
        Some((user_info, host)) => {
            let user = user_info.split_once(':').map(|(user, _)| user);
            match user {
                Some(user) => format!("{user}:{HIDDEN}@{host}"),
                None => format!("{user_info}@{host}"),
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
