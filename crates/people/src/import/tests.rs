//! Files as people have them, on both engines.

mod crash;

use std::collections::BTreeSet;
use std::io::Cursor;

use tidings_access::Cx;
use tidings_jobs::contracts::{ConfirmationAsk, Contract as _};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::{Confirmation, Counts, Event, Fault, Settings, preview, run};
use crate::consent::confirmations::{self, Confirm, ConfirmError};
use crate::consent::{Proof, audiences};
use crate::contacts::{self, Attributes, TagChange, Upsert};
use crate::suppression::{self, Kind, Suppress};

each_store!(
    a_file_becomes_contacts_and_doing_it_again_changes_nothing,
    a_preview_counts_the_same_and_writes_nothing,
    a_file_takes_back_neither_an_unsubscription_nor_a_suppression,
    a_file_can_unsubscribe_and_suppress,
    an_empty_cell_clears_nothing,
    bad_lines_are_told_and_the_others_go_in,
    whoever_is_in_the_file_twice_gets_both_lines,
    whoever_is_far_down_in_the_file_again_gets_the_later_line_last,
    time_zones_come_out_of_a_file,
    everybody_is_subscribed_with_a_proof_unless_he_said_no_before,
    a_file_confirms_nothing_and_brings_nobody_back,
    a_file_that_unsubscribes_makes_open_requests_void,
    whoever_must_confirm_is_asked_once,
    what_was_confirmed_elsewhere_is_not_asked_for,
    an_export_of_seed_003_comes_in_with_all_that_stands_against_its_people,
    a_line_that_is_left_out_leaves_nothing_behind,
    tags_and_their_index_are_in_step_after_an_import,
    two_imports_of_the_same_file_at_once_make_everybody_once,
);

const FILE: &str = "email,first name,tags,plan\n\
    Ada@Example.org,Ada,vip;beta,pro\n\
    bob@example.org,Bob,,\n";

fn settings() -> Settings {
    Settings { source: "trade fair, form 3".to_owned(), ..Settings::default() }
}

async fn import(cx: &Cx, text: &str, settings: Settings) -> (Counts, Vec<Fault>) {
    let mut faults = Vec::new();
    let keep = |event: Event<'_>| {
        if let Event::Left(fault) = event {
            faults.push(fault.clone());
        }
    };
    let counts = run(cx, Cursor::new(text.to_owned()), settings, keep).await.unwrap();
    (counts, faults)
}

async fn tag_index(cx: &Cx, tag: &str) -> BTreeSet<String> {
    use tidings_kernel::{Query, tables};
    let query = Query::new(&tables::MAIN, crate::keys::tag_partition(tag)).limit(10_000);
    let page = cx.items().await.unwrap().query(query).await.unwrap();
    page.items.iter().map(|item| item.text("email").unwrap().to_owned()).collect()
}

async fn number(cx: &Cx, sql: &'static str) -> i64 {
    let read = cx.database().read(move |tx| {
        let rows = tx.query(sql, &[])?;
        rows.first().map_or(Ok(0), |row| row.int(0))
    });
    read.await.unwrap()
}

