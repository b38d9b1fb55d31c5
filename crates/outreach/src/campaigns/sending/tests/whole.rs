//! Campaigns from the draft to the last recipient, with all their workers.

use serde_json::json;
use tidings_delivery::senders;
use tidings_kernel::{SendError, queues};
use tidings_testbed::{Bed, each_store};

use super::{Sending, World};
use crate::campaigns::control::{Start, pause, resume, retry_failed, start};
use crate::campaigns::draft::{self, Draft, Find};
use crate::campaigns::tallies::Kind as Tally;
use crate::campaigns::{Content, Status, steps};

each_store!(a_campaign_reaches_everybody_once, who_failed_is_tried_again_with_another_batch,);

/// A campaign that was started, with the sender of the client.
async fn started<'w, 'a>(world: &'w World<'a>) -> Sending<'w, 'a> {
    let cx = world.bed.cx().await;
    let sender = senders::NewSender {
        slug: "hello".parse().unwrap(),
        from_email: "hello@example.org".parse().unwrap(),
        from_name: Some("The shop".parse().unwrap()),
        reply_to: None,
        is_default: true,
    };
    senders::add(&cx, senders::Add { client: world.client, sender }).await.unwrap();
    let content = Content {
        subject: Some("Hello {{ firstName }}".to_owned()),
        html: Some(
            "<p>Hi {{ firstName }}, <a href=\"{{ unsubscribeUrl }}\">bye</a></p>".to_owned(),
        ),
        ..Content::default()
    };
    let draft = Draft {
        key: Some("spring".to_owned()),
        audience: Some("news".parse().unwrap()),
        filter: json!({}),
        ..Draft::of(world.client, "Spring", content)
    };
    let campaign = draft::create(&cx, draft).await.unwrap().campaign.id;
    start(&cx, Start { campaign: Find { id: campaign, client: None }, when: None }).await.unwrap();
    Sending { world, campaign, messages: Vec::new() }
}

/// Lets all workers work until nothing is due.
async fn work(world: &World<'_>) {
    let steps = steps::handler(world.bed.access.clone());
    loop {
        let did = world.bed.work(&queues::CAMPAIGN_STEPS, steps.clone()).await;
        if did + world.work().await == 0 {
            return;
        }
    }
}

async fn a_campaign_reaches_everybody_once(bed: &Bed) {
    let world = World::new(bed, 120).await;
    let sending = started(&world).await;
    let find = Find { id: sending.campaign, client: None };
    let steps = steps::handler(bed.access.clone());
    while sending.status().await != Status::Sending {
        assert_ne!(bed.work(&queues::CAMPAIGN_STEPS, steps.clone()).await, 0);
    }
    pause(&bed.cx().await, find, None).await.unwrap();
    work(&world).await;
    assert_eq!(world.provider.asked(), 0);
    resume(&bed.cx().await, find, None).await.unwrap();
    work(&world).await;
    assert_eq!(world.provider.taken().len(), 120);
    sending.check_end("after all").await;
    assert_eq!(world.queue().await, 0);
}

async fn who_failed_is_tried_again_with_another_batch(bed: &Bed) {
    let world = World::new(bed, 9).await;
    let sending = started(&world).await;
    let find = Find { id: sending.campaign, client: None };
    // One of nine is enough for the brake.
    world.take_brake_off().await;
    for _ in 0..10 {
        world.provider.answers("p003@example.org", SendError::Later("451".to_owned()));
    }
    world.provider.answers("p005@example.org", SendError::Refused("550".to_owned()));
    work(&world).await;
    for _ in 0..10 {
        bed.advance(5 * 60).await;
        work(&world).await;
    }
    assert_eq!(sending.status().await, Status::Sent);
    assert_eq!(sending.tallies().await.get(Tally::Outcome, "failed"), 2);
    assert_eq!(world.provider.taken().len(), 7);
    // Once more, and he is not given up at the first "not now".
    world.provider.answers("p003@example.org", SendError::Later("451".to_owned()));
    retry_failed(&bed.cx().await, find, None).await.unwrap();
    work(&world).await;
    bed.advance(5).await;
    work(&world).await;
    sending.check_end("after they were tried again").await;
    assert_eq!(sending.tallies().await.get(Tally::Outcome, "sent"), 9);
}
