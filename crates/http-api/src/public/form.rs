//! What a form sent: a few fields, in a body with a bound.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, header};

/// None of our forms is longer, and neither is that of a mail program.
const MAX_BYTES: usize = 16 * 1024;

pub(super) struct Form(Vec<(String, String)>);

/// The body is too long.
pub(super) struct TooLarge;

impl Form {
    pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Self, TooLarge> {
        let bytes = to_bytes(body, MAX_BYTES).await.map_err(|_| TooLarge)?;
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let fields = match kind.and_then(boundary) {
            Some(boundary) => parts(&String::from_utf8_lossy(&bytes), boundary),
            None => url::form_urlencoded::parse(&bytes).into_owned().collect(),
        };
        Ok(Self(fields))
    }

    /// The field, if it is there once.
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(field, _)| field == name);
        found.next().filter(|_| found.next().is_none()).map(|(_, value)| value.as_str())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(field, _)| field == name)
    }

    /// The numbers among the fields of this name.
    pub(super) fn numbers(&self, name: &str) -> Vec<i64> {
        let named = self.0.iter().filter(|(field, _)| field == name);
        named.filter_map(|(_, value)| value.parse().ok()).collect()
    }
}

/// RFC 8058 lets a mail program send `multipart/form-data` too.
fn boundary(kind: &str) -> Option<&str> {
    let (kind, parameters) = kind.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let mut parameters = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let (_, boundary) =
        parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    Some(boundary.trim().trim_matches('"')).filter(|boundary| !boundary.is_empty())
}

/// The texts in a body of several parts. Whatever is no plain field is passed over.
fn parts(body: &str, boundary: &str) -> Vec<(String, String)> {
    let delimiter = format!("--{boundary}");
    let parts = body.split(delimiter.as_str()).skip(1);
    parts
        .filter_map(|part| {
            let (head, value) = part.split_once("\r\n\r\n").or_else(|| part.split_once("\n\n"))?;
            // Mail programs write it so; browsers do too.
            let name = head.split_once("name=\"")?.1.split('"').next()?;
            Some((name.to_owned(), value.trim_end_matches(['\r', '\n']).to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::HeaderMap;

    use super::Form;

    async fn read(kind: &str, body: &str) -> Form {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", kind.parse().unwrap());
        Form::read(&headers, Body::from(body.to_owned())).await.ok().unwrap()
    }

    #[tokio::test]
    async fn both_forms_of_a_form_are_read() {
        let plain = read("application/x-www-form-urlencoded", "a=1&b=x+y%20z&b=2&c").await;
        let multipart = "--X\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--X--\r\n";
        let other = read("multipart/form-data; boundary=\"X\"", multipart).await;
        assert_eq!(plain.one("a"), Some("1"));
        assert_eq!(plain.one("b"), None, "two are no answer");
        assert_eq!(plain.numbers("b"), [2]);
        assert!(plain.has("c") && !plain.has("d"));
        assert_eq!(other.one("List-Unsubscribe"), Some("One-Click"));
    }

    #[tokio::test]
    async fn nonsense_is_an_empty_form_and_too_much_is_refused() {
        for kind in ["multipart/form-data", "multipart/form-data; boundary=", "text/plain", "x"] {
            assert!(!read(kind, "--\r\n\u{0}").await.has("scope"));
        }
        assert!(!read("multipart/form-data; boundary=X", "--X--Xname=\"").await.has("scope"));
        let body = Body::from("a".repeat(16 * 1024 + 1));
        assert!(Form::read(&HeaderMap::new(), body).await.is_err());
    }
}
