//! Two at once: the tags of a profile and their indexes are always in step.

use std::io::Cursor;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use proptest::prelude::*;
use tidings_access::Cx;
use tidings_kernel::{Delete, tables};
use tidings_testbed::{Bed, each_store, interrupted_at};
use tokio::task::JoinSet;

use super::{
    TagChange, address, bare, ensured, item, partition, rows, suppress, tags, tags_in_step, upsert,
    with_tags,
};
use crate::consent::subscriptions::{self, Unsubscribe};
use crate::consent::{Act, By, Proof, Scope, Whom};
use crate::contacts::{Upsert, erase, tag, was_erased};
use crate::{import, keys, suppression};

each_store!(
    racing_upserts_leave_index_and_profile_in_step,
    who_is_made_by_many_at_once_is_made_once,
    an_erasure_that_races_an_upsert_leaves_no_stray_tag,
    whoever_is_erased_while_something_is_written_of_him_has_no_items,
    whoever_is_erased_while_he_is_suppressed_is_so_by_a_hash_alone,
);

async fn racing_upserts_leave_index_and_profile_in_step(bed: &Bed) {
    let cx = bed.cx().await;
    let known = ["a", "b", "c", "d", "e", "f"];
    let mut racers = JoinSet::new();
    for name in known {
        let cx = cx.clone();
        let add = Upsert { tags: Some(TagChange::Add(tags(&[name]))), ..bare("ada@example.org") };
        racers.spawn(async move { upsert(&cx, add).await });
    }
    let created = racers.join_all().await.into_iter().filter(|done| {
        let done = done.as_ref().unwrap();
        done.created
    });
    assert_eq!(created.count(), 1);
    assert_eq!(tags_in_step(&cx, "ada@example.org", &known).await, known);

    let mut racers = JoinSet::new();
    for name in known {
        let cx = cx.clone();
        let replace = with_tags("ada@example.org", &[name]);
        racers.spawn(async move { upsert(&cx, replace).await });
    }
    racers.join_all().await.into_iter().for_each(|done| drop(done.unwrap()));
    assert_eq!(tags_in_step(&cx, "ada@example.org", &known).await.len(), 1);
}

async fn who_is_made_by_many_at_once_is_made_once(bed: &Bed) {
    let cx = bed.cx().await;
    let mut racers = JoinSet::new();
    for _ in 0..6 {
        let cx = cx.clone();
        racers.spawn(async move { ensured(&cx, "ada@example.org").await });
    }
    let ids = racers.join_all().await;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(rows(&cx, "SELECT id FROM leads WHERE workspace_id = $1").await.len(), 1);
}

async fn an_erasure_that_races_an_upsert_leaves_no_stray_tag(bed: &Bed) {
    let cx = bed.cx().await;
    let known = ["a", "b", "c"];
    for _ in 0..5 {
        upsert(&cx, with_tags("ada@example.org", &["a"])).await.unwrap();
        let erasing = {
            let cx = cx.clone();
            async move { erase(&cx, &address("ada@example.org")).await }
        };
        let (first, second) =
            tokio::join!(erasing, upsert(&cx, with_tags("ada@example.org", &["b", "c"])));
        first.unwrap();
        second.unwrap();
        tags_in_step(&cx, "ada@example.org", &known).await;
    }
    erase(&cx, &address("ada@example.org")).await.unwrap();
    assert!(tags_in_step(&cx, "ada@example.org", &known).await.is_empty());
    assert!(item(&cx, "SUB#ada@example.org", "PROFILE").await.is_none());
}

/// The erasure comes before each call of the items, from its beginning to its end.
async fn whoever_is_erased_while_something_is_written_of_him_has_no_items(bed: &Bed) {
    let cx = bed.cx().await;
    for what in Writes::ALL {
        for place in 0..12 {
            // Who is erased had left and was suppressed: neither must come back into the open.
            upsert(&cx, with_tags("ada@example.org", &["a"])).await.unwrap();
            suppress(&cx, "ada@example.org").await;
            if place % 2 == 0 {
                let gone = Delete::new(&tables::MAIN, keys::profile(&address("ada@example.org")));
                cx.items().await.unwrap().delete(gone).await.unwrap();
            }
            let within = cx.clone();
            let happens = move || -> BoxFuture<'static, ()> {
                let cx = within.clone();
                Box::pin(async move {
                    erase(&cx, &address("ada@example.org")).await.unwrap();
                })
            };
            what.write(&interrupted_at(bed, &cx, place, happens).await).await;
            let known = crate::contacts::is_known(&cx, &address("ada@example.org")).await.unwrap();
            let items = partition(&cx, &tables::MAIN, "SUB#ada@example.org").await;
            let tagged = partition(&cx, &tables::MAIN, "TAG#b").await;
            assert!(
                known || (items.is_empty() && tagged.is_empty()),
                "{what:?} at {place}: {items:?} {tagged:?}"
            );
            erase(&cx, &address("ada@example.org")).await.unwrap();
            let again = upsert(&cx, bare("ada@example.org")).await.unwrap();
            assert!(again.contact.suppressed, "{what:?} at {place}");
            erase(&cx, &address("ada@example.org")).await.unwrap();
        }
    }
}

