//! What a segment has, as people come, change and go.

use std::io::Cursor;

use serde_json::json;
use tidings_access::DisplayName;
use tidings_kernel::{TimerEngine as _, queues};
use tidings_people::consent::subscriptions::{Subscribe, Unsubscribe, subscribe, unsubscribe};
use tidings_people::consent::{Act, By, Line, Proof, Scope, Whom, audiences};
use tidings_people::contacts::{self, ContactId};
use tidings_people::import;
use tidings_sql::Param;
use tidings_testbed::{Bed, each_store};

use super::super::{
    Change, MAX_SEGMENTS, Put, PutError, State, delete, find, list, put, rebuild, why,
};
use super::{
    assert_right, drain, heard, inside, listen, names, on_timelines, person, remember, segment,
    vip, work, worker,
};

each_store!(
    a_segment_has_those_who_meet_its_condition_and_follows_every_change,
    a_build_is_silent_unless_it_is_told_to_trigger,
    who_changes_while_a_live_segment_is_walked_again_is_told,
    another_condition_takes_out_who_does_not_meet_it,
    putting_the_same_again_changes_nothing,
    whoever_is_erased_is_in_nothing,
    a_file_of_people_is_looked_at,
    subscriptions_are_followed,
    what_is_deleted_is_gone_and_its_name_is_free,
    what_is_wrong_is_told_all_at_once,
    nobody_is_looked_at_where_there_is_no_segment,
    it_is_told_why_somebody_is_in_or_out,
    segments_of_others_are_not_touched,
    what_is_remembered_for_a_while_counts_for_that_while,
    a_build_forgets_nothing_that_others_wait_for,
);

async fn a_segment_has_those_who_meet_its_condition_and_follows_every_change(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    for number in 0..8 {
        let tags: &[&str] = if number % 2 == 0 { &["vip"] } else { &[] };
        let plan = if number < 4 { "pro" } else { "free" };
        person(&cx, &format!("p{number}"), tags, plan).await;
    }
    let made = segment(&cx, "vip", vip()).await;
    assert_eq!((made.state, made.members), (State::Building, 0));
    work(bed).await;
    assert_right(&cx, "vip").await;
    assert_eq!(inside(&cx, "vip").await, names(&["p0", "p2"]));
    assert_eq!(heard(bed).await, [""; 0]);

    // One gets in, one gets out, and one is as he was.
    person(&cx, "p4", &["vip"], "pro").await;
    person(&cx, "p0", &[], "pro").await;
    person(&cx, "p2", &["vip", "more"], "pro").await;
    work(bed).await;
    assert_eq!(inside(&cx, "vip").await, names(&["p2", "p4"]));
    assert_right(&cx, "vip").await;
    assert_eq!(heard(bed).await, ["p0 segment.left vip", "p4 segment.entered vip"]);
    assert_eq!(on_timelines(bed, "segment.entered").await, 1);

    // In and out again is told each time.
    person(&cx, "p0", &["vip"], "pro").await;
    work(bed).await;
    person(&cx, "p0", &[], "pro").await;
    work(bed).await;
    assert_eq!(heard(bed).await, ["p0 segment.entered vip", "p0 segment.left vip"]);
}

async fn a_build_is_silent_unless_it_is_told_to_trigger(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    for name in ["ada", "bob", "cleo", "dan"] {
        person(&cx, name, &["vip"], "pro").await;
    }
    segment(&cx, "quiet", vip()).await;
    work(bed).await;
    assert_eq!(heard(bed).await, [""; 0]);
    let loud = Put {
        slug: "loud".parse().unwrap(),
        name: Some("Loud ones".parse().unwrap()),
        condition: vip(),
        trigger_on_build: true,
    };
    put(&cx, loud).await.unwrap();
    work(bed).await;
    let told = heard(bed).await;
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[0], "ada segment.entered loud");
    assert_right(&cx, "loud").await;
    // Looking at everybody once more changes nothing and tells nothing.
    rebuild(&cx, "loud".parse().unwrap()).await.unwrap();
    work(bed).await;
    assert_right(&cx, "loud").await;
    assert_eq!(heard(bed).await, [""; 0]);
}

