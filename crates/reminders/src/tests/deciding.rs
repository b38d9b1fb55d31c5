//! Approving, editing, rejecting: one person or two, one draft or many.

use tidings_access::{Actor, clients, workspaces};
use tidings_kernel::{Expect, Txn, tables};
use tidings_testbed::{Bed, each_store};

use super::world::{World, by, money, new};
use crate::settings::Settings;
use crate::templates::{self, Put};
use crate::{
    Approve, ApproveError, ApproveMany, BatchError, Choose, ContentType, Draft, Edit, EditError,
    Facts, Kind, Reject, RejectError, Seen, Status, Text, approve, approve_many, draft, edit,
    reject, settings,
};

each_store!(
    what_was_edited_since_is_not_approved,
    two_different_people_approve_much_money,
    one_key_is_not_two_people,
    settings_that_cannot_be_read_decide_nothing,
    what_looks_like_something_else_is_refused,
    an_edit_is_kept_and_needs_another_approval,
    a_rejection_needs_a_reason,
    many_that_are_alike_are_approved_together,
    nobody_approves_what_cannot_be_sent,
);

async fn what_was_edited_since_is_not_approved(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.draft("c1", Kind::First).await;
    let cx = world.cx().await;
    let change =
        Edit { subject: Some("Last warning".to_owned()), by: "eve".to_owned(), ..Edit::default() };
    let edited = edit(&cx, &draft.id, change).await.unwrap();
    assert_eq!((edited.edition, edited.editions.len()), (2, 1));
    let seen = |seen| Approve { draft: draft.id.clone(), seen, by: "ada".to_owned() };
    for old in [Seen::Hash(draft.hash.clone()), Seen::Edition(1)] {
        let refused = approve(&cx, seen(old)).await;
        assert!(matches!(refused, Err(ApproveError::Edited { edition: 2, .. })), "{refused:?}");
    }
    world.run().await;
    assert!(world.outbox().is_empty());
    let approved = approve(&cx, seen(Seen::Edition(2))).await.unwrap();
    assert_eq!((approved.draft.status, approved.missing), (Status::Approved, 0));
    assert_eq!(approved.draft.approvals[0].hash, edited.hash);
    // The same again answers with it.
    assert!(approve(&cx, seen(Seen::Hash(edited.hash))).await.unwrap().replayed);
    world.run().await;
    assert!(world.outbox()[0].contains("Last warning"));
}

async fn two_different_people_approve_much_money(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let mut chosen = Settings::default();
    chosen.two_person_above.insert("EUR".parse().unwrap(), "1499.99".parse().unwrap());
    settings::put(&cx, chosen).await.unwrap();
    let draft = world.draft("c1", Kind::First).await;
    assert_eq!(draft.approvals_needed, 2);
    for (person, missing, replayed) in
        [("Ada", 1, false), (" ADA ", 1, true), ("ada", 1, true), ("Eve", 0, false)]
    {
        world.run().await;
        assert!(world.outbox().is_empty());
        let approved = approve(&cx, by(&draft, person)).await.unwrap();
        assert_eq!((approved.missing, approved.replayed), (missing, replayed), "{person}");
    }
    world.run().await;
    assert_eq!(world.outbox().len(), 1);
    assert_eq!(world.sent("c1").await[0].approved_by, ["Ada", "Eve"]);
    let mut small = new("c2", Choose::Next);
    small.facts.owed = money("1499.99");
    small.facts.invoices.truncate(1);
    small.facts.invoices[0].amount = None;
    let small = crate::draft(&cx, small).await.unwrap().draft;
    assert_eq!(small.approvals_needed, 1);
}

async fn an_edit_is_kept_and_needs_another_approval(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let draft = world.draft("c1", Kind::First).await;
    world.approve(&draft).await;
    let less = Facts { owed: money("1000"), invoices: vec![super::world::invoice("c1-1", "1000")] };
    let change = Edit {
        facts: Some(less),
        content: Some("Dear c1, 1000 are left.".to_owned()),
        edition: Some(1),
        by: "eve".to_owned(),
        ..Edit::default()
    };
    let edited = edit(&cx, &draft.id, change.clone()).await.unwrap();
    assert_eq!((edited.status, edited.edition), (Status::Draft, 2));
    assert!(edited.approvals.is_empty());
    let [before] = &edited.editions[..] else { panic!("{:?}", edited.editions) };
    assert_eq!((before.edition, before.content.as_str()), (1, "Dear c1, please pay."));
    assert_eq!((before.replaced_by.as_str(), before.amount), ("eve", money("1500")));
    // The step of the first approval finds nothing to do.
    world.run().await;
    assert!(world.outbox().is_empty());
    let again = edit(&cx, &draft.id, Edit { edition: None, ..change.clone() }).await.unwrap();
    assert_eq!(again.edition, 2);
    let lost = edit(&cx, &draft.id, change).await;
    assert!(matches!(lost, Err(EditError::Edited { edition: 2, .. })));
    let wrong = Edit { content: Some(" ".to_owned()), ..Edit::default() };
    let Err(EditError::Invalid(wrong)) = edit(&cx, &draft.id, wrong).await else { panic!() };
    assert_eq!(wrong.iter().map(|one| one.field.as_str()).collect::<Vec<_>>(), ["by", "content"]);
    world.approve(&edited).await;
    world.run().await;
    let late = edit(
        &cx,
        &draft.id,
        Edit { subject: Some("x".to_owned()), by: "eve".to_owned(), ..Edit::default() },
    );
    assert!(matches!(late.await, Err(EditError::NotEditable { status: Status::Sent, .. })));
    assert_eq!(world.sent("c1").await[0].owed, money("1000"));
    // Of what is long only as much is kept as an item can hold.
    let long = world.draft("c2", Kind::First).await;
    for n in 0..25 {
        let content = Some(format!("{}{n}", "x".repeat(29_000)));
        let change = Edit { content, by: "eve".to_owned(), ..Edit::default() };
        edit(&cx, &long.id, change).await.unwrap();
    }
    let kept = world.get(&long.id).await;
    assert_eq!((kept.edition, kept.editions.last().unwrap().edition), (26, 25));
    assert!(kept.editions.len() < 20);
}

