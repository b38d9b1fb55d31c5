//! Trying a template.

use serde_json::{Map, Value, json};
use tidings_people::suppression::{self, Kind, Suppress};
use tidings_testbed::{Bed, each_store};

use super::World;
use crate::templates::{self, Put, Then};
use crate::transactional::{AcceptError, MAX_TEST, Status, TestSend, Tested};

each_store!(
    a_test_is_a_message_that_says_so,
    a_draft_can_be_tried_and_what_is_not_there_cannot,
    asking_again_with_the_same_key_sends_nothing_twice,
    nobody_gets_a_test_who_must_not_be_written_to,
    a_test_goes_to_one_to_twenty_five,
);

async fn put(world: &World<'_>, subject: &str, then: Then) {
    let content = templates::Content {
        source: tidings_templates::Source {
            subject: subject.to_owned(),
            html: Some("<a href=\"https://example.org/a\">{{ plan }}</a>".to_owned()),
            ..Default::default()
        },
        required: vec!["plan".to_owned(), "name".to_owned()],
        examples: serde_json::from_value(json!({ "plan": "free", "name": "Ada" })).unwrap(),
        ..Default::default()
    };
    let put = Put { key: "welcome".parse().unwrap(), content, then };
    templates::put(&world.bed.cx().await, put).await.unwrap();
}

fn test(world: &World<'_>, to: &[&str]) -> TestSend {
    TestSend {
        client: world.client,
        template: "welcome".parse().unwrap(),
        version: None,
        to: to.iter().map(|one| one.parse().unwrap()).collect(),
        context: Map::new(),
        sender: None,
        idempotency_key: None,
    }
}

async fn send(world: &World<'_>, cmd: TestSend) -> Result<Vec<Tested>, AcceptError> {
    world.messages.test(&world.bed.cx().await, cmd).await
}

async fn a_test_is_a_message_that_says_so(bed: &Bed) {
    let world = World::new(bed).await;
    put(&world, "{{ name }} has {{ plan }}", Then::Activate).await;
    let context: Map<String, Value> = Map::from_iter([("plan".to_owned(), "pro".into())]);
    let cmd = TestSend {
        context,
        ..test(&world, &["Bob@example.org", "cyd@example.org", "bob@EXAMPLE.org"])
    };
    let told = send(&world, cmd).await.unwrap();
    let to: Vec<_> = told.iter().map(|one| one.to.to_string()).collect();
    assert_eq!(to, ["bob@example.org", "cyd@example.org"], "the same address once");
    world.work().await;
    assert_eq!(world.provider.taken().len(), 2);
    let found = world.found(told[0].answer.as_ref().unwrap().id).await;
    assert_eq!(found.message.status, Status::Sent);
    assert_eq!(found.message.subject.as_deref(), Some("[Test] Ada has pro"));
    assert_eq!(json!(found.message.metadata), json!({ "test": true }));
    let html = found.html.unwrap();
    assert!(html.contains("https://example.org/a\">pro</a>"), "nothing is tracked: {html}");
    assert!(!html.contains("<img"), "{html}");
}

async fn a_draft_can_be_tried_and_what_is_not_there_cannot(bed: &Bed) {
    let world = World::new(bed).await;
    put(&world, "First", Then::Activate).await;
    put(&world, "Second", Then::KeepAsDraft).await;
    for (version, subject) in
        [(None, "[Test] First"), (Some(1), "[Test] First"), (Some(2), "[Test] Second")]
    {
        let cmd = TestSend { version, ..test(&world, &["bob@example.org"]) };
        let told = send(&world, cmd).await.unwrap();
        world.work().await;
        let found = world.found(told[0].answer.as_ref().unwrap().id).await;
        assert_eq!(found.message.subject.as_deref(), Some(subject), "{version:?}");
    }
    let cmd = TestSend { version: Some(3), ..test(&world, &["bob@example.org"]) };
    let error = send(&world, cmd).await.unwrap_err();
    assert!(matches!(error, AcceptError::NoVersion(_, 3)), "{error:?}");
    let none = "none".parse().unwrap();
    let cmd = TestSend { template: none, ..test(&world, &["bob@example.org"]) };
    let error = send(&world, cmd).await.unwrap_err();
    assert!(matches!(error, AcceptError::NoTemplate(_)), "{error:?}");
}

async fn asking_again_with_the_same_key_sends_nothing_twice(bed: &Bed) {
    let world = World::new(bed).await;
    put(&world, "First", Then::Activate).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let key = Some("try-1".to_owned());
        let cmd = TestSend {
            idempotency_key: key,
            ..test(&world, &["bob@example.org", "cyd@example.org"])
        };
        let told = send(&world, cmd).await.unwrap();
        ids.push(told.iter().map(|one| one.answer.as_ref().unwrap().id).collect::<Vec<_>>());
        world.work().await;
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(world.provider.taken().len(), 2);
}

async fn nobody_gets_a_test_who_must_not_be_written_to(bed: &Bed) {
    let world = World::new(bed).await;
    put(&world, "First", Then::Activate).await;
    let cx = bed.cx().await;
    let suppress = Suppress {
        email: "bob@example.org".parse().unwrap(),
        kind: Kind::Permanent,
        reason: "General".parse().unwrap(),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(&cx, suppress).await.unwrap();
    let told = send(&world, test(&world, &["bob@example.org", "cyd@example.org"])).await.unwrap();
    let told: Vec<_> = told.iter().map(|one| one.answer.as_ref().unwrap()).collect();
    assert_eq!((told[0].status, told[1].status), (Status::Skipped, Status::Queued));
    assert_eq!(told[0].skip_reason.as_deref(), Some("hard_bounce"));
}

async fn a_test_goes_to_one_to_twenty_five(bed: &Bed) {
    let world = World::new(bed).await;
    put(&world, "First", Then::Activate).await;
    let many: Vec<String> = (0..=MAX_TEST).map(|n| format!("p{n}@example.org")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for wrong in [&[][..], &many[..]] {
        let error = send(&world, test(&world, wrong)).await.unwrap_err();
        let AcceptError::Invalid(found) = error else { panic!("{error:?}") };
        assert_eq!(found[0].field, "to");
    }
    assert_eq!(world.count("transactional_messages").await, 0, "nothing is half written");
    assert_eq!(send(&world, test(&world, &many[1..])).await.unwrap().len(), MAX_TEST);
}
