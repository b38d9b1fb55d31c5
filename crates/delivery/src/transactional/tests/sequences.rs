//! Mail that is part of a sequence.

use futures_util::future::join_all;
use jiff::ToSpan as _;
use tidings_access::{Limit, Slug};
use tidings_jobs::Outcome;
use tidings_kernel::{Key, SendError, queues, tables};
use tidings_people::consent::subscriptions::{self, Subscribe, Unsubscribe};
use tidings_people::consent::{Act, AudienceId, By, Proof, Scope, Whom, audiences};
use tidings_testbed::{Bed, each_store};

use super::World;
use super::accept::suppress;
use crate::counters::{self, SENDS};
use crate::eligibility::rules::Cap;
use crate::eligibility::settings::{self, Sending};
use crate::ledger::{Message, Source};
use crate::pace::{Lane, Pace};
use crate::transactional::{
    AcceptError, Content, List, MessageId, PartKind, PartOf, Send, Settle, Settled, Status,
    cancel_queued_of, list, settle,
};

each_store!(
    marketing_can_be_left_and_is_counted_under_its_sequence,
    what_somebody_waits_for_goes_to_those_who_left_too,
    nothing_goes_past_a_suppression,
    the_audience_and_the_topic_decide,
    who_leaves_between_acceptance_and_sending_gets_nothing,
    a_sequence_has_a_queue_of_its_own,
    a_repeated_step_finds_its_message,
    what_is_wrong_with_a_part_is_told,
    what_an_execution_has_left_to_send_is_cancelled,
    marketing_waits_behind_what_somebody_waits_for,
    mail_that_somebody_waits_for_does_not_use_up_the_cap,
    of_several_at_once_a_person_gets_what_the_cap_allows,
    the_list_shows_those_of_one_sequence,
);

const EMAIL: &str = "ada@example.org";

fn part(kind: PartKind) -> PartOf {
    PartOf {
        sequence: "onboarding".to_owned(),
        execution: Some("x1".to_owned()),
        step: None,
        kind,
        audience: None,
    }
}

impl World<'_> {
    fn step(&self, kind: PartKind, place: &str) -> Send {
        let mut send = Send::of_template(self.client, EMAIL.parse().unwrap(), "onboarding/welcome");
        send.idempotency_key = Some(format!("sequence/x1/{place}"));
        send.part_of = Some(part(kind));
        send
    }

    async fn with_template(self) -> Self {
        self.put_template("onboarding/welcome", "Welcome", &[]).await;
        self
    }

    async fn work_on_sequences(&self) -> usize {
        self.bed.work(&queues::SEQUENCE_EMAIL, self.worker.handler()).await
    }

    async fn in_queue(&self, queue: &str) -> i64 {
        self.count(&format!("queue_messages WHERE queue = '{queue}'")).await
    }

    async fn audience(&self) -> AudienceId {
        let create = audiences::Create {
            slug: "news".parse().unwrap(),
            name: "News".parse().unwrap(),
            double_opt_in: false,
            confirm_template_key: None,
        };
        audiences::create(&self.bed.cx().await, create).await.unwrap().id
    }

    async fn subscribe(&self, audience: AudienceId) {
        let whom = Whom::Email(EMAIL.parse().unwrap());
        let cmd = Subscribe { whom, audience, client: None, confirmed: false, act: act() };
        subscriptions::subscribe(&self.bed.cx().await, cmd).await.unwrap();
    }

    async fn leave(&self, scope: Scope) {
        let cmd = Unsubscribe { whom: Whom::Email(EMAIL.parse().unwrap()), scope, act: act() };
        subscriptions::unsubscribe(&self.bed.cx().await, cmd).await.unwrap();
    }
}

fn act() -> Act {
    Act { by: By::Person, source: "a page".parse().unwrap(), reason: None, proof: Proof::default() }
}

