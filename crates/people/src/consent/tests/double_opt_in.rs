//! Subscriptions that count only once they are confirmed.

use jiff::ToSpan as _;
use tidings_access::Cx;
use tidings_testbed::{Bed, each_store};

use super::{act, ada, audience, come_back, is_marked, later, leave, log, logged, subscribe};
use crate::consent::audiences;
use crate::consent::confirmations::{self, Confirm, ConfirmError, RequestError};
use crate::consent::proof::Proof;
use crate::consent::subscriptions::{self, Subscribe, Subscription};
use crate::consent::{By, Scope, Status, SubscriptionId};

each_store! {
    a_subscription_is_pending_until_it_is_confirmed,
    a_request_expires_and_can_be_made_again,
    two_confirmations_at_once_are_one,
    leaving_makes_an_open_request_void,
    an_old_link_does_not_bring_back_who_left,
    a_request_does_not_weaken_what_was_taken_back,
    three_mails_a_day_ask,
    many_audiences_do_not_flood_one_person,
    whoever_has_the_confirmation_already_is_not_asked,
    nothing_of_another_workspace_can_be_confirmed,
}

async fn confirm(cx: &Cx, subscription: SubscriptionId) -> Result<Subscription, ConfirmError> {
    let proof = Proof { text_version: Some("v2".parse().unwrap()), ..Proof::default() };
    confirmations::confirm(cx, Confirm { subscription, proof }).await
}

async fn a_subscription_is_pending_until_it_is_confirmed(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", true).await;
    let asked = subscribe(&cx, &news, None, By::Person).await;
    assert!(asked.changed && asked.to_confirm.is_some());
    let pending = asked.subscription.unwrap();
    assert_eq!((pending.status, pending.verified_at), (Status::Pending, None));
    let again = subscribe(&cx, &news, None, By::Person).await;
    assert!(!again.changed && again.to_confirm.is_some());

    let cx = later(bed).await;
    let confirmed = confirm(&cx, pending.id).await.unwrap();
    assert_eq!((confirmed.status, confirmed.verified_at), (Status::Subscribed, Some(cx.now())));
    let again = confirm(&later(bed).await, pending.id).await.unwrap();
    assert_eq!(again, confirmed);
    assert_eq!(logged(&cx).await, ["confirmed news", "requested news"]);
    assert_eq!(log(&cx).await[0].text_version.as_deref(), Some("v2"));
    let settled = subscribe(&later(bed).await, &news, None, By::Person).await;
    assert!(!settled.changed && settled.to_confirm.is_none());
}

async fn a_request_expires_and_can_be_made_again(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", true).await;
    let id = subscribe(&cx, &news, None, By::Person).await.subscription.unwrap().id;
    bed.clock.advance((7 * 24).hours());
    let cx = bed.cx().await;
    let late = confirm(&cx, id).await.unwrap_err();
    assert_eq!(
        late.to_string(),
        format!("the time to confirm subscription {id} ended at 2026-07-08T12:00:00Z")
    );
    assert!(matches!(confirmations::request(&cx, id, 1).await, Err(RequestError::NotAsked(_))));
    assert!(subscribe(&cx, &news, None, By::Person).await.changed);
    confirm(&cx, id).await.unwrap();
    assert_eq!(logged(&cx).await, ["confirmed news", "requested news", "requested news"]);
}

async fn two_confirmations_at_once_are_one(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", true).await;
    let id = subscribe(&cx, &news, None, By::Person).await.subscription.unwrap().id;
    let (one, two) = tokio::join!(confirm(&cx, id), confirm(&cx, id));
    assert_eq!(one.unwrap(), two.unwrap());
    assert_eq!(logged(&cx).await, ["confirmed news", "requested news"]);
}

async fn leaving_makes_an_open_request_void(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", true).await;
    for scope in [Scope::Audience(news.id), Scope::Global] {
        let id =
            subscribe(&later(bed).await, &news, None, By::Person).await.subscription.unwrap().id;
        let cx = later(bed).await;
        leave(&cx, scope).await;
        let void = confirm(&cx, id).await.unwrap_err();
        assert!(matches!(void, ConfirmError::Expired { .. }), "{scope:?}: {void:?}");
        come_back(&later(bed).await, scope).await;
    }
}

async fn an_old_link_does_not_bring_back_who_left(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", true).await;
    let id = subscribe(&cx, &news, None, By::Person).await.subscription.unwrap().id;
    confirm(&cx, id).await.unwrap();
    let cx = later(bed).await;
    leave(&cx, Scope::Audience(news.id)).await;
    assert!(matches!(confirm(&cx, id).await, Err(ConfirmError::Expired { .. })));
    leave(&cx, Scope::Global).await;
    assert!(matches!(confirm(&later(bed).await, id).await, Err(ConfirmError::Expired { .. })));
    assert!(is_marked(&cx).await);
}

