//! Mail kept and looked at, on every store.

use tidings_access::{Cx, Limit};
use tidings_kernel::{Lane, Mail, SendError, Sender as _};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::{Capture, CapturedId, FindError, KEPT, clear, find, list, raw};

each_store!(
    mail_is_kept_for_its_workspace,
    a_page_follows_another,
    only_the_newest_are_kept,
    mail_of_nobody_and_of_a_workspace_that_is_not_there
);

fn mail(cx: &Cx, subject: &str) -> Mail {
    let mime = format!("From: shop@example.org\r\nSubject: {subject}\r\n\r\nhello {subject}\r\n");
    Mail {
        from: "shop@example.org".parse().unwrap(),
        to: vec!["ada@example.net".parse().unwrap(), "bob@example.net".parse().unwrap()],
        mime: mime.into_bytes(),
        tags: vec![("workspace", cx.workspace_id().get().to_string()), ("message", "7".into())],
        lane: Lane::Transactional,
    }
}

fn capture(bed: &Bed) -> Capture {
    Capture::new(bed.access.database().clone(), bed.clock.clone())
}

async fn mail_is_kept_for_its_workspace(bed: &Bed) {
    let (acme, other) = (bed.cx().await, bed.make_workspace("other").await);
    let capture = capture(bed);
    let kept = capture.send(&mail(&acme, "=?utf-8?Q?W=C3=BCrfel?=")).await.unwrap();
    capture.send(&mail(&other, "theirs")).await.unwrap();

    let page = list(&acme, None, Limit::default()).await.unwrap();
    let [captured] = page.items.as_slice() else { panic!("{page:?}") };
    assert_eq!(kept.provider_id, Some(format!("captured-{}", captured.id)));
    assert_eq!(captured.subject.as_deref(), Some("Würfel"));
    assert_eq!(captured.to, ["ada@example.net", "bob@example.net"]);
    assert_eq!(captured.tags["message"], "7");
    assert_eq!(captured.created_at, acme.now());
    let opened = find(&acme, captured.id).await.unwrap();
    assert_eq!(opened.text.as_deref(), Some("hello =?utf-8?Q?W=C3=BCrfel?=\r\n"));
    assert_eq!(opened.html, None);
    let bytes = raw(&acme, captured.id).await.unwrap();
    assert!(bytes.starts_with(b"From: shop@example.org\r\n"));
    assert_eq!(bytes.len() as i64, captured.bytes);

    // Nobody else can see or forget it.
    assert!(matches!(find(&other, captured.id).await, Err(FindError::Missing(_))));
    assert_eq!(clear(&other).await.unwrap(), 1);
    assert_eq!(clear(&acme).await.unwrap(), 1);
    assert_eq!(clear(&acme).await.unwrap(), 0);
    assert!(matches!(raw(&acme, captured.id).await, Err(FindError::Missing(_))));
}

async fn a_page_follows_another(bed: &Bed) {
    let cx = bed.cx().await;
    let capture = capture(bed);
    for n in 1..=3 {
        capture.send(&mail(&cx, &n.to_string())).await.unwrap();
    }
    let first = list(&cx, None, Limit::try_from(2).unwrap()).await.unwrap();
    let second = list(&cx, first.next, Limit::try_from(2).unwrap()).await.unwrap();
    let subjects: Vec<_> =
        first.items.iter().chain(&second.items).map(|one| one.subject.clone().unwrap()).collect();
    assert_eq!(subjects, ["3", "2", "1"]);
    assert_eq!(second.next, None::<CapturedId>);
}

async fn only_the_newest_are_kept(bed: &Bed) {
    let cx = bed.cx().await;
    let workspace = cx.workspace_id().get();
    let fill = cx.database().write(move |tx| {
        let sql = "INSERT INTO captured_mails (workspace_id, mail_from, rcpt_to, mime, created_at)
                   WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10005)
                   SELECT $1, 'a@example.org', '[]', $2, 0 FROM n";
        tx.execute(sql, &[Param::Int(workspace), Param::Bytes(b"x")])?;
        Ok::<_, DatabaseError>(())
    });
    fill.await.unwrap();
    let kept = capture(bed).send(&mail(&cx, "new")).await.unwrap();
    let count = cx.database().read(move |tx| {
        let sql = "SELECT count(*), max(id) FROM captured_mails WHERE workspace_id = $1";
        let rows = tx.query(sql, &[Param::Int(workspace)])?;
        Ok::<_, DatabaseError>((rows[0].int(0)?, rows[0].int(1)?))
    });
    let (count, newest) = count.await.unwrap();
    assert_eq!(count, KEPT);
    assert_eq!(kept.provider_id, Some(format!("captured-{newest}")));
}

async fn mail_of_nobody_and_of_a_workspace_that_is_not_there(bed: &Bed) {
    let cx = bed.cx().await;
    let capture = capture(bed);
    let nobody = Mail { tags: vec![], ..mail(&cx, "x") };
    capture.send(&nobody).await.unwrap();
    assert_eq!(list(&cx, None, Limit::default()).await.unwrap().items, []);
    let lost = Mail { tags: vec![("workspace", "999".into())], ..mail(&cx, "x") };
    assert!(matches!(capture.send(&lost).await, Err(SendError::Refused(_))));
}
