//! What a tenant and its users notice of publishing.

use jiff::ToSpan as _;
use serde_json::json;
use tidings_kernel::queues;
use tidings_testbed::{Bed, each_store};

use super::super::{CancelError, NewPost, PublishError, RedactError, posts};
use super::{World, many, to, to_everyone, to_many, user};
use crate::forget;
use crate::keys;
use crate::records::{Audience, Post, State};
use crate::settings::{NewConfiguration, NewSettings, put_inbox, put_tenant};

each_store!(
    users_get_a_message_each_and_it_is_counted,
    what_a_user_gets_names_nobody_else,
    everyone_gets_one_item,
    a_thousand_have_it_before_the_answer_and_more_by_and_by,
    what_was_read_all_does_not_read_what_comes_after_it_with_an_earlier_id,
    the_same_request_is_answered_and_not_published_again,
    an_id_is_free_again_when_its_post_is_forgotten,
    a_post_can_wait_for_its_time,
    a_post_can_be_taken_back_before_its_time,
    a_post_is_taken_away_from_everyone,
    a_post_is_taken_away_from_its_users_read_or_not,
    what_is_taken_back_says_no_more_what_it_said,
    how_long_it_lives_is_decided_in_order,
    posts_are_of_one_tenant_and_one_inbox,
    who_is_forgotten_is_named_by_no_post,
);

async fn users_get_a_message_each_and_it_is_counted(bed: &Bed) {
    let world = World::new(bed).await;
    let watch =
        |uid| world.inbox.hints.watch(world.cx.workspace(), &world.key, &user(uid)).unwrap();
    let (mut ada, mut bob) = (watch("ada"), watch("bob"));
    let published = world.publish(to(&["ada", "bob", "ada"])).await;
    assert_eq!((published.recipients, published.state), (2, State::Done));
    assert!(!published.replayed);
    for uid in ["ada", "bob"] {
        let [copy] = &world.own(uid).await[..] else { panic!() };
        assert_eq!(copy.message.id, published.id);
        let content = copy.message.content.clone().unwrap();
        assert_eq!(
            (content.title.as_str(), &content.body),
            ("Hello", &json!({"text": "There is news"}))
        );
        let stats = world.stats(uid).await;
        assert_eq!((stats.published, stats.read, stats.rev), (1, 0, 1));
    }
    tokio::join!(ada.changed(), bob.changed());
    world.publish(NewPost { category: None, ..to(&["ada"]) }).await;
    assert_eq!(world.stats("ada").await.published, 2);
    world.counts_hold(&["ada", "bob"]).await;
    let post = world.post(&published.id).await;
    assert_eq!((post.delivered, post.audience, post.content), (2, Audience::Users, None));
    assert_eq!(world.work().await, 0);
    let page = posts(&world.cx, &world.key, 10, None).await.unwrap();
    assert_eq!(page.posts.len(), 2);
}

async fn what_a_user_gets_names_nobody_else(bed: &Bed) {
    let world = World::new(bed).await;
    let new = NewPost { label: Some("Customers".to_owned()), ..to(&["ada", "bob"]) };
    let published = world.publish(new).await;
    let items = world.all(&world.partition("ada"), "m#").await;
    let told = serde_json::to_string(&items[0]).unwrap();
    assert!(told.contains("ada") && told.contains("Customers") && !told.contains("bob"), "{told}");
    assert_eq!(world.post(&published.id).await.label.as_deref(), Some("Customers"));
}

async fn everyone_gets_one_item(bed: &Bed) {
    let world = World::new(bed).await;
    let watch = world.inbox.hints.watch(world.cx.workspace(), &world.key, &user("ada"));
    let first = world.publish(to_everyone()).await;
    assert_eq!((first.recipients, first.state), (0, State::Done));
    watch.unwrap().changed().await;
    let second = world.publish(NewPost { category: None, ..to_everyone() }).await;
    let mut public = world.public().await;
    public.sort_by_key(|public| public.seq);
    let found: Vec<_> = public.iter().map(|public| (public.seq, &public.message.id)).collect();
    assert_eq!(found, [(1, &first.id), (2, &second.id)]);
    let stats = world.public_stats().await;
    assert_eq!((stats.published, stats.issued, stats.rev), (2, 2, 2));
    world.counts_hold(&[]).await;
}