/// Anybody can type any address into a form.
async fn a_request_does_not_weaken_what_was_taken_back(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", true).await;
    leave(&cx, Scope::Audience(news.id)).await;
    leave(&cx, Scope::Global).await;
    let cx = later(bed).await;
    let asked = subscribe(&cx, &news, None, By::Person).await;
    assert!(asked.to_confirm.is_some() && asked.left_everything);
    let subscription = asked.subscription.unwrap();
    assert_eq!(subscription.status, Status::Unsubscribed);
    assert!(is_marked(&cx).await);
    // Only he can read the mail with the link.
    let cx = later(bed).await;
    let back = confirm(&cx, subscription.id).await.unwrap();
    assert_eq!((back.status, back.unsubscribed_at), (Status::Subscribed, None));
    assert!(!is_marked(&cx).await);
    assert_eq!(logged(&cx).await[..2], ["resubscribed everything", "confirmed news"]);
}

async fn three_mails_a_day_ask(bed: &Bed) {
    let cx = bed.cx().await;
    let update = audiences::Update {
        slug: super::slug("news"),
        name: None,
        double_opt_in: None,
        confirm_template_key: Some(Some("confirm".parse().unwrap())),
    };
    let news = audience(&cx, "news", true).await;
    let id = subscribe(&cx, &news, None, By::Person).await.subscription.unwrap().id;
    let silent = confirmations::request(&cx, id, 1).await.unwrap_err();
    assert!(matches!(silent, RequestError::NoTemplate(_)), "{silent:?}");
    audiences::update(&cx, update).await.unwrap();
    for send in 1..=3 {
        let request = confirmations::request(&later(bed).await, id, send).await.unwrap();
        assert_eq!((request.send, request.email.as_str()), (send, "ada@example.org"));
        assert_eq!(request.template_key.as_str(), "confirm");
        assert_eq!(request.expires_at.to_string(), "2026-07-08T12:00:00Z");
    }
    let again = confirmations::request(&later(bed).await, id, 3).await.unwrap();
    assert_eq!(again.send, 3, "one that was counted is told again, and counts once");
    let refused = confirmations::request(&later(bed).await, id, 4).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "3 mails have asked to confirm subscription {id} within a day; the next can go at \
             2026-07-02T12:01:00Z"
        )
    );
    // Leaving and asking anew is no way around.
    leave(&later(bed).await, Scope::Audience(news.id)).await;
    subscribe(&later(bed).await, &news, None, By::Person).await;
    let refused = confirmations::request(&later(bed).await, id, 4).await.unwrap_err();
    assert!(matches!(refused, RequestError::TooMany { .. }), "{refused:?}");
    bed.clock.advance(24.hours());
    assert_eq!(confirmations::request(&bed.cx().await, id, 4).await.unwrap().send, 4);
}

async fn many_audiences_do_not_flood_one_person(bed: &Bed) {
    let cx = bed.cx().await;
    let mut ids = Vec::new();
    for number in 0..5 {
        let name = format!("news-{number}");
        let made = audience(&cx, &name, true).await;
        let update = audiences::Update {
            slug: super::slug(&name),
            name: None,
            double_opt_in: None,
            confirm_template_key: Some(Some("confirm".parse().unwrap())),
        };
        audiences::update(&cx, update).await.unwrap();
        ids.push(subscribe(&cx, &made, None, By::Person).await.subscription.unwrap().id);
    }
    for (number, id) in ids.iter().cycle().take(10).enumerate() {
        let send = number as i64 / 5 + 1;
        confirmations::request(&later(bed).await, *id, send).await.unwrap();
    }
    // No subscription has its three yet.
    let refused = confirmations::request(&later(bed).await, ids[0], 3).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "10 mails have asked the person of subscription {} to confirm something within a day; the next can go at \
             2026-07-02T12:01:00Z",
            ids[0]
        )
    );
    bed.clock.advance(24.hours());
    confirmations::request(&bed.cx().await, ids[0], 3).await.unwrap();
}

async fn whoever_has_the_confirmation_already_is_not_asked(bed: &Bed) {
    let cx = bed.cx().await;
    let news = audience(&cx, "news", true).await;
    let act = act(By::Import);
    let cmd = Subscribe { whom: ada(), audience: news.id, client: None, confirmed: true, act };
    let done = subscriptions::subscribe(&cx, cmd).await.unwrap();
    let subscription = done.subscription.unwrap();
    assert_eq!((subscription.status, done.to_confirm), (Status::Subscribed, None));
    assert_eq!(subscription.verified_at, Some(cx.now()));
    let nothing = confirm(&cx, subscription.id).await.unwrap();
    assert_eq!(nothing, subscription);
}

async fn nothing_of_another_workspace_can_be_confirmed(bed: &Bed) {
    let cx = bed.cx().await;
    let other = bed.make_workspace("other").await;
    let news = audience(&cx, "news", true).await;
    let id = subscribe(&cx, &news, None, By::Person).await.subscription.unwrap().id;
    assert!(matches!(confirm(&other, id).await, Err(ConfirmError::Missing(_))));
    assert!(matches!(confirmations::request(&other, id, 1).await, Err(RequestError::Missing(_))));
    confirm(&cx, id).await.unwrap();
}
