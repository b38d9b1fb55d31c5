//! The mail that asks, and that it goes whatever becomes of whoever made it necessary.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidings_access::Cx;
use tidings_kernel::{self as kernel, Mail, QueueEngine as _, SendError, Sender, Which, queues};
use tidings_people::consent::confirmations::{self, Confirm, RequestError};
use tidings_people::consent::subscriptions::{self, Subscribe};
use tidings_people::consent::{Act, AudienceId, By, Proof, Whom, audiences};
use tidings_people::import::{self, Confirmation};
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store, until_turn};

use super::{Ask, Worker, ask_once_subscribed, mail};
use crate::links::Links;
use crate::pace::Pace;
use crate::templates::{self, Templates};
use crate::transactional::{self, Content, Messages, Tracking};

each_store! {
    the_mail_has_a_link_that_confirms_and_there_are_three_a_day,
    wherever_whoever_subscribes_dies_one_mail_asks,
    two_nodes_that_ask_make_one_mail,
    everybody_in_a_file_is_asked_once_and_not_before_those_who_wait,
    each_mail_takes_its_turn_once,
    nothing_is_done_while_there_is_no_room,
    a_mail_that_is_refused_is_a_dead_letter_and_is_made_when_it_is_put_back,
    nobody_is_asked_who_confirmed_or_left_meanwhile,
}

async fn audience(cx: &Cx) -> AudienceId {
    let create = audiences::Create {
        slug: "news".parse().unwrap(),
        name: "The news".parse().unwrap(),
        double_opt_in: true,
        confirm_template_key: Some("confirm/news".parse().unwrap()),
    };
    audiences::create(cx, create).await.unwrap().id
}

fn subscribe(email: &str, audience: AudienceId) -> Subscribe {
    let source = "form".parse().unwrap();
    let act = Act { by: By::Person, source, reason: None, proof: Proof::default() };
    let whom = Whom::Email(email.parse().unwrap());
    Subscribe { whom, audience, client: None, confirmed: false, act }
}

/// A client that can send, a template that asks, and who works on the queue.
async fn ready(bed: &Bed, per_second: u32) -> Worker {
    let cx = bed.cx().await;
    let sql = format!(
        "INSERT INTO senders (workspace_id, client_id, slug, from_email, from_name, is_default, created_at, updated_at)
         VALUES ({}, {}, 'hello', 'hello@example.org', 'The shop', 1, 0, 0)",
        cx.workspace_id().get(),
        bed.shop(&cx).await.id
    );
    let write = cx.database().write(move |tx| tx.execute(&sql, &[]));
    write.await.map_err(|error: DatabaseError| error).unwrap();
    let content = templates::Content {
        source: tidings_templates::Source {
            subject: "Do you want {{ audience }}?".to_owned(),
            text: Some("{{ confirm_url }}".to_owned()),
            ..Default::default()
        },
        required: ["confirm_url", "audience"].map(str::to_owned).into(),
        examples: serde_json::from_str(r#"{"confirm_url":"https://x.example","audience":"x"}"#)
            .unwrap(),
        ..Default::default()
    };
    let (key, then) = ("confirm/news".parse().unwrap(), templates::Then::Activate);
    templates::put(&cx, templates::Put { key, content, then }).await.unwrap();
    let links = Links::load(cx.database(), "https://mail.example.org", cx.now()).await.unwrap();
    Worker {
        access: bed.access.clone(),
        messages: Messages::new(Templates::default()),
        links,
        pace: Arc::new(Pace::new(per_second, cx.now())),
    }
}

/// How many mails ask each person, in the order of the addresses.
async fn asked(bed: &Bed) -> Vec<(String, i64)> {
    let read = bed.access.database().read(|tx| {
        let sql = "SELECT email, count(*) FROM transactional_messages
                   GROUP BY email ORDER BY email";
        let rows = tx.query(sql, &[])?;
        rows.iter().map(|row| Ok((row.text(0)?.to_owned(), row.int(1)?))).collect()
    });
    read.await.map_err(|error: DatabaseError| error).unwrap()
}

/// The caller dies wherever he waits: then a mail asks if he is subscribed, and else none.
async fn wherever_whoever_subscribes_dies_one_mail_asks(bed: &Bed) {
    let worker = ready(bed, 1_000).await;
    let cx = bed.cx().await;
    let (news, shop) = (audience(&cx).await, bed.shop(&cx).await.id);
    let mut ended_early = 0;
    for turns in 0..40 {
        let email = format!("p{turns:02}@example.org");
        let form = async {
            let cmd = subscribe(&email, news);
            let outcome = subscriptions::subscribe_and_ask(&cx, cmd, shop).await.unwrap();
            let (subscription, send) =
                (outcome.subscription.unwrap().id, outcome.to_confirm.unwrap());
            let ask = Ask { subscription, client: shop, send };
            ask_once_subscribed(&cx, &worker.messages, &worker.links, ask).await.unwrap();
        };
        ended_early += usize::from(until_turn(form, turns).await.is_none());
        bed.settle().await;
        bed.work(&queues::CONFIRMATION_MAIL, worker.clone().handler()).await;
        let subscribed = confirmations_of(bed, &email).await;
        let mails: i64 =
            asked(bed).await.iter().filter(|(to, _)| *to == email).map(|(_, count)| count).sum();
        assert_eq!(mails, subscribed, "after {turns} turns");
    }
    assert!(ended_early > 3, "it must die in between: {ended_early}");
}

/// How many requests wait for somebody with this address.
async fn confirmations_of(bed: &Bed, email: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM confirmations c JOIN subscriptions s ON s.id = c.subscription_id
         JOIN channel_identities i ON i.lead_id = s.lead_id WHERE i.value = '{email}'"
    );
    let rows = bed.access.database().read(move |tx| tx.query(&sql, &[])).await;
    rows.map_err(|error: DatabaseError| error).unwrap()[0].int(0).unwrap()
}

