//! Links that tell when they are followed, and a picture that tells when it is loaded.

use std::borrow::Cow;

use lol_html::{RewriteStrSettings, element, rewrite_str};

use crate::html::end_of_body;

/// Gives each `http` and `https` link of an `<a>` to `click`, and puts in its place what comes back; `None` leaves it as it
/// is. Links with `data-no-track`, other schemes, fragments and relative links are not asked for. The address of the pixel
/// becomes a picture at the end of the body.
pub fn track(
    html: &str,
    click: &mut dyn FnMut(&str) -> Option<String>,
    pixel: Option<&str>,
) -> String {
    let rewrite = element!("a[href]", |a| {
        if a.has_attribute("data-no-track") {
            a.remove_attribute("data-no-track");
            return Ok(());
        }
        let Some(href) = a.get_attribute("href") else { return Ok(()) };
        let target = html_escape::decode_html_entities(href.trim());
        if is_web(&target)
            && let Some(tracked) = click(&target)
        {
            a.set_attribute("href", &encoded(&tracked))?;
        }
        Ok(())
    });
    let settings = RewriteStrSettings::new().append_element_content_handler(rewrite);
    // HTML that cannot be followed goes out as it is: a mail without tracking is better than none.
    let tracked = rewrite_str(html, settings).unwrap_or_else(|_| html.to_owned());
    let Some(pixel) = pixel else { return tracked };
    let image = format!(
        "<img src=\"{}\" width=\"1\" height=\"1\" alt=\"\" style=\"display:block;border:0\">",
        encoded(pixel).replace('"', "&quot;"),
    );
    let at = end_of_body(&tracked).unwrap_or(tracked.len());
    format!("{}{image}{}", &tracked[..at], &tracked[at..])
}

fn is_web(url: &str) -> bool {
    let starts = |scheme: &str| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    starts("http://") || starts("https://")
}

/// The rewriter encodes the quotes itself.
fn encoded(url: &str) -> Cow<'_, str> {
    if url.contains(['&', '<', '>']) {
        url.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").into()
    } else {
        url.into()
    }
}