async fn a_rejection_needs_a_reason(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let draft = world.draft("c1", Kind::First).await;
    world.approve(&draft).await;
    let reason = |text: &str| Reject {
        draft: draft.id.clone(),
        reason: text.to_owned(),
        by: "eve".to_owned(),
    };
    let refused = reject(&cx, reason("")).await;
    assert!(matches!(refused, Err(RejectError::Invalid(wrong)) if wrong[0].field == "reason"));
    let rejected = reject(&cx, reason("he called")).await.unwrap();
    assert_eq!(rejected.status, Status::Rejected);
    assert_eq!(reject(&cx, reason("again")).await.unwrap().reason.as_deref(), Some("he called"));
    world.run().await;
    assert!(world.outbox().is_empty());
    assert!(world.try_draft("c1", Kind::First).await.is_ok());
    let nobody = Reject { draft: "20260701_120000_nobody".parse().unwrap(), ..reason("x") };
    assert!(matches!(reject(&cx, nobody).await, Err(RejectError::Missing(_))));
}

async fn of_template(world: &World<'_>, id: &str, template: &str) -> Draft {
    let mut new = new(id, Choose::Next);
    new.text = Text::Template { id: template.to_owned(), variables: serde_json::Map::new() };
    draft(&world.cx().await, new).await.unwrap().draft
}

async fn many_that_are_alike_are_approved_together(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    for id in ["one", "two"] {
        let put = Put {
            id: id.to_owned(),
            name: id.to_owned(),
            kind: None,
            subject: "Invoice {{ invoice_id }}".to_owned(),
            body: "Dear {{ customer_name }}".to_owned(),
            content_type: ContentType::Text,
            branding: None,
        };
        templates::put(&cx, put).await.unwrap();
    }
    let mut chosen = Settings { batch_limit: 3, ..Settings::default() };
    chosen.batch_amount_limit.insert("EUR".parse().unwrap(), "3000".parse().unwrap());
    settings::put(&cx, chosen).await.unwrap();
    let mut drafts = Vec::new();
    for at in 0..4 {
        drafts.push(of_template(&world, &format!("c{at}"), "one").await);
    }
    let other = of_template(&world, "x", "two").await;
    let many = |drafts: &[&Draft]| ApproveMany {
        drafts: drafts.iter().map(|one| (one.id.clone(), Seen::Hash(one.hash.clone()))).collect(),
        by: "ada".to_owned(),
    };
    let [a, b, c, d] = &drafts[..] else { panic!() };
    let refused = approve_many(&cx, many(&[a, b, c, d])).await;
    assert!(matches!(refused, Err(BatchError::Count(3))));
    let refused = approve_many(&cx, many(&[a, b, c])).await;
    assert!(
        matches!(refused, Err(BatchError::TooMuch { total, limit }) if total == "4500.00 EUR" && limit == "3000.00 EUR")
    );
    let refused = approve_many(&cx, many(&[a, &other])).await;
    assert!(matches!(refused, Err(BatchError::NotAlike(odd)) if odd == [other.id.clone()]));
    let refused = approve_many(&cx, many(&[a, a])).await;
    assert!(matches!(refused, Err(BatchError::Invalid(_))));
    // An edited one is of no template any more, and another than was seen.
    let change = Edit { subject: Some("Now".to_owned()), by: "eve".to_owned(), ..Edit::default() };
    let edited = edit(&cx, &d.id, change).await.unwrap();
    let refused = approve_many(&cx, many(&[a, d])).await;
    assert!(
        matches!(refused, Err(BatchError::Refused(why)) if matches!(why[..], [(_, ApproveError::Edited { .. })]))
    );
    let refused = approve_many(&cx, many(&[a, &edited])).await;
    assert!(matches!(refused, Err(BatchError::NotAlike(_))));
    world.run().await;
    assert!(world.outbox().is_empty());
    let report = approve_many(&cx, many(&[a, b])).await.unwrap();
    assert!(
        report.decided.iter().all(|one| one.outcome.as_ref().is_ok_and(|one| one.missing == 0))
    );
    world.run().await;
    assert_eq!(world.outbox().len(), 2);
}

