//! Stories about who is who, on every SQL engine.

mod consent;
mod detach;
mod model;
mod older;
mod races;
mod zones;

use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::{Cx, Limit, audit};
use tidings_kernel::queues;
use tidings_kernel::{QueueEngine as _, Receive};
use tidings_people::contacts::{self, ContactId};
use tidings_testbed::{Bed, each_store};

use super::{
    Identity, MergeError, Policy, Resolve, Resolved, Unknown, Whom, dismiss, find, flags, merge,
    merges, owner, resolve, set_policy, unmerge, view,
};

each_store!(
    an_event_with_two_identities_joins_two_people,
    a_shared_computer_joins_nobody,
    a_workspace_can_ask_to_be_asked,
    who_somebody_said_are_two_stay_two,
    whoever_was_taken_apart_is_not_joined_again_by_itself,
    whoever_was_taken_apart_is_not_joined_through_a_third,
    what_is_new_goes_home_with_what_it_came_with,
    merges_of_merges_come_apart_in_any_order,
    what_came_in_between_goes_home_too,
    nobody_is_made_where_none_is_to_be,
    nobody_is_known_by_more_and_more,
    seen_moves_outwards_only,
    merges_are_told_on,
    the_audit_log_says_whom_and_from_what_to_what,
    two_who_become_one_through_a_third_are_asked_about_no_more,
    what_a_product_calls_somebody_goes_home_with_his_address,
    whoever_comes_back_was_seen_when_those_below_him_were,
);

pub(super) fn identity(text: &str) -> Identity {
    let (channel, value) = text.split_once('=').unwrap();
    Identity::new(channel, value).unwrap()
}

pub(super) fn by(identities: &[&str], cx: &Cx) -> Resolve {
    Resolve {
        identities: identities.iter().map(|text| identity(text)).collect(),
        at: cx.now(),
        received_at: cx.now(),
        event_id: "e1".into(),
        unknown: Unknown::Make,
    }
}

async fn who(cx: &Cx, identities: &[&str]) -> Resolved {
    resolve(cx, by(identities, cx)).await.unwrap().unwrap()
}

async fn known_as(cx: &Cx, contact: ContactId) -> Vec<String> {
    let view = view(cx, Whom::Contact(contact)).await.unwrap().unwrap();
    view.identities.iter().map(|one| format!("{}={}", one.channel, one.value)).collect()
}

async fn an_event_with_two_identities_joins_two_people(bed: &Bed) {
    let cx = bed.cx().await;
    let visitor = who(&cx, &["anonymous_id=a1"]).await;
    assert!(visitor.created);
    let ada = who(&cx, &["email=Ada@example.org", "phone=0049 30 123456"]).await;
    assert_ne!(visitor.lead_id, ada.lead_id);
    let joined = who(&cx, &["email=ada@EXAMPLE.org", "anonymous_id=a1", "user_id=u1"]).await;
    assert_eq!(joined.lead_id, visitor.lead_id, "the older one stays");
    assert_eq!(joined.merged.len(), 1);
    // The event is stored with the identity that it names first.
    assert_eq!(joined.lead_organization_id, ada.lead_organization_id);
    for one in ["anonymous_id=a1", "email=ada@example.org", "phone=+4930123456", "user_id=u1"] {
        assert_eq!(who(&cx, &[one]).await.lead_id, visitor.lead_id, "{one}");
    }
    let found = find(&cx, Whom::Email("ada@example.org".parse().unwrap())).await.unwrap().unwrap();
    assert_eq!(found.lead_id, visitor.lead_id);
    assert_eq!(found.partitions, [visitor.lead_organization_id, ada.lead_organization_id.clone()]);
    assert_eq!(owner(&cx, &ada.lead_organization_id).await.unwrap(), Some(found));
    let all = view(&cx, Whom::Contact(ada.lead_id)).await.unwrap().unwrap();
    let shown: Vec<_> = all
        .identities
        .iter()
        .map(|one| (one.value.as_str(), one.from, one.is.as_deref()))
        .collect();
    assert_eq!(
        shown,
        [
            ("a1", None, None),
            ("ada@example.org", Some(ada.lead_id), Some("SUB#ada@example.org")),
            ("+4930123456", Some(ada.lead_id), None),
            ("u1", Some(ada.lead_id), Some("USER#u1")),
        ]
    );
    let undone = unmerge(&cx, joined.merged[0]).await.unwrap();
    assert!(undone.undone_at.is_some());
    assert_eq!(unmerge(&cx, joined.merged[0]).await.unwrap(), undone, "again changes nothing");
    // What was new went to the one whom the event named first.
    let hers = ["email=ada@example.org", "phone=+4930123456", "user_id=u1"];
    assert_eq!(known_as(&cx, ada.lead_id).await, hers);
    assert_eq!(known_as(&cx, visitor.lead_id).await, ["anonymous_id=a1"]);
}

