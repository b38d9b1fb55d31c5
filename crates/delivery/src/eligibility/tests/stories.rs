//! The function as its callers meet it: over what is stored.

use jiff::ToSpan as _;
use tidings_access::{Cx, DisplayName, Slug};
use tidings_kernel::{EmailAddress, Put, tables};
use tidings_people::consent::audiences::{self, Audience};
use tidings_people::consent::preferences::{self, Switch};
use tidings_people::consent::subscriptions::{self, Subscribe, Unsubscribe};
use tidings_people::consent::topics::{self, Topic};
use tidings_people::consent::{Act, By, Proof, Scope, Whom};
use tidings_people::suppression::{self, Kind as Suppressing, Lift, Suppress};
use tidings_people::{contacts, import, keys};
use tidings_testbed::{Bed, each_store};

use crate::eligibility::rules::Cap;
use crate::eligibility::settings::{self, Sending};
use crate::eligibility::{Explanation, Kind, Question, Verdict, check};

each_store! {
    what_changes_after_a_preview_counts_when_it_is_sent,
    a_suppression_stops_everything_until_it_is_lifted,
    who_left_and_was_erased_is_not_written_to,
    who_left_a_list_or_a_topic_and_was_erased_is_not_written_to_after_an_import,
    a_switched_off_topic_stops_its_mail,
    the_cap_counts_what_was_sent_and_not_more,
    quiet_hours_are_those_of_the_person,
    settings_are_kept_and_read_back,
    a_validation_stops_marketing_only,
    a_time_zone_that_nobody_knows_stops_nothing,
    who_must_be_verified_is_written_to_once_somebody_says_that_he_is,
}

fn ada() -> EmailAddress {
    "ada@example.org".parse().unwrap()
}

fn act() -> Act {
    let source = "test".parse().unwrap();
    Act { by: By::Person, source, reason: None, proof: Proof::default() }
}

async fn news(cx: &Cx) -> Audience {
    let slug: Slug = "news".parse().unwrap();
    let name = DisplayName::from(&slug);
    let create = audiences::Create { slug, name, double_opt_in: false, confirm_template_key: None };
    audiences::create(cx, create).await.unwrap()
}

async fn tips(cx: &Cx) -> Topic {
    let slug: Slug = "tips".parse().unwrap();
    let create = topics::Create { name: DisplayName::from(&slug), slug, description: None };
    topics::create(cx, create).await.unwrap()
}

async fn subscribe(cx: &Cx, audience: &Audience) {
    let whom = Whom::Email(ada());
    let cmd = Subscribe { whom, audience: audience.id, client: None, confirmed: false, act: act() };
    subscriptions::subscribe(cx, cmd).await.unwrap();
}

async fn leave(cx: &Cx, scope: Scope) {
    let cmd = Unsubscribe { whom: Whom::Email(ada()), scope, act: act() };
    subscriptions::unsubscribe(cx, cmd).await.unwrap();
}

async fn question(bed: &Bed, cx: &Cx, kind: Kind) -> Question {
    Question { kind, email: ada(), client: bed.shop(cx).await.id, audience: None, topic: None }
}

fn told(explanation: &Explanation) -> String {
    match explanation.verdict {
        Verdict::Send => "send".to_owned(),
        Verdict::Skip(reason) => reason.as_str().to_owned(),
        Verdict::Defer { reason, until } => format!("{} until {until}", reason.as_str()),
    }
}

async fn verdict(cx: &Cx, question: &Question) -> String {
    told(&check(cx, question).await.unwrap())
}

