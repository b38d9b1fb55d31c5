//! What only workspace `acme` has: one of everything.

use serde_json::{Value, json};
use tidings_access::clients::{self, Create};
use tidings_access::keys::Issued;
use tidings_access::{Cx, Scopes};
use tidings_delivery::senders::{self, Add, NewSender};
use tidings_delivery::templates;
use tidings_inbox::publish::{NewPost, To};
use tidings_inbox::settings::{self, NewConfiguration};
use tidings_kernel::{EmailAddress, Item, Key, Put, tables};
use tidings_leads::{identity, memory};
use tidings_outreach::audience::Condition;
use tidings_outreach::campaigns;
use tidings_outreach::campaigns::draft::Draft;
use tidings_outreach::segments;
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
    put_leads(&world.acme).await;
    put_learned(&world.acme).await;
    put_consent(&world.acme).await;
    put_mail(world).await;
    put_campaign(&world.acme).await;
    put_inbox(world).await;
    put_reminder(&world.acme).await;
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

/// What is known of him, and what more is to be learned.
async fn put_learned(cx: &Cx) {
    let whom = identity::Whom::Email("hidden@example.org".parse().unwrap());
    let owner = identity::find(cx, whom).await.unwrap().unwrap();
    let remember = memory::Remember {
        memory_type: "hidden".parse().unwrap(),
        key: "hidden".parse().unwrap(),
        value: json!("Top secret"),
        confidence: memory::CERTAIN,
        source: "Top secret".to_owned(),
        expires_at: None,
    };
    memory::remember(cx, &owner.lead_organization_id, remember).await.unwrap();
    let rules = json!({"description": "Top secret", "rules": [
        {"name": "hidden", "on": "x", "type": "t", "key": "k", "value": "Top secret"},
    ]});
    let set = memory::rules::from_json(&rules).unwrap();
    memory::rules::put(cx, &slug("hidden"), set).await.unwrap();
    put_segment(cx).await;
}

/// With him in it.
async fn put_segment(cx: &Cx) {
    let segment = segments::Put {
        slug: slug("hidden"),
        name: Some("Top secret".parse().unwrap()),
        condition: json!({"contacts": ["hidden@example.org"]}),
        trigger_on_build: false,
    };
    segments::put(cx, segment).await.unwrap();
}

/// Something in an inbox. Streams end at once, or nobody would ever see the end of one.
async fn put_inbox(world: &World) {
    world.draining.begin();
    let (cx, inbox) = (&world.acme, "hidden".parse().unwrap());
    let new = NewConfiguration { title: "Top secret".to_owned(), ..Default::default() };
    settings::put_inbox(cx, &inbox, new).await.unwrap();
    let post = NewPost {
        to: To::Users(vec!["hidden".to_owned()]),
        label: None,
        category: None,
        title: "Top secret".to_owned(),
        body: json!("Top secret"),
        cta_uri: None,
        host_system_id: None,
        send_at: None,
        expires_in: None,
        sender: "Top secret".to_owned(),
    };
    let published = world.inbox.publish(cx, &inbox, post).await.unwrap();
    world.hidden_message.set(published.id.to_string()).unwrap();
}

/// A template of reminders, and a draft that waits. Its id is of the second in which it was made.
async fn put_reminder(cx: &Cx) {
    let template = tidings_reminders::templates::Put {
        id: "hidden-too".to_owned(),
        name: "Top secret".to_owned(),
        kind: Some(tidings_reminders::Kind::First),
        subject: "Top secret".to_owned(),
        body: "Top secret".to_owned(),
        content_type: tidings_reminders::ContentType::Text,
        branding: None,
    };
    tidings_reminders::templates::put(cx, template).await.unwrap();
    let settings = tidings_reminders::settings::Settings {
        client: Some(slug("shop")),
        ..tidings_reminders::settings::Settings::default()
    };
    tidings_reminders::settings::put(cx, settings).await.unwrap();
    let new = tidings_reminders::New {
        customer: tidings_reminders::Customer {
            id: "hidden".parse().unwrap(),
            name: "Top secret".to_owned(),
            email: "debtor@example.org".parse().unwrap(),
        },
        choose: tidings_reminders::Choose::Next,
        facts: tidings_reminders::Facts {
            owed: tidings_reminders::Money::new("1500", "EUR").unwrap(),
            invoices: vec![tidings_reminders::Invoice {
                id: "INV-7".parse().unwrap(),
                amount: None,
                due: None,
            }],
        },
        text: tidings_reminders::Text::Written {
            subject: "Top secret".to_owned(),
            content: "Top secret".to_owned(),
            content_type: tidings_reminders::ContentType::Text,
        },
        created_by: "Top secret".to_owned(),
        idempotency_key: None,
    };
    tidings_reminders::draft(cx, new).await.unwrap();
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

/// Two who were merged, and two who may be one.
async fn put_leads(cx: &Cx) {
    let who = async |identities: &[(&str, &str)]| {
        let identities = identities
            .iter()
            .map(|(channel, value)| identity::Identity::new(channel, value).unwrap());
        let cmd = identity::Resolve {
            identities: identities.collect(),
            at: cx.now(),
            received_at: cx.now(),
            event_id: "hidden".into(),
            unknown: identity::Unknown::Make,
        };
        identity::resolve(cx, cmd).await.unwrap().unwrap()
    };
    who(&[("email", "second@example.org")]).await;
    who(&[("custom:hidden", "1")]).await;
    who(&[("custom:hidden", "2")]).await;
    who(&[("custom:hidden", "1"), ("custom:hidden", "2")]).await;
    who(&[("anonymous_id", "hidden"), ("user_id", "hidden-1")]).await;
    who(&[("anonymous_id", "hidden"), ("user_id", "hidden-2")]).await;
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
    let draft =
        Draft { key: Some("hidden-mailing".to_owned()), ..Draft::of(shop, "Top secret", content) };
    let made = campaigns::draft::create(cx, draft.clone()).await.unwrap();
    super::super::campaigns::recipient(cx, made.campaign.id.get(), "hidden@example.org").await;
    let begun = Draft { key: Some("hidden-broadcast".to_owned()), ..draft };
    let mut begun = campaigns::draft::create(cx, begun).await.unwrap().campaign;
    begun.times.started_at = Some(cx.now());
    campaigns::broadcast::write(cx, &begun, "Top secret").await.unwrap();
    let begin = cx.database().write(|tx| {
        let sql =
            "UPDATE campaigns SET started_at = created_at WHERE external_key = 'hidden-broadcast'";
        tx.execute(sql, &[]).map(drop)
    });
    begin.await.unwrap();
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
        "/v1/campaigns/hidden-mailing/recipients",
        "/v1/campaigns/hidden-mailing/history",
        "/v1/broadcasts",
        "/v1/sequences",
        "/v1/sequences/hidden/versions",
        "/v1/sequences/hidden/executions",
        "/v1/sequences/hidden/failed",
        "/v1/reminders",
        "/v1/reminders/outstanding",
        "/v1/reminder-templates",
        "/v1/contacts/hidden@example.org/memory",
        "/v1/memory-rules",
        "/v1/segments",
        "/v1/segments/hidden/members",
        "/v1/inboxes",
        "/v1/inboxes/hidden/messages",
    ] {
        let answer = world.get(key, path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let mut page = answer.json();
        for one in page["data"].as_array_mut().unwrap() {
            one.as_object_mut().unwrap().remove("last_used_at");
        }
        state.push(page);
    }
    state.push(world.get(key, "/inbox/v1/hidden/messages").await.json());
    state
}