async fn two_nodes_that_ask_make_one_mail(bed: &Bed) {
    let worker = ready(bed, 1_000).await;
    let other = Worker { messages: Messages::new(Templates::default()), ..worker.clone() };
    let cx = bed.cx().await;
    let (news, shop) = (audience(&cx).await, bed.shop(&cx).await.id);
    let cmd = subscribe("ada@example.org", news);
    let outcome = subscriptions::subscribe_and_ask(&cx, cmd, shop).await.unwrap();
    let ask = Ask {
        subscription: outcome.subscription.unwrap().id,
        client: shop,
        send: outcome.to_confirm.unwrap(),
    };
    let (one, two, _) = tokio::join!(
        ask_once_subscribed(&cx, &worker.messages, &worker.links, ask),
        ask_once_subscribed(&cx, &other.messages, &other.links, ask),
        bed.work(&queues::CONFIRMATION_MAIL, worker.clone().handler()),
    );
    for answer in [one, two] {
        answer.unwrap();
    }
    bed.clock.advance(jiff::Span::new().minutes(1));
    bed.work(&queues::CONFIRMATION_MAIL, other.handler()).await;
    assert_eq!(asked(bed).await, [("ada@example.org".to_owned(), 1)]);
}

/// Lets so many people in a file wait to be asked.
async fn import(bed: &Bed, people: usize) {
    let cx = bed.cx().await;
    audience(&cx).await;
    let settings = import::Settings {
        audience: Some("news".parse().unwrap()),
        confirmation: Confirmation::Ask(Some(bed.shop(&cx).await.id)),
        source: "a fair".to_owned(),
        ..import::Settings::default()
    };
    let mut text = "email\n".to_owned();
    for number in 0..people {
        text += &format!("p{number:03}@example.org\n");
    }
    import::run(&cx, Cursor::new(text), settings, |_| ()).await.unwrap();
}

async fn everybody_in_a_file_is_asked_once_and_not_before_those_who_wait(bed: &Bed) {
    let worker = ready(bed, 50).await;
    import(bed, 130).await;
    let mut made = Vec::new();
    for _ in 0..10 {
        bed.work(&queues::CONFIRMATION_MAIL, worker.clone().handler()).await;
        made.push(asked(bed).await.len());
        bed.clock.advance(jiff::Span::new().seconds(1));
    }
    assert!(made[0] <= 50, "no faster than campaigns may go: {made:?}");
    let all = asked(bed).await;
    assert_eq!(all.len(), 130, "{made:?}");
    assert!(all.iter().all(|(_, count)| *count == 1), "{all:?}");
}

/// A provider that takes everything.
#[derive(Default)]
struct Taker(AtomicUsize);

#[async_trait]
impl Sender for Taker {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn send(&self, _: &Mail) -> Result<kernel::Accepted, SendError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(kernel::Accepted::by_all(None))
    }
}

async fn each_mail_takes_its_turn_once(bed: &Bed) {
    let store = (bed.access.database().clone(), "test");
    let pace = Arc::new(Pace::over_all_nodes(20, bed.access.now(), store));
    let worker = Worker { pace: Arc::clone(&pace), ..ready(bed, 20).await };
    let taker = Arc::new(Taker::default());
    let sends = transactional::Worker {
        access: bed.access.clone(),
        templates: Templates::default(),
        links: worker.links.clone(),
        sender: Arc::clone(&taker) as Arc<dyn Sender>,
        pace,
        settings: transactional::Settings { node: "node-1".to_owned(), ttl_days: None },
    };
    import(bed, 100).await;
    let taken = || taker.0.load(Ordering::Relaxed);
    let mut tenths = 0;
    while taken() < 100 {
        bed.work(&queues::CONFIRMATION_MAIL, worker.clone().handler()).await;
        bed.work(&queues::TRANSACTIONAL_EMAIL, sends.handler()).await;
        bed.clock.advance(jiff::Span::new().milliseconds(100));
        tenths += 1;
        assert!(taken() <= 20 + tenths * 2, "{} in {tenths} tenths of a second", taken());
        // With two turns for each it would take nine seconds.
        assert!(tenths < 70, "{} in {tenths} tenths of a second", taken());
    }
}