async fn who_left_a_list_or_a_topic_and_was_erased_is_not_written_to_after_an_import(bed: &Bed) {
    let cx = bed.cx().await;
    let (news, tips) = (news(&cx).await, tips(&cx).await);
    subscribe(&cx, &news).await;
    leave(&cx, Scope::Audience(news.id)).await;
    let topics = vec![(tips.slug.clone(), false)];
    let off = Switch { whom: Whom::Email(ada()), topics, act: act() };
    preferences::switch(&cx, off).await.unwrap();
    contacts::erase(&cx, &ada()).await.unwrap();
    let settings = import::Settings {
        source: "last year's list".to_owned(),
        audience: Some(news.slug.clone()),
        ..import::Settings::default()
    };
    import::run(&cx, std::io::Cursor::new("email\nAda@Example.org\n"), settings, |_| ())
        .await
        .unwrap();
    let asked = question(bed, &cx, Kind::Campaign).await;
    let campaign = Question { audience: Some(news.id), ..asked };
    assert_eq!(verdict(&cx, &campaign).await, "audience_unsubscribe");
    let asked = question(bed, &cx, Kind::Transactional).await;
    let message = Question { topic: Some(tips.id), ..asked };
    assert_eq!(verdict(&cx, &message).await, "topic_off");
}

/// Preview, snapshot and send ask the same function the same question; between them people change their minds.
async fn what_changes_after_a_preview_counts_when_it_is_sent(bed: &Bed) {
    let cx = bed.cx().await;
    let news = news(&cx).await;
    let question = Question { audience: Some(news.id), ..question(bed, &cx, Kind::Campaign).await };
    assert_eq!(verdict(&cx, &question).await, "not_subscribed");
    subscribe(&cx, &news).await;
    let preview = check(&cx, &question).await.unwrap();
    assert_eq!(preview, check(&cx, &question).await.unwrap(), "asking changes nothing");
    assert_eq!(told(&preview), "send");
    leave(&cx, Scope::Client(news.id, question.client)).await;
    assert_eq!(verdict(&cx, &question).await, "client_unsubscribe");
    leave(&cx, Scope::Audience(news.id)).await;
    assert_eq!(verdict(&cx, &question).await, "audience_unsubscribe");
    leave(&cx, Scope::Global).await;
    assert_eq!(verdict(&cx, &question).await, "global_unsubscribe");
    let transactional = Question { kind: Kind::Transactional, audience: None, ..question.clone() };
    assert_eq!(verdict(&cx, &transactional).await, "send");
    let other = bed.make_workspace("other").await;
    assert_eq!(verdict(&other, &question).await, "not_subscribed", "another workspace's");
}

async fn a_suppression_stops_everything_until_it_is_lifted(bed: &Bed) {
    let cx = bed.cx().await;
    for (kind, reason) in [
        (Suppressing::Permanent, "hard_bounce"),
        (Suppressing::Transient, "hard_bounce"),
        (Suppressing::Complaint, "complaint"),
        (Suppressing::Manual, "manual"),
    ] {
        bed.clock.advance(1.minute());
        let cx = bed.cx().await;
        let suppress = Suppress {
            email: ada(),
            kind,
            reason: "General".parse().unwrap(),
            source: None,
            note: None,
            at: cx.now(),
        };
        suppression::suppress(&cx, suppress).await.unwrap();
        for asked in Kind::ALL {
            assert_eq!(verdict(&cx, &question(bed, &cx, asked).await).await, reason, "{asked:?}");
        }
        let lift = Lift { email: ada(), reason: "it works again".parse().unwrap() };
        suppression::lift(&cx, lift).await.unwrap();
    }
    assert_eq!(verdict(&cx, &question(bed, &cx, Kind::Sequence).await).await, "send");
    // A mark in the profile is enough, even without a record of why.
    let profile = tables::MAIN.bare_item(&keys::profile(&ada())).with("suppressed", true);
    cx.items().await.unwrap().put(Put::new(&tables::MAIN, profile)).await.unwrap();
    let transactional = question(bed, &cx, Kind::Transactional).await;
    assert_eq!(verdict(&cx, &transactional).await, "hard_bounce");
}