async fn nobody_approves_what_cannot_be_sent(bed: &Bed) {
    let world = World::beside(bed);
    let cx = world.cx().await;
    let draft = world.draft("c1", Kind::First).await;
    let refused = approve(&cx, by(&draft, "ada")).await;
    assert!(matches!(refused, Err(ApproveError::NoSender)), "{refused:?}");
    World::new(bed).await;
    clients::disable(&cx, "shop".parse().unwrap()).await.unwrap();
    assert!(matches!(approve(&cx, by(&draft, "ada")).await, Err(ApproveError::NoSender)));
    clients::enable(&cx, "shop".parse().unwrap()).await.unwrap();
    approve(&cx, by(&draft, "ada")).await.unwrap();
    // Nobody knows now as whom it is sent.
    clients::disable(&cx, "shop".parse().unwrap()).await.unwrap();
    world.run().await;
    let failed = world.get(&draft.id).await;
    assert_eq!(failed.status, Status::Failed);
    assert!(failed.reason.unwrap().contains("client"));
    let wrong =
        Settings { client: Some("nobody".parse().unwrap()), batch_limit: 0, ..Settings::default() };
    let refused = settings::put(&cx, wrong).await;
    assert!(
        matches!(refused, Err(settings::PutError::Invalid(wrong)) if wrong[0].field == "batch_limit")
    );
    let wrong = Settings { client: Some("nobody".parse().unwrap()), ..Settings::default() };
    let refused = settings::put(&cx, wrong).await;
    assert!(
        matches!(refused, Err(settings::PutError::Invalid(wrong)) if wrong[0].field == "client")
    );
}

/// Anybody can say another name; another key he has to be given.
async fn one_key_is_not_two_people(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let mut chosen = Settings::default();
    chosen.two_person_above.insert("EUR".parse().unwrap(), "1000".parse().unwrap());
    settings::put(&cx, chosen.clone()).await.unwrap();
    let workspace = workspaces::find(&bed.access, "acme".parse().unwrap()).await.unwrap();
    let key = |id: &str| bed.access.inside(&workspace, Actor::Key(id.parse().unwrap()));
    let (one, two) = (key("4fR9aZkQ0b2X"), key("4fR9aZkQ0b2Y"));
    let draft = world.draft("c1", Kind::First).await;
    assert_eq!(approve(&one, by(&draft, "Ada")).await.unwrap().missing, 1);
    let refused = approve(&one, by(&draft, "Eve")).await;
    assert!(matches!(refused, Err(ApproveError::SameKey(_))), "{refused:?}");
    // Nor is one person two because he has two keys.
    assert!(approve(&two, by(&draft, "ADA")).await.unwrap().replayed);
    world.run().await;
    assert!(world.outbox().is_empty());
    assert_eq!(approve(&two, by(&draft, "Eve")).await.unwrap().missing, 0);
    // Where people share a key, a workspace says so.
    settings::put(&cx, Settings { distinct_keys: false, ..chosen }).await.unwrap();
    let draft = world.draft("c2", Kind::First).await;
    approve(&one, by(&draft, "Ada")).await.unwrap();
    assert_eq!(approve(&one, by(&draft, "Eve")).await.unwrap().missing, 0);
}

async fn settings_that_cannot_be_read_decide_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let draft = world.draft("c1", Kind::First).await;
    for damaged in ["", "[]", "{\"two_person_above\":{\"EUR\":1000}}", "{\"two_person_above\":1}"] {
        let item = tables::EMAIL_TRACKING.bare_item(&crate::keys::settings());
        let item = item.with("settings", damaged);
        let txn = Txn::new().put(&tables::EMAIL_TRACKING, item, Expect::Anything);
        cx.items().await.unwrap().transact(txn).await.unwrap();
        let refused = approve(&cx, by(&draft, "ada")).await;
        assert!(matches!(refused, Err(ApproveError::Store(_))), "{damaged}: {refused:?}");
    }
    // Whoever sets them anew heals it. What a newer node has besides is none of ours.
    settings::put(&cx, Settings::default()).await.unwrap();
    assert_eq!(approve(&cx, by(&draft, "ada")).await.unwrap().missing, 0);
}

async fn what_looks_like_something_else_is_refused(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let written = |content: &str| {
        let mut new = new("c1", Choose::Next);
        let (subject, content) = ("Pay".to_owned(), content.to_owned());
        new.text = Text::Written { subject, content, content_type: ContentType::Text };
        new
    };
    for bad in ["Pay 10\rPay 99", "Pay \u{202e}01", "Pay \u{2066}x", "Pay \u{1b}[2J"] {
        let refused = draft(&cx, written(bad)).await;
        assert!(matches!(refused, Err(crate::DraftError::Invalid(_))), "{bad:?}");
    }
    let drafted = draft(&cx, written("Dear c1,\r\npay")).await.unwrap().draft;
    assert_eq!(drafted.content.as_deref(), Some("Dear c1,\npay"));
}
