//! `/inbox/widget.js`: the web component `<tidings-inbox>`, one file for every page. It is written in several
//! (`assets/inbox`), and joined here, without the lines that only say why. `widget.js.gz` there is the same, compressed once and for all
//! browsers that take it so.

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};
use tidings_kernel::hex;

const WRITTEN: &str = concat!(
    "const CSS = `",
    include_str!("../assets/inbox/style.css"),
    "`;\n",
    include_str!("../assets/inbox/nodes.js"),
    include_str!("../assets/inbox/session.js"),
    include_str!("../assets/inbox/tidings-inbox.js"),
);

static WIDGET: LazyLock<String> = LazyLock::new(|| {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    WRITTEN.split_inclusive('\n').filter(is_code).collect()
});

const COMPRESSED: &[u8] = include_bytes!("../assets/inbox/widget.js.gz");

static DIGEST: LazyLock<String> = LazyLock::new(|| hex(&Sha256::digest(WIDGET.as_bytes())[..12]));
static TAG: LazyLock<String> = LazyLock::new(|| format!("\"{}\"", *DIGEST));
static TAG_OF_COMPRESSED: LazyLock<String> = LazyLock::new(|| format!("\"{}-gzip\"", *DIGEST));
/// One that was made of something else is never given.
static IS_COMPRESSED: LazyLock<bool> = LazyLock::new(|| is_of(COMPRESSED, WIDGET.as_bytes()));

pub(crate) async fn serve(asked: HeaderMap) -> Response {
    let compressed = *IS_COMPRESSED && takes_gzip(&asked);
    let tag = if compressed { TAG_OF_COMPRESSED.as_str() } else { TAG.as_str() };
    let known = asked.get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
    let is_known = known.is_some_and(|known| known.trim_start_matches("W/") == tag);
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::ETAG, tag),
        (header::VARY, "accept-encoding"),
        (header::CACHE_CONTROL, "public, max-age=300"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // It holds no secret, and is a module, which pages of other origins may load only so.
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (HeaderName::from_static("cross-origin-resource-policy"), "cross-origin"),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    if compressed {
        return (headers, [(header::CONTENT_ENCODING, "gzip")], COMPRESSED).into_response();
    }
    (headers, WIDGET.as_str()).into_response()
}

/// Whether the caller takes an answer in gzip: it is on his list, and not as what he does not want.
fn takes_gzip(asked: &HeaderMap) -> bool {
    let lists = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|q| q.trim().parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|weight| weight > 0.0)
    })
}

/// Whether a gzip file was made of this text: its last eight bytes are the sum and the length of what is in it (RFC 1952).
fn is_of(compressed: &[u8], text: &[u8]) -> bool {
    let end: Option<&[u8; 8]> = compressed.last_chunk();
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let expected = u64::from(crc32(text)) | u64::from(length) << 32;
    end.is_some_and(|end| u64::from_le_bytes(*end) == expected)
}

fn crc32(bytes: &[u8]) -> u32 {
    let fold = |sum: u32, byte: &u8| {
        let step = |sum: u32, _| (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg());
        (0..8).fold(sum ^ u32::from(*byte), step)
    };
    !bytes.iter().fold(!0, fold)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::{COMPRESSED, WIDGET, crc32, is_of, takes_gzip};

    #[test]
    fn the_compressed_file_is_of_the_same_text_and_small() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926, "the sum that everybody checks with");
        assert!(
            is_of(COMPRESSED, WIDGET.as_bytes()),
            "make it anew: curl http://…/inbox/widget.js | gzip -9n > assets/inbox/widget.js.gz"
        );
        assert!(!is_of(COMPRESSED, b"another text") && !is_of(b"", WIDGET.as_bytes()));
        assert!(COMPRESSED.len() < 15_000, "{} bytes", COMPRESSED.len());
    }

    #[test]
    fn a_caller_says_whether_he_takes_gzip() {
        for (said, expected) in [
            ("gzip", true),
            ("br, gzip;q=0.5", true),
            ("deflate, GZIP", true),
            ("gzip; q=0", false),
            ("gzip;q=0.000", false),
            ("br", false),
            ("xgzip", false),
            ("", false),
        ] {
            let mut asked = HeaderMap::new();
            asked.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(said));
            assert_eq!(takes_gzip(&asked), expected, "{said}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