async fn who_left_and_was_erased_is_not_written_to(bed: &Bed) {
    let cx = bed.cx().await;
    leave(&cx, Scope::Global).await;
    let suppress = Suppress {
        email: ada(),
        kind: Suppressing::Complaint,
        reason: "abuse".parse().unwrap(),
        source: None,
        note: None,
        at: cx.now(),
    };
    let sequence = question(bed, &cx, Kind::Sequence).await;
    contacts::erase(&cx, &ada()).await.unwrap();
    assert_eq!(verdict(&cx, &sequence).await, "global_unsubscribe");
    suppression::suppress(&cx, suppress).await.unwrap();
    contacts::erase(&cx, &ada()).await.unwrap();
    let transactional = question(bed, &cx, Kind::Transactional).await;
    assert_eq!(verdict(&cx, &transactional).await, "complaint");
}

async fn a_switched_off_topic_stops_its_mail(bed: &Bed) {
    let cx = bed.cx().await;
    let (news, tips) = (news(&cx).await, tips(&cx).await);
    subscribe(&cx, &news).await;
    let campaign = Question {
        audience: Some(news.id),
        topic: Some(tips.id),
        ..question(bed, &cx, Kind::Campaign).await
    };
    let message =
        Question { topic: Some(tips.id), ..question(bed, &cx, Kind::Transactional).await };
    assert_eq!(verdict(&cx, &campaign).await, "send");
    let topics = vec![(tips.slug.clone(), false)];
    let switch = Switch { whom: Whom::Email(ada()), topics, act: act() };
    preferences::switch(&cx, switch).await.unwrap();
    assert_eq!(verdict(&cx, &campaign).await, "topic_off");
    assert_eq!(verdict(&cx, &message).await, "topic_off");
    let without = Question { topic: None, ..message.clone() };
    assert_eq!(verdict(&cx, &without).await, "send");
    leave(&cx, Scope::Global).await;
    assert_eq!(verdict(&cx, &message).await, "global_unsubscribe");
    assert_eq!(verdict(&cx, &without).await, "send");
}

async fn sent(cx: &Cx, sequence: Option<&str>) {
    let mut item = tables::MAIN
        .bare_item(&keys::sent(&ada(), cx.now()))
        .with("templateKey", "welcome")
        .with("sentAt", keys::time(cx.now()));
    if let Some(sequence) = sequence {
        item.set("sequenceId", sequence);
    }
    cx.items().await.unwrap().put(Put::new(&tables::MAIN, item)).await.unwrap();
}

async fn the_cap_counts_what_was_sent_and_not_more(bed: &Bed) {
    let cx = bed.cx().await;
    let cap = Some(Cap { count: 2, hours: 24 });
    settings::put(&cx, Sending { cap, ..Sending::default() }).await.unwrap();
    let sequence = question(bed, &cx, Kind::Sequence).await;
    for of in [Some("onboarding"), None, Some("spring")] {
        assert_eq!(verdict(&bed.cx().await, &sequence).await, "send");
        sent(&bed.cx().await, of).await;
        bed.clock.advance(1.hour());
    }
    let cx = bed.cx().await;
    assert_eq!(verdict(&cx, &sequence).await, "frequency_cap until 2026-07-02T12:00:00Z");
    let reminder = question(bed, &cx, Kind::Reminder).await;
    assert_eq!(verdict(&cx, &reminder).await, "send");
    bed.clock.advance(21.hours());
    assert_eq!(verdict(&bed.cx().await, &sequence).await, "send");
}

async fn quiet_hours_are_those_of_the_person(bed: &Bed) {
    let cx = bed.cx().await;
    let quiet = Some(("20:00".parse().unwrap(), "08:00".parse().unwrap()));
    let quiet_zone = Some("Europe/Berlin".parse().unwrap());
    settings::put(&cx, Sending { quiet, quiet_zone, ..Sending::default() }).await.unwrap();
    let sequence = question(bed, &cx, Kind::Sequence).await;
    assert_eq!(verdict(&cx, &sequence).await, "send", "it is two in the afternoon in Berlin");
    subscribe(&cx, &news(&cx).await).await;
    for (zone, expected) in [
        ("Asia/Tokyo", "quiet_hours until 2026-07-01T23:00:00Z"),
        ("America/New_York", "send"),
        ("America/Los_Angeles", "quiet_hours until 2026-07-01T15:00:00Z"),
    ] {
        let timezone = contacts::Change::Set(zone.parse().unwrap());
        let edit = contacts::Edit { timezone, ..contacts::Edit::default() };
        contacts::update(&cx, contacts::Update { email: ada(), edit }).await.unwrap();
        assert_eq!(verdict(&cx, &sequence).await, expected, "{zone}");
    }
}