async fn a_file_becomes_contacts_and_doing_it_again_changes_nothing(bed: &Bed) {
    let cx = bed.cx().await;
    let (counts, _) = import(&cx, FILE, settings()).await;
    assert_eq!(counts, Counts { lines: 2, new: 2, ..Counts::default() });
    let ada = contacts::get(&cx, &"ada@example.org".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(ada.contact.first_name.as_deref(), Some("Ada"));
    assert_eq!(ada.contact.attributes["plan"], "pro".into());
    assert_eq!(ada.contact.tags, BTreeSet::from(["beta".to_owned(), "vip".to_owned()]));
    assert!(!ada.contact.unsubscribed && !ada.contact.suppressed);
    let (counts, _) = import(&cx, FILE, settings()).await;
    assert_eq!(counts, Counts { lines: 2, unchanged: 2, ..Counts::default() });
    assert_eq!(number(&cx, "SELECT count(*) FROM leads").await, 2);
    assert_eq!(number(&cx, "SELECT count(*) FROM lead_organizations").await, 2);
}

async fn a_preview_counts_the_same_and_writes_nothing(bed: &Bed) {
    let cx = bed.cx().await;
    let text = format!("{FILE}nobody,x,,\nada@example.org,Ada,,free\n");
    let mut faults = 0;
    let count = |event: Event<'_>| faults += u64::from(matches!(event, Event::Left(_)));
    let looked = preview(&cx, Cursor::new(text.clone()), settings(), count).await.unwrap();
    assert_eq!(faults, 1);
    assert_eq!(looked, Counts { lines: 4, new: 2, updated: 1, invalid: 1, ..Counts::default() });
    assert_eq!(number(&cx, "SELECT count(*) FROM leads").await, 0);
    assert_eq!(import(&cx, &text, settings()).await.0, looked);
}

async fn a_file_takes_back_neither_an_unsubscription_nor_a_suppression(bed: &Bed) {
    let cx = bed.cx().await;
    let suppress = Suppress {
        email: "ada@example.org".parse().unwrap(),
        kind: Kind::Complaint,
        reason: "abuse".parse().unwrap(),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(&cx, suppress).await.unwrap();
    import(&cx, "email,unsubscribed\nbob@example.org,yes\n", settings()).await;
    let text =
        "email,unsubscribed,suppressed,plan\nada@example.org,no,no,x\nbob@example.org,no,no,x\n";
    let (counts, _) = import(&cx, text, settings()).await;
    assert_eq!((counts.suppressed, counts.unsubscribed), (1, 1));
    let ada = contacts::get(&cx, &"ada@example.org".parse().unwrap()).await.unwrap().unwrap();
    let bob = contacts::get(&cx, &"bob@example.org".parse().unwrap()).await.unwrap().unwrap();
    assert!(ada.contact.suppressed && ada.suppression.is_some());
    assert!(bob.contact.unsubscribed);
    assert_eq!(bob.contact.attributes["plan"], "x".into());
}

async fn a_file_can_unsubscribe_and_suppress(bed: &Bed) {
    let cx = bed.cx().await;
    import(&cx, "email\nada@example.org\nbob@example.org\n", settings()).await;
    let text = "email,unsubscribed,suppressed\nada@example.org,yes,\nbob@example.org,,yes\ncy@example.org,yes,yes\n";
    let (counts, _) = import(&cx, text, settings()).await;
    assert_eq!((counts.unsubscribed, counts.suppressed), (2, 2));
    for (email, unsubscribed, suppressed) in [
        ("ada@example.org", true, false),
        ("bob@example.org", false, true),
        ("cy@example.org", true, true),
    ] {
        let found = contacts::get(&cx, &email.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(found.contact.unsubscribed, unsubscribed, "{email}");
        assert_eq!(found.contact.suppressed, suppressed, "{email}");
    }
    assert_eq!(
        number(&cx, "SELECT count(*) FROM leads WHERE unsubscribed_at IS NOT NULL").await,
        2
    );
    assert_eq!(
        number(&cx, "SELECT count(*) FROM consent_log WHERE action = 'unsubscribed'").await,
        2
    );
}

async fn an_empty_cell_clears_nothing(bed: &Bed) {
    let cx = bed.cx().await;
    import(&cx, FILE, settings()).await;
    let (counts, _) =
        import(&cx, "email,first name,tags,plan\nada@example.org,,,\n", settings()).await;
    assert_eq!(counts.unchanged, 1);
    let ada = contacts::get(&cx, &"ada@example.org".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(ada.contact.attributes["plan"], "pro".into());
    assert_eq!(ada.contact.tags.len(), 2);
}

async fn bad_lines_are_told_and_the_others_go_in(bed: &Bed) {
    let cx = bed.cx().await;
    let tags = (0..46).map(|number| format!("t{number}")).collect::<Vec<_>>().join(";");
    let text = format!("email,tags\nnobody,\nada@example.org,{tags}\nbob@example.org,x\n");
    let (counts, faults) = import(&cx, &text, settings()).await;
    assert_eq!(counts, Counts { lines: 3, new: 1, invalid: 2, ..Counts::default() });
    let told: Vec<_> =
        faults.iter().map(|fault| format!("{} {}", fault.line, fault.reason)).collect();
    assert_eq!(
        told,
        ["2 use an e-mail address such as ada@example.org", "3 a contact has at most 45 tags"]
    );
}

async fn whoever_is_in_the_file_twice_gets_both_lines(bed: &Bed) {
    let cx = bed.cx().await;
    let text = "email,tags,plan\nada@example.org,a,free\nADA@example.org,b,pro\n";
    let (counts, _) = import(&cx, text, settings()).await;
    assert_eq!(counts, Counts { lines: 2, new: 1, updated: 1, ..Counts::default() });
    let ada = contacts::get(&cx, &"ada@example.org".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(ada.contact.attributes["plan"], "pro".into());
    assert_eq!(ada.contact.tags.len(), 2);
}

async fn whoever_is_far_down_in_the_file_again_gets_the_later_line_last(bed: &Bed) {
    let cx = bed.cx().await;
    let mut text = "email,plan\n".to_owned();
    // So that the same person is in several of the parts that are worked on at once.
    for number in 0..40 {
        text += &format!("ada@example.org,{number}\n");
        for other in 0..99 {
            text += &format!("p{number}-{other}@example.org,{number}\n");
        }
    }
    let (counts, _) = import(&cx, &text, settings()).await;
    assert_eq!((counts.lines, counts.new), (4_000, 3_961));
    let ada = contacts::get(&cx, &"ada@example.org".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(ada.contact.attributes["plan"], "39".into());
}

async fn time_zones_come_out_of_a_file(bed: &Bed) {
    let cx = bed.cx().await;
    let text =
        "email,Time Zone\nada@example.org,europe/berlin\nbob@example.org,\ncy@example.org,Mars\n";
    let counts = Counts { lines: 3, new: 2, invalid: 1, ..Counts::default() };
    assert_eq!(preview(&cx, Cursor::new(text), settings(), |_| ()).await.unwrap(), counts);
    assert_eq!(import(&cx, text, settings()).await.0, counts);
    let zone = async |email: &str| {
        contacts::get(&cx, &email.parse().unwrap()).await.unwrap().unwrap().contact.timezone
    };
    assert_eq!(zone("ada@example.org").await.as_deref(), Some("Europe/Berlin"));
    assert_eq!(zone("bob@example.org").await, None);
    let (counts, _) = import(&cx, text, settings()).await;
    assert_eq!((counts.unchanged, counts.updated), (2, 0));
    let moved = "email,tz\nada@example.org,Asia/Tokyo\n";
    let looked = preview(&cx, Cursor::new(moved), settings(), |_| ()).await.unwrap();
    assert_eq!(looked.updated, 1);
    assert_eq!(import(&cx, moved, settings()).await.0, looked);
    assert_eq!(zone("ada@example.org").await.as_deref(), Some("Asia/Tokyo"));
}

async fn everybody_is_subscribed_with_a_proof_unless_he_said_no_before(bed: &Bed) {
    let cx = bed.cx().await;
    import(&cx, "email\nada@example.org\n", settings()).await;
    let said_no = cx.database().write(|tx| {
        tx.execute(
            "INSERT INTO audiences (workspace_id, slug, name, created_at, updated_at)
             SELECT id, 'news', 'News', 0, 0 FROM workspaces",
            &[],
        )?;
        tx.execute(
            "INSERT INTO subscriptions
                 (workspace_id, lead_id, audience_id, status, unsubscribed_at, created_at, updated_at)
             SELECT l.workspace_id, l.id, a.id, 'unsubscribed', 1, 0, 0 FROM leads l, audiences a",
            &[],
        )
    });
    said_no.await.unwrap();
    let settings = Settings { audience: Some("news".parse().unwrap()), ..settings() };
    for (round, subscribed) in [(0, 1), (1, 0)] {
        // A dry run says the same, also of who comes twice.
        let twice = format!("{FILE}bob@example.org,Bob,,\n");
        let looked = preview(&cx, Cursor::new(twice), settings.clone(), |_| ()).await.unwrap();
        assert_eq!(looked.subscribed, subscribed, "round {round}");
        let (counts, _) = import(&cx, FILE, settings.clone()).await;
        assert_eq!(counts.subscribed, subscribed, "round {round}");
    }
    let rows = cx.database().read(|tx| {
        let sql = "SELECT i.value, s.status, s.source FROM subscriptions s
                   JOIN channel_identities i ON i.lead_id = s.lead_id ORDER BY i.value";
        tx.query(sql, &[])
    });
    let rows = rows.await.unwrap();
    let shown: Vec<_> = rows.iter().map(|row| format!("{:?}", row)).collect();
    assert_eq!(rows.len(), 2, "{shown:?}");
    assert_eq!(rows[0].text(1).unwrap(), "unsubscribed");
    assert_eq!(
        (rows[1].text(1).unwrap(), rows[1].text(2).unwrap()),
        ("subscribed", "trade fair, form 3")
    );
    assert_eq!(number(&cx, "SELECT count(*) FROM consent_log").await, 1);
    assert_eq!(
        number(&cx, "SELECT count(*) FROM subscriptions WHERE verified_at IS NOT NULL").await,
        0
    );
}

async fn a_file_confirms_nothing_and_brings_nobody_back(bed: &Bed) {
    let cx = bed.cx().await;
    import(&cx, "email,unsubscribed\nada@example.org,yes\n", settings()).await;
    let make = cx.database().write(|tx| {
        let sql = "INSERT INTO audiences (workspace_id, slug, name, double_opt_in, created_at, updated_at)
                   SELECT id, 'news', 'News', 1, 0, 0 FROM workspaces";
        tx.execute(sql, &[])
    });
    make.await.unwrap();
    let settings = Settings { audience: Some("news".parse().unwrap()), ..settings() };
    let (counts, _) = import(&cx, FILE, settings).await;
    assert_eq!((counts.subscribed, counts.unsubscribed), (1, 1));
    let pending =
        "SELECT count(*) FROM subscriptions WHERE status = 'pending' AND agreed_at IS NULL";
    assert_eq!(number(&cx, pending).await, 1);
    assert_eq!(number(&cx, "SELECT count(*) FROM subscriptions").await, 1);
    assert_eq!(number(&cx, "SELECT count(*) FROM consent_log WHERE action = 'requested'").await, 1);
    assert_eq!(number(&cx, "SELECT count(*) FROM confirmations WHERE sends = 0").await, 1);
    assert_eq!(counts.asked, 0, "nobody said who asks");
    assert_eq!(number(&cx, QUEUED).await, 0);
}

const QUEUED: &str = "SELECT count(*) FROM queue_messages WHERE queue = 'confirmation-mail'";

/// An audience that asks whoever comes with a template.
async fn asking(cx: &Cx) -> audiences::Audience {
    let create = audiences::Create {
        slug: "news".parse().unwrap(),
        name: "The news".parse().unwrap(),
        double_opt_in: true,
        confirm_template_key: Some("confirm".parse().unwrap()),
    };
    audiences::create(cx, create).await.unwrap()
}

async fn a_file_that_unsubscribes_makes_open_requests_void(bed: &Bed) {
    let cx = bed.cx().await;
    asking(&cx).await;
    let joining = Settings { audience: Some("news".parse().unwrap()), ..settings() };
    import(&cx, FILE, joining).await;
    let ids = cx.database().read(|tx| {
        let sql =
            "SELECT s.id FROM subscriptions s JOIN channel_identities i ON i.lead_id = s.lead_id
                   ORDER BY i.value";
        tx.query(sql, &[])?.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, DatabaseError>>()
    });
    let (ada, bob) = match ids.await.unwrap().as_slice() {
        [ada, bob] => (*ada, *bob),
        other => panic!("{other:?}"),
    };
    bed.clock.advance(jiff::Span::new().minutes(1));
    let cx = bed.cx().await;
    import(&cx, "email,unsubscribed\nada@example.org,yes\n", settings()).await;
    let confirm = async |id: i64| {
        let proof = Proof::default();
        confirmations::confirm(&cx, Confirm { subscription: id.into(), proof }).await
    };
    assert!(matches!(confirm(ada).await, Err(ConfirmError::Expired { .. })));
    confirm(bob).await.unwrap();
    let left = "SELECT count(*) FROM leads WHERE unsubscribed_at IS NOT NULL";
    assert_eq!(number(&cx, left).await, 1);
}

async fn whoever_must_confirm_is_asked_once(bed: &Bed) {
    let cx = bed.cx().await;
    asking(&cx).await;
    let mut text = "email,unsubscribed\ngone@example.org,yes\n".to_owned();
    for number in 0..120 {
        text += &format!("p{number}@example.org,\n");
    }
    let shop = bed.shop(&cx).await.id;
    let settings = Settings {
        audience: Some("news".parse().unwrap()),
        confirmation: Confirmation::Ask(Some(shop)),
        ..settings()
    };
    let looked = preview(&cx, Cursor::new(text.clone()), settings.clone(), |_| ()).await.unwrap();
    assert_eq!((looked.subscribed, looked.asked), (120, 120));
    assert_eq!(number(&cx, QUEUED).await, 0);
    let (counts, _) = import(&cx, &text, settings.clone()).await;
    assert_eq!(counts, looked);
    let asked = async || {
        let read = cx.database().read(|tx| {
            let sql = "SELECT body FROM queue_messages WHERE queue = 'confirmation-mail'";
            let rows = tx.query(sql, &[])?;
            rows.iter().map(|row| row.text(0).map(str::to_owned)).collect::<Result<Vec<_>, _>>()
        });
        let bodies: Result<Vec<String>, DatabaseError> = read.await;
        let asks: Vec<_> =
            bodies.unwrap().iter().map(|body| ConfirmationAsk::parse(body).unwrap()).collect();
        assert!(asks.iter().all(|ask| (ask.send, ask.client_id) == (1, shop.get())));
        asks.iter().map(|ask| ask.subscriptions.len()).sum::<usize>()
    };
    assert_eq!(asked().await, 120);
    let (again, _) = import(&cx, &text, settings).await;
    assert_eq!((again.subscribed, again.asked), (0, 0));
    assert_eq!(asked().await, 120);
}

async fn what_was_confirmed_elsewhere_is_not_asked_for(bed: &Bed) {
    let cx = bed.cx().await;
    asking(&cx).await;
    let settings = Settings {
        audience: Some("news".parse().unwrap()),
        confirmation: Confirmation::Given,
        ..settings()
    };
    let (counts, _) = import(&cx, FILE, settings).await;
    assert_eq!((counts.subscribed, counts.asked), (2, 0));
    let confirmed = "SELECT count(*) FROM subscriptions WHERE status = 'subscribed'
                     AND verified_at IS NOT NULL AND agreed_at IS NOT NULL";
    assert_eq!(number(&cx, confirmed).await, 2);
    assert_eq!(number(&cx, "SELECT count(*) FROM confirmations").await, 0);
    assert_eq!(number(&cx, QUEUED).await, 0);
    let proofs = "SELECT count(*) FROM consent_log WHERE action = 'subscribed'";
    assert_eq!(number(&cx, proofs).await, 2);
}

/// With the 17 columns that its export has.
async fn an_export_of_seed_003_comes_in_with_all_that_stands_against_its_people(bed: &Bed) {
    let cx = bed.cx().await;
    let text = "email,audience,client,tags,subscription_status,verified,verified_at,\
        email_validation_status,email_validation_reason,email_validated_at,global_unsubscribed,\
        hard_bounced,complained,unsubscribed,unsubscribed_at,unsubscribe_reason,updated_at\n\
        fine@example.org,news,shop,a;b,subscribed,true,2026-01-01T00:00:00Z,valid,,,false,false,false,false,,,x\n\
        left@example.org,news,shop,,unsubscribed,false,,unknown,,,true,false,false,false,,,x\n\
        list@example.org,news,shop,,unsubscribed,false,,unknown,,,false,false,false,true,,bored,x\n\
        hard@example.org,news,shop,,subscribed,false,,unknown,,,false,true,false,false,,,x\n\
        spam@example.org,news,shop,,subscribed,false,,unknown,,,false,false,true,false,,,x\n";
    let (counts, faults) = import(&cx, text, settings()).await;
    assert_eq!((counts.new, counts.unsubscribed, counts.suppressed), (5, 2, 2), "{faults:?}");
    for (email, unsubscribed, suppressed) in [
        ("fine@example.org", false, false),
        ("left@example.org", true, false),
        ("list@example.org", true, false),
        ("hard@example.org", false, true),
        ("spam@example.org", false, true),
    ] {
        let found = contacts::get(&cx, &email.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(found.contact.unsubscribed, unsubscribed, "{email}");
        assert_eq!(found.contact.suppressed, suppressed, "{email}");
    }
}

async fn a_line_that_is_left_out_leaves_nothing_behind(bed: &Bed) {
    let cx = bed.cx().await;
    let tags = (0..46).map(|number| format!("t{number}")).collect::<Vec<_>>().join(";");
    let (counts, _) =
        import(&cx, &format!("email,tags\nada@example.org,{tags}\n"), settings()).await;
    assert_eq!(counts, Counts { lines: 1, invalid: 1, ..Counts::default() });
    assert_eq!(number(&cx, "SELECT count(*) FROM leads").await, 0);
}

async fn tags_and_their_index_are_in_step_after_an_import(bed: &Bed) {
    let cx = bed.cx().await;
    let mut text = "email,tags\n".to_owned();
    for number in 0..1_234 {
        text += &format!("p{number}@example.org,{}\n", if number % 3 == 0 { "a;b" } else { "b" });
    }
    let (counts, _) = import(&cx, &text, settings()).await;
    assert_eq!((counts.lines, counts.new), (1_234, 1_234));
    assert_eq!(tag_index(&cx, "a").await.len(), 412);
    let everybody = number(&cx, "SELECT count(*) FROM channel_identities").await;
    assert_eq!(everybody, 1_234);
    let tagged = Settings { tags: BTreeSet::from(["c".parse().unwrap()]), ..settings() };
    let (counts, _) = import(&cx, "email\np0@example.org\nnew@example.org\n", tagged).await;
    assert_eq!((counts.new, counts.updated), (1, 1));
    let expected = BTreeSet::from(["new@example.org".to_owned(), "p0@example.org".to_owned()]);
    assert_eq!(tag_index(&cx, "c").await, expected);
}

async fn two_imports_of_the_same_file_at_once_make_everybody_once(bed: &Bed) {
    let cx = bed.cx().await;
    let mut text = "email,tags\n".to_owned();
    for number in 0..700 {
        text += &format!("p{number}@example.org,x\n");
    }
    let upsert = Upsert {
        email: "p5@example.org".parse().unwrap(),
        first_name: None,
        attributes: Attributes::default(),
        tags: Some(TagChange::Add(BTreeSet::from(["y".parse().unwrap()]))),
    };
    let (one, two, other) = tokio::join!(
        import(&cx, &text, settings()),
        import(&cx, &text, settings()),
        contacts::upsert(&cx, upsert),
    );
    other.unwrap();
    assert_eq!((one.0.lines, two.0.lines), (700, 700));
    assert_eq!(tag_index(&cx, "x").await.len(), 700);
    assert_eq!(tag_index(&cx, "y").await.len(), 1);
    assert_eq!(number(&cx, "SELECT count(*) FROM leads").await, 700);
    let p5 = contacts::get(&cx, &"p5@example.org".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(p5.contact.tags.len(), 2);
    let orphans = cx.database().read(|tx| {
        let sql = "SELECT count(*) FROM leads WHERE id NOT IN (SELECT lead_id FROM channel_identities) AND id <> $1";
        tx.query(sql, &[Param::Int(0)])?.first().map_or(Ok(0), |row| row.int(0))
    });
    assert_eq!(orphans.await.unwrap(), 0);
}
