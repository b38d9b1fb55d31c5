//! Messages that name somebody who is erased: his own, and those of others.

use std::sync::mpsc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidings_kernel::{EmailAddress, Query, tables};
use tidings_people::{contacts, keys};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store, interrupted_at};

use super::World;
use crate::ledger::Source;
use crate::sent::{self, Line};
use crate::transactional::{AcceptError, MessageId, Send, Status};

each_store!(
    a_copy_to_somebody_erased_is_not_sent_and_not_kept,
    what_was_sent_names_the_erased_no_more,
    a_key_with_an_address_still_tells_a_repeat,
    a_key_without_an_address_stays,
    a_body_from_before_the_erasure_is_still_understood,
    only_the_erased_is_forgotten,
    a_message_that_comes_while_somebody_is_erased_is_not_his,
    whoever_is_erased_while_his_line_is_written_has_none,
);

fn ada() -> EmailAddress {
    "ada@example.org".parse().unwrap()
}

impl World<'_> {
    async fn erase(&self) -> bool {
        contacts::erase(&self.bed.cx().await, &ada()).await.unwrap().erased
    }

    /// To Bob, and Ada is named wherever she can be.
    fn naming(&self, key: &str) -> Send {
        let mut send = self.keyed("bob@example.org", key);
        send.cc = vec!["Ada@Example.org".parse().unwrap(), "carl@example.org".parse().unwrap()];
        send.bcc = vec![ada()];
        send.reply_to = Some(ada());
        send.headers.insert("X-Invited-By".to_owned(), "Ada <ADA@example.org>".to_owned());
        send.headers.insert("X-Campaign".to_owned(), "spring".to_owned());
        send
    }

    /// All that the ledger and its queue say of a message, but for its words.
    async fn ledger(&self, id: MessageId) -> String {
        let read = self.bed.access.database().read(move |tx| {
            let sql = "SELECT idempotency_key, reply_to, CAST(envelope AS TEXT) FROM transactional_messages
                       WHERE id = $1";
            let mut said = format!("{:?}", tx.query(sql, &[Param::Int(id.get())])?);
            for sql in ["SELECT email FROM message_addresses", "SELECT body FROM queue_messages"] {
                said += &format!("{:?}", tx.query(sql, &[])?);
            }
            Ok::<_, DatabaseError>(said)
        });
        read.await.unwrap().to_lowercase()
    }
}

async fn a_copy_to_somebody_erased_is_not_sent_and_not_kept(bed: &Bed) {
    let world = World::new(bed).await;
    let send = world.naming("invite:ada@example.org:bob@example.org");
    let id = world.accept(send.clone()).await.unwrap().id;
    assert!(world.ledger(id).await.contains("ada@example.org"));
    // Nobody ever made a contact of her.
    assert!(world.erase().await);
    assert!(!world.erase().await);
    let left = world.ledger(id).await;
    assert!(!left.contains("ada@"), "{left}");
    assert!(left.contains("carl@example.org") && left.contains("spring"), "{left}");

    world.work().await;
    assert_eq!(world.status(id).await, Status::Sent);
    let mails = world.provider.taken();
    let to: Vec<_> = mails[0].to.iter().map(EmailAddress::as_str).collect();
    assert_eq!(to, ["bob@example.org", "carl@example.org"]);
    assert!(!String::from_utf8_lossy(&mails[0].mime).to_lowercase().contains("ada@example.org"));

    let again = world.accept(send).await.unwrap();
    assert!(again.replayed && again.id == id);
    assert_eq!(world.work().await, 0);
}

/// The erasure comes before each call of the items, from its beginning to its end.
async fn whoever_is_erased_while_his_line_is_written_has_none(bed: &Bed) {
    let world = World::new(bed).await;
    for (place, has_profile) in (0..8).flat_map(|place| [(place, true), (place, false)]) {
        let id = world.accepted("ada@example.org").await;
        let cx = bed.cx().await;
        if has_profile {
            let upsert = contacts::Upsert {
                email: ada(),
                first_name: None,
                attributes: contacts::Attributes::default(),
                tags: None,
            };
            contacts::upsert(&cx, upsert).await.unwrap();
        }
        let within = cx.clone();
        let happens = move || -> BoxFuture<'static, ()> {
            let cx = within.clone();
            Box::pin(async move {
                contacts::erase(&cx, &ada()).await.unwrap();
            })
        };
        let line = Line {
            email: ada(),
            at: cx.now(),
            source: Source::Transactional(id.get()),
            subject: "Your receipt".to_owned(),
            template_key: None,
            sequence_id: None,
            awaited: false,
            provider_message_id: None,
        };
        let racing = interrupted_at(bed, &cx, place, happens).await;
        sent::record(&racing, &line, None).await.unwrap();
        let items = Query::new(&tables::MAIN, keys::subscriber(&ada())).limit(10);
        let items = cx.items().await.unwrap().query(items).await.unwrap().items;
        let known = contacts::is_known(&cx, &ada()).await.unwrap();
        assert!(known || items.is_empty(), "{place} {has_profile}: {items:?}");
        world.erase().await;
    }
}