async fn marketing_can_be_left_and_is_counted_under_its_sequence(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    let audience = world.audience().await;
    world.subscribe(audience).await;
    let mut send = world.step(PartKind::Marketing, "1");
    send.part_of.as_mut().unwrap().audience = Some("news".parse().unwrap());
    let id = world.accept(send).await.unwrap().id;
    assert_eq!(world.work().await, 0);
    assert_eq!(world.work_on_sequences().await, 1);
    let mails = world.provider.taken();
    let mime = String::from_utf8(mails[0].mime.clone()).unwrap();
    let workspace = bed.cx().await.workspace_id().get();
    assert!(mime.contains("List-Unsubscribe: <https://mail.example.org/u/"), "{mime}");
    assert!(mime.contains("List-Unsubscribe-Post: List-Unsubscribe=One-Click"), "{mime}");
    assert!(mime.contains(&format!("audience-{audience}.w{workspace}.example.org")), "{mime}");
    assert!(
        mime.contains(&format!("Feedback-ID: onboarding:{workspace}:sequence:hello")),
        "{mime}"
    );
    assert!(mime.contains("X-Sequence-Id: onboarding"), "{mime}");
    assert!(mime.contains("X-Template-Key: onboarding/welcome"), "{mime}");
    for tag in [("sequenceId", "onboarding"), ("templateKey", "onboarding--welcome")] {
        let tag = (tag.0, tag.1.to_owned());
        assert!(mails[0].tags.contains(&tag), "{:?}", mails[0].tags);
    }
    let log = world.log(EMAIL).await;
    assert_eq!(log[0].text("sequenceId"), Some("onboarding"));
    assert_eq!(log[0].text("templateKey"), Some("onboarding/welcome"));
    assert_eq!(world.sequence_sends().await, 1);
    let message = world.found(id).await.message;
    assert_eq!(message.sequence_id.as_deref(), Some("onboarding"));
    assert_eq!(message.execution_id.as_deref(), Some("x1"));
    let source = Source::Transactional(id.get());
    let find = bed.access.database().read(move |tx| Message::find(tx, source));
    let found: Result<_, tidings_sql::DatabaseError> = find.await;
    assert_eq!(found.unwrap().unwrap().sequence_id.as_deref(), Some("onboarding"));
}

impl World<'_> {
    async fn sequence_sends(&self) -> i64 {
        let key: Key = counters::keys::sequence("onboarding");
        let items = self.bed.cx().await.items().await.unwrap();
        let item = items.get(&tables::MAIN, &key).await.unwrap();
        item.and_then(|item| item.integer(SENDS)).unwrap_or(0)
    }
}

async fn what_somebody_waits_for_goes_to_those_who_left_too(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    world.leave(Scope::Global).await;
    let skipped = world.accept(world.step(PartKind::Marketing, "1")).await.unwrap();
    assert_eq!(skipped.status, Status::Skipped);
    assert_eq!(skipped.skip_reason.as_deref(), Some("global_unsubscribe"));
    let sent = world.accept(world.step(PartKind::Transactional, "2")).await.unwrap();
    world.work_on_sequences().await;
    assert_eq!(world.status(sent.id).await, Status::Sent);
    let mails = world.provider.taken();
    assert_eq!(mails.len(), 1);
    let mime = String::from_utf8(mails[0].mime.clone()).unwrap();
    assert!(!mime.contains("List-Unsubscribe"), "{mime}");
    assert!(mime.contains("X-Sequence-Id: onboarding"), "{mime}");
    assert!(mime.contains(":transactional:hello"), "{mime}");
    assert_eq!(world.sequence_sends().await, 1);
}

async fn nothing_goes_past_a_suppression(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    let waiting = world.accept(world.step(PartKind::Transactional, "0")).await.unwrap();
    suppress(bed, EMAIL).await;
    for kind in [PartKind::Marketing, PartKind::Transactional] {
        let accepted = world.accept(world.step(kind, kind.as_str())).await.unwrap();
        assert_eq!(accepted.status, Status::Skipped, "{kind:?}");
    }
    world.work_on_sequences().await;
    assert_eq!(world.status(waiting.id).await, Status::Skipped);
    assert!(world.provider.taken().is_empty());
}

async fn the_audience_and_the_topic_decide(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    let audience = world.audience().await;
    let with_audience = |place: &str, kind| {
        let mut send = world.step(kind, place);
        send.part_of.as_mut().unwrap().audience = Some("news".parse().unwrap());
        send
    };
    let reason = async |send: Send| world.accept(send).await.unwrap().skip_reason;
    let stranger = reason(with_audience("1", PartKind::Marketing)).await;
    assert_eq!(stranger.as_deref(), Some("not_subscribed"));
    assert_eq!(reason(with_audience("2", PartKind::Transactional)).await, None);
    world.subscribe(audience).await;
    assert_eq!(reason(with_audience("3", PartKind::Marketing)).await, None);
    world.leave(Scope::Client(audience, world.client)).await;
    let left = reason(with_audience("4", PartKind::Marketing)).await;
    assert_eq!(left.as_deref(), Some("client_unsubscribe"));
}

