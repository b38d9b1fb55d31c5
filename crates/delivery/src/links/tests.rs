//! What a link proves, and what nobody can make of it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::ToSpan as _;
use proptest::prelude::{any, proptest};
use tidings_access::signing::{RevokeError, SigningKeys, list, revoke, rotate};
use tidings_testbed::{Bed, each_store};

use super::{Addressee, Confirmation, Links, ReadError, Source, is_target};

const TARGET: &str = "https://shop.example.org/sale?a=1&b=zwei+drei%20vier#ü|x";

fn ada() -> Addressee {
    Addressee {
        workspace: 1,
        source: Source::Transactional(101),
        contact: 22,
        client: 7,
        audience: None,
        topic: Some(300),
    }
}

async fn links(bed: &Bed) -> Links {
    let database = bed.access.database();
    Links::load(database, "https://mail.example.org/", bed.access.now()).await.unwrap()
}

/// The token in a link.
fn token(link: &str) -> String {
    let path = url::Url::parse(link).unwrap().path().to_owned();
    path.rsplit('/').next().unwrap().trim_end_matches(".gif").to_owned()
}

/// The target as a server reads it.
fn target(link: &str) -> String {
    let url = url::Url::parse(link).unwrap();
    url.query_pairs().find(|(name, _)| name == "u").unwrap().1.into_owned()
}

fn is_invalid<T>(read: &Result<T, ReadError>) -> bool {
    matches!(read, Err(ReadError::Invalid))
}

each_store!(
    every_link_is_read_again,
    a_token_is_good_for_one_purpose,
    no_bit_of_a_token_can_be_changed,
    a_click_leads_to_its_own_target_and_no_other,
    the_newest_key_signs_and_older_ones_still_prove,
    a_node_looks_for_a_key_that_it_does_not_know_once_a_second,
    a_key_that_was_revoked_neither_signs_nor_proves,
    two_nodes_that_begin_at_once_share_a_key,
    secrets_are_long_and_not_shown,
    a_message_id_names_its_row,
);

async fn every_link_is_read_again(bed: &Bed) {
    let (links, now) = (links(bed).await, bed.access.now());
    let recipient = Addressee {
        workspace: i64::MAX,
        source: Source::Recipient(i64::MAX),
        contact: i64::MAX,
        client: i64::MAX,
        audience: Some(i64::MAX),
        topic: Some(i64::MAX),
    };
    for to in [ada(), recipient] {
        let pixel = links.pixel(&to);
        assert!(pixel.starts_with("https://mail.example.org/t/o/") && pixel.ends_with(".gif"));
        assert_eq!(links.read_open(&token(&pixel), now).await.unwrap(), to);
        let click = links.click(&to, TARGET).unwrap();
        assert!(click.starts_with("https://mail.example.org/t/c/"), "{click}");
        assert_eq!(target(&click), TARGET);
        assert_eq!(links.read_click(&token(&click), TARGET, now).await.unwrap(), to);
        let unsubscribe = links.unsubscribe(&to);
        assert!(unsubscribe.starts_with("https://mail.example.org/u/"));
        assert_eq!(links.read_unsubscribe(&token(&unsubscribe), now).await.unwrap(), to);
        let preferences = links.preferences(&to);
        assert!(preferences.starts_with("https://mail.example.org/p/"));
        assert_eq!(links.read_preferences(&token(&preferences), now).await.unwrap(), to);
        assert!(token(&preferences).len() <= super::MAX_TOKEN_BYTES);
    }
    assert!(token(&links.pixel(&ada())).len() < 44, "most links are short");
    let confirm = links.confirm(1, 9);
    assert!(confirm.starts_with("https://mail.example.org/confirm/"));
    let expected = Confirmation { workspace: 1, subscription: 9 };
    assert_eq!(links.read_confirm(&token(&confirm), now).await.unwrap(), expected);
}

