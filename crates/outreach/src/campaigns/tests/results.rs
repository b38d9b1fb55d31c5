//! What came of a campaign is what counting the rows and the events gives, and its recipients can be listed.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::json;
use tidings_access::{Cx, Limit};
use tidings_delivery::ledger::Source;
use tidings_people::suppression;
use tidings_signals::events::{Bounce, Event, EventKind, record};
use tidings_sql::Row;
use tidings_testbed::{Bed, each_store};

use super::{World, find};
use crate::campaigns::draft::{Draft, Find};
use crate::campaigns::recipients::{EXPORTED, Export, Filter, Happened, State, list};
use crate::campaigns::results::{Base, LookError, Results, Span, results};
use crate::campaigns::{CampaignId, RecipientId, Variant};

each_store!(
    the_results_are_what_a_recount_gives,
    a_campaign_that_has_not_begun_has_empty_results,
    recipients_are_found_by_what_happened_to_them,
    an_export_has_everybody_once_and_no_formulas,
    nobody_sees_the_campaigns_of_others,
);

fn variant(name: &str) -> Variant {
    Variant {
        name: name.to_owned(),
        weight: 1,
        template: None,
        template_version: None,
        subject: Some(name.to_owned()),
    }
}

/// A campaign with two variants that went to 24 people at three domains; one is suppressed, one failed, one is uncertain.
async fn sent(world: &World<'_>) -> CampaignId {
    let domains = ["example.org", "gmail.test", "corp.test"];
    let crowd = (0..24).map(|number| format!("p{number:02}@{}", domains[number % 3]));
    let others = ["fail@example.org", "lost@gmail.test", "blocked@gmail.test"];
    world.people(crowd.chain(others.map(ToOwned::to_owned))).await;
    let cx = world.bed.cx().await;
    let suppress = suppression::Suppress {
        email: "blocked@gmail.test".parse().unwrap(),
        kind: suppression::Kind::Permanent,
        reason: suppression::Reason::clipped("gone"),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(&cx, suppress).await.unwrap();
    let draft = Draft {
        key: Some("spring".to_owned()),
        variants: vec![variant("one"), variant("two")],
        ..world.draft()
    };
    let id = world.started(draft).await;
    world.run().await;
    world.check(id).await;
    id
}

async fn ids(world: &World<'_>) -> BTreeMap<String, i64> {
    let rows = world.rows("SELECT email, id FROM campaign_recipients").await;
    rows.iter().map(|row| (row.text(0).unwrap().to_owned(), row.int(1).unwrap())).collect()
}

/// Tells of something that happened to one of them, so many minutes later.
async fn tell(cx: &Cx, ids: &BTreeMap<String, i64>, email: &str, minutes: i64, kind: EventKind) {
    tell_of(cx, ids, (email, minutes), kind, (None, true)).await;
}

async fn tell_of(
    cx: &Cx,
    ids: &BTreeMap<String, i64>,
    (email, minutes): (&str, i64),
    kind: EventKind,
    (url, human): (Option<&str>, bool),
) {
    let id = format!("{email}-{}-{minutes}-{}", kind.as_str(), url.unwrap_or_default());
    let at = cx.now() + SignedDuration::from_mins(minutes);
    let mut event = Event::new(id, kind, email.parse().unwrap(), at);
    event.source = Some(Source::Recipient(ids[email]));
    event.url = url.map(ToOwned::to_owned);
    if matches!(event.kind, EventKind::Open | EventKind::Click) {
        event.verdict = Some(json!({ "human": human }));
    }
    record(cx, event.clone()).await.unwrap();
    // What comes twice counts once.
    record(cx, event).await.unwrap();
}

/// Deliveries to all, and some of everything else.
async fn much_happens(cx: &Cx, ids: &BTreeMap<String, i64>) {
    for (number, email) in ids.keys().filter(|email| email.starts_with('p')).enumerate() {
        let minutes = number as i64 * 7;
        if number % 8 == 7 {
            let bounce = Bounce {
                kind: "Permanent".into(),
                subkind: if number == 7 { "NoEmail".into() } else { "General".into() },
                ..Bounce::default()
            };
            tell(cx, ids, email, minutes, EventKind::Bounce(bounce)).await;
            continue;
        }
        tell(cx, ids, email, minutes, EventKind::Delivery).await;
        if number % 2 == 0 {
            tell_of(cx, ids, (email, minutes + 1), EventKind::Open, (None, number % 4 == 0)).await;
            tell_of(cx, ids, (email, minutes + 90), EventKind::Open, (None, false)).await;
        }
        if number % 4 == 0 {
            let link = Some("https://shop.test/a");
            tell_of(cx, ids, (email, minutes + 2), EventKind::Click, (link, true)).await;
            tell_of(cx, ids, (email, minutes + 3), EventKind::Click, (link, false)).await;
            let other = Some("https://shop.test/b");
            tell_of(cx, ids, (email, 4_000), EventKind::Click, (other, true)).await;
        }
    }
    tell(cx, ids, "p01@gmail.test", 50, EventKind::Complaint { feedback: None }).await;
    tell(cx, ids, "p02@corp.test", 60, EventKind::Unsubscribe).await;
    // The provider has taken what nobody knew of.
    tell(cx, ids, "lost@gmail.test", 5, EventKind::Send).await;
}

async fn the_results_are_what_a_recount_gives(bed: &Bed) {
    let world = World::new(bed).await;
    let id = sent(&world).await;
    let (cx, ids) = (bed.cx().await, ids(&world).await);
    let before = results(&cx, find(id)).await.unwrap();
    assert_eq!((before.outcomes.sent, before.outcomes.uncertain), (24, 1));
    assert_eq!((before.rates.base, before.rates.opened), (Base::Sent, Some(0.0)));
    much_happens(&cx, &ids).await;
    world.check(id).await;

    let found = results(&cx, find(id)).await.unwrap();
    assert_eq!((found.campaign_id, found.key.as_str(), found.status), (id.get(), "spring", "sent"));
    check_ledger(&world, &found).await;
    check_events(&world, &found).await;
    let outcomes = found.outcomes;
    assert_eq!((found.recipients, outcomes.sent, outcomes.failed), (27, 25, 1));
    assert_eq!((outcomes.skipped, outcomes.uncertain, outcomes.pending), (1, 0, 0));
    assert_eq!((found.skipped[0].name.as_str(), found.skipped[0].count), ("hard_bounce", 1));
    assert_eq!((found.failed[0].name.as_str(), found.failed[0].count), ("refused", 1));
    let bounces: Vec<_> = found
        .bounces
        .iter()
        .map(|one| format!("{}/{} {}", one.class, one.subtype, one.count))
        .collect();
    assert_eq!(bounces, ["hard/General 2", "hard/NoEmail 1"]);
    let links: Vec<_> = found
        .links
        .top
        .iter()
        .map(|link| {
            let clicks = &link.clicks;
            let all = (clicks.click_count, clicks.unique_click_count, clicks.human_click_count);
            format!("{} {all:?}", link.url)
        })
        .collect();
    assert_eq!(links, ["https://shop.test/a (12, 6, 6)", "https://shop.test/b (6, 6, 6)"]);
    assert_eq!((found.clicks.human, found.clicks.other), (12, 6));
    assert_eq!((found.rates.base, found.rates.base_count), (Base::Delivered, 21));
    assert_eq!(found.rates.clicked, Some(6.0 / 21.0));
    assert_eq!(results(&cx, find(id)).await.unwrap(), found, "asking changes nothing");
}

/// The ledger's side, from its rows.
async fn check_ledger(world: &World<'_>, found: &Results) {
    let was_sent =
        "sent_at IS NOT NULL OR status IN ('sent', 'delivered', 'bounced', 'complained')";
    let count = |sql: &str| format!("campaign_recipients WHERE {sql}");
    assert_eq!(world.count(&count(was_sent)).await, found.outcomes.sent);
    assert_eq!(world.count(&count("status = 'skipped'")).await, found.outcomes.skipped);
    for domain in &found.domains.top {
        let sql = count(&format!("({was_sent}) AND email LIKE '%@{}'", domain.domain));
        assert_eq!(world.count(&sql).await, domain.numbers.sent, "{}", domain.domain);
    }
    let told: i64 = found.domains.top.iter().map(|one| one.numbers.sent).sum();
    assert_eq!(told, found.outcomes.sent);
    for variant in &found.variants {
        let sql = count(&format!("({was_sent}) AND arm = {}", variant.place));
        assert_eq!(world.count(&sql).await, variant.numbers.sent, "{}", variant.name);
    }
    let hours: i64 = found.series.iter().map(|slot| slot.numbers.sent).sum();
    assert_eq!(hours, found.outcomes.sent);
}

/// The side of the events: every table adds up to the totals, which are those of the rows.
async fn check_events(world: &World<'_>, found: &Results) {
    let totals = &found.totals;
    let column = |row: &Row, at| row.int(at).unwrap();
    let sql = "SELECT COUNT(delivered_at), COUNT(bounced_at), COUNT(complained_at), COUNT(unsubscribed_at),
                      COUNT(first_opened_at), COUNT(first_clicked_at), CAST(SUM(open_count) AS BIGINT),
                      CAST(SUM(click_count) AS BIGINT)
               FROM campaign_recipients";
    let rows = world.rows(sql).await;
    let of_rows: Vec<_> = (0..8).map(|at| column(&rows[0], at)).collect();
    let of_events = vec![
        totals.delivery_count,
        totals.bounce_count,
        totals.complaint_count,
        totals.unsubscribe_count,
        totals.unique_open_count,
        totals.unique_click_count,
        totals.open_count,
        totals.click_count,
    ];
    assert_eq!(of_rows, of_events);
    let mut of_domains = found.domains.others.events.clone();
    found.domains.top.iter().for_each(|one| of_domains.add(one.numbers.events.clone()));
    let mut of_variants = tidings_delivery::counts::Counts::default();
    found.variants.iter().for_each(|one| of_variants.add(one.numbers.events.clone()));
    // Lines of the send log are not written by this mailer.
    assert_eq!(totals.send_count, 0);
    assert_eq!((&of_domains, &of_variants), (totals, totals));
    let mut of_hours = tidings_delivery::counts::Counts::default();
    found.series.iter().for_each(|slot| of_hours.add(slot.numbers.events.clone()));
    of_hours.unique_open_count = totals.unique_open_count;
    of_hours.unique_click_count = totals.unique_click_count;
    of_hours.unique_human_open_count = totals.unique_human_open_count;
    of_hours.unique_human_click_count = totals.unique_human_click_count;
    assert_eq!(&of_hours, totals);
    assert!(found.series.iter().any(|slot| slot.span == Span::Day), "some came after two days");
}

async fn a_campaign_that_has_not_begun_has_empty_results(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.drafted(world.draft()).await;
    let found = results(&bed.cx().await, find(id)).await.unwrap();
    assert_eq!((found.status, found.recipients), ("draft", 0));
    assert!(found.series.is_empty() && found.domains.top.is_empty() && found.variants.is_empty());
    assert_eq!((found.rates.opened, found.rates.bounced), (None, None));
}

async fn recipients_are_found_by_what_happened_to_them(bed: &Bed) {
    let world = World::new(bed).await;
    let id = sent(&world).await;
    let (cx, ids) = (bed.cx().await, ids(&world).await);
    much_happens(&cx, &ids).await;
    let state = |state| Filter { state: Some(state), ..Filter::default() };
    let happened = |all: &[Happened]| Filter { happened: all.to_vec(), ..Filter::default() };
    let arm = |arm| Filter { arm: Some(arm), ..Filter::default() };
    let reason = Filter { skip_reason: Some("hard_bounce".into()), ..Filter::default() };
    let failed = Filter { fail_reason: Some("refused".into()), ..Filter::default() };
    // Two have become one, and can be found by both addresses. The one who has a row is the one who went.
    world.people(["alias@example.org".to_owned()]).await;
    let one = "SELECT lead_id FROM channel_identities WHERE value = 'p03@example.org'";
    let other = "SELECT lead_id FROM channel_identities WHERE value = 'alias@example.org'";
    for sql in [
        format!("UPDATE leads SET merged_at = 5, merged_into_id = ({other}) WHERE id = ({one})"),
        format!(
            "UPDATE channel_identities SET lead_id = ({other}) WHERE value = 'p03@example.org'"
        ),
    ] {
        world.run_sql(&sql).await;
    }
    let email = |email: &str| Filter { email: Some(email.parse().unwrap()), ..Filter::default() };
    let both = Filter { arm: Some(0), ..happened(&[Happened::Opened, Happened::Clicked]) };
    for (filter, sql) in [
        (Filter::default(), "1 = 1"),
        (state(State::Skipped), "status = 'skipped'"),
        (state(State::Delivered), "status = 'delivered'"),
        (state(State::Uncertain), "status = 'uncertain'"),
        (state(State::Pending), "status = 'pending'"),
        (reason, "email = 'blocked@gmail.test'"),
        (failed, "email = 'fail@example.org'"),
        (arm(1), "arm = 1"),
        (arm(2), "1 = 0"),
        (happened(&[Happened::Opened]), "first_opened_at IS NOT NULL"),
        (happened(&[Happened::Bounced]), "bounced_at IS NOT NULL"),
        (happened(&[Happened::Complained]), "email = 'p01@gmail.test'"),
        (happened(&[Happened::Unsubscribed]), "email = 'p02@corp.test'"),
        (both, "arm = 0 AND first_opened_at IS NOT NULL AND first_clicked_at IS NOT NULL"),
        (email("p03@example.org"), "email = 'p03@example.org'"),
        (email("alias@example.org"), "email = 'p03@example.org'"),
        (email("nobody@example.org"), "1 = 0"),
        (email("o'brien@example.org"), "1 = 0"),
    ] {
        let sql = format!("SELECT id FROM campaign_recipients WHERE {sql} ORDER BY id");
        let expected: Vec<_> =
            world.rows(&sql).await.iter().map(|row| row.int(0).unwrap()).collect();
        let mut found = Vec::new();
        let mut after = None::<RecipientId>;
        loop {
            let page = (after, Limit::try_from(5).unwrap());
            let page = list(&cx, find(id), filter.clone(), page).await.unwrap();
            found.extend(page.items.iter().map(|one| one.id.get()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{filter:?}");
    }
}

async fn an_export_has_everybody_once_and_no_formulas(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.drafted(world.draft()).await;
    let workspace = bed.cx().await.workspace_id().get();
    // Written down by hand: to find and send to a thousand takes long.
    for sql in [
        format!(
            "INSERT INTO leads (workspace_id, created_at, updated_at)
             WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1204)
             SELECT {workspace}, 0, 0 FROM n"
        ),
        format!(
            "INSERT INTO campaign_recipients (workspace_id, campaign_id, lead_id, email, created_at, updated_at)
             SELECT workspace_id, {id}, id, CAST(id AS TEXT) || '@example.org', 0, 0 FROM leads
             WHERE workspace_id = {workspace}"
        ),
        "UPDATE campaign_recipients SET email = '=cmd@example.org'
         WHERE id = (SELECT MAX(id) FROM campaign_recipients)"
            .to_owned(),
    ] {
        world.run_sql(&sql).await;
    }
    let cx = bed.cx().await;
    let mut export = Export::new(cx.clone(), find(id), Filter::default());
    let (mut text, mut pieces) = (Vec::new(), 0);
    while let Some(mut piece) = export.next().await.unwrap() {
        assert!(piece.len() < 200_000, "a piece stays small");
        text.append(&mut piece);
        pieces += 1;
    }
    assert_eq!((export.count, pieces), (1_204, 3));
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap(), EXPORTED.join(","));
    let mut ids: Vec<&str> = lines.map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(ids.len(), 1_204);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 1_204);
    assert!(text.contains(",'=cmd@example.org,pending,"));
}

async fn nobody_sees_the_campaigns_of_others(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.drafted(world.draft()).await;
    let (cx, other) = (bed.cx().await, bed.make_workspace("other").await);
    let foreign = Find { id, client: Some((world.client.get() + 1).into()) };
    for (cx, find) in [(&other, find(id)), (&cx, foreign)] {
        let missing = |error: &LookError| matches!(error, LookError::Missing(of) if *of == id);
        assert!(missing(&results(cx, find).await.unwrap_err()));
        let page = (None, Limit::default());
        let listed = list(cx, find, Filter::default(), page).await;
        assert!(missing(&listed.unwrap_err()));
        let mut export = Export::new(cx.clone(), find, Filter::default());
        assert!(missing(&export.next().await.unwrap_err()));
        let email = "ada@example.org".parse().unwrap();
        assert!(missing(&crate::campaigns::why::why(cx, find, email).await.unwrap_err()));
    }
}