async fn a_shared_computer_joins_nobody(bed: &Bed) {
    let cx = bed.cx().await;
    let ada = who(&cx, &["anonymous_id=pc", "user_id=ada"]).await;
    let bob = who(&cx, &["anonymous_id=pc", "user_id=bob"]).await;
    assert_ne!(ada.lead_id, bob.lead_id);
    assert_eq!(bob.flagged, [ada.lead_id]);
    // Both are known and share an address: the one who is named by his id is meant.
    let shared = who(&cx, &["email=family@example.org", "user_id=ada"]).await;
    assert_eq!(shared.lead_id, ada.lead_id);
    let shared = who(&cx, &["email=family@example.org", "user_id=bob"]).await;
    assert_eq!((shared.lead_id, shared.merged.len()), (bob.lead_id, 0));
    let open = flags(&cx, None, 10).await.unwrap();
    assert_eq!(open.len(), 1, "one pair is one question: {open:?}");
    assert_eq!(open[0].contacts, [ada.lead_id, bob.lead_id]);
    assert_eq!(open[0].cause, "ids_differ");
    assert!(dismiss(&cx, open[0].id).await.unwrap());
    assert!(!dismiss(&cx, open[0].id).await.unwrap());
    who(&cx, &["anonymous_id=pc", "user_id=bob"]).await;
    assert_eq!(flags(&cx, None, 10).await.unwrap(), []);
    // Two ids in one event are two people as well.
    let two = who(&cx, &["user_id=eve", "user_id=mallory"]).await;
    assert_eq!(two.flagged.len(), 1);
    assert_eq!(known_as(&cx, two.lead_id).await, ["user_id=eve"]);
}

async fn a_workspace_can_ask_to_be_asked(bed: &Bed) {
    let cx = bed.cx().await;
    set_policy(&cx, Policy::Flag).await.unwrap();
    let (one, other) = (who(&cx, &["phone=+493012345"]).await, who(&cx, &["anonymous_id=a"]).await);
    let both = who(&cx, &["anonymous_id=a", "phone=+493012345"]).await;
    assert_eq!((both.lead_id, both.flagged.clone()), (other.lead_id, vec![one.lead_id]));
    assert_eq!(flags(&cx, None, 10).await.unwrap()[0].cause, "setting");
    let merged = merge(&cx, other.lead_id, one.lead_id).await.unwrap();
    assert_eq!((merged.winner, merged.loser), (one.lead_id, other.lead_id));
    assert_eq!(flags(&cx, None, 10).await.unwrap(), []);
    assert!(matches!(merge(&cx, one.lead_id, other.lead_id).await, Err(MergeError::Same)));
    assert!(matches!(merge(&cx, one.lead_id, 999.into()).await, Err(MergeError::Missing(_))));
    // Who is erased is no question any more.
    who(&cx, &["email=ada@x.org"]).await;
    who(&cx, &["email=ada@x.org", "anonymous_id=a"]).await;
    assert_eq!(flags(&cx, None, 10).await.unwrap().len(), 1);
    assert!(contacts::erase(&cx, &"ada@x.org".parse().unwrap()).await.unwrap().erased);
    assert_eq!(flags(&cx, None, 10).await.unwrap(), []);
    // Another workspace knows nobody of them.
    let elsewhere = bed.make_workspace("other").await;
    assert_eq!(find(&elsewhere, Whom::Contact(one.lead_id)).await.unwrap(), None);
    assert!(merge(&elsewhere, one.lead_id, other.lead_id).await.is_err());
    assert!(unmerge(&elsewhere, merged.id).await.is_err());
    assert!(who(&elsewhere, &["phone=+493012345"]).await.created);
}