async fn nothing_is_done_while_there_is_no_room(bed: &Bed) {
    let worker = ready(bed, 50).await;
    import(bed, 10).await;
    let counted = async || {
        let sql = "SELECT CAST(sum(sends) AS BIGINT) FROM confirmations";
        let rows = bed.access.database().read(move |tx| tx.query(sql, &[])).await;
        rows.map_err(|error: DatabaseError| error).unwrap()[0].int(0).unwrap()
    };
    worker.pace.throttled(Some(Duration::from_secs(60)), bed.access.now());
    bed.work(&queues::CONFIRMATION_MAIL, worker.clone().handler()).await;
    assert_eq!((counted().await, asked(bed).await.len()), (0, 0));
    bed.clock.advance(jiff::Span::new().seconds(75));
    bed.work(&queues::CONFIRMATION_MAIL, worker.handler()).await;
    assert_eq!((counted().await, asked(bed).await.len()), (10, 10));
}

async fn a_mail_that_is_refused_is_a_dead_letter_and_is_made_when_it_is_put_back(bed: &Bed) {
    let worker = ready(bed, 50).await;
    import(bed, 10).await;
    let run = async |sql: &'static str| {
        let done = bed.access.database().write(move |tx| tx.execute(sql, &[])).await;
        done.map_err(|error: DatabaseError| error).unwrap();
    };
    run("UPDATE senders SET is_default = 0").await;
    bed.work(&queues::CONFIRMATION_MAIL, worker.clone().handler()).await;
    let dead = bed.queues.dead_letters(&queues::CONFIRMATION_MAIL, None, 10).await.unwrap();
    let why = dead[0].reason.clone().unwrap();
    assert!(why.contains("this client has no default sender"), "{why}");
    assert_eq!((dead.len(), asked(bed).await.len()), (1, 0));

    run("UPDATE senders SET is_default = 1").await;
    bed.queues.replay(&queues::CONFIRMATION_MAIL, Which::All).await.unwrap();
    bed.clock.advance(jiff::Span::new().seconds(1));
    bed.work(&queues::CONFIRMATION_MAIL, worker.handler()).await;
    assert_eq!(asked(bed).await.len(), 10);
}

async fn nobody_is_asked_who_confirmed_or_left_meanwhile(bed: &Bed) {
    let worker = ready(bed, 1_000).await;
    let cx = bed.cx().await;
    let (news, shop) = (audience(&cx).await, bed.shop(&cx).await.id);
    for email in ["ada@example.org", "bob@example.org", "cy@example.org"] {
        let cmd = subscribe(email, news);
        let outcome = subscriptions::subscribe_and_ask(&cx, cmd, shop).await.unwrap();
        let subscription = outcome.subscription.unwrap().id;
        if email.starts_with("ada") {
            let proof = Proof::default();
            confirmations::confirm(&cx, Confirm { subscription, proof }).await.unwrap();
        }
    }
    let leave = subscriptions::Unsubscribe {
        whom: Whom::Email("bob@example.org".parse().unwrap()),
        scope: tidings_people::consent::Scope::Audience(news),
        act: subscribe("bob@example.org", news).act,
    };
    bed.clock.advance(jiff::Span::new().seconds(1));
    subscriptions::unsubscribe(&bed.cx().await, leave).await.unwrap();
    bed.work(&queues::CONFIRMATION_MAIL, worker.handler()).await;
    assert_eq!(asked(bed).await, [("cy@example.org".to_owned(), 1)]);
}

async fn the_mail_has_a_link_that_confirms_and_there_are_three_a_day(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx).await;
    let cmd = subscribe("ada@example.org", news);
    let pending = subscriptions::subscribe(&cx, cmd).await.unwrap().subscription.unwrap();
    let links = Links::load(cx.database(), "https://mail.example.org", cx.now()).await.unwrap();
    let (id, shop) = (pending.id, bed.shop(&cx).await.id);
    let url = links.confirm(cx.workspace_id().get(), id.get());
    let token = url.strip_prefix("https://mail.example.org/confirm/").unwrap();
    let read = links.read_confirm(token, cx.now()).await.unwrap();
    assert_eq!(read.subscription, id.get());
    let mut keys = Vec::new();
    for number in 1..=3 {
        let request = confirmations::request(&cx, id, number).await.unwrap();
        let send = mail(request, shop, url.clone());
        assert_eq!((send.to.as_str(), send.client), ("ada@example.org", shop));
        assert_eq!(send.content, Content::Template("confirm/news".to_owned()));
        assert_eq!(send.context["confirm_url"], url);
        assert_eq!(send.context["audience"], "The news");
        assert_eq!(send.tracking, Tracking::Off, "the link must lead where it says");
        keys.push(send.idempotency_key.unwrap());
    }
    keys.dedup();
    assert_eq!(keys.len(), 3, "{keys:?}");
    let fourth = confirmations::request(&cx, id, 4).await.unwrap_err();
    assert!(matches!(fourth, RequestError::TooMany { .. }), "{fourth:?}");
}
