//! Variants, and tests that decide what the rest gets.

use jiff::SignedDuration;
use tidings_delivery::breakdown::keys;
use tidings_kernel::{Update, tables};
use tidings_testbed::{Bed, each_store};

use super::{World, put_template};
use crate::campaigns::batches::regroup;
use crate::campaigns::draft::Draft;
use crate::campaigns::tallies::Kind;
use crate::campaigns::variants::lot;
use crate::campaigns::{Metric, RecipientId, Status, Test, Variant};

each_store!(
    each_gets_his_variant_and_its_version_is_frozen,
    the_rest_gets_what_did_best,
    without_anybody_left_a_test_needs_no_winner,
    who_is_put_off_for_long_holds_back_nobody,
);

fn variant(name: &str, template: Option<&str>) -> Variant {
    Variant {
        name: name.to_owned(),
        weight: 1,
        template: template.map(ToOwned::to_owned),
        template_version: None,
        subject: Some(name.to_owned()),
    }
}

async fn each_gets_his_variant_and_its_version_is_frozen(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(20).await;
    put_template(&cx, "b", "B").await;
    let variants = vec![variant("one", None), variant("two", Some("b"))];
    let draft = Draft { key: Some("spring".to_owned()), variants, ..world.draft() };
    let id = world.started(draft).await;
    put_template(&cx, "b", "Other").await;
    world.run().await;
    world.check(id).await;
    let campaign = world.campaign(id).await;
    assert_eq!(campaign.content_for(Some(1)).template.unwrap().version, Some(1));
    let sql = "SELECT email, arm FROM campaign_recipients";
    for row in world.rows(sql).await {
        let expected = lot(&campaign, &row.text(0).unwrap().parse().unwrap()).arm;
        assert_eq!(row.optional_int(1).unwrap(), expected);
    }
    let tallies = world.tallies(id).await;
    let arms = [tallies.get(Kind::Arm, "0"), tallies.get(Kind::Arm, "1")];
    assert!(arms.iter().all(|count| *count > 0));
    assert_eq!(arms.iter().sum::<i64>(), 20);
}

async fn the_rest_gets_what_did_best(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(40).await;
    let draft = Draft {
        key: Some("spring".to_owned()),
        variants: vec![variant("one", None), variant("two", None), variant("three", None)],
        test: Some(Test { percent: 50, metric: Metric::Clicks, wait_ms: 3_600_000 }),
        ..world.draft()
    };
    let id = world.started(draft).await;
    world.run().await;
    world.check(id).await;
    let tested = world.sent();
    assert!((10..30).contains(&tested), "{tested}");
    let held = format!("campaign_batches WHERE campaign_id = {id} AND held = 1");
    assert!(world.count(&held).await > 0);
    let decide_at = world.campaign(id).await.progress.decide_at.unwrap();
    assert_eq!(decide_at.to_string(), "2026-07-01T13:00:00Z");
    // All open all, and machines click all; but people click the third.
    let items = bed.cx().await.items().await.unwrap();
    for arm in 0..3 {
        let (opens, people) = (20, if arm == 2 { 1 } else { 0 });
        let counted = Update::new(&tables::MAIN, keys::arm("spring", arm))
            .set("uniqueOpenCount", opens)
            .set("uniqueHumanOpenCount", opens)
            .set("uniqueClickCount", 9 - arm)
            .set("uniqueHumanClickCount", people);
        items.update(counted).await.unwrap();
    }
    bed.advance(59).await;
    world.handle_step(id).await;
    world.run().await;
    assert_eq!((world.sent(), world.status(id).await), (tested, Status::Sending));
    bed.advance(1).await;
    let all = tokio::join!(world.handle_step(id), world.handle_step(id));
    drop(all);
    world.run().await;
    world.check(id).await;
    let campaign = world.campaign(id).await;
    assert_eq!((campaign.status, campaign.progress.winner), (Status::Sent, Some(2)));
    assert_eq!(world.sent(), 40);
    assert_eq!(campaign.content_for(None).subject.as_deref(), Some("three"));
    let rest = i64::try_from(40 - tested).unwrap();
    assert!(world.tallies(id).await.get(Kind::Arm, "2") > rest);
}

async fn without_anybody_left_a_test_needs_no_winner(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = Draft {
        variants: vec![variant("one", None), variant("two", None)],
        test: Some(Test { percent: 50, metric: Metric::Opens, wait_ms: 3_600_000 }),
        ..world.draft()
    };
    let id = world.started(draft).await;
    world.run().await;
    assert_eq!(world.status(id).await, Status::Sent);
    assert_eq!(world.campaign(id).await.progress.winner, None);
}

async fn who_is_put_off_for_long_holds_back_nobody(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(40).await;
    for (hours, decided) in [(2, "2026-07-01T13:00:00Z"), (0, "2026-07-01T13:01:00Z")] {
        world.advance_to("2026-07-01T12:00:00Z".parse().unwrap()).await;
        let draft = Draft {
            variants: vec![variant("one", None), variant("two", None)],
            test: Some(Test { percent: 50, metric: Metric::Opens, wait_ms: 3_600_000 }),
            ..world.draft()
        };
        let id = world.started(draft).await;
        while world.status(id).await != Status::Sending {
            world.step().await;
        }
        let sql =
            format!("SELECT id FROM campaign_recipients WHERE campaign_id = {id} AND arm = 0");
        let late = RecipientId::from(world.rows(&sql).await[0].int(0).unwrap());
        let until =
            bed.access.now() + SignedDuration::from_hours(hours) + SignedDuration::from_secs(1);
        world.commit(move |tx, cx| regroup(tx, cx, id, 1, &[(late, until)])).await;
        world.run().await;
        world.check(id).await;
        // Whoever is put off for less than the wait is waited for.
        world.advance_to("2026-07-01T12:01:00Z".parse().unwrap()).await;
        world.run().await;
        let decide_at = world.campaign(id).await.progress.decide_at;
        assert_eq!(decide_at.unwrap().to_string(), decided);
        bed.advance(60).await;
        world.run().await;
        world.check(id).await;
        let left = format!("campaign_recipients WHERE campaign_id = {id} AND status = 'pending'");
        assert_eq!(world.count(&left).await, i64::from(hours > 0), "all others have it");
        bed.advance(hours * 60).await;
        world.run().await;
        world.check(id).await;
        assert_eq!(world.status(id).await, Status::Sent);
    }
}