async fn a_token_is_good_for_one_purpose(bed: &Bed) {
    let (links, now, to) = (links(bed).await, bed.access.now(), ada());
    let tokens = [
        token(&links.pixel(&to)),
        token(&links.click(&to, TARGET).unwrap()),
        token(&links.unsubscribe(&to)),
        token(&links.preferences(&to)),
        token(&links.confirm(1, 101)),
    ];
    assert!(!super::has_our_form("tracking-token-123"));
    for (at, token) in tokens.iter().enumerate() {
        assert!(super::has_our_form(token));
        let read = [
            links.read_open(token, now).await.is_ok(),
            links.read_click(token, TARGET, now).await.is_ok(),
            links.read_unsubscribe(token, now).await.is_ok(),
            links.read_preferences(token, now).await.is_ok(),
            links.read_confirm(token, now).await.is_ok(),
        ];
        let mut expected = [false; 5];
        expected[at] = true;
        assert_eq!(read, expected, "{at}");
        // The purpose is inside the signature: writing another one into the token does not help.
        for purpose in 0..=6 {
            let mut bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
            if bytes[1] == purpose {
                continue;
            }
            bytes[1] = purpose;
            let forged = URL_SAFE_NO_PAD.encode(bytes);
            assert!(is_invalid(&links.read_open(&forged, now).await));
            assert!(is_invalid(&links.read_click(&forged, TARGET, now).await));
            assert!(is_invalid(&links.read_unsubscribe(&forged, now).await));
            assert!(is_invalid(&links.read_preferences(&forged, now).await));
            assert!(is_invalid(&links.read_confirm(&forged, now).await));
        }
    }
}

async fn no_bit_of_a_token_can_be_changed(bed: &Bed) {
    let (links, now) = (links(bed).await, bed.access.now());
    let good = token(&links.unsubscribe(&ada()));
    let bytes = URL_SAFE_NO_PAD.decode(&good).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let read = links.read_unsubscribe(&URL_SAFE_NO_PAD.encode(changed), now).await;
        assert!(is_invalid(&read), "bit {bit}: {read:?}");
    }
    for end in 0..bytes.len() {
        let cut = URL_SAFE_NO_PAD.encode(&bytes[..end]);
        assert!(is_invalid(&links.read_unsubscribe(&cut, now).await), "{end} bytes");
    }
    let longer = "A".repeat(100_000);
    for text in ["", ".", "ü", "a b", &format!("{good}="), &format!("{good}A"), &longer] {
        assert!(is_invalid(&links.read_unsubscribe(text, now).await), "{}", text.len());
    }
}

async fn a_click_leads_to_its_own_target_and_no_other(bed: &Bed) {
    let (links, now) = (links(bed).await, bed.access.now());
    let click = token(&links.click(&ada(), "https://shop.example.org/").unwrap());
    for other in [
        "https://evil.example.net/",
        "https://shop.example.org",
        "https://shop.example.org/a",
        "http://shop.example.org/",
        "https://SHOP.example.org/",
        "",
    ] {
        assert!(is_invalid(&links.read_click(&click, other, now).await), "{other}");
    }
    for target in [
        "javascript:alert(1)",
        "data:text/html,x",
        "mailto:ada@example.org",
        "/relative",
        "//example.org/",
        "https:example.org",
        "https://",
        "http://ada:secret@example.org/",
        "https://example.org/\r\nSet-Cookie: a=b",
        " https://example.org/",
        "https://exa mple.org/",
        "#top",
    ] {
        assert!(!is_target(target), "{target}");
        assert_eq!(links.click(&ada(), target), None, "{target}");
    }
    let long = format!("https://example.org/{}", "a".repeat(super::MAX_TARGET_BYTES));
    assert_eq!(links.click(&ada(), &long), None);
    assert!(is_target("HTTPS://example.org/?u=a%0Ab"));
}

