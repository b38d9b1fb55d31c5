//! How many requests are answered a second: what devices ask with tokens of their users, and the same with few and with very
//! many messages.

use std::sync::Arc;

use tidings_inbox::ids::MessageId;
use tidings_inbox::keys::{InboxKey, UserId};
use tidings_inbox::tokens::{Issue, LIFETIME};

use super::{Sizes, seed};
use crate::mail::load::{self, Asked, Figures, request};
use crate::mail::place::Place;
use crate::report::Report;

const CONNECTIONS: usize = 64;
/// What everybody has at first.
const MESSAGES: usize = 40;
/// And what few are.
const FEW: usize = 10;
/// So many are on a page, as the API has it if nobody says so.
const LISTED: usize = 30;

/// A user, what he comes with, and his messages.
struct User {
    header: String,
    ids: Vec<MessageId>,
}

/// Makes the request of a number.
type Request = Box<dyn Fn(usize) -> Vec<u8> + Send + Sync>;

async fn ask(
    place: &Place,
    sizes: &Sizes,
    expected: u16,
    request: Request,
) -> anyhow::Result<Figures> {
    let asked = Asked { at: place.at, request, expected };
    load::run(asked, CONNECTIONS, (sizes.span, usize::MAX)).await
}

/// A page of so many messages.
fn listing(users: &Arc<Vec<User>>, inbox: &'static str, limit: usize) -> Request {
    let (users, line) =
        (Arc::clone(users), format!("GET /inbox/v1/{inbox}/messages?limit={limit}"));
    Box::new(move |n| request(&line, &users[n % users.len()].header, ""))
}

/// Pages of 20 to 40 messages, so many that most of them were not made lately.
fn listing_anew(users: &Arc<Vec<User>>, inbox: &'static str) -> Request {
    let users = Arc::clone(users);
    Box::new(move |n| {
        let limit = 20 + n / users.len() % 21;
        let line = format!("GET /inbox/v1/{inbox}/messages?limit={limit}");
        request(&line, &users[n % users.len()].header, "")
    })
}

fn counting(users: &Arc<Vec<User>>, inbox: &'static str) -> Request {
    let (users, line) = (Arc::clone(users), format!("GET /inbox/v1/{inbox}/counts"));
    Box::new(move |n| request(&line, &users[n % users.len()].header, ""))
}

/// Reads one message after the other, and when all are read makes them unread again: so each request changes something.
fn marking(users: &Arc<Vec<User>>, inbox: &'static str) -> Request {
    let users = Arc::clone(users);
    Box::new(move |n| {
        let (user, turn) = (&users[n % users.len()], n / users.len());
        let id = &user.ids[turn % user.ids.len()];
        let mark = if (turn / user.ids.len()).is_multiple_of(2) { "read" } else { "unread" };
        let line = format!("PUT /inbox/v1/{inbox}/messages/{mark}");
        let headers = format!("{}content-type: application/json\r\n", user.header);
        request(&line, &headers, &format!("{{\"ids\":[\"{id}\"]}}"))
    })
}