async fn who_somebody_said_are_two_stay_two(bed: &Bed) {
    let cx = bed.cx().await;
    set_policy(&cx, Policy::Flag).await.unwrap();
    let third = who(&cx, &["custom:x=3"]).await.lead_id;
    let (one, other) = (who(&cx, &["phone=+493012345"]).await, who(&cx, &["anonymous_id=a"]).await);
    who(&cx, &["anonymous_id=a", "phone=+493012345"]).await;
    dismiss(&cx, flags(&cx, None, 10).await.unwrap()[0].id).await.unwrap();
    set_policy(&cx, Policy::Merge).await.unwrap();
    let again = who(&cx, &["anonymous_id=a", "phone=+493012345"]).await;
    assert_eq!((again.lead_id, again.merged.len()), (other.lead_id, 0));
    assert_eq!(flags(&cx, None, 10).await.unwrap(), [], "nobody is asked again");
    // Nor through a third.
    assert_eq!(who(&cx, &["custom:x=3", "phone=+493012345"]).await.lead_id, third);
    assert_eq!(who(&cx, &["custom:x=3", "anonymous_id=a"]).await.merged.len(), 0);
    // A person may say that it was right after all.
    merge(&cx, one.lead_id, other.lead_id).await.unwrap();
    assert_eq!(who(&cx, &["anonymous_id=a"]).await.lead_id, third);
}

async fn whoever_was_taken_apart_is_not_joined_again_by_itself(bed: &Bed) {
    let cx = bed.cx().await;
    let (one, other) = (who(&cx, &["phone=+493012345"]).await, who(&cx, &["anonymous_id=a"]).await);
    let joined = who(&cx, &["anonymous_id=a", "phone=+493012345"]).await;
    unmerge(&cx, joined.merged[0]).await.unwrap();
    let again = who(&cx, &["anonymous_id=a", "phone=+493012345"]).await;
    assert_eq!((again.lead_id, again.merged.len()), (other.lead_id, 0));
    assert_eq!(again.flagged, [one.lead_id]);
    // A person may say that it was right after all.
    merge(&cx, one.lead_id, other.lead_id).await.unwrap();
    assert_eq!(who(&cx, &["anonymous_id=a"]).await.lead_id, one.lead_id);
    assert_eq!(merges(&cx, None, 10).await.unwrap().len(), 2);
}

async fn whoever_was_taken_apart_is_not_joined_through_a_third(bed: &Bed) {
    let cx = bed.cx().await;
    // The third is the oldest, and stays.
    let third = who(&cx, &["custom:x=3"]).await.lead_id;
    let (one, other) = (who(&cx, &["phone=+493012345"]).await, who(&cx, &["anonymous_id=a"]).await);
    let joined = who(&cx, &["anonymous_id=a", "phone=+493012345"]).await;
    unmerge(&cx, joined.merged[0]).await.unwrap();
    assert_eq!(who(&cx, &["custom:x=3", "phone=+493012345"]).await.lead_id, third);
    let again = who(&cx, &["custom:x=3", "anonymous_id=a"]).await;
    assert_eq!((again.lead_id, again.merged.len()), (third, 0));
    assert_eq!(again.flagged, [other.lead_id]);
    assert_eq!(flags(&cx, None, 10).await.unwrap()[0].cause, "taken_apart");
    // Nor by an event that names all of them.
    let all = who(&cx, &["phone=+493012345", "custom:x=3", "anonymous_id=a"]).await;
    assert_eq!((all.lead_id, all.merged.len()), (third, 0));
    assert_ne!(
        find(&cx, Whom::Contact(one.lead_id)).await.unwrap().unwrap().lead_id,
        other.lead_id
    );
}

