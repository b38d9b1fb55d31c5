//! The main story of a mail, over the real binary, on every rung of the ladder: a person is known, subscribes, gets a
//! mail, opens it and follows a link, it bounces, nothing more is sent to him, a campaign passes him over and reaches another,
//! who leaves with one click and is passed over by the next, and when he is erased only a hash remembers why.
//!
//! Here: the story and the rungs. Not here: what each feature does in detail; its own tests tell.

use serde_json::{Value, json};
use tidings_testkit::PostgresDatabase;

use crate::ledger::Ledger;
use crate::providers::{Received, over_smtp};
use crate::world::{Server, World};

const ADA: &str = "ada@example.org";
const BEN: &str = "ben@example.org";
/// A moment between two looks, and how often we look before that is a failure.
const MOMENT: std::time::Duration = std::time::Duration::from_millis(50);
const LOOKS: usize = 500;

struct Story {
    world: World,
    server: Server,
    key: String,
    received: Received,
}

impl Story {
    fn begin(mut world: World, received: Received) -> Self {
        world.set("TIDINGS_DATA__TTL_DAYS", "30");
        let key = world.ok(&["bootstrap", "--client", "shop"]).trim_end().to_owned();
        let server = world.serve(&[]);
        Self { world, server, key, received }
    }

    /// Status and body of an answer.
    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.server.send(&format!(
            "{method} {path} HTTP/1.0\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        ));
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// What is answered to a request that must succeed.
    #[track_caller]
    fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call(method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        self.ok("GET", path, &Value::Null)
    }

    /// Looks until it is so.
    #[track_caller]
    fn wait(&self, path: &str, until: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..LOOKS {
            last = self.call("GET", path, &Value::Null).1;
            if until(&last) {
                return last;
            }
            std::thread::sleep(MOMENT);
        }
        panic!("{path} stays {last}");
    }

    /// Brings what the provider tells of a message, twice, as SQS may.
    fn tell(&self, message: &Value, kind: &str, details: Value) {
        self.tell_of((ADA, &format!("t-{}", message["id"])), message, kind, details);
    }

    fn tell_of(&self, (to, tag): (&str, &str), message: &Value, kind: &str, mut details: Value) {
        #[expect(clippy::disallowed_methods, reason = "the server has the real time")]
        let at = jiff::Timestamp::now().to_string();
        details["event_timestamp"] = at.as_str().into();
        details["destination"] = json!([to]);
        details["tags"] = json!({"workspace": "1", "message": tag});
        let told = json!({
            "contract": "ses-webhooks",
            "version": 1,
            "provider": "ses",
            "provider_event_id": format!("story-{tag}-{kind}"),
            "notification_type": kind,
            "received_at": at,
            "ses_message_id": message["provider_message_id"].as_str().unwrap_or("0100-story"),
            "metadata": details,
        });
        let lines = format!("{told}\n{told}\n");
        let sent = self.world.run_with_input(&["queues", "send", "ses-webhooks"], &lines);
        assert_eq!(sent.code, 0, "{}", sent.stderr);
    }
}

/// Where a link of a mail leads on our server: what begins so, out of the mail as it went over the wire.
#[track_caller]
fn link(mail: &str, begin: &str) -> String {
    let mail = mail.replace("=\r\n", "").replace("=\n", "").replace("=3D", "=");
    let (_, rest) = mail.split_once(begin).unwrap_or_else(|| panic!("no {begin} in {mail}"));
    let end = rest.find(['"', '>', ' ', '\r', '\n']).unwrap_or(rest.len());
    format!("{begin}{}", &rest[..end])
}

/// A person who subscribes, and a template to write to him with.
fn a_person_and_a_template(story: &Story) {
    let ada =
        json!({"email": ADA, "first_name": "Ada", "tags": ["vip"], "attributes": {"plan": "pro"}});
    story.ok("POST", "/v1/contacts", &ada);
    story.ok("POST", "/v1/audiences", &json!({"slug": "news"}));
    let subscribe = json!({"email": ADA, "audience": "news", "by": "person", "source": "a form"});
    let subscribed = story.ok("POST", "/v1/subscriptions", &subscribe);
    assert_eq!(subscribed["subscription"]["status"], "subscribed");
    let senders = json!({"senders": [{"slug": "hello", "from_email": "hello@example.org"}]});
    story.ok("PUT", "/v1/senders", &senders);
    let template = json!({
        "subject": "Welcome {{ firstName }}",
        "html": "<p>Your plan: {{ plan }}. <a href=\"https://example.org/start\">Start</a></p>",
        "text": "Your plan: {{ plan }}",
        "required_variables": ["plan"],
    });
    story.ok("PUT", "/v1/templates/welcome", &template);
}

/// A mail goes out once, whatever is asked twice.
fn a_mail_goes_out(story: &Story) -> Value {
    let welcome = json!({"to": ADA, "template": "welcome", "context": {"plan": "pro"}, "idempotency_key": "welcome-1"});
    let accepted = story.ok("POST", "/v1/messages", &welcome);
    assert_eq!(accepted["status"], "queued");
    assert_eq!(story.ok("POST", "/v1/messages", &welcome)["id"], accepted["id"]);
    let path = format!("/v1/messages/{}", accepted["id"]);
    let message = story.wait(&path, |message| message["status"] == "sent");
    let received = (story.received)();
    assert_eq!(received.len(), 1, "{received:?}");
    assert!(received[0].contains("Subject: Welcome Ada"), "{}", received[0]);
    assert!(received[0].contains("/t/c/"), "links are tracked: {}", received[0]);
    message
}

/// What the provider tells is counted once, and a bounce suppresses.
fn what_comes_back_is_counted(story: &Story, message: &Value) {
    story.tell(message, "delivery", json!({"recipients": [{"email": ADA}]}));
    let path = format!("/v1/messages/{}", message["id"]);
    story.wait(&path, |message| message["status"] == "delivered");
    let mail = (story.received)().remove(0);
    let pixel = story.server.get(&link(&mail, "/t/o/"));
    assert!(pixel.starts_with("HTTP/1.0 200") && pixel.contains("image/gif"), "{pixel}");
    let click = story.server.get(&link(&mail, "/t/c/")).to_lowercase();
    assert!(click.starts_with("http/1.0 302"), "{click}");
    assert!(click.contains("location: https://example.org/start"), "{click}");
    // The provider saw the same, and it is not counted again.
    story.tell(message, "open", json!({"user_agent": "Mozilla/5.0"}));
    story.tell(message, "click", json!({"url": "https://example.org/start"}));
    story.wait(&path, |message| message["open_count"] == 1 && message["click_count"] == 1);
    story.wait(&format!("/v1/messages/{}/events", message["id"]), |events| {
        let count =
            |kind: &str| events.to_string().matches(&format!("\"type\":\"{kind}\"")).count();
        count("open") == 2 && count("click") == 2
    });
    let bounced = json!([{"email": ADA, "status": "5.1.1", "diagnostic": "unknown"}]);
    let bounce =
        json!({"bounce_type": "Permanent", "bounce_subtype": "General", "recipients": bounced});
    story.tell(message, "bounce", bounce);
    story.wait(&path, |message| message["status"] == "bounced");
    let suppressed = |answer: &Value| answer["type"] == "Permanent";
    story.wait(&format!("/v1/suppressions/{ADA}"), suppressed);

    let told = story.get(&format!("/v1/events?contact={ADA}"));
    let mut kinds: Vec<_> = told["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["bounce", "click", "click", "delivery", "open", "open"], "{told}");
    let counted = &story.get("/v1/stats/templates?key=welcome")["counts"];
    for (name, count) in
        [("deliveries", 1), ("opens", 1), ("clicks", 1), ("bounces", 1), ("hard_bounces", 1)]
    {
        assert_eq!(counted[name], count, "{name}: {counted}");
    }
    let today = story.get("/v1/stats/deliveries");
    assert_eq!(
        (&today["total"]["bounces"], &today["total"]["unique_clicks"]),
        (&json!(1), &json!(1))
    );
}

/// Nothing more goes to who bounced, and the answer says why.
fn the_next_is_skipped(story: &Story, received: usize) {
    let again = json!({"to": ADA, "subject": "Again", "text": "Hello"});
    let accepted = story.ok("POST", "/v1/messages", &again);
    let path = format!("/v1/messages/{}", accepted["id"]);
    let skipped = story.wait(&path, |message| message["status"] == "skipped");
    assert_eq!(skipped["skip_reason"], "hard_bounce");
    assert_eq!((story.received)().len(), received);
}

/// A campaign goes once to whom it means, and says of the others why not.
fn a_campaign_reaches_who_can_be_reached(story: &Story) {
    let ben = json!({"email": BEN, "first_name": "Ben", "tags": ["vip"]});
    story.ok("POST", "/v1/contacts", &ben);
    let subscribe = json!({"email": BEN, "audience": "news", "by": "person", "source": "a form"});
    story.ok("POST", "/v1/subscriptions", &subscribe);
    let spring = json!({
        "external_key": "spring",
        "name": "Spring",
        "audience": "news",
        "filter": {"tag": "vip"},
        "subject": "Spring, {{ firstName }}",
        "preview_text": "In bloom",
        "html": "<p><a href=\"https://example.org/spring\">Look</a> <a href=\"{{ unsubscribeUrl }}\">no</a></p>",
    });
    let preview = story.ok("POST", "/v1/campaigns/preview", &spring);
    assert_eq!((&preview["count"], &preview["sendable"]), (&json!(2), &json!(1)), "{preview}");
    assert_eq!(story.call("POST", "/v1/campaigns", &spring).0, 201);
    assert_eq!(story.call("POST", "/v1/campaigns", &spring).0, 200);
    for changed in [true, false] {
        let started = story.ok("POST", "/v1/campaigns/spring/start", &Value::Null);
        assert_eq!(started["changed"], changed, "{started}");
    }
    story.wait("/v1/campaigns/spring", |campaign| campaign["status"] == "sent");
    let received = (story.received)();
    assert_eq!(received.len(), 2, "{received:?}");
    let spring = received.iter().find(|mail| mail.contains("Subject: Spring, Ben")).unwrap();
    for part in ["/t/c/", "In bloom"] {
        assert!(spring.contains(part), "{part} is missing in {spring}");
    }

    let sent = story.get("/v1/campaigns/spring/recipients?status=sent");
    let recipient = &sent["data"][0];
    assert_eq!(recipient["email"], BEN);
    let tag = format!("c-{}", recipient["id"]);
    story.tell_of((BEN, &tag), recipient, "delivery", json!({"recipients": [{"email": BEN}]}));
    assert!(story.server.get(&link(spring, "/t/o/")).starts_with("HTTP/1.0 200"));
    let results = story.wait("/v1/campaigns/spring/results", |results| {
        results["totals"]["deliveries"] == 1 && results["totals"]["unique_opens"] == 1
    });
    let outcomes = &results["outcomes"];
    assert_eq!((&outcomes["sent"], &outcomes["skipped"]), (&json!(1), &json!(1)), "{results}");
    assert_eq!(results["skipped"], json!([{"name": "hard_bounce", "count": 1}]));
    let why = story.get(&format!("/v1/campaigns/spring/why?email={ADA}"));
    assert_eq!(why["answer"], "skipped", "{why}");
    let broadcast = story.get("/v1/broadcasts/spring");
    assert_eq!((&broadcast["audience_size"], &broadcast["opens"]), (&json!(2), &json!(1)));
}

/// Who leaves with the button of his mail program is passed over by the next campaign.
fn one_click_is_enough(story: &Story) {
    let received = (story.received)();
    let mail = received.iter().find(|mail| mail.contains("Subject: Spring, Ben")).unwrap();
    let one_click = "List-Unsubscribe=One-Click";
    let answer = story.server.send(&format!(
        "POST {} HTTP/1.0\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{one_click}",
        link(mail, "/u/"),
        one_click.len()
    ));
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    let summer = json!({
        "external_key": "summer",
        "name": "Summer",
        "audience": "news",
        "filter": {"tag": "vip"},
        "subject": "Summer",
        "text": "It is warm. {{ unsubscribeUrl }}",
    });
    story.ok("POST", "/v1/campaigns", &summer);
    story.ok("POST", "/v1/campaigns/summer/start", &Value::Null);
    story.wait("/v1/campaigns/summer", |campaign| campaign["status"] == "sent");
    let results = story.get("/v1/campaigns/summer/results");
    assert_eq!(results["outcomes"]["sent"], 0, "{results}");
    assert!(results["skipped"].to_string().contains("client_unsubscribe"), "{results}");
    assert_eq!((story.received)().len(), received.len());
}

/// Whatever wrote it, what was sent and what happened to it goes when its time is over.
fn what_can_expire_does(story: &Story) {
    let events = story.world.ok(&["items", "scan", "events"]);
    let events = events.lines().filter(|item| item.contains("\"SK\":\"EVT#"));
    let sent = story.world.ok(&["items", "query", "main", &format!("SUB#{BEN}")]);
    let sent = sent.lines().filter(|item| item.contains("\"SK\":\"SENT#"));
    assert!(events.clone().count() > 5 && sent.clone().count() == 1);
    for item in events.chain(sent) {
        assert!(item.contains("\"ttl\":"), "{item}");
    }
}

/// Who is erased is nowhere, and still not written to.
fn erasing_leaves_the_hash(story: &Story, message: &Value) {
    let erased = story.ok("DELETE", &format!("/v1/contacts/{ADA}"), &Value::Null);
    assert_eq!(erased["erased"], true);
    assert_eq!(story.call("GET", &format!("/v1/contacts/{ADA}"), &Value::Null).0, 404);
    assert_eq!(story.get(&format!("/v1/events?contact={ADA}"))["data"], json!([]));
    let row = story.get(&format!("/v1/messages/{}", message["id"]));
    assert!(!row.to_string().contains("ada@"), "{row}");
    for table in ["main", "events"] {
        let items = story.world.ok(&["items", "scan", table]);
        assert!(!items.contains("ada@"), "{table}: {items}");
    }
    // Only a keyed hash remembers that this address bounced.
    the_next_is_skipped(story, 2);
    let counted = &story.get("/v1/stats/templates?key=welcome")["counts"];
    assert_eq!(counted["bounces"], 1, "what was counted stays counted");
}

fn tell(world: World, received: Received) {
    let story = Story::begin(world, received);
    a_person_and_a_template(&story);
    let message = a_mail_goes_out(&story);
    what_comes_back_is_counted(&story, &message);
    the_next_is_skipped(&story, 1);
    a_campaign_reaches_who_can_be_reached(&story);
    one_click_is_enough(&story);
    what_can_expire_does(&story);
    erasing_leaves_the_hash(&story, &message);
    // Nothing was given up on the way.
    let queues = story.world.ok(&["queues", "list"]);
    assert!(queues.lines().all(|line| line.contains("\"dead\":0")), "{queues}");
    story.server.stop();
}

#[test]
fn the_story_of_a_mail_embedded() {
    let mut world = Ledger::File.store();
    let received = over_smtp(&mut world, &[]);
    tell(world, received);
}

#[test]
fn the_story_of_a_mail_on_postgres() {
    let ledger = Ledger::Postgres(PostgresDatabase::schema());
    let mut world = ledger.store();
    let received = over_smtp(&mut world, &[]);
    tell(world, received);
}

#[cfg(feature = "aws")]
#[test]
fn the_story_of_a_mail_on_postgres_dynamodb_sqs_and_ses() {
    let ledger = Ledger::aws();
    let mut world = ledger.store();
    let received = crate::providers::over_ses(&mut world);
    tell(world, received);
}