pub(super) async fn measure(
    place: &Place,
    engine: &str,
    sizes: &Sizes,
    report: &mut Report,
) -> anyhow::Result<()> {
    let inbox: InboxKey = "app".parse()?;
    let mut users = Vec::with_capacity(sizes.users);
    for number in 0..sizes.users {
        let uid: UserId = format!("user{number}").parse()?;
        let ids = seed::own(&place.cx, &inbox, &uid, MESSAGES).await?;
        let issue = Issue { uid, inboxes: Vec::new(), lifetime: LIFETIME };
        let token = place.tokens.issue(&place.cx, issue).await?.token;
        users.push(User { header: format!("authorization: Bearer {token}\r\n"), ids });
    }
    seed::public(&place.cx, &inbox, 1).await?;
    let (users, count) = (Arc::new(users), sizes.users);
    let key = format!("authorization: Bearer {}\r\n", place.api_key);
    let in_json = format!("{key}content-type: application/json\r\n");
    let publish: Request = Box::new(move |n| {
        let body = format!(
            "{{\"to\":{{\"users\":[\"user{}\"]}},\"title\":\"Order {n}\",\"body\":\"It left our house\"}}",
            n % count
        );
        request("POST /v1/inboxes/app/messages", &in_json, &body)
    });
    let noop: Request = Box::new(|_| request("POST /noop", "", ""));
    report.line(&format!(
        "{count} users with {MESSAGES} messages each and one for everyone, 64 connections:\n"
    ));
    report
        .line("| request | a second | p50 ms | p99 ms | of the no-op |\n|---|---:|---:|---:|---:|");
    let all = [
        ("POST to a route that does nothing", "", 202, noop),
        ("GET …/counts", "counts", 200, counting(&users, "app")),
        ("GET …/messages?limit=30", "list", 200, listing(&users, "app", LISTED)),
        ("GET …/messages, 20 to 40, mostly made anew", "", 200, listing_anew(&users, "app")),
        ("PUT …/messages/read, one message", "read", 200, marking(&users, "app")),
        ("POST /v1/inboxes/app/messages, to one user", "publish", 201, publish),
    ];
    let mut limit = None;
    for (what, figure, expected, request) in all {
        let figures = ask(place, sizes, expected, request).await?;
        let limit = *limit.get_or_insert(figures.per_second);
        let share = figures.per_second / limit;
        report.line(&format!(
            "| {what} | {:.0} | {:.2} | {:.2} | {share:.2} |",
            figures.per_second, figures.p50_ms, figures.p99_ms
        ));
        match figure {
            "counts" | "list" => report.ratio(&format!("{figure}_{engine}"), share, 0.5),
            // They are durable before they are answered.
            "read" | "publish" => report.ratio(&format!("{figure}_{engine}"), share, 0.2),
            _ => {}
        }
    }
    report.line("");
    Ok(())
}

/// Few messages, very many of one's own, and very many of everyone's.
pub(super) async fn measure_flat(
    place: &Place,
    engine: &str,
    sizes: &Sizes,
    report: &mut Report,
) -> anyhow::Result<()> {
    let many = sizes.messages;
    report
        .line("The same with few messages and with very many, with a key in the name of users:\n");
    report.line("| own | public | counts/s | list(10)/s | read/s |\n|---:|---:|---:|---:|---:|");
    // All of them are there before any is measured: what was written a moment ago would make the one that is measured then slower.
    let mut places = Vec::new();
    for (inbox, own, public, users) in
        [("few", FEW, 1, 16), ("many", many, 1, 4), ("crowd", FEW, many, 16)]
    {
        let users = Arc::new(keepers(place, inbox, own, users).await?);
        seed::public(&place.cx, &inbox.parse()?, public).await?;
        places.push((inbox, own, public, users));
    }
    let mut found: Vec<[f64; 3]> = Vec::new();
    for (inbox, own, public, users) in places {
        let mut rates = [0.0; 3];
        let requests =
            [counting(&users, inbox), listing(&users, inbox, FEW), marking(&users, inbox)];
        for (rate, request) in rates.iter_mut().zip(requests) {
            *rate = ask(place, sizes, 200, request).await?.per_second;
        }
        let [counts, list, read] = rates;
        report.line(&format!("| {own} | {public} | {counts:.0} | {list:.0} | {read:.0} |"));
        found.push(rates);
    }
    report.line("");
    let [few, many, crowd] = found[..] else { anyhow::bail!("three were measured") };
    for (what, rates) in [("own", many), ("public", crowd)] {
        for (place, figure) in ["counts", "list", "read"].into_iter().enumerate() {
            let ratio = rates[place] / few[place];
            report.ratio(&format!("flat_{figure}_{what}_{engine}"), ratio, 0.85);
        }
    }
    Ok(())
}

/// Users in whose name a back end asks: one of them asks more often than a device may.
async fn keepers(
    place: &Place,
    inbox: &str,
    messages: usize,
    count: usize,
) -> anyhow::Result<Vec<User>> {
    let mut users = Vec::with_capacity(count);
    for number in 0..count {
        let uid: UserId = format!("{inbox}{number}").parse()?;
        let header = format!("authorization: Bearer {}\r\nx-user-id: {uid}\r\n", place.api_key);
        let ids = seed::own(&place.cx, &inbox.parse()?, &uid, messages).await?;
        users.push(User { header, ids });
    }
    Ok(users)
}
