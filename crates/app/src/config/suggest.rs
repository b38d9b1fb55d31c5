//! The nearest known name to a mistyped one.

/// The known name that was probably meant. A right last part counts more than a right section: who writes
/// `stoer.path` knows what he wants to set.
pub(super) fn nearest<'a>(given: &str, known: &'a [String]) -> Option<&'a str> {
    const GOOD_ENOUGH: f64 = 0.6;
    let given = given.to_lowercase();
    known
        .iter()
        .map(|name| (score(&given, name), name))
        .filter(|(score, _)| *score >= GOOD_ENOUGH)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name.as_str())
}

fn score(given: &str, name: &str) -> f64 {
    let similar = strsim::normalized_damerau_levenshtein;
    let (given_section, given_leaf) = given.split_once('.').unwrap_or(("", given));
    let (section, leaf) = name.split_once('.').unwrap_or(("", name));
    let by_parts = (similar(given_section, section) + 2.0 * similar(given_leaf, leaf)) / 3.0;
    by_parts.max(similar(given, name))
}