async fn settings_are_kept_and_read_back(bed: &Bed) {
    let cx = bed.cx().await;
    assert_eq!(settings::show(&cx).await.unwrap(), Sending::default());
    let sending = Sending {
        cap: Some(Cap { count: 100, hours: 720 }),
        quiet: Some(("21:30".parse().unwrap(), "07:05".parse().unwrap())),
        quiet_zone: Some("Europe/Berlin".parse().unwrap()),
        updated_at: None,
    };
    let put = settings::put(&cx, sending.clone()).await.unwrap();
    assert_eq!(put, Sending { updated_at: Some(cx.now()), ..sending.clone() });
    assert_eq!(settings::show(&cx).await.unwrap(), put);
    bed.clock.advance(1.hour());
    let cx = bed.cx().await;
    assert_eq!(settings::put(&cx, sending).await.unwrap(), put, "the same again changes nothing");
    assert_eq!(
        settings::show(&bed.make_workspace("other").await).await.unwrap(),
        Sending::default()
    );
    let cleared = settings::put(&cx, Sending::default()).await.unwrap();
    assert_eq!(cleared, Sending { updated_at: Some(cx.now()), ..Sending::default() });
}

async fn a_validation_stops_marketing_only(bed: &Bed) {
    let cx = bed.cx().await;
    subscribe(&cx, &news(&cx).await).await;
    for (status, expected) in
        [("invalid", "invalid_address"), ("risky", "send"), ("unknown", "send"), ("valid", "send")]
    {
        let validation = Some(status.parse().unwrap());
        let assess = contacts::Assess { email: ada(), verified: None, validation, reason: None };
        contacts::assess(&cx, assess).await.unwrap();
        assert_eq!(verdict(&cx, &question(bed, &cx, Kind::Sequence).await).await, expected);
        assert_eq!(verdict(&cx, &question(bed, &cx, Kind::Transactional).await).await, "send");
    }
}

async fn a_time_zone_that_nobody_knows_stops_nothing(bed: &Bed) {
    let cx = bed.cx().await;
    let quiet = Some(("20:00".parse().unwrap(), "08:00".parse().unwrap()));
    settings::put(&cx, Sending { quiet, ..Sending::default() }).await.unwrap();
    subscribe(&cx, &news(&cx).await).await;
    let sql = "UPDATE leads SET timezone = 'Nowhere/Atall'";
    cx.database().write(move |tx| tx.execute(sql, &[])).await.unwrap();
    assert_eq!(verdict(&cx, &question(bed, &cx, Kind::Sequence).await).await, "send");
}

async fn who_must_be_verified_is_written_to_once_somebody_says_that_he_is(bed: &Bed) {
    let cx = bed.cx().await;
    let news = news(&cx).await;
    subscribe(&cx, &news).await;
    let wants = audiences::Update {
        slug: news.slug.clone(),
        name: None,
        double_opt_in: Some(true),
        confirm_template_key: None,
    };
    audiences::update(&cx, wants).await.unwrap();
    let asked = Question { audience: Some(news.id), ..question(bed, &cx, Kind::Sequence).await };
    assert_eq!(verdict(&cx, &asked).await, "unverified");
    for (verified, expected) in [(true, "send"), (false, "unverified")] {
        let verified = Some(verified);
        let assess = contacts::Assess { email: ada(), verified, validation: None, reason: None };
        contacts::assess(&cx, assess).await.unwrap();
        assert_eq!(verdict(&cx, &asked).await, expected);
    }
}