/// Contacts, and who only got a copy.
async fn whoever_is_erased_while_he_is_suppressed_is_so_by_a_hash_alone(bed: &Bed) {
    let cx = bed.cx().await;
    for (place, is_contact) in (0..6).flat_map(|place| [(place, true), (place, false)]) {
        let email = format!("ada-{place}-{is_contact}@example.org");
        if is_contact {
            upsert(&cx, bare(&email)).await.unwrap();
        }
        let (within, whom) = (cx.clone(), address(&email));
        let happens = move || -> BoxFuture<'static, ()> {
            let (cx, whom) = (within.clone(), whom.clone());
            Box::pin(async move {
                erase(&cx, &whom).await.unwrap();
            })
        };
        suppress(&interrupted_at(bed, &cx, place, happens).await, &email).await;
        if !was_erased(&cx, &address(&email)).await.unwrap() {
            erase(&cx, &address(&email)).await.unwrap();
        }
        let items = partition(&cx, &tables::MAIN, &format!("SUB#{email}")).await;
        assert!(items.is_empty(), "{email}: {items:?}");
        let listed = partition(&cx, &tables::MAIN, "SUPPRESSIONS").await;
        assert!(!format!("{listed:?}").contains(&email), "{listed:?}");
        let status = suppression::status(&cx, &address(&email)).await.unwrap();
        assert!(status.suppression.is_some(), "{email}");
    }
}

/// What writes items of a person.
#[derive(Debug, Clone, Copy)]
enum Writes {
    Upsert,
    Import,
    Leave,
}

impl Writes {
    const ALL: [Self; 3] = [Self::Upsert, Self::Import, Self::Leave];

    async fn write(self, cx: &Cx) {
        match self {
            Self::Upsert => {
                upsert(cx, with_tags("ada@example.org", &["b"])).await.unwrap();
            }
            Self::Import => {
                let file = Cursor::new("email,tags\nada@example.org,b\n");
                let settings = import::Settings { source: "x".to_owned(), ..Default::default() };
                import::run(cx, file, settings, |_| ()).await.unwrap();
            }
            Self::Leave => {
                let act = Act {
                    by: By::Person,
                    source: "form".parse().unwrap(),
                    reason: None,
                    proof: Proof::default(),
                };
                let whom = Whom::Email(address("ada@example.org"));
                let cmd = Unsubscribe { whom, scope: Scope::Global, act };
                subscriptions::unsubscribe(cx, cmd).await.unwrap();
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Upsert(usize, Vec<usize>),
    Add(usize, Vec<usize>),
    Remove(usize, Vec<usize>),
    Erase(usize),
}

const PEOPLE: [&str; 2] = ["ada@example.org", "bob@example.org"];
const TAGS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn step() -> impl Strategy<Value = Step> {
    let some = || proptest::collection::vec(0..TAGS.len(), 0..4);
    prop_oneof![
        3 => (0..PEOPLE.len(), some()).prop_map(|(who, tags)| Step::Upsert(who, tags)),
        3 => (0..PEOPLE.len(), some()).prop_map(|(who, tags)| Step::Add(who, tags)),
        3 => (0..PEOPLE.len(), some()).prop_map(|(who, tags)| Step::Remove(who, tags)),
        1 => (0..PEOPLE.len()).prop_map(Step::Erase),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_index_has_what_the_profiles_have(steps in proptest::collection::vec(step(), 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bed = Arc::new(Bed::memory().await);
            let cx = bed.cx().await;
            let named = |tags: &[usize]| tags.iter().map(|tag| TAGS[*tag]).collect::<Vec<_>>();
            for step in steps {
                match step {
                    Step::Upsert(who, tags) => {
                        upsert(&cx, with_tags(PEOPLE[who], &named(&tags))).await.unwrap();
                    }
                    Step::Add(who, names) => {
                        let change = TagChange::Add(tags(&named(&names)));
                        let _ = tag(&cx, address(PEOPLE[who]), change).await;
                    }
                    Step::Remove(who, names) => {
                        let change = TagChange::Remove(tags(&named(&names)));
                        let _ = tag(&cx, address(PEOPLE[who]), change).await;
                    }
                    Step::Erase(who) => {
                        erase(&cx, &address(PEOPLE[who])).await.unwrap();
                    }
                }
                for who in PEOPLE {
                    tags_in_step(&cx, who, &TAGS).await;
                }
            }
        });
    }
}
