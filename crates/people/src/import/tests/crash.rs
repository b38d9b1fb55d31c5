//! An import that dies anywhere is begun again, and ends as one that did not die.

use std::collections::BTreeSet;
use std::io::Cursor;

use tidings_access::Cx;
use tidings_jobs::contracts::{ConfirmationAsk, Contract as _};
use tidings_kernel::{Scan, tables};
use tidings_sql::{DatabaseError, Row, Tx};
use tidings_testbed::{Bed, dying, each_store, until_turn};

use super::{asking, settings};
use crate::import::{Confirmation, Settings, run};

each_store!(
    an_import_that_dies_at_any_call_ends_the_same_when_it_is_begun_again,
    an_import_that_is_dropped_wherever_it_waits_ends_the_same_when_it_is_begun_again,
);

/// Everything that a file can say, of people whose addresses begin with this word. Dan is there twice.
fn file(word: &str) -> String {
    format!(
        "email,first name,tags,plan,tz,unsubscribed,suppressed\n\
         {word}-ada@example.org,Ada,a;b,pro,Europe/Berlin,,\n\
         {word}-bob@example.org,Bob,,,,yes,\n\
         {word}-cy@example.org,,b,free,,,yes\n\
         {word}-dan@example.org,Dan,a,,,,\n\
         {word}-dan@example.org,Daniel,c,pro,Asia/Tokyo,,\n\
         {word}-eve@example.org,Eve,,,,yes,yes\n"
    )
}

async fn joining(bed: &Bed, cx: &Cx) -> Settings {
    Settings {
        audience: Some("news".parse().unwrap()),
        confirmation: Confirmation::Ask(Some(bed.shop(cx).await.id)),
        tags: BTreeSet::from(["fair".parse().unwrap()]),
        ..settings()
    }
}

async fn an_import_that_dies_at_any_call_ends_the_same_when_it_is_begun_again(bed: &Bed) {
    let cx = bed.cx().await;
    asking(&cx).await;
    let settings = joining(bed, &cx).await;
    run(&cx, Cursor::new(file("ref")), settings.clone(), |_| ()).await.unwrap();
    let expected = known(&cx, "ref").await;
    let mut died = 0;
    for (place, after) in (0..25).flat_map(|place| [(place, false), (place, true)]) {
        let word = format!("p{place}{after}");
        let there = dying(bed, &cx, place, after).await;
        let cut_short = run(&there, Cursor::new(file(&word)), settings.clone(), |_| ()).await;
        died += usize::from(cut_short.is_err());
        // What was under way beside it comes to its end.
        bed.settle().await;
        run(&cx, Cursor::new(file(&word)), settings.clone(), |_| ()).await.unwrap();
        assert_eq!(known(&cx, &word).await, expected, "at {place}, after it: {after}");
    }
    assert!(died > 10, "{died}");
}

async fn an_import_that_is_dropped_wherever_it_waits_ends_the_same_when_it_is_begun_again(
    bed: &Bed,
) {
    let cx = bed.cx().await;
    asking(&cx).await;
    let settings = joining(bed, &cx).await;
    run(&cx, Cursor::new(file("ref")), settings.clone(), |_| ()).await.unwrap();
    let expected = known(&cx, "ref").await;
    let mut dropped = 0;
    for turns in 0..40 {
        let word = format!("t{turns}");
        let import = run(&cx, Cursor::new(file(&word)), settings.clone(), |_| ());
        dropped += usize::from(until_turn(import, turns).await.is_none());
        bed.settle().await;
        run(&cx, Cursor::new(file(&word)), settings.clone(), |_| ()).await.unwrap();
        assert_eq!(known(&cx, &word).await, expected, "after {turns} turns");
    }
    assert!(dropped > 5, "{dropped}");
}

/// All that is known of these people, without the word and without ids.
async fn known(cx: &Cx, word: &str) -> Vec<String> {
    let prefix = format!("{word}-");
    let like = format!("{prefix}%");
    let read = cx.database().read(move |tx| relations(tx, &like));
    let mut lines: Vec<String> = read.await.map_err(|error: DatabaseError| error).unwrap();
    let (items, mut cursor) = (cx.items().await.unwrap(), None);
    loop {
        let page = items.scan(Scan::new(&tables::MAIN).after(cursor)).await.unwrap();
        lines.extend(page.items.iter().map(|item| format!("{item:?}")));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    let mut own: Vec<String> = lines
        .iter()
        .filter(|line| line.contains(&prefix))
        .map(|line| line.replace(&prefix, ""))
        .collect();
    own.sort();
    own
}

fn relations(tx: &mut Tx<'_>, like: &str) -> Result<Vec<String>, DatabaseError> {
    let mut lines = Vec::new();
    let of_each = "FROM channel_identities i JOIN leads l ON l.id = i.lead_id";
    for (name, sql) in [
        ("lead", format!("SELECT i.value, l.unsubscribed_at, l.timezone {of_each}")),
        (
            "subscription",
            format!(
                "SELECT i.value, s.status, s.source, c.expires_at {of_each}
                 JOIN subscriptions s ON s.lead_id = l.id
                 JOIN confirmations c ON c.subscription_id = s.id"
            ),
        ),
        (
            "proof",
            format!(
                "SELECT i.value, p.action, p.source {of_each} JOIN consent_log p ON p.lead_id = l.id"
            ),
        ),
    ] {
        let sql = format!("{sql} WHERE i.value LIKE '{like}'");
        let shown = |row: &Row| format!("{name} {row:?}");
        lines.extend(tx.query(&sql, &[])?.iter().map(shown));
    }
    let sql = format!(
        "SELECT i.value, s.id {of_each} JOIN subscriptions s ON s.lead_id = l.id
         WHERE i.value LIKE '{like}'"
    );
    let waiting = tx.query(&sql, &[])?;
    let bodies = "SELECT body FROM queue_messages WHERE queue = 'confirmation-mail'";
    for row in tx.query(bodies, &[])? {
        let asks = ConfirmationAsk::parse(row.text(0)?).unwrap();
        for one in &waiting {
            let id = one.int(1)?;
            let times = asks.subscriptions.iter().filter(|asked| **asked == id).count();
            lines.extend((0..times).map(|_| format!("asked {}", one.text(0).unwrap())));
        }
    }
    Ok(lines)
}