async fn what_was_sent_names_the_erased_no_more(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accept(world.naming("invite-ada@example.org-1")).await.unwrap().id;
    world.work().await;
    assert_eq!(world.status(id).await, Status::Sent);
    assert!(world.erase().await);
    let left = world.ledger(id).await;
    assert!(!left.contains("ada@"), "{left}");
    let found = world.found(id).await.message;
    assert_eq!((found.status, found.idempotency_key), (Status::Sent, None));
    assert_eq!(found.email.as_deref(), Some("bob@example.org"));
}

async fn a_key_with_an_address_still_tells_a_repeat(bed: &Bed) {
    let world = World::new(bed).await;
    let send = world.keyed("ada@example.org", "welcome:Ada@Example.org");
    let id = world.accept(send.clone()).await.unwrap().id;
    world.work().await;
    assert!(world.erase().await);
    let left = world.ledger(id).await;
    assert!(left.contains("erased:") && !left.contains("ada@"), "{left}");
    // The same again is the same, and makes nobody known.
    let again = world.accept(send.clone()).await.unwrap();
    assert!(again.replayed && again.id == id);
    assert_eq!(world.count("channel_identities").await, 0);
    let other = Send { tracking: crate::transactional::Tracking::Off, ..send };
    let refused = world.accept(other).await;
    assert!(matches!(refused, Err(AcceptError::KeyReused(_))), "{refused:?}");
    assert_eq!(world.work().await, 0);
    assert_eq!(world.provider.taken().len(), 1);
}

async fn a_key_without_an_address_stays(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accept(world.keyed("ada@example.org", "order-7")).await.unwrap().id;
    assert!(world.erase().await);
    assert_eq!(world.found(id).await.message.idempotency_key.as_deref(), Some("order-7"));
    assert_eq!(world.status(id).await, Status::Cancelled);
}

async fn a_body_from_before_the_erasure_is_still_understood(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accept(world.naming("invite:ada@example.org")).await.unwrap().id;
    let body = world.envelope(id).await;
    assert!(!body.contains("ada"), "{body}");
    // As other producers write it, with the key itself.
    let body = body.replace(&format!("message:{id}"), "invite:ada@example.org");
    world.erase().await;
    assert_eq!(world.handle(&body).await, tidings_jobs::Outcome::Done);
    assert_eq!(world.status(id).await, Status::Sent);
}

async fn only_the_erased_is_forgotten(bed: &Bed) {
    let world = World::new(bed).await;
    let mut send = world.keyed("bob@example.org", "invite:carl@example.org");
    send.cc = vec!["carl@example.org".parse().unwrap()];
    let id = world.accept(send).await.unwrap().id;
    let before = world.ledger(id).await;
    world.erase().await;
    assert_eq!(world.ledger(id).await, before);
    assert_eq!(world.count("message_addresses").await, 1);
    // Bob's own messages are gone with Bob, and whom they named with them.
    let bob = "bob@example.org".parse().unwrap();
    contacts::erase(&bed.cx().await, &bob).await.unwrap();
    assert_eq!(world.count("message_addresses").await, 0);
}

async fn a_message_that_comes_while_somebody_is_erased_is_not_his(bed: &Bed) {
    let world = World::new(bed).await;
    world.accepted("ada@example.org").await;
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let mut begun = Some(begun);
    // As an erasure does it, held up before its commit.
    let erasing = bed.access.database().write(move |tx| {
        tx.execute("DELETE FROM channel_identities", &[])?;
        tx.execute("UPDATE leads SET erased_at = 1", &[])?;
        if let Some(begun) = begun.take() {
            begun.send(()).unwrap();
            let _ = may_go_on.recv_timeout(Duration::from_secs(10));
        }
        Ok::<_, DatabaseError>(())
    });
    let accepting = async {
        has_begun.await.unwrap();
        let mut accepting = std::pin::pin!(world.accept(world.keyed("ada@example.org", "late")));
        let early = tokio::time::timeout(Duration::from_millis(200), &mut accepting).await;
        go_on.send(()).unwrap();
        match early {
            Ok(early) => early,
            Err(_) => accepting.await,
        }
    };
    let (erased, accepted) = tokio::join!(erasing, accepting);
    erased.unwrap();
    let id = accepted.unwrap().id.get();
    let read = bed.access.database().read(move |tx| {
        let sql =
            "SELECT l.erased_at FROM transactional_messages m JOIN leads l ON l.id = m.lead_id
                   WHERE m.id = $1";
        tx.query(sql, &[Param::Int(id)])?[0].optional_int(0)
    });
    let erased: Result<Option<i64>, DatabaseError> = read.await;
    assert_eq!(erased.unwrap(), None);
}
