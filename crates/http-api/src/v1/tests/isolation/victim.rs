//! What only workspace `acme` has: one of everything.

use serde_json::{Value, json};
use tidings_access::clients::{self, Create};
use tidings_access::keys::Issued;
use tidings_access::{Cx, Scopes};
use tidings_delivery::senders::{self, Add, NewSender};
use tidings_delivery::templates;
use tidings_kernel::{EmailAddress, Item, Key, Put, tables};
use tidings_outreach::audience::Condition;
use tidings_outreach::campaigns;
use tidings_people::consent::subscriptions::{self, Subscribe};
use tidings_people::consent::{Act, By, Proof, Whom, audiences, topics};
use tidings_people::{contacts, suppression};
use tidings_sequences::executions::{
    self, Enrol, EnrolmentId, Entered, Person, begin_enrolment_once,
};
use tidings_sequences::{definition, versions};
use tidings_webhooks::{EventTypes, Targets, deliveries, endpoints};

use super::super::{World, slug};

/// The id of what would have one that is made by chance.
pub(super) const KNOWN_ID: &str = "0197c5f1a2b300112233445566778899";

/// Makes it all, and gives a key that can do everything.
pub(super) async fn victim(world: &World) -> Issued {
    let create = Create { slug: slug("hidden"), name: "Top secret".parse().unwrap() };
    clients::create(&world.acme, create).await.unwrap();
    put_webhooks(&world.acme).await;
    // Before the person is suppressed: nobody who is comes in.
    put_sequence(world).await;
    put_contact(world).await;
    put_consent(&world.acme).await;
    put_mail(world).await;
    put_campaign(&world.acme).await;
    let item = Item::new().with("PK", "STATS#hidden").with("SK", "COUNTERS").with("openCount", 7);
    world.acme.items().await.unwrap().put(Put::new(&tables::MAIN, item)).await.unwrap();
    world.key(&world.acme, Scopes::all()).await
}

async fn put_webhooks(cx: &Cx) {
    for _ in 0..2 {
        let create = endpoints::Create {
            url: "http://127.0.0.1:9/Top-secret".parse().unwrap(),
            description: Some("Top secret".parse().unwrap()),
            event_types: EventTypes::All,
        };
        let made = endpoints::create(cx, &Targets::new(true), create).await.unwrap();
        deliveries::send_test(cx, made.endpoint.id).await.unwrap();
    }
}

/// Somebody who is suppressed.
pub(super) async fn put_contact(world: &World) {
    let email: EmailAddress = "hidden@example.org".parse().unwrap();
    let contact = contacts::Upsert {
        email: email.clone(),
        first_name: Some("Top secret".parse().unwrap()),
        attributes: contacts::Attributes::default(),
        tags: Some(contacts::TagChange::Add(["vip".parse().unwrap()].into())),
    };
    contacts::upsert(&world.acme, contact).await.unwrap();
    let suppress = suppression::Suppress {
        email,
        kind: suppression::Kind::Manual,
        reason: "Top secret".parse().unwrap(),
        source: None,
        note: None,
        at: world.acme.now(),
    };
    suppression::suppress(&world.acme, suppress).await.unwrap();
}

/// An audience and a topic, and somebody who is subscribed.
async fn put_consent(cx: &Cx) {
    let create = audiences::Create {
        slug: slug("hidden"),
        name: "Top secret".parse().unwrap(),
        double_opt_in: false,
        confirm_template_key: None,
    };
    let audience = audiences::create(cx, create).await.unwrap();
    let name = "Top secret".parse().unwrap();
    let create = topics::Create { slug: slug("hidden"), name, description: None };
    topics::create(cx, create).await.unwrap();
    let act = Act {
        by: By::Person,
        source: "Top secret".parse().unwrap(),
        reason: None,
        proof: Proof::default(),
    };
    let whom = Whom::Email("hidden@example.org".parse().unwrap());
    let cmd = Subscribe { whom, audience: audience.id, client: None, confirmed: false, act };
    subscriptions::subscribe(cx, cmd).await.unwrap();
}

/// A sender, a template, a message that is queued, and a mail that was captured.
async fn put_mail(world: &World) {
    let cx = &world.acme;
    let sender = NewSender {
        slug: slug("secret"),
        from_email: "secret@example.org".parse().unwrap(),
        from_name: Some("Top secret".parse().unwrap()),
        reply_to: None,
        is_default: true,
    };
    let shop = clients::find(cx, slug("shop")).await.unwrap().id;
    senders::add(cx, Add { client: shop, sender }).await.unwrap();
    let source = tidings_templates::Source {
        subject: "Top secret".to_owned(),
        text: Some("Top secret".to_owned()),
        ..Default::default()
    };
    let content = templates::Content { source, ..Default::default() };
    let key = "hidden".parse().unwrap();
    let put = templates::Put { key, content, then: templates::Then::Activate };
    templates::put(cx, put).await.unwrap();
    super::super::messages::hello(world, cx).await;
    world.capture(cx, "Top secret").await;
}

