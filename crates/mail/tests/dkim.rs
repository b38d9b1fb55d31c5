//! Our signatures, checked by a library that others wrote (dkimpy).
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tidings_kernel::{Accepted, Mail, SendError, Sender};
use tidings_mail::{Dkim, DkimKeys, Franked, Kind, Letter, ListUnsubscribe, Mailbox, compose};

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

/// Keeps what it is handed.
#[derive(Default)]
struct Kept(Mutex<Vec<Mail>>);

#[async_trait]
impl Sender for Kept {
    fn name(&self) -> &'static str {
        "kept"
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        self.0.lock().unwrap().push(mail.clone());
        Ok(Accepted::default())
    }
}

/// The mail of a sender as it leaves an installation with these keys.
async fn franked(keys: DkimKeys, from: &str) -> Vec<u8> {
    let kept = Arc::new(Kept::default());
    let return_path = Some("bounces@example.com".parse().unwrap());
    let franked = Franked { sender: Arc::clone(&kept) as Arc<dyn Sender>, return_path, dkim: keys };
    let from = Mailbox { name: None, email: from.parse().unwrap() };
    franked.send(&compose(&Letter { from, ..letter() }).unwrap()).await.unwrap();
    let mail = kept.0.lock().unwrap().pop().unwrap();
    assert_eq!(mail.from.as_str(), "bounces@example.com");
    mail.mime
}

#[tokio::test]
async fn each_domain_signs_with_its_own_key() {
    let ed25519 = key(&["genpkey", "-algorithm", "ed25519"]);
    let made = |domain: &str| Dkim::new(domain, "mail2026", &ed25519).unwrap();
    let others = || vec![made("shop.example"), made("news.shop.example"), made("hop.example")];
    let record = made("example.org").record().1;
    for (from, domain) in [
        ("a@example.org", "example.org"),
        ("a@shop.example", "shop.example"),
        ("a@eu.shop.example", "shop.example"),
        ("a@news.shop.example", "news.shop.example"),
        ("a@hop.example", "hop.example"),
        // It has no key of its own.
        ("a@workshop.example", "example.org"),
    ] {
        let keys = DkimKeys::new(Some(made("example.org")), others()).unwrap();
        let signed = franked(keys, from).await;
        let asked = format!("True mail2026._domainkey.{domain}.");
        assert_eq!(verified(&signed, &record), asked, "{from}");
    }
    let without_default = DkimKeys::new(None, others()).unwrap();
    let unsigned = franked(without_default, "a@example.org").await;
    assert!(!String::from_utf8_lossy(&unsigned).contains("DKIM-Signature"));
    assert!(DkimKeys::new(Some(made("shop.example")), others()).is_err(), "two for one domain");
}