async fn who_changes_while_a_live_segment_is_walked_again_is_told(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    for number in 0..8 {
        person(&cx, &format!("p{number}"), &["vip"], "pro").await;
    }
    segment(&cx, "vip", vip()).await;
    work(bed).await;
    // Whoever is met by the walk first, and whoever by the message of what happened.
    rebuild(&cx, "vip".parse().unwrap()).await.unwrap();
    rebuild(&cx, "vip".parse().unwrap()).await.unwrap();
    person(&cx, "p0", &[], "pro").await;
    person(&cx, "p9", &["vip"], "pro").await;
    work(bed).await;
    assert_right(&cx, "vip").await;
    assert_eq!(heard(bed).await, ["p0 segment.left vip", "p9 segment.entered vip"]);
    // With another condition nobody can tell, so those stay silent.
    segment(&cx, "vip", json!({ "tag": "vip" })).await;
    rebuild(&cx, "vip".parse().unwrap()).await.unwrap();
    person(&cx, "p10", &["vip"], "free").await;
    work(bed).await;
    assert_right(&cx, "vip").await;
    assert_eq!(heard(bed).await, [""; 0]);
}

async fn another_condition_takes_out_who_does_not_meet_it(bed: &Bed) {
    let cx = bed.cx().await;
    for number in 0..10 {
        let plan = if number % 3 == 0 { "pro" } else { "free" };
        person(&cx, &format!("p{number}"), &["vip"], plan).await;
    }
    segment(&cx, "vip", json!({ "tag": "vip" })).await;
    work(bed).await;
    assert_eq!(find(&cx, "vip".parse().unwrap()).await.unwrap().members, 10);
    let changed = segment(&cx, "vip", vip()).await;
    assert_eq!((changed.rev, changed.state), (2, State::Building));
    work(bed).await;
    assert_eq!(inside(&cx, "vip").await, names(&["p0", "p3", "p6", "p9"]));
    assert_right(&cx, "vip").await;
    // Changed twice before anybody looked: the walk for the older one ends.
    segment(&cx, "vip", json!({ "tag": "nobody" })).await;
    segment(&cx, "vip", json!({ "attribute": "plan", "equals": "free" })).await;
    work(bed).await;
    assert_eq!(find(&cx, "vip".parse().unwrap()).await.unwrap().members, 6);
    assert_right(&cx, "vip").await;
}

async fn putting_the_same_again_changes_nothing(bed: &Bed) {
    let cx = bed.cx().await;
    person(&cx, "ada", &["vip"], "pro").await;
    segment(&cx, "vip", vip()).await;
    work(bed).await;
    let before = find(&cx, "vip".parse().unwrap()).await.unwrap();
    assert_eq!(segment(&cx, "vip", vip()).await, before);
    // Another name is no other condition.
    let named = Put {
        slug: "vip".parse().unwrap(),
        name: Some("Important".parse().unwrap()),
        condition: vip(),
        trigger_on_build: false,
    };
    let (named, change) = put(&cx, named).await.unwrap();
    assert_eq!(change, Change::Changed);
    assert_eq!((named.rev, named.state), (before.rev, State::Live));
    assert_eq!(named.name.as_str(), "Important");
    // Whoever names none keeps it.
    assert_eq!(segment(&cx, "vip", vip()).await.name.as_str(), "Important");
    assert_eq!(work(bed).await, 0);
}

async fn whoever_is_erased_is_in_nothing(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    person(&cx, "ada", &["vip"], "pro").await;
    person(&cx, "bob", &["vip"], "pro").await;
    segment(&cx, "vip", vip()).await;
    segment(&cx, "listed", json!({ "contacts": ["ada@example.org", "bob@example.org"] })).await;
    work(bed).await;
    assert_eq!(inside(&cx, "listed").await, names(&["ada", "bob"]));
    contacts::erase(&cx, &"ada@example.org".parse().unwrap()).await.unwrap();
    work(bed).await;
    assert_eq!(inside(&cx, "vip").await, names(&["bob"]));
    assert_right(&cx, "vip").await;
    // Neither his row nor his address is left.
    assert_eq!(inside(&cx, "listed").await, names(&["bob"]));
    assert_right(&cx, "listed").await;
    let listed = find(&cx, "listed".parse().unwrap()).await.unwrap();
    assert!(!listed.condition.to_json().to_string().contains("ada@example.org"));
    // There is nobody left to tell of.
    assert_eq!(heard(bed).await, [""; 0]);
}

async fn a_file_of_people_is_looked_at(bed: &Bed) {
    let cx = bed.cx().await;
    segment(&cx, "vip", vip()).await;
    work(bed).await;
    let mut file = "email,tags,plan\n".to_owned();
    for number in 0..60 {
        let plan = if number % 4 == 0 { "pro" } else { "free" };
        file += &format!("f{number}@example.org,vip,{plan}\n");
    }
    let settings = || import::Settings { source: "fair".to_owned(), ..Default::default() };
    import::run(&cx, Cursor::new(file.clone()), settings(), |_| {}).await.unwrap();
    work(bed).await;
    assert_eq!(find(&cx, "vip".parse().unwrap()).await.unwrap().members, 15);
    assert_right(&cx, "vip").await;
    let file = file.replace(",free", ",pro");
    import::run(&cx, Cursor::new(file), settings(), |_| {}).await.unwrap();
    work(bed).await;
    assert_eq!(find(&cx, "vip".parse().unwrap()).await.unwrap().members, 60);
    assert_right(&cx, "vip").await;
}

