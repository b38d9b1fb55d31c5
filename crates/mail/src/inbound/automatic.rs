//! Whether a machine wrote a message. What machines say of themselves comes first; the words of the subject are the last
//! resort, because people write such words too.

use mail_parser::{HeaderForm, HeaderName, HeaderValue, Message};

/// How the usual programs begin the subject of such a note.
const SUBJECTS: [&str; 15] = [
    "auto:",
    "auto-reply",
    "autoreply",
    "auto reply",
    "automatic reply",
    "automatische antwort",
    "out of office",
    "out of the office",
    "abwesenheitsnotiz",
    "abwesend",
    "réponse automatique",
    "absence du bureau",
    "respuesta automática",
    "risposta automatica",
    "automatisch antwoord",
];

pub(super) fn wrote(message: &Message<'_>, subject: &str) -> bool {
    let value = |name: &'static str| {
        let found = message.header_as(name, HeaderForm::Text).pop();
        found.and_then(HeaderValue::into_text).map(|text| text.trim().to_ascii_lowercase())
    };
    let submitted = value("Auto-Submitted").is_some_and(|said| said != "no");
    // Exchange writes it into what its robots send, and into nothing that people do.
    let suppress = value("X-Auto-Response-Suppress").is_some_and(|said| said != "none");
    let named = ["X-Autoreply", "X-Autorespond", "X-Autoresponder", "X-Auto-Reply"]
        .iter()
        .any(|name| value(name).is_some_and(|said| said != "no"));
    let precedence = value("Precedence").is_some_and(|said| {
        ["auto_reply", "auto-reply", "bulk", "junk", "list"].contains(&said.as_str())
    });
    submitted || suppress || named || precedence || has_no_return(message) || sounds_so(subject)
}

/// Nobody is to answer: `Return-Path: <>`.
fn has_no_return(message: &Message<'_>) -> bool {
    message.header_raw(HeaderName::ReturnPath).is_some_and(|raw| raw.trim() == "<>")
}

fn sounds_so(subject: &str) -> bool {
    let subject = subject.trim().to_lowercase();
    SUBJECTS.iter().any(|beginning| subject.starts_with(beginning))
}