async fn the_newest_key_signs_and_older_ones_still_prove(bed: &Bed) {
    let links = links(bed).await;
    let old = token(&links.unsubscribe(&ada()));
    let first = list(bed.access.database()).await.unwrap()[0].id;
    let made = rotate(bed.access.database(), bed.access.now()).await.unwrap();
    assert!(made.id > first);

    links.refresh(bed.access.now()).await.unwrap();
    assert_eq!(token(&links.unsubscribe(&ada())), old, "it has looked less than a minute ago");
    bed.clock.advance(1.minute());
    links.refresh(bed.access.now()).await.unwrap();
    let new = token(&links.unsubscribe(&ada()));
    assert_ne!(new, old);
    assert_eq!(URL_SAFE_NO_PAD.decode(&new).unwrap()[2], u8::try_from(made.id).unwrap());

    bed.clock.advance((10 * 366 * 24).hours());
    for token in [&old, &new] {
        assert_eq!(links.read_unsubscribe(token, bed.access.now()).await.unwrap(), ada());
    }
    // A token of one key does not become one of another by saying so.
    let mut bytes = URL_SAFE_NO_PAD.decode(&old).unwrap();
    bytes[2] = u8::try_from(made.id).unwrap();
    let forged = URL_SAFE_NO_PAD.encode(bytes);
    assert!(is_invalid(&links.read_unsubscribe(&forged, bed.access.now()).await));
}

async fn a_node_looks_for_a_key_that_it_does_not_know_once_a_second(bed: &Bed) {
    let (one, other) = (links(bed).await, links(bed).await);
    rotate(bed.access.database(), bed.access.now()).await.unwrap();
    bed.clock.advance(1.minute());
    other.refresh(bed.access.now()).await.unwrap();
    let new = token(&other.unsubscribe(&ada()));
    assert_eq!(one.read_unsubscribe(&new, bed.access.now()).await.unwrap(), ada());

    rotate(bed.access.database(), bed.access.now()).await.unwrap();
    bed.clock.advance(1.minute());
    other.refresh(bed.access.now()).await.unwrap();
    let newer = token(&other.unsubscribe(&ada()));
    // Somebody invents a key, so that this node has just looked.
    let mut bytes = URL_SAFE_NO_PAD.decode(&new).unwrap();
    bytes[2] = 0x7f;
    let invented = URL_SAFE_NO_PAD.encode(bytes);
    let now = bed.access.now();
    assert!(is_invalid(&one.read_unsubscribe(&invented, now).await));
    rotate(bed.access.database(), now).await.unwrap();
    bed.clock.advance(2.minutes());
    other.refresh(bed.access.now()).await.unwrap();
    let newest = token(&other.unsubscribe(&ada()));
    assert!(is_invalid(&one.read_unsubscribe(&newest, now).await), "it has looked a moment ago");
    assert_eq!(one.read_unsubscribe(&newer, now).await.unwrap(), ada());
    let later = now + 1.second();
    assert_eq!(one.read_unsubscribe(&newest, later).await.unwrap(), ada());
}

async fn a_key_that_was_revoked_neither_signs_nor_proves(bed: &Bed) {
    let (links, database) = (links(bed).await, bed.access.database());
    let first = list(database).await.unwrap()[0].id;
    let refused = revoke(database, first, bed.access.now()).await.unwrap_err();
    assert!(matches!(refused, RevokeError::Only(id) if id == first), "{refused:?}");
    let leaked = token(&links.unsubscribe(&ada()));
    let leaked_id = links.message_id(&Source::Transactional(101), 3, "mail.example.org");
    let second = rotate(database, bed.access.now()).await.unwrap().id;
    let third = rotate(database, bed.access.now()).await.unwrap().id;
    bed.clock.advance(1.minute());
    links.refresh(bed.access.now()).await.unwrap();
    let newest = token(&links.unsubscribe(&ada()));

    for _ in 0..2 {
        let at = bed.access.now();
        let revoked = revoke(database, first, at).await.unwrap();
        assert!(revoked.revoked_at.is_some_and(|revoked| revoked <= at));
        bed.clock.advance(1.minute());
        let now = bed.access.now();
        assert!(
            is_invalid(&links.read_unsubscribe(&leaked, now).await),
            "a node follows by itself"
        );
        assert!(is_invalid(&links.read_message_id(&leaked_id, now).await));
        assert_eq!(links.read_unsubscribe(&newest, now).await.unwrap(), ada());
    }
    let kept = list(database).await.unwrap();
    assert_eq!(
        kept.iter().map(|key| key.revoked_at.is_some()).collect::<Vec<_>>(),
        [true, false, false]
    );

    // The newest of the others signs.
    revoke(database, third, bed.access.now()).await.unwrap();
    bed.clock.advance(1.minute());
    let now = bed.access.now();
    assert!(is_invalid(&links.read_unsubscribe(&newest, now).await));
    let signed = token(&links.unsubscribe(&ada()));
    assert_eq!(links.read_unsubscribe(&signed, now).await.unwrap(), ada());
    let refused = revoke(database, second, now).await.unwrap_err();
    assert!(matches!(refused, RevokeError::Only(id) if id == second), "{refused:?}");
    let refused = revoke(database, 999, now).await.unwrap_err();
    assert!(matches!(refused, RevokeError::Missing(999)), "{refused:?}");
}

