//! The canonical forms of RFC 6376, and signatures that others verify (see `tests/dkim.rs`).

use super::*;

#[test]
fn the_example_of_the_standard_comes_out() {
    // RFC 6376 §3.4.5.
    let message = b"A: X\r\nB : Y\t\r\n\tZ  \r\n\r\n C \r\nD \t E\r\n\r\n\r\n";
    let (head, body) = split(message);
    let relaxed: Vec<_> = fields(head).iter().map(relaxed_field).collect();
    assert_eq!(relaxed, [b"a:X".to_vec(), b"b:Y Z".to_vec()]);
    assert_eq!(relaxed_body(body), b" C\r\nD E\r\n");
}

#[test]
fn a_body_ends_with_one_break_or_is_empty() {
    for (body, relaxed) in [
        ("", ""),
        ("\r\n\r\n", ""),
        ("x", "x\r\n"),
        ("x\r\n\r\n\r\ny\r\n \r\n", "x\r\n\r\n\r\ny\r\n"),
    ] {
        assert_eq!(relaxed_body(body.as_bytes()), relaxed.as_bytes(), "{body:?}");
    }
}

#[test]
fn what_is_no_key_is_refused() {
    for pem in ["", "secret", "-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----\n"] {
        assert_eq!(Dkim::new("example.org", "mail", pem).unwrap_err(), DkimError::Pem);
    }
    let empty = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(matches!(Dkim::new("example.org", "mail", empty), Err(DkimError::Key(_))));
    assert_eq!(Dkim::new("example.org; h=from", "mail", empty).unwrap_err(), DkimError::Name);
}