async fn what_is_new_goes_home_with_what_it_came_with(bed: &Bed) {
    let cx = bed.cx().await;
    let (one, other) =
        (who(&cx, &["email=x@example.org"]).await, who(&cx, &["phone=+493012345"]).await);
    let merged = merge(&cx, one.lead_id, other.lead_id).await.unwrap();
    let event = who(&cx, &["phone=+493012345", "anonymous_id=a"]).await;
    assert_eq!(event.lead_id, one.lead_id);
    who(&cx, &["email=x@example.org", "anonymous_id=b"]).await;
    unmerge(&cx, merged.id).await.unwrap();
    assert_eq!(known_as(&cx, other.lead_id).await, ["phone=+493012345", "anonymous_id=a"]);
    assert_eq!(known_as(&cx, one.lead_id).await, ["email=x@example.org", "anonymous_id=b"]);
}

async fn merges_of_merges_come_apart_in_any_order(bed: &Bed) {
    let cx = bed.cx().await;
    let mut leads = Vec::new();
    for name in ["a", "b", "c", "d"] {
        leads.push(who(&cx, &[&format!("custom:x={name}")]).await.lead_id);
    }
    let [a, b, c, d] = leads[..] else { unreachable!("there are four") };
    let inner = merge(&cx, c, d).await.unwrap();
    let middle = merge(&cx, b, d).await.unwrap();
    let outer = merge(&cx, a, c).await.unwrap();
    assert_eq!((middle.loser, outer.loser), (c, b));
    assert_eq!(known_as(&cx, d).await.len(), 4);
    let found = find(&cx, Whom::Contact(c)).await.unwrap().unwrap();
    assert_eq!((found.lead_id, found.partitions.len()), (a, 4));
    unmerge(&cx, middle.id).await.unwrap();
    assert_eq!(known_as(&cx, a).await, ["custom:x=a", "custom:x=b"]);
    assert_eq!(known_as(&cx, c).await, ["custom:x=c", "custom:x=d"]);
    // Who came back can be joined with somebody else, and what was above him comes apart without him.
    let elsewhere = merge(&cx, c, a).await.unwrap();
    unmerge(&cx, outer.id).await.unwrap();
    assert_eq!(known_as(&cx, b).await, ["custom:x=b"]);
    assert_eq!(known_as(&cx, a).await, ["custom:x=a", "custom:x=c", "custom:x=d"]);
    unmerge(&cx, inner.id).await.unwrap();
    unmerge(&cx, elsewhere.id).await.unwrap();
    for (lead, name) in [(a, "a"), (b, "b"), (c, "c"), (d, "d")] {
        assert_eq!(known_as(&cx, lead).await, [format!("custom:x={name}")]);
    }
}

async fn what_came_in_between_goes_home_too(bed: &Bed) {
    let cx = bed.cx().await;
    let (one, other) =
        (who(&cx, &["email=x@example.org"]).await, who(&cx, &["phone=+493012345"]).await);
    let merged = merge(&cx, one.lead_id, other.lead_id).await.unwrap();
    // An event by the number belongs to the number, whoever has it now.
    let event = who(&cx, &["phone=+493012345"]).await;
    assert_eq!(event.lead_id, one.lead_id);
    assert_eq!(event.lead_organization_id, other.lead_organization_id);
    unmerge(&cx, merged.id).await.unwrap();
    let found = owner(&cx, &event.lead_organization_id).await.unwrap().unwrap();
    assert_eq!(found.lead_id, other.lead_id);
}

