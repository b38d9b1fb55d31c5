//! Looking ahead and trying a campaign before anybody gets it, and how it is called.

use std::ops::ControlFlow;

use serde_json::{Map, json};
use tidings_access::Cx;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{self, AcceptError, Messages, Status as MessageStatus};
use tidings_people::suppression::{self, Kind, Suppress};
use tidings_testbed::{Bed, each_store};

use super::{World, find, put_template};
use crate::campaigns::draft::{Draft, DraftError};
use crate::campaigns::named::{self, Name, NameError};
use crate::campaigns::progress::standing;
use crate::campaigns::test_send::{self, TestSend, Tested};
use crate::campaigns::{Content, Schedule, Status, Template, Variant, control, dry_run, written};

each_store!(
    a_dry_run_counts_and_writes_nothing_down,
    a_dry_run_is_the_same_for_a_draft_and_for_a_campaign,
    a_test_has_the_subject_of_its_variant_and_is_no_part_of_the_campaign,
    a_campaign_is_found_by_its_id_its_key_and_no_other_key,
    a_campaign_is_written_as_it_was_read,
    the_standing_follows_a_campaign,
    what_is_scheduled_can_start_at_once,
);

async fn suppress(cx: &Cx, email: &str) {
    let cmd = Suppress {
        email: email.parse().unwrap(),
        kind: Kind::Manual,
        reason: "asked".parse().unwrap(),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(cx, cmd).await.unwrap();
}

async fn a_dry_run_counts_and_writes_nothing_down(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(5).await;
    suppress(&cx, "p3@example.org").await;
    let content = Content {
        template: Some(Template { key: "nothing".to_owned(), version: None }),
        ..Content::default()
    };
    let draft = Draft {
        sender: Some("nobody".parse().unwrap()),
        ..Draft::of(world.client, "Spring", content)
    };
    let run = dry_run::of_draft(&cx, draft, &mut |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!((run.preview.count, run.preview.sendable), (5, 4));
    assert_eq!(run.preview.excluded.values().sum::<u64>(), 1);
    let obstacles: Vec<_> = run.obstacles.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(obstacles, ["template", "sender"]);
    for table in ["campaigns", "campaign_recipients", "campaign_moves"] {
        assert_eq!(world.count(table).await, 0, "{table}");
    }
    let wrong = Draft { filter: json!({"all": [{"tug": 1}]}), ..world.draft() };
    let refused = dry_run::of_draft(&cx, wrong, &mut |_| ControlFlow::Continue(())).await;
    let Err(DraftError::Invalid(wrong)) = refused else { panic!("{refused:?}") };
    assert_eq!(wrong[0].field, "filter.all[0]");
}

async fn a_dry_run_is_the_same_for_a_draft_and_for_a_campaign(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(3).await;
    let draft =
        Draft { filter: json!({"contacts": ["p1@example.org", "x@example.org"]}), ..world.draft() };
    let mut go_on = |_: &_| ControlFlow::Continue(());
    let of_draft = dry_run::of_draft(&cx, draft.clone(), &mut go_on).await.unwrap();
    let campaign = world.campaign(world.drafted(draft).await).await;
    let of_campaign = dry_run::of_campaign(&cx, &campaign, &mut go_on).await.unwrap();
    assert_eq!(of_draft, of_campaign);
    assert_eq!((of_draft.preview.count, of_draft.obstacles.len()), (1, 0));
}

fn test(campaign: crate::campaigns::Campaign, to: &[&str], variant: Option<&str>) -> TestSend {
    TestSend {
        campaign,
        to: to.iter().map(|one| one.parse().unwrap()).collect(),
        variant: variant.map(ToOwned::to_owned),
        context: Map::new(),
        idempotency_key: Some("try".to_owned()),
    }
}

fn shown(told: &[Tested]) -> Vec<String> {
    let one = |one: &Tested| format!("{} {}", one.to, one.variant.as_deref().unwrap_or("-"));
    told.iter().map(one).collect()
}

async fn a_test_has_the_subject_of_its_variant_and_is_no_part_of_the_campaign(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    put_template(&cx, "spring", "The template's").await;
    suppress(&cx, "gone@example.org").await;
    let variant = |name: &str, subject: &str| Variant {
        name: name.to_owned(),
        weight: 1,
        template: Some("spring".to_owned()),
        template_version: None,
        subject: Some(subject.to_owned()),
    };
    let variants = vec![variant("a", "One {{ email }}"), variant("b", "Two")];
    let draft = Draft {
        key: Some("spring".to_owned()),
        variants,
        ..Draft::of(world.client, "Spring", Content::default())
    };
    let campaign = world.campaign(world.drafted(draft).await).await;
    let messages = Messages::new(Templates::default());
    let to = ["ada@example.org", "gone@example.org", "Ada@example.org"];
    let told = test_send::test(&cx, &messages, test(campaign.clone(), &to, None)).await.unwrap();
    assert_eq!(
        shown(&told),
        ["ada@example.org a", "ada@example.org b", "gone@example.org a", "gone@example.org b"]
    );
    let ids: Vec<_> = told.iter().map(|one| one.answer.as_ref().unwrap().id).collect();
    let again = test_send::test(&cx, &messages, test(campaign.clone(), &to, None)).await.unwrap();
    assert!(again.iter().all(|one| one.answer.as_ref().unwrap().replayed));
    let first = transactional::Find { id: ids[0], client: None };
    let message = transactional::show(&cx, first).await.unwrap().message;
    assert_eq!(json!(message.metadata), json!({"test": true, "campaign": "spring"}));
    assert_eq!(message.status, MessageStatus::Queued);
    assert_eq!(told[2].answer.as_ref().unwrap().status, MessageStatus::Skipped);
    assert_eq!(world.count("campaign_recipients").await, 0);
    let one = test_send::test(&cx, &messages, test(campaign.clone(), &to[..1], Some("b"))).await;
    // The key was used for the first one of another list.
    assert!(matches!(one.unwrap()[0].answer, Err(AcceptError::KeyReused(_))));
    for (to, variant) in [(&to[..0], None), (&to[..1], Some("c"))] {
        let refused = test_send::test(&cx, &messages, test(campaign.clone(), to, variant)).await;
        assert!(matches!(refused, Err(AcceptError::Invalid(_))), "{refused:?}");
    }
}

async fn a_campaign_is_found_by_its_id_its_key_and_no_other_key(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let with_key = Draft { key: Some("spring".to_owned()), ..world.draft() };
    let (with_key, without) = (world.drafted(with_key).await, world.drafted(world.draft()).await);
    let found = |text: String| {
        let cx = cx.clone();
        async move {
            let name: Name = text.parse().unwrap();
            match named::find(&cx, &name, None).await {
                Ok(campaign) => Some(campaign.id),
                Err(NameError::Missing(_)) => None,
                Err(error) => panic!("{error}"),
            }
        }
    };
    assert_eq!(found(with_key.to_string()).await, Some(with_key));
    assert_eq!(found("spring".to_owned()).await, Some(with_key));
    assert_eq!(found(format!("campaign-{without}")).await, Some(without));
    assert_eq!(found(format!("campaign-{with_key}")).await, None, "it has a key of its own");
    for other in ["0", "-1", "Spring", "campaign-", ""] {
        assert_eq!(found(other.to_owned()).await, None, "{other}");
    }
    let campaign = world.campaign(with_key).await;
    let slugs = named::slugs(&cx, &[&campaign]).await.unwrap();
    assert_eq!((slugs.client(&campaign), slugs.audience(&campaign)), ("shop", None));
    for number in ["17", "preview"] {
        let draft = Draft { key: Some(number.to_owned()), ..world.draft() };
        let refused = crate::campaigns::draft::create(&cx, draft).await;
        assert!(matches!(refused, Err(DraftError::Invalid(_))), "{number}");
    }
}

async fn a_campaign_is_written_as_it_was_read(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let given = json!({
        "external_key": "spring",
        "name": "Spring",
        "filter": {"tag": "beta"},
        "sender": "hello",
        "subject": "Hello",
        "preview_text": "Look",
        "html": "<p>Hi</p>",
        "text": "Hi",
        "variants": [
            {"name": "a", "weight": 1, "subject": "A", "template": null},
            {"name": "b", "weight": 2, "subject": "B", "template": null},
        ],
        "test": {"percent": 20, "metric": "clicks", "wait": "240m"},
        "tracking": "off",
        "metadata": {"team": "growth"},
        "local_time": "2026-08-01T09:00:00",
        "rate_per_hour": 1000,
        "warmup": [500, 1000],
    });
    let draft = written::read(world.client, given.as_object().unwrap().clone()).unwrap();
    let created = crate::campaigns::draft::create(&cx, draft.clone()).await;
    let campaign = created.unwrap().campaign;
    assert_eq!(json!(written::write(&campaign, (None, None))), given);
    let again = written::write(&world.campaign(campaign.id).await, (None, None));
    assert_eq!(written::read(world.client, again).unwrap(), draft);
}

async fn the_standing_follows_a_campaign(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    world.crowd(5).await;
    world.people(["fail@example.org".to_owned(), "lost@example.org".to_owned()]).await;
    suppress(&cx, "p3@example.org").await;
    let id = world.drafted(world.draft()).await;
    assert_eq!(standing(&cx, find(id)).await.unwrap().ended(), 0);
    world.start(id).await;
    world.run().await;
    let now = standing(&cx, find(id)).await.unwrap();
    assert_eq!((now.sent, now.failed, now.skipped, now.uncertain), (4, 1, 1, 1));
    assert_eq!((now.ended(), now.campaign.progress.recipients), (7, 7));
}

async fn what_is_scheduled_can_start_at_once(bed: &Bed) {
    let (world, cx) = (World::new(bed).await, bed.cx().await);
    let id = world.drafted(world.draft()).await;
    let then = cx.now().saturating_add(jiff::SignedDuration::from_hours(48)).unwrap();
    let at = |when| control::Start { campaign: find(id), when: Some(when) };
    let later = control::When::Then(Schedule::At(then));
    assert_eq!(control::start(&cx, at(later)).await.unwrap().campaign.status, Status::Scheduled);
    let started = control::start(&cx, at(control::When::Now)).await.unwrap().campaign;
    assert_eq!((started.status, started.schedule), (Status::Snapshotting, None));
}
