//! How many messages are accepted a second, and what else a request costs: nothing done, and a key looked up.

use std::time::Duration;

use super::load::{self, Asked, Figures, request};
use super::place::Place;
use crate::report::Report;

/// Makes the request of a number.
type Request = Box<dyn Fn(usize) -> Vec<u8> + Send + Sync>;

pub(super) const CONNECTIONS: usize = 64;
/// Whom messages are written to: new at first, and then known.
const PEOPLE: usize = 10_000;

pub(super) async fn measure(
    place: &Place,
    engine: &str,
    span: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let key = format!("authorization: Bearer {}\r\n", place.api_key);
    let in_json = format!("{key}content-type: application/json\r\n");
    let with_body = in_json.clone();
    let all: [(&str, u16, Request); 4] = [
        ("GET /healthz", 200, Box::new(|_| request("GET /healthz", "", ""))),
        (
            "POST of the same body to a route that does nothing",
            202,
            Box::new(move |n| request("POST /noop", &with_body, &order(n % PEOPLE, n))),
        ),
        ("GET /v1/me", 200, Box::new(move |_| request("GET /v1/me", &key, ""))),
        (
            "POST /v1/messages",
            202,
            Box::new(move |n| request("POST /v1/messages", &in_json, &order(n % PEOPLE, n))),
        ),
    ];
    let mut found: Vec<Figures> = Vec::new();
    for (what, expected, request) in all {
        let asked = Asked { at: place.at, request, expected };
        let figures = load::run(asked, CONNECTIONS, (span, usize::MAX)).await?;
        report.line(&format!(
            "| {what} | {:.0} | {:.2} | {:.2} |",
            figures.per_second, figures.p50_ms, figures.p99_ms
        ));
        found.push(figures);
    }
    let [_, noop, known, accept] = found[..] else { anyhow::bail!("four were measured") };
    report.ratio(&format!("accept_{engine}"), accept.per_second / noop.per_second, 0.5);
    report.ratio(&format!("accept_{engine}_vs_key"), accept.per_second / known.per_second, 0.5);
    Ok(())
}

/// A message to somebody, with an idempotency key, as applications send it.
pub(super) fn order(person: usize, number: usize) -> String {
    format!(
        "{{\"to\":\"person{person}@example.org\",\"template\":\"order\",\
         \"context\":{{\"name\":\"Ada\",\"order\":\"A-{number}\"}},\
         \"metadata\":{{\"order\":\"A-{number}\"}},\"idempotency_key\":\"order-{person}-{number}\"}}"
    )
}