async fn subscriptions_are_followed(bed: &Bed) {
    let cx = bed.cx().await;
    let slug: tidings_access::Slug = "news".parse().unwrap();
    let news = audiences::Create {
        name: DisplayName::from(&slug),
        slug,
        double_opt_in: false,
        confirm_template_key: None,
    };
    let news = audiences::create(&cx, news).await.unwrap();
    let ada = person(&cx, "ada", &[], "pro").await;
    segment(&cx, "readers", json!({ "audience": "news" })).await;
    work(bed).await;
    assert_eq!(inside(&cx, "readers").await, names(&[]));
    let act = || Act {
        by: By::Operator,
        source: "form".parse::<Line>().unwrap(),
        reason: None,
        proof: Proof::default(),
    };
    let join = Subscribe {
        whom: Whom::Contact(ada),
        audience: news.id,
        client: None,
        confirmed: false,
        act: act(),
    };
    subscribe(&cx, join).await.unwrap();
    work(bed).await;
    assert_eq!(inside(&cx, "readers").await, names(&["ada"]));
    let leave =
        Unsubscribe { whom: Whom::Contact(ada), scope: Scope::Audience(news.id), act: act() };
    unsubscribe(&cx, leave).await.unwrap();
    work(bed).await;
    assert_eq!(inside(&cx, "readers").await, names(&[]));
    assert_right(&cx, "readers").await;
}

async fn what_is_deleted_is_gone_and_its_name_is_free(bed: &Bed) {
    let cx = bed.cx().await;
    for number in 0..7 {
        person(&cx, &format!("p{number}"), &["vip"], "pro").await;
    }
    segment(&cx, "vip", vip()).await;
    work(bed).await;
    delete(&cx, "vip".parse().unwrap()).await.unwrap();
    assert!(list(&cx).await.unwrap().is_empty());
    // The name can be used again at once, while the old rows are still there.
    segment(&cx, "vip", json!({ "attribute": "plan", "equals": "free" })).await;
    work(bed).await;
    assert_eq!(inside(&cx, "vip").await, names(&[]));
    assert_right(&cx, "vip").await;
    let count = cx.database().read(|tx| {
        let sql =
            "SELECT (SELECT COUNT(*) FROM segments) * 100 + (SELECT COUNT(*) FROM segment_members)";
        tx.query(sql, &[])?[0].int(0)
    });
    assert_eq!(count.await.unwrap(), 100);
    assert!(delete(&cx, "gone".parse().unwrap()).await.is_err());
}