async fn a_thousand_have_it_before_the_answer_and_more_by_and_by(bed: &Bed) {
    let mut world = World::new(bed).await;
    let few = world.publish(to_many(70)).await;
    assert_eq!((few.recipients, few.state), (70, State::Done));
    let uids = many(70);
    world.counts_hold(&uids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    // What would have gone on with it comes for nothing.
    world.later(2).await;
    assert_eq!(world.work().await, 1);
    assert_eq!(world.stats("u69").await.published, 1);

    let many = world.publish(NewPost { category: None, ..to_many(1_010) }).await;
    assert_eq!((many.recipients, many.state), (1_010, State::Delivering));
    assert_eq!(world.stats("u1009").await.published, 0);
    assert_eq!(world.work().await, 2, "a page of users for each message");
    assert_eq!(world.post(&many.id).await.state, State::Done);
    assert_eq!(world.post(&many.id).await.delivered, 1_010);
    for uid in ["u0", "u69", "u70", "u999", "u1000", "u1009"] {
        let has = world.own(uid).await.iter().filter(|own| own.message.id == many.id).count();
        assert_eq!(has, 1, "{uid}");
    }
    world.counts_hold(&["u0", "u69", "u70", "u999", "u1000", "u1009"]).await;
    let redacted = world.inbox.redact(&world.cx, &world.key, &many.id).await.unwrap();
    assert_eq!(redacted.state, State::Redacting);
    assert_eq!(world.work().await, 2);
    assert_eq!(world.post(&many.id).await.state, State::Redacted);
    assert_eq!(world.stats("u1009").await.published, 0);
    assert_eq!(world.stats("u0").await.published, 1);
    world.counts_hold(&["u0", "u69", "u70", "u999", "u1000", "u1009"]).await;
}

async fn what_was_read_all_does_not_read_what_comes_after_it_with_an_earlier_id(bed: &Bed) {
    let world = World::new(bed).await;
    let first = world.publish(to(&["ada"])).await;
    // Another node's clock is ahead: its read-all is past the ids of the next minutes.
    let ahead = crate::ids::MessageId::first_of(world.cx.now() + 10.minutes());
    world.read_all("ada", &ahead).await;
    let second = world.publish(to(&["ada", "bob"])).await;
    let own = world.own("ada").await;
    let of = |id: &crate::ids::MessageId| own.iter().find(|own| own.message.id == *id).unwrap();
    assert_eq!(of(&first.id).marks.unread, None);
    assert_eq!(of(&second.id).marks.unread, Some(1));
    let stats = world.stats("ada").await;
    assert_eq!((stats.published, stats.read), (2, 1));
    assert_eq!(world.own("bob").await[0].marks.unread, None);
    world.counts_hold(&["ada", "bob"]).await;
    // The next read-all reads it as any other.
    world.read_all("ada", &ahead).await;
    world.counts_hold(&["ada", "bob"]).await;
}

async fn the_same_request_is_answered_and_not_published_again(bed: &Bed) {
    let mut world = World::new(bed).await;
    let new = |uids: &[&str]| NewPost { host_system_id: Some("order/1".to_owned()), ..to(uids) };
    let first = world.publish(new(&["ada", "bob"])).await;
    world.later(1).await;
    let again = world.publish(new(&["bob", "ada", "ada"])).await;
    assert_eq!(
        (again.id.clone(), again.replayed, again.state),
        (first.id.clone(), true, State::Done)
    );
    assert_eq!(again.recipients, 2);
    assert_eq!(world.stats("ada").await.published, 1);
    let other = NewPost { title: "Other".to_owned(), ..new(&["ada", "bob"]) };
    let refused = world.inbox.publish(&world.cx, &world.key, other).await;
    assert!(matches!(refused, Err(PublishError::OtherRequest(id)) if id == first.id));
    let everyone = NewPost { to: super::super::To::Everyone, ..new(&[]) };
    let refused = world.inbox.publish(&world.cx, &world.key, everyone).await;
    assert!(matches!(refused, Err(PublishError::OtherRequest(_))));
    // In another inbox it is another one.
    world.key = "other".parse().unwrap();
    assert!(!world.publish(new(&["ada"])).await.replayed);
    let host = |id: &str| NewPost { host_system_id: Some(id.to_owned()), ..to_everyone() };
    let first = world.publish(host("launch")).await;
    let again = world.publish(host("launch")).await;
    assert_eq!((again.id, again.replayed), (first.id, true));
    assert_eq!(world.public().await.len(), 1);
}

async fn an_id_is_free_again_when_its_post_is_forgotten(bed: &Bed) {
    let mut world = World::new(bed).await;
    let new = || NewPost { host_system_id: Some("daily".to_owned()), ..to(&["ada"]) };
    let everyone = || NewPost { host_system_id: Some("all".to_owned()), ..to_everyone() };
    let first = (world.publish(new()).await.id, world.publish(everyone()).await.id);
    world.later(29 * 24 * 60).await;
    assert!(world.publish(new()).await.replayed && world.publish(everyone()).await.replayed);
    // Nobody has swept yet.
    world.later(2 * 24 * 60).await;
    let (again, all) = (world.publish(new()).await, world.publish(everyone()).await);
    assert!(!again.replayed && !all.replayed);
    assert!(again.id != first.0 && all.id != first.1);
    assert!(world.publish(new()).await.replayed && world.publish(everyone()).await.replayed);
    assert_eq!(world.own("ada").await.len(), 1, "the first has expired");
}

async fn a_post_can_wait_for_its_time(bed: &Bed) {
    let mut world = World::new(bed).await;
    let send_at = world.cx.now() + 1.hour();
    let users = world.publish(NewPost { send_at: Some(send_at), ..to_many(40) }).await;
    let everyone = world.publish(NewPost { send_at: Some(send_at), ..to_everyone() }).await;
    assert_eq!((users.state, everyone.state), (State::Scheduled, State::Scheduled));
    world.later(59).await;
    assert_eq!(world.work().await, 0);
    assert_eq!((world.own("u0").await.len(), world.public().await.len()), (0, 0));
    // He reads all before it comes; it has an earlier id than what came meanwhile.
    let meanwhile = world.publish(to(&["u0"])).await;
    assert!(users.id > meanwhile.id, "it is of the time when it comes");
    world.later(2).await;
    assert_eq!(world.work().await, 2);
    let copy = &world.own("u39").await[0];
    assert_eq!((copy.message.received, copy.message.delivered), (send_at, world.cx.now()));
    assert_eq!(copy.message.expires, send_at + 720.hours());
    assert_eq!(world.public().await[0].message.id, everyone.id);
    assert_eq!(world.post(&users.id).await.state, State::Done);
    assert_eq!(world.post(&everyone.id).await.content, None);
    world.counts_hold(&["u0", "u39"]).await;
    // One that is past means now.
    let now = world.publish(NewPost { send_at: Some(send_at), ..to(&["ada"]) }).await;
    assert_eq!(now.state, State::Done);
}

async fn a_post_can_be_taken_back_before_its_time(bed: &Bed) {
    let mut world = World::new(bed).await;
    let scheduled = |new: NewPost, at| NewPost { send_at: Some(at), ..new };
    let send_at = world.cx.now() + 1.hour();
    let users = world.publish(scheduled(to(&["ada"]), send_at)).await;
    let everyone = world.publish(scheduled(to_everyone(), send_at)).await;
    let (cx, key) = (world.cx.clone(), world.key.clone());
    let post = world.inbox.cancel(&cx, &key, &users.id).await.unwrap();
    assert_eq!((post.state, post.content), (State::Cancelled, None));
    assert_eq!(world.inbox.cancel(&cx, &key, &users.id).await.unwrap().state, State::Cancelled);
    assert_eq!(world.inbox.redact(&cx, &key, &everyone.id).await.unwrap().state, State::Cancelled);
    world.later(120).await;
    assert_eq!(world.work().await, 0, "its timer is gone");
    assert_eq!((world.own("ada").await.len(), world.public().await.len()), (0, 0));
    let done = world.publish(to(&["ada"])).await;
    let refused = world.inbox.cancel(&cx, &key, &done.id).await;
    assert!(matches!(refused, Err(CancelError::NotScheduled(State::Done))));
    let nobody = "00000000000000000".parse().unwrap();
    assert!(matches!(world.inbox.cancel(&cx, &key, &nobody).await, Err(CancelError::Missing(_))));
    assert!(matches!(world.inbox.redact(&cx, &key, &nobody).await, Err(RedactError::Missing(_))));
}

async fn a_post_is_taken_away_from_everyone(bed: &Bed) {
    let world = World::new(bed).await;
    let (first, second) = (world.publish(to_everyone()).await, world.publish(to_everyone()).await);
    let post = world.inbox.redact(&world.cx, &world.key, &first.id).await.unwrap();
    assert_eq!(post.state, State::Redacted);
    let public = world.public().await;
    let of = |id: &crate::ids::MessageId| public.iter().find(|one| one.message.id == *id).unwrap();
    let gone = of(&first.id);
    assert_eq!((gone.redacted, gone.message.content.as_ref(), gone.seq), (Some(1), None, 1));
    assert_eq!(gone.message.category.as_ref().unwrap().as_str(), "news");
    assert_eq!(of(&second.id).redacted, None);
    let stats = world.public_stats().await;
    assert_eq!((stats.published, stats.redactions, stats.rev, stats.issued), (1, 1, 3, 2));
    // Again changes nothing.
    world.inbox.redact(&world.cx, &world.key, &first.id).await.unwrap();
    assert_eq!(world.public_stats().await, stats);
    world.inbox.redact(&world.cx, &world.key, &second.id).await.unwrap();
    assert_eq!(world.public_stats().await.redactions, 2);
    world.counts_hold(&[]).await;
}

async fn a_post_is_taken_away_from_its_users_read_or_not(bed: &Bed) {
    let world = World::new(bed).await;
    let uids = ["ada", "bob", "cleo", "dan"];
    let kept = world.publish(to(&uids)).await;
    let gone = world.publish(to(&uids)).await;
    world.read("ada", &gone.id, Some("news")).await;
    let latest = kept.id.clone().max(gone.id.clone());
    world.read_all("bob", &latest).await;
    world.counts_hold(&uids).await;
    let post = world.inbox.redact(&world.cx, &world.key, &gone.id).await.unwrap();
    assert_eq!((post.state, post.redacted), (State::Redacted, 4));
    for (uid, read) in [("ada", 0), ("bob", 1), ("cleo", 0)] {
        let stats = world.stats(uid).await;
        assert_eq!((stats.published, stats.read), (1, read), "{uid}");
        assert_eq!(world.own(uid).await[0].message.id, kept.id);
    }
    world.counts_hold(&uids).await;
    // Again changes nothing, neither does the job that would have gone on with it.
    world.inbox.redact(&world.cx, &world.key, &gone.id).await.unwrap();
    world.bed.advance(2).await;
    assert_eq!(world.bed.work(&queues::INBOX_POSTS, world.worker()).await, 1);
    world.counts_hold(&uids).await;
}

async fn what_is_taken_back_says_no_more_what_it_said(bed: &Bed) {
    let world = World::new(bed).await;
    let said = "Secret";
    let new = |new: NewPost, host: &str| NewPost {
        label: Some(format!("{said} readers")),
        title: said.to_owned(),
        body: json!(said),
        sender: format!("{said} sender"),
        host_system_id: Some(host.to_owned()),
        ..new
    };
    let later = Some(world.cx.now() + 1.hour());
    let posts = [
        new(to_everyone(), "a"),
        new(to(&["ada"]), "b"),
        new(to_many(40), "c"),
        NewPost { send_at: later, ..new(to_everyone(), "d") },
    ];
    for post in posts {
        let published = world.publish(post.clone()).await;
        world.inbox.redact(&world.cx, &world.key, &published.id).await.unwrap();
        let stored = world.post(&published.id).await;
        assert_eq!((stored.label, stored.content), (None, None), "{}", stored.state);
        // Operators are told whose it was, and its request is still known.
        assert_eq!(stored.sender, post.sender);
        let again = world.publish(post).await;
        assert_eq!((again.id, again.replayed), (published.id, true));
    }
    let partition = keys::public(world.cx.workspace(), &world.key);
    let left = world.all(&partition, keys::MESSAGES).await;
    assert_eq!(left.len(), 1, "a tombstone");
    assert!(!format!("{left:?}").contains(said), "{left:?}");
    assert_eq!(left[0].get("host_system_id"), None);
}

async fn how_long_it_lives_is_decided_in_order(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = &world.cx;
    let lives = async |category: Option<&str>, expires_in: Option<&str>| {
        let new = NewPost {
            category: category.map(ToOwned::to_owned),
            expires_in: expires_in.map(ToOwned::to_owned),
            ..to(&["ada"])
        };
        let published = world.publish(new).await;
        let own = world.own("ada").await;
        let own = own.iter().find(|own| own.message.id == published.id).unwrap();
        own.message.expires.duration_since(cx.now()).as_secs()
    };
    assert_eq!(lives(Some("news"), None).await, 30 * 86_400);
    let settings = NewSettings { ttl: Some("90d".to_owned()), ..NewSettings::default() };
    put_tenant(cx, settings).await.unwrap();
    assert_eq!(lives(Some("news"), None).await, 90 * 86_400);
    let ttl = [("default", "7d"), ("news", "30m")];
    let ttl = ttl.map(|(name, time)| (name.to_owned(), time.to_owned())).into();
    put_inbox(cx, &world.key, NewConfiguration { ttl, ..Default::default() }).await.unwrap();
    assert_eq!(lives(Some("news"), None).await, 1_800);
    assert_eq!(lives(Some("other"), None).await, 7 * 86_400);
    assert_eq!(lives(None, None).await, 7 * 86_400);
    assert_eq!(lives(Some("news"), Some("600s")).await, 600);
    // Its request is known longer than its messages live.
    let new = NewPost {
        expires_in: Some("600s".to_owned()),
        host_system_id: Some("short".to_owned()),
        ..to(&["ada"])
    };
    let published = world.publish(new).await;
    let post = world.post(&published.id).await;
    assert_eq!(post.kept_until.duration_since(cx.now()).as_secs(), 7 * 86_400);
}

async fn posts_are_of_one_tenant_and_one_inbox(bed: &Bed) {
    let world = World::new(bed).await;
    let other = bed.make_workspace("other").await;
    let host = |new: NewPost| NewPost { host_system_id: Some("same".to_owned()), ..new };
    let mine = world.publish(host(to(&["ada"]))).await;
    let public = world.publish(to_everyone()).await;
    let theirs = world.inbox.publish(&other, &world.key, host(to(&["ada"]))).await.unwrap();
    assert!(!theirs.replayed);
    for id in [&mine.id, &public.id] {
        assert_eq!(super::super::post(&other, &world.key, id).await.unwrap(), None);
        let refused = world.inbox.redact(&other, &world.key, id).await;
        assert!(matches!(refused, Err(RedactError::Missing(_))));
        let elsewhere = "elsewhere".parse().unwrap();
        assert_eq!(super::super::post(&world.cx, &elsewhere, id).await.unwrap(), None);
    }
    world.inbox.redact(&other, &world.key, &theirs.id).await.unwrap();
    assert_eq!(world.own("ada").await[0].message.id, mine.id);
    assert_eq!(world.stats("ada").await.published, 1);
}

async fn who_is_forgotten_is_named_by_no_post(bed: &Bed) {
    let mut world = World::new(bed).await;
    let few = world.publish(to(&["u7", "u1005"])).await;
    let done = world.publish(to_many(40)).await;
    let under_way = world.publish(to_many(1_010)).await;
    for uid in ["u7", "u1005"] {
        forget(&world.cx, &user(uid)).await.unwrap();
    }
    for post in [&few, &done, &under_way] {
        let pages = keys::all_recipients(world.cx.workspace(), &world.key, &post.id);
        let (mut named, mut pages) = (Vec::new(), world.all(&pages, "u#").await.into_iter());
        assert!(pages.all(|page| {
            named.extend(Post::read_recipients(&page).unwrap());
            true
        }));
        assert_eq!(named.len() as i64, post.recipients, "places stay as they are");
        let others: std::collections::BTreeSet<_> = named.iter().collect();
        assert_eq!(others.len(), named.len(), "nobody stands there twice");
        assert!(!named.contains(&user("u7")) && !named.contains(&user("u1005")));
    }
    // What is under way reaches the others, and can be taken away from them.
    world.later(2).await;
    world.work().await;
    assert_eq!(world.post(&under_way.id).await.state, State::Done);
    assert_eq!(world.stats("u8").await.published, 2);
    for uid in ["u7", "u1005"] {
        assert_eq!(world.stats(uid).await.published, 0);
    }
    world.inbox.redact(&world.cx, &world.key, &done.id).await.unwrap();
    assert_eq!(world.post(&done.id).await.state, State::Redacted);
    world.counts_hold(&["u7", "u8", "u1005"]).await;
}