/// A campaign with a recipient, and the record of one.
async fn put_campaign(cx: &Cx) {
    let shop = clients::find(cx, slug("shop")).await.unwrap().id;
    let content = campaigns::Content {
        subject: Some("Top secret".to_owned()),
        text: Some("Top secret".to_owned()),
        ..Default::default()
    };
    let draft = campaigns::draft::Draft {
        key: Some("hidden".to_owned()),
        ..campaigns::draft::Draft::of(shop, "Top secret", content)
    };
    let made = campaigns::draft::create(cx, draft).await.unwrap();
    super::super::campaigns::recipient(cx, made.campaign.id.get(), "hidden@example.org").await;
    let record = Item::new()
        .with("PK", "BROADCAST")
        .with("SK", "2026-07-01T12:00:00Z#hidden")
        .with("broadcastId", "hidden")
        .with("subject", "Top secret");
    cx.items().await.unwrap().put(Put::new(&tables::MAIN, record)).await.unwrap();
}

/// A sequence with somebody in it. What is found by an id that is made by chance is there once more by one that is not:
/// an execution that waits, one that failed, and an enrolment.
async fn put_sequence(world: &World) {
    let cx = &world.acme;
    let yaml = "id: hidden\nclient: shop\nname: Top secret\nsteps:\n  - wait: 1 day\n";
    versions::put(cx, definition::read(yaml).unwrap()).await.unwrap();
    let cmd = Enrol {
        sequence: "hidden".to_owned(),
        email: "hidden@example.org".parse().unwrap(),
        person: Person::default(),
        input: json!({"note": "Top secret"}),
        cause: None,
        told_at: None,
    };
    let entered = executions::enrol(cx, &world.versions, cmd).await.unwrap();
    let Entered::Began(execution) = entered else { panic!("{entered:?}") };
    let items = cx.items().await.unwrap();
    let key = Key::new(format!("EXECUTION#{}", execution.id), "STATE");
    let mut item = items.get(&tables::MAIN, &key).await.unwrap().unwrap();
    item.set("executionId", KNOWN_ID);
    item.set("until", "2026-07-02T12:00:00.000Z");
    item.set("PK", format!("EXECUTION#{KNOWN_ID}"));
    items.put(Put::new(&tables::MAIN, item.clone())).await.unwrap();
    let at = "2026-07-01T12:00:00.000Z";
    item.set("PK", "FAILED#hidden");
    item.set("SK", format!("{at}#{KNOWN_ID}"));
    item.set("failedAt", at);
    item.set("reason", "Top secret");
    items.put(Put::new(&tables::MAIN, item)).await.unwrap();
    let pointer = Item::new()
        .with("PK", format!("EXECUTION#{KNOWN_ID}"))
        .with("SK", "FAILED")
        .with("failedAt", at);
    items.put(Put::new(&tables::MAIN, pointer)).await.unwrap();
    let (id, what) = (EnrolmentId::parse(KNOWN_ID).unwrap(), (Condition::EVERYONE, json!({})));
    begin_enrolment_once(cx, &world.versions, "hidden", what, id).await.unwrap();
}

/// Everything but when keys were last used, which a refused request may change.
pub(super) async fn state_of_acme(world: &World, key: &Issued) -> Vec<Value> {
    let mut state = Vec::new();
    for path in [
        "/v1/clients",
        "/v1/clients/hidden/keys",
        "/v1/clients/shop/keys",
        "/v1/contacts",
        "/v1/suppressions",
        "/v1/audiences",
        "/v1/topics",
        "/v1/contacts/hidden@example.org/subscriptions",
        "/v1/contacts/hidden@example.org/consent",
        "/v1/templates",
        "/v1/templates/hidden/versions",
        "/v1/messages",
        "/v1/senders",
        "/v1/captured",
        "/v1/webhooks",
        "/v1/webhooks/1/deliveries",
        "/v1/campaigns",
        "/v1/campaigns/hidden/recipients",
        "/v1/campaigns/hidden/history",
        "/v1/broadcasts",
        "/v1/sequences",
        "/v1/sequences/hidden/versions",
        "/v1/sequences/hidden/executions",
        "/v1/sequences/hidden/failed",
    ] {
        let answer = world.get(key, path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let mut page = answer.json();
        for one in page["data"].as_array_mut().unwrap() {
            one.as_object_mut().unwrap().remove("last_used_at");
        }
        state.push(page);
    }
    state
}
