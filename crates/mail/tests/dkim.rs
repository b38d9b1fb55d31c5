//! Our signatures, checked by a library that others wrote (dkimpy).
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use tidings_mail::{Dkim, Kind, Letter, ListUnsubscribe, Mailbox, compose};

const VERIFY: &str = "
import sys, dkim
record = sys.argv[1].encode()
message = sys.stdin.buffer.read()
asked = []
def dns(name, timeout=5):
    asked.append(name)
    return record
print(dkim.verify(message, dnsfunc=dns), *[name.decode() for name in asked])
";

fn verified(mime: &[u8], record: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "the script that installs the tools tells where")]
    let path = std::env::var("TIDINGS_TEST_MAIL_PYTHONPATH")
        .expect("TIDINGS_TEST_MAIL_PYTHONPATH is not set: run ./test, which installs the tools");
    let mut child = Command::new("python3")
        .args(["-c", VERIFY, record])
        .env("PYTHONPATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(mime).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}

fn key(arguments: &[&str]) -> String {
    let made = Command::new("openssl").args(arguments).stderr(Stdio::null()).output().unwrap();
    assert!(made.status.success());
    String::from_utf8(made.stdout).unwrap()
}

fn letter() -> Letter {
    let url = "https://example.org/u/TOKEN".into();
    Letter {
        from: Mailbox {
            name: Some("Käse, \"Söhne\"".into()),
            email: "shop@example.org".parse().unwrap(),
        },
        reply_to: Some("team@example.org".parse().unwrap()),
        to: Mailbox { name: None, email: "ada@example.net".parse().unwrap() },
        cc: vec![],
        bcc: vec![],
        subject: format!("Grüße {}", "und noch mehr ".repeat(20)),
        html: Some("<p>Hello   there</p>\n\n\n".into()),
        text: "Hello  there \t\n\n\n.\n\n".into(),
        message_id: "t.101.abc@example.org".into(),
        date: "2026-07-01T12:00:00Z".parse().unwrap(),
        kind: Kind::Marketing {
            list_unsubscribe: ListUnsubscribe {
                url,
                mailto: Some("leave@example.org".parse().unwrap()),
            },
            list_id: Some("news.example.org".into()),
        },
        feedback_id: Some("c7:acme:campaign:shop".into()),
        headers: vec![],
        attachments: vec![],
        calendar: None,
    }
}

#[test]
fn others_find_our_signatures_good_and_see_a_change() {
    let rsa = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
    let old_rsa = ["genrsa", "-traditional", "2048"];
    let ed25519 = ["genpkey", "-algorithm", "ed25519"];
    let unsigned = compose(&letter()).unwrap().mime;
    for (arguments, algorithm) in
        [(&rsa[..], "rsa-sha256"), (&old_rsa[..], "rsa-sha256"), (&ed25519[..], "ed25519-sha256")]
    {
        let dkim = Dkim::new("example.org", "mail2026", &key(arguments)).unwrap();
        let (name, record) = dkim.record();
        assert_eq!(name, "mail2026._domainkey.example.org");
        let signed = String::from_utf8(dkim.sign(&unsigned).unwrap()).unwrap();
        assert!(signed.contains(&format!("a={algorithm};")), "{signed}");
        let asked = "mail2026._domainkey.example.org.";
        assert_eq!(verified(signed.as_bytes(), &record), format!("True {asked}"), "{signed}");
        for (was, is) in [
            ("One-Click", "Two-Click"),
            ("/u/TOKEN", "/u/OTHER"),
            ("Hello", "Hallo"),
            ("\r\nTo: ", "\r\nFrom: eve@example.com\r\nTo: "),
            ("team@example.org", "eve@example.com"),
        ] {
            let changed = signed.replace(was, is);
            assert_ne!(changed, signed, "{was}");
            assert_eq!(verified(changed.as_bytes(), &record), format!("False {asked}"), "{was}");
        }
    }
}
