//! What is put into HTML that is ready: the preheader.

/// Invisible, so that an inbox that wants more than the preheader does not go on with the body.
const PADDING: &str = "&#847;&zwnj;&nbsp;";
const PADDED_TO: usize = 100;
const HIDDEN: &str = "display:none;font-size:1px;line-height:1px;max-height:0;max-width:0;opacity:0;overflow:hidden;mso-hide:all";

/// A hidden element at the beginning of the body, or of the whole where there is no body. The text is escaped already.
pub(crate) fn with_preheader(html: &str, text: &str) -> String {
    let padding = PADDING.repeat(PADDED_TO.saturating_sub(text.chars().count()).max(20));
    let hidden = format!("<div style=\"{HIDDEN}\">{text}{padding}</div>");
    let at = after_body_tag(html).unwrap_or(0);
    format!("{}{hidden}{}", &html[..at], &html[at..])
}

fn after_body_tag(html: &str) -> Option<usize> {
    let start = find_tag(html, "<body")?;
    let mut quote = None;
    for (offset, byte) in html.bytes().enumerate().skip(start) {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if byte == open => quote = None,
            (None, b'>') => return Some(offset + 1),
            _ => {}
        }
    }
    None
}

/// Where a tag such as `<body` begins, in whatever case.
fn find_tag(html: &str, tag: &str) -> Option<usize> {
    let (bytes, tag) = (html.as_bytes(), tag.as_bytes());
    let ends_name =
        |byte: Option<&u8>| !byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'-');
    let mut places = bytes.windows(tag.len()).enumerate();
    places
        .find(|(at, window)| {
            window.eq_ignore_ascii_case(tag) && ends_name(bytes.get(at + tag.len()))
        })
        .map(|(at, _)| at)
}

/// Where the body ends, if it says so.
pub(crate) fn end_of_body(html: &str) -> Option<usize> {
    let (bytes, tag) = (html.as_bytes(), b"</body");
    bytes.windows(tag.len()).rposition(|window| window.eq_ignore_ascii_case(tag))
}