async fn who_leaves_between_acceptance_and_sending_gets_nothing(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    let audience = world.audience().await;
    world.subscribe(audience).await;
    let mut send = world.step(PartKind::Marketing, "1");
    send.part_of.as_mut().unwrap().audience = Some("news".parse().unwrap());
    let id = world.accept(send).await.unwrap().id;
    world.leave(Scope::Audience(audience)).await;
    world.work_on_sequences().await;
    let message = world.found(id).await.message;
    assert_eq!(message.status, Status::Skipped);
    assert_eq!(message.skip_reason.as_deref(), Some("audience_unsubscribe"));
    assert!(world.provider.taken().is_empty());
}

/// Also what is scheduled, what is tried again and what a person settles.
async fn a_sequence_has_a_queue_of_its_own(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    let cx = bed.cx().await;
    let mut later = world.step(PartKind::Transactional, "1");
    later.scheduled_at = cx.now().checked_add(2.hours()).ok();
    let later = world.accept(later).await.unwrap().id;
    assert_eq!(world.in_queue("sequence-email").await, 0);
    bed.advance(121).await;
    assert_eq!(world.in_queue("sequence-email").await, 1);
    world.provider.answers(SendError::Uncertain("cut off".to_owned()));
    world.work_on_sequences().await;
    assert_eq!(world.status(later).await, Status::Uncertain);
    let message = crate::transactional::Find { id: later, client: None };
    let cmd = Settle { message, outcome: Settled::Sent, reason: None };
    settle(&cx, cmd).await.unwrap();
    assert_eq!(world.in_queue("sequence-email").await, 1);
    assert_eq!(world.work_on_sequences().await, 1);
    assert_eq!(world.log(EMAIL).await.len(), 1);
    assert_eq!(world.in_queue("transactional-email").await, 0);
}

async fn a_repeated_step_finds_its_message(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    let first = world.accept(world.step(PartKind::Marketing, "1")).await.unwrap();
    // The text may have changed meanwhile; the step is the same.
    world.put_template("onboarding/welcome", "Welcome again", &[]).await;
    let again = world.accept(world.step(PartKind::Marketing, "1")).await.unwrap();
    assert_eq!((again.id, again.replayed), (first.id, true));
    assert_eq!(world.in_queue("sequence-email").await, 1);
    let other = world.accept(world.step(PartKind::Transactional, "1")).await;
    assert!(matches!(other, Err(AcceptError::KeyReused(id)) if id == first.id), "{other:?}");
    let newest = world.accept(world.step(PartKind::Marketing, "2")).await.unwrap();
    assert_eq!(world.found(newest.id).await.message.template_version, Some(2));
}

async fn what_is_wrong_with_a_part_is_told(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    let mut send = world.step(PartKind::Marketing, "1");
    send.cc.push("bob@example.org".parse().unwrap());
    send.part_of = Some(PartOf {
        sequence: "No Slug".to_owned(),
        execution: Some("a b".to_owned()),
        step: None,
        kind: PartKind::Marketing,
        audience: Some("nothing".parse::<Slug>().unwrap()),
    });
    let Err(AcceptError::Invalid(wrong)) = world.accept(send).await else { panic!("it is wrong") };
    let fields: Vec<_> = wrong.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(fields, ["part_of.sequence", "part_of.execution", "cc", "part_of.audience"]);
    let mut send = world.step(PartKind::Marketing, "1");
    send.content = Content::Template("nowhere".to_owned());
    assert!(matches!(world.accept(send).await, Err(AcceptError::NoTemplate(_))));
}

async fn what_an_execution_has_left_to_send_is_cancelled(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    let cx = bed.cx().await;
    let sent = world.accept(world.step(PartKind::Marketing, "1")).await.unwrap().id;
    world.work_on_sequences().await;
    let queued = world.accept(world.step(PartKind::Marketing, "2")).await.unwrap().id;
    let mut later = world.step(PartKind::Marketing, "3");
    later.scheduled_at = cx.now().checked_add(2.hours()).ok();
    let later = world.accept(later).await.unwrap().id;
    let claimed = world.accept(world.step(PartKind::Marketing, "4")).await.unwrap().id;
    let mark = "UPDATE transactional_messages
                SET status = 'claimed', claimed_by = 'n', claimed_until = 9999999999999";
    world.run(&format!("{mark} WHERE id = {claimed}")).await;
    let mut other = world.step(PartKind::Marketing, "5");
    other.part_of.as_mut().unwrap().execution = Some("x2".to_owned());
    let other = world.accept(other).await.unwrap().id;
    let stranger = bed.make_workspace("other").await;
    assert_eq!(cancel_queued_of(&stranger, "x1", "stopped").await.unwrap(), 0);
    assert_eq!(cancel_queued_of(&cx, "x1", "unsubscribed").await.unwrap(), 2);
    assert_eq!(cancel_queued_of(&cx, "x1", "unsubscribed").await.unwrap(), 0);
    let status = async |id: MessageId| world.status(id).await;
    assert_eq!(status(sent).await, Status::Sent);
    assert_eq!(status(queued).await, Status::Cancelled);
    assert_eq!(status(later).await, Status::Cancelled);
    assert_eq!(status(claimed).await, Status::Claimed);
    assert_eq!(status(other).await, Status::Queued);
    assert_eq!(world.found(queued).await.message.last_error.as_deref(), Some("unsubscribed"));
    let count = world.in_queue("sequence-email").await;
    bed.advance(121).await;
    assert_eq!(world.in_queue("sequence-email").await, count, "its timer is gone");
    world.work_on_sequences().await;
    assert_eq!(world.provider.taken().len(), 2);
}