async fn two_nodes_that_begin_at_once_share_a_key(bed: &Bed) {
    let (one, other) = tokio::join!(links(bed), links(bed));
    assert_eq!(one.unsubscribe(&ada()), other.unsubscribe(&ada()));
    assert_eq!(list(bed.access.database()).await.unwrap().len(), 1);
}

async fn secrets_are_long_and_not_shown(bed: &Bed) {
    let links = links(bed).await;
    let database = bed.access.database();
    rotate(database, bed.access.now()).await.unwrap();
    let sql = "SELECT secret FROM signing_keys";
    let rows = database.read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: tidings_sql::DatabaseError| error).unwrap();
    let secrets: std::collections::BTreeSet<_> =
        rows.iter().map(|row| row.text(0).unwrap().to_owned()).collect();
    assert_eq!(secrets.len(), 2);
    let shown = format!("{:?}", list(database).await.unwrap());
    for secret in &secrets {
        assert_eq!(secret.len(), 64);
        assert!(!shown.contains(secret.as_str()));
    }
    let pseudonym = links.pseudonym("192.0.2.7");
    assert_eq!(pseudonym, links.pseudonym("192.0.2.7"));
    assert_ne!(pseudonym, links.pseudonym("192.0.2.8"));
    assert_eq!(pseudonym.len(), 32);
}

async fn a_message_id_names_its_row(bed: &Bed) {
    let (links, now) = (links(bed).await, bed.access.now());
    for source in [Source::Transactional(101), Source::Recipient(501)] {
        let id = links.message_id(&source, 3, "mail.example.org");
        assert!(id.starts_with("<t.3.") && id.ends_with("@mail.example.org>"), "{id}");
        assert_eq!(links.read_message_id(&id, now).await.unwrap(), (3, source));
        let bare = id.trim_matches(['<', '>']);
        assert_eq!(links.read_message_id(bare, now).await.unwrap(), (3, source));
        assert_eq!(links.read_message_id(&id.to_uppercase(), now).await.unwrap(), (3, source));
    }
    let id = links.message_id(&Source::Transactional(101), 3, "mail.example.org");
    for forged in [
        id.replace("t.3.", "t.4."),
        id.replace("m101", "m102"),
        id.replace("m101", "r101"),
        id.replace("m101", "m0101"),
        id.replace("@mail.example.org", ""),
        "<abc@example.org>".to_owned(),
        "<t.1.ü.1.00@example.org>".to_owned(),
        String::new(),
        "x".repeat(10_000),
    ] {
        // A spelling that means the same row is the same id.
        let read = links.read_message_id(&forged, now).await;
        if forged.contains("m0101") {
            assert_eq!(read.unwrap(), (3, Source::Transactional(101)));
        } else {
            assert!(is_invalid(&read), "{forged}: {read:?}");
        }
    }
}

#[tokio::test]
async fn no_text_makes_reading_a_token_panic() {
    let bed = Bed::memory().await;
    let keys = SigningKeys::load(bed.access.database(), bed.access.now()).await.unwrap().current();
    proptest!(|(text in any::<String>(), bytes in proptest::collection::vec(any::<u8>(), 0..120))| {
        let coded = URL_SAFE_NO_PAD.encode(&bytes);
        for text in [&text, &coded] {
            assert!(super::token::verify(&keys, super::Purpose::Confirm, text, b"").is_err());
            assert!(super::message_id::read(&keys, text).is_err());
            let _ = is_target(text);
        }
    });
}