async fn nobody_is_made_where_none_is_to_be(bed: &Bed) {
    let cx = bed.cx().await;
    let ask = Resolve { unknown: Unknown::Ignore, ..by(&["email=x@example.org"], &cx) };
    assert_eq!(resolve(&cx, ask.clone()).await.unwrap(), None);
    assert_eq!(find(&cx, Whom::Email("x@example.org".parse().unwrap())).await.unwrap(), None);
    let made = who(&cx, &["email=x@example.org"]).await;
    assert_eq!(resolve(&cx, ask).await.unwrap().unwrap().lead_id, made.lead_id);
}

async fn nobody_is_known_by_more_and_more(bed: &Bed) {
    let cx = bed.cx().await;
    let ada = who(&cx, &["email=ada@example.org"]).await;
    for number in 0..super::store::MAX_IDENTITIES + 5 {
        let browser = format!("anonymous_id=b{number}");
        let seen = who(&cx, &["email=ada@example.org", &browser]).await;
        assert_eq!(seen.lead_id, ada.lead_id, "{number}");
    }
    let known = known_as(&cx, ada.lead_id).await;
    assert_eq!(known.len() as i64, super::store::MAX_IDENTITIES);
    // What only one can have he still gets.
    who(&cx, &["email=ada@example.org", "user_id=ada"]).await;
    assert_eq!(who(&cx, &["user_id=ada"]).await.lead_id, ada.lead_id);
}

async fn seen_moves_outwards_only(bed: &Bed) {
    let cx = bed.cx().await;
    let now = cx.now();
    for at in [now - 1.hour(), now, now - 5.hours(), now - 2.hours(), now - 5.hours()] {
        resolve(&cx, Resolve { at, ..by(&["user_id=u"], &cx) }).await.unwrap();
    }
    let late = resolve(&cx, Resolve { at: now - 9.hours(), ..by(&["phone=+493012345"], &cx) });
    let late = late.await.unwrap().unwrap();
    let seen = view(&cx, Whom::Identity(identity("user_id=u"))).await.unwrap().unwrap();
    assert_eq!((seen.first_seen_at, seen.last_seen_at), (Some(now - 5.hours()), Some(now)));
    merge(&cx, seen.owner.lead_id, late.lead_id).await.unwrap();
    let seen = view(&cx, Whom::Identity(identity("user_id=u"))).await.unwrap().unwrap();
    assert_eq!((seen.first_seen_at, seen.last_seen_at), (Some(now - 9.hours()), Some(now)));
}

async fn merges_are_told_on(bed: &Bed) {
    let cx = bed.cx().await;
    let (one, other) =
        (who(&cx, &["email=x@example.org"]).await, who(&cx, &["phone=+493012345"]).await);
    let merged = merge(&cx, one.lead_id, other.lead_id).await.unwrap();
    unmerge(&cx, merged.id).await.unwrap();
    for queue in [&queues::MEMORY_PROCESSING, &queues::FEATURE_PROCESSING] {
        let ask = Receive { max: 10, lease: queue.lease, wait: std::time::Duration::ZERO };
        let told = bed.queues.receive(queue, ask).await.unwrap();
        let mut types: Vec<_> = told
            .iter()
            .map(|told| {
                let body: serde_json::Value = serde_json::from_str(&told.body).unwrap();
                format!("{} {}", body["event_type"].as_str().unwrap(), body["lead_organization_id"])
            })
            .collect();
        types.sort();
        let (one, other) = (&one.lead_organization_id, &other.lead_organization_id);
        let mut expected: Vec<_> = ["contact.merged", "contact.unmerged"]
            .iter()
            .flat_map(|kind| [format!("{kind} \"{one}\""), format!("{kind} \"{other}\"")])
            .collect();
        expected.sort();
        assert_eq!(types, expected, "{}", queue.name);
    }
}