async fn marketing_waits_behind_what_somebody_waits_for(bed: &Bed) {
    let mut world = World::new(bed).await.with_template().await;
    let now = bed.cx().await.now();
    let pace = Pace::new(1, now);
    pace.ready(Lane::Transactional, now).unwrap();
    // Somebody waits for his turn.
    pace.ready(Lane::Transactional, now).unwrap_err();
    world.worker.pace = std::sync::Arc::new(pace);
    let drip = world.accept(world.step(PartKind::Marketing, "1")).await.unwrap().id;
    bed.clock.advance(1_500.milliseconds());
    world.work_on_sequences().await;
    assert_eq!(world.status(drip).await, Status::Queued);
    let awaited = world.accept(world.step(PartKind::Transactional, "2")).await.unwrap().id;
    world.work_on_sequences().await;
    assert_eq!(world.status(awaited).await, Status::Sent);
}

async fn mail_that_somebody_waits_for_does_not_use_up_the_cap(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    let cx = bed.cx().await;
    let cap = Some(Cap { count: 1, hours: 24 });
    settings::put(&cx, Sending { cap, ..Default::default() }).await.unwrap();
    world.accept(world.step(PartKind::Transactional, "1")).await.unwrap();
    world.work_on_sequences().await;
    bed.advance(1).await;
    let first = world.accept(world.step(PartKind::Marketing, "2")).await.unwrap().id;
    world.work_on_sequences().await;
    assert_eq!(world.status(first).await, Status::Sent);
    bed.advance(1).await;
    let second = world.accept(world.step(PartKind::Marketing, "3")).await.unwrap().id;
    world.work_on_sequences().await;
    assert_eq!(world.status(second).await, Status::Queued, "it waits");
}

async fn of_several_at_once_a_person_gets_what_the_cap_allows(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    let cap = Some(Cap { count: 2, hours: 24 });
    settings::put(&bed.cx().await, Sending { cap, ..Default::default() }).await.unwrap();
    for round in 1..=4 {
        let mut all = Vec::new();
        for place in 0..4 {
            let send = world.step(PartKind::Marketing, &format!("{round}.{place}"));
            let id = world.accept(send).await.unwrap().id;
            all.push((id, world.envelope(id).await));
        }
        let outcomes = join_all(all.iter().map(|(_, body)| world.handle(body))).await;
        let done = outcomes.iter().filter(|outcome| **outcome == Outcome::Done).count();
        assert_eq!((done, world.provider.taken().len()), (2, 4 * round - 2), "{outcomes:?}");
        bed.clock.advance(25.hours());
        for (id, body) in &all {
            world.handle(body).await;
            assert_eq!(world.status(*id).await, Status::Sent, "in round {round}");
        }
        bed.clock.advance(25.hours());
    }
}

async fn the_list_shows_those_of_one_sequence(bed: &Bed) {
    let world = World::new(bed).await.with_template().await;
    world.accepted(EMAIL).await;
    let id = world.accept(world.step(PartKind::Marketing, "1")).await.unwrap().id;
    let which = |sequence: &str| List {
        client: world.client,
        status: Some(Status::Queued),
        sequence: Some(sequence.to_owned()),
        to: None,
        after: None,
        limit: Limit::MAX,
    };
    let cx = bed.cx().await;
    let found = list(&cx, which("onboarding")).await.unwrap().items;
    assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), [id]);
    assert!(list(&cx, which("elsewhere")).await.unwrap().items.is_empty());
}
