//! Time zones of those who become one, and two again.

use jiff::ToSpan as _;
use tidings_access::Cx;
use tidings_people::contacts::{ContactId, timezone};
use tidings_sql::Param;
use tidings_testbed::{Bed, each_store};

use super::who;
use crate::identity::{merge, unmerge};

each_store!(
    who_has_no_zone_takes_the_other_ones_while_they_are_one,
    a_zone_goes_and_comes_with_merges_of_merges,
);

async fn set(cx: &Cx, lead: ContactId, zone: &'static str) {
    let set = cx.database().write(move |tx| {
        let sql = "UPDATE leads SET timezone = $2 WHERE id = $1";
        tx.execute(sql, &[Param::Int(lead.get()), Param::Text(zone)])
    });
    set.await.unwrap();
}

async fn people(cx: &Cx, names: &[&str]) -> Vec<ContactId> {
    let mut leads = Vec::new();
    for name in names {
        leads.push(who(cx, &[&format!("email={name}@example.org")]).await.lead_id);
    }
    leads
}

/// By the address, as whoever sends asks.
async fn zones(cx: &Cx, names: &[&str]) -> String {
    let mut told = Vec::new();
    for name in names {
        let address = format!("{name}@example.org").parse().unwrap();
        told.push(timezone(cx, &address).await.unwrap().unwrap_or_else(|| "-".to_owned()));
    }
    told.join(" ")
}

async fn who_has_no_zone_takes_the_other_ones_while_they_are_one(bed: &Bed) {
    for (workspace, winner, between, after) in [
        ("none", None, None, "- Asia/Tokyo"),
        ("own", Some("Europe/Rome"), None, "Europe/Rome Asia/Tokyo"),
        // Whatever was said of the person since is newer.
        ("newer", None, Some("Europe/Oslo"), "Europe/Oslo Asia/Tokyo"),
    ] {
        let cx = bed.make_workspace(workspace).await;
        let names = ["one", "other"];
        let leads = people(&cx, &names).await;
        set(&cx, leads[1], "Asia/Tokyo").await;
        if let Some(zone) = winner {
            set(&cx, leads[0], zone).await;
        }
        let merged = merge(&cx, leads[0], leads[1]).await.unwrap();
        let both = winner.unwrap_or("Asia/Tokyo");
        assert_eq!(zones(&cx, &names).await, format!("{both} {both}"));
        if let Some(zone) = between {
            set(&cx, leads[0], zone).await;
        }
        bed.clock.advance(1.hour());
        unmerge(&bed.inside(workspace).await, merged.id).await.unwrap();
        assert_eq!(zones(&cx, &names).await, after, "{workspace}");
    }
}

async fn a_zone_goes_and_comes_with_merges_of_merges(bed: &Bed) {
    let cx = bed.make_workspace("nested").await;
    let names = ["a", "b", "c", "d"];
    let leads = people(&cx, &names).await;
    set(&cx, leads[2], "Asia/Tokyo").await;
    set(&cx, leads[3], "Europe/Oslo").await;
    let below = merge(&cx, leads[1], leads[2]).await.unwrap();
    merge(&cx, leads[0], leads[1]).await.unwrap();
    let other = merge(&cx, leads[0], leads[3]).await.unwrap();
    assert_eq!(zones(&cx, &names).await, ["Asia/Tokyo"; 4].join(" "));
    // The one whose zone it was leaves from below; another one has a zone.
    unmerge(&cx, below.id).await.unwrap();
    assert_eq!(zones(&cx, &names).await, "Europe/Oslo Europe/Oslo Asia/Tokyo Europe/Oslo");
    unmerge(&cx, other.id).await.unwrap();
    assert_eq!(zones(&cx, &names).await, "- - Asia/Tokyo Europe/Oslo");
}