async fn the_audit_log_says_whom_and_from_what_to_what(bed: &Bed) {
    let cx = bed.cx().await;
    // Setting what is set leaves nothing.
    for policy in [Policy::Merge, Policy::Flag, Policy::Flag] {
        set_policy(&cx, policy).await.unwrap();
    }
    let one = who(&cx, &["anonymous_id=a"]).await.lead_id;
    let other = who(&cx, &["anonymous_id=b"]).await.lead_id;
    let merged = merge(&cx, one, other).await.unwrap();
    unmerge(&cx, merged.id).await.unwrap();
    who(&cx, &["user_id=eve", "user_id=mallory"]).await;
    let flag = flags(&cx, None, 10).await.unwrap().pop().unwrap();
    dismiss(&cx, flag.id).await.unwrap();
    let find = async |action: &str| {
        let filter = audit::Filter { action: Some(action.to_owned()), ..audit::Filter::default() };
        let found = audit::list(&cx, filter, None, Limit::MAX).await.unwrap().items;
        let [one] = &found[..] else { panic!("{action}: {found:?}") };
        (one.before.clone().unwrap(), one.after.clone().unwrap())
    };
    let (before, after) = find("settings.identity").await;
    assert_eq!(
        (&before["shared_identities"], &after["shared_identities"]),
        (&json!("merge"), &json!("flag"))
    );
    let (_, after) = find("contact.merge").await;
    assert_eq!(
        (&after["merged"], &after["cause"]),
        (&json!(merged.loser.get()), &json!("operator"))
    );
    let (before, _) = find("contact.unmerge").await;
    assert_eq!(before["merged"], merged.loser.get());
    let (before, after) = find("contact.flag_dismiss").await;
    assert_eq!(before["contacts"], json!(flag.contacts.map(ContactId::get)));
    assert_eq!((&before["resolution"], &after["resolution"]), (&json!(null), &json!("dismissed")));
}

async fn two_who_become_one_through_a_third_are_asked_about_no_more(bed: &Bed) {
    let cx = bed.cx().await;
    let ada = who(&cx, &["anonymous_id=pc", "user_id=ada"]).await.lead_id;
    let bob = who(&cx, &["anonymous_id=pc", "user_id=bob"]).await.lead_id;
    let third = who(&cx, &["phone=+493012345"]).await.lead_id;
    assert_eq!(flags(&cx, None, 10).await.unwrap().len(), 1);
    merge(&cx, ada, third).await.unwrap();
    assert_eq!(flags(&cx, None, 10).await.unwrap().len(), 1);
    merge(&cx, third, bob).await.unwrap();
    assert_eq!(flags(&cx, None, 10).await.unwrap(), []);
}

async fn what_a_product_calls_somebody_goes_home_with_his_address(bed: &Bed) {
    let cx = bed.cx().await;
    let one = who(&cx, &["email=one@example.org"]).await.lead_id;
    let other = who(&cx, &["email=other@example.org"]).await.lead_id;
    let merged = merge(&cx, one, other).await.unwrap();
    let address = "other@example.org".parse().unwrap();
    contacts::learn_user_id(&cx, &address, "u1", cx.now()).await.unwrap();
    assert_eq!(known_as(&cx, one).await.len(), 3);
    unmerge(&cx, merged.id).await.unwrap();
    assert_eq!(known_as(&cx, one).await, ["email=one@example.org"]);
    assert_eq!(known_as(&cx, other).await, ["email=other@example.org", "user_id=u1"]);
}

async fn whoever_comes_back_was_seen_when_those_below_him_were(bed: &Bed) {
    let cx = bed.cx().await;
    let mut leads = Vec::new();
    for name in ["a", "b", "c"] {
        leads.push(who(&cx, &[&format!("custom:x={name}")]).await.lead_id);
    }
    merge(&cx, leads[1], leads[2]).await.unwrap();
    let outer = merge(&cx, leads[0], leads[1]).await.unwrap();
    bed.clock.advance(100.hours());
    let cx = bed.cx().await;
    who(&cx, &["custom:x=c"]).await;
    unmerge(&cx, outer.id).await.unwrap();
    let back = view(&cx, Whom::Contact(leads[1])).await.unwrap().unwrap();
    assert_eq!(back.last_seen_at, Some(cx.now()));
}