async fn what_is_wrong_is_told_all_at_once(bed: &Bed) {
    let cx = bed.cx().await;
    let try_it = async |condition: serde_json::Value| {
        let wrong =
            Put { slug: "vip".parse().unwrap(), name: None, condition, trigger_on_build: false };
        match put(&cx, wrong).await {
            Err(PutError::Wrong(violations)) => {
                violations.iter().map(ToString::to_string).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let told = try_it(json!({ "all": [{ "tag": 1 }, { "nonsense": 2 }] })).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("condition.all[0].tag: "), "{told:?}");
    let told = try_it(json!({ "any": [{ "segment": "other" }, { "audience": "nowhere" }] })).await;
    assert_eq!(
        told,
        [
            "condition: a segment cannot be made of segments",
            "condition: there is no audience nowhere"
        ]
    );
    let misspelt = json!({ "not": { "feature": "monetry_total", "at_least": 100 } });
    let told = try_it(json!({ "all": [misspelt, misspelt] })).await;
    let meant = "condition: there is no feature monetry_total; did you mean monetary_total?";
    assert_eq!(told, [meant]);
    let addresses: Vec<_> = (0..4_000).map(|number| format!("p{number}@example.org")).collect();
    let told = try_it(json!({ "contacts": addresses })).await;
    assert_eq!(told, ["condition: use at most 65536 bytes"]);
    for number in 0..MAX_SEGMENTS {
        segment(&cx, &format!("s{number}"), vip()).await;
    }
    let one_more = Put {
        slug: "more".parse().unwrap(),
        name: None,
        condition: vip(),
        trigger_on_build: false,
    };
    assert!(matches!(put(&cx, one_more).await, Err(PutError::TooMany)));
}

async fn nobody_is_looked_at_where_there_is_no_segment(bed: &Bed) {
    let cx = bed.cx().await;
    person(&cx, "ada", &["vip"], "pro").await;
    contacts::erase(&cx, &"ada@example.org".parse().unwrap()).await.unwrap();
    assert!(drain(bed, &queues::SEGMENT_PROCESSING).await.is_empty());
}

async fn it_is_told_why_somebody_is_in_or_out(bed: &Bed) {
    let cx = bed.cx().await;
    person(&cx, "ada", &["vip"], "pro").await;
    person(&cx, "bob", &["vip"], "free").await;
    segment(&cx, "vip", vip()).await;
    work(bed).await;
    let ask = async |email: &str| {
        let whom = Whom::Email(email.parse().unwrap());
        why(&cx, "vip".parse().unwrap(), &whom).await.unwrap()
    };
    let ada = ask("ada@example.org").await.unwrap();
    assert!(ada.meant && ada.entered_at.is_some());
    let bob = ask("bob@example.org").await.unwrap();
    assert!(!bob.meant && bob.entered_at.is_none());
    let parts = bob.explanation.unwrap().parts;
    assert_eq!((parts[0].met, parts[1].met), (true, false));
    assert_eq!(parts[1].fact, "it is \"free\"");
    assert_eq!(ask("nobody@example.org").await, None);
    for (contact, told) in [(ada.lead_id, Some(ada)), (ContactId::from(99), None)] {
        let by_id = why(&cx, "vip".parse().unwrap(), &contact.into()).await.unwrap();
        assert_eq!(by_id, told);
    }
}

async fn segments_of_others_are_not_touched(bed: &Bed) {
    let (cx, other) = (bed.cx().await, bed.make_workspace("other").await);
    let ada = person(&cx, "ada", &["vip"], "pro").await;
    segment(&other, "vip", vip()).await;
    work(bed).await;
    // A message that names somebody of another workspace changes nothing.
    super::again(bed, &other, &[ada]).await;
    work(bed).await;
    assert_eq!(inside(&other, "vip").await, names(&[]));
    let checks = cx.database().read(move |tx| {
        tx.query("SELECT 1 FROM segment_checks WHERE lead_id = $1", &[Param::Int(ada.get())])
    });
    assert!(checks.await.unwrap().is_empty());
    assert!(list(&cx).await.unwrap().is_empty());
}

async fn what_is_remembered_for_a_while_counts_for_that_while(bed: &Bed) {
    let cx = bed.cx().await;
    listen(&cx).await;
    let ada = person(&cx, "ada", &[], "pro").await;
    remember(&cx, ada, "colour", (60, Some(30))).await;
    segment(&cx, "red", json!({"memory": "preference/colour", "equals": "red"})).await;
    segment(&cx, "blue", json!({"memory": "preference/colour", "equals": "blue"})).await;
    segment(&cx, "plain", json!({"not": {"memory": "preference/colour", "exists": true}})).await;
    work(bed).await;
    let (now, then, last) = ("red", "blue", "plain");
    for (minutes, place) in [(29, now), (1, then), (29, then), (1, last)] {
        bed.advance(minutes).await;
        bed.work(&queues::SEGMENT_PROCESSING, worker(bed)).await;
        let cx = bed.cx().await;
        for slug in [now, then, last] {
            let expected: &[&str] = if slug == place { &["ada"] } else { &[] };
            assert_eq!(inside(&cx, slug).await, names(expected), "{slug} when it is {place}");
            assert_right(&cx, slug).await;
        }
    }
    assert_eq!(
        heard(bed).await,
        [
            "ada segment.entered blue",
            "ada segment.entered plain",
            "ada segment.left blue",
            "ada segment.left red"
        ]
    );
    assert_eq!(bed.queues.fire(10).await.unwrap().next_due, None, "nothing is waited for any more");
}

/// A segment that is built asks for one thing of somebody, while others wait for another.
async fn a_build_forgets_nothing_that_others_wait_for(bed: &Bed) {
    let cx = bed.cx().await;
    let ada = person(&cx, "ada", &[], "pro").await;
    remember(&cx, ada, "colour", (60, None)).await;
    remember(&cx, ada, "size", (90, None)).await;
    segment(&cx, "colour", json!({"memory": "preference/colour", "exists": true})).await;
    work(bed).await;
    segment(&cx, "size", json!({"memory": "preference/size", "exists": true})).await;
    work(bed).await;
    for (minutes, expected) in [(60, "size"), (30, "")] {
        bed.advance(minutes).await;
        bed.work(&queues::SEGMENT_PROCESSING, worker(bed)).await;
        for slug in ["colour", "size"] {
            let is_in = !inside(&cx, slug).await.is_empty();
            assert_eq!(is_in, slug == expected, "{slug} after {minutes} minutes more");
        }
    }
}
