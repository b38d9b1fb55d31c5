//! When waits end and windows open, by the clock where somebody is.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::random;
use crate::definition::{Action, Definition, Wait, from_json};

fn definition(window: &Value, wait: &Value) -> Definition {
    let all = json!({ "id": "x", "client": "shop", "window": window, "steps": [{ "wait": wait }] });
    from_json(&all).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Both times with the offset that the clock has there, so that the table says what somebody sees.
#[track_caller]
fn ends(wait: &Value, zone: &str, now: &str, expected: &str) {
    let definition = definition(&Value::Null, wait);
    let Action::Wait(wait) = &definition.steps[0].action else { panic!("a wait") };
    let zone = TimeZone::get(zone).unwrap();
    let found = wait.ends(at(now), Some(&zone));
    assert_eq!(found, at(expected), "{} for {expected}", found.to_zoned(zone));
}

#[test]
fn a_wait_takes_its_time_whatever_the_clock_does() {
    ends(&json!("2 days 4 hours"), "UTC", "2026-07-01T10:00Z", "2026-07-03T14:00Z");
    // 24 hours over the night that has 23 of them.
    ends(&json!("1 day"), "Europe/Berlin", "2026-03-28T12:00+01:00", "2026-03-29T13:00+02:00");
    let definition = definition(&Value::Null, &json!("1825 days"));
    let Action::Wait(wait) = &definition.steps[0].action else { panic!("a wait") };
    assert_eq!(wait.ends(Timestamp::MAX, None), Timestamp::MAX);
}

#[test]
fn a_wait_until_a_time_ends_when_the_clock_shows_it_next() {
    let nine = || json!({"until": "09:00"});
    ends(&nine(), "Europe/Berlin", "2026-07-01T08:59:59+02:00", "2026-07-01T09:00+02:00");
    // Right now does not count.
    ends(&nine(), "Europe/Berlin", "2026-07-01T09:00+02:00", "2026-07-02T09:00+02:00");
    ends(&nine(), "Europe/Berlin", "2026-07-01T23:30+02:00", "2026-07-02T09:00+02:00");
    ends(&nine(), "America/New_York", "2026-07-01T23:30+02:00", "2026-07-02T09:00-04:00");
    // The offset is that of the morning, not of the evening before.
    ends(&nine(), "Europe/Berlin", "2026-03-28T20:00+01:00", "2026-03-29T09:00+02:00");
    ends(&nine(), "Europe/Berlin", "2026-10-24T20:00+02:00", "2026-10-25T09:00+01:00");
    ends(&nine(), "America/New_York", "2026-03-07T20:00-05:00", "2026-03-08T09:00-04:00");
    ends(&nine(), "America/New_York", "2026-10-31T20:00-04:00", "2026-11-01T09:00-05:00");
}

#[test]
fn a_time_that_is_skipped_is_when_it_is_skipped_and_one_that_comes_twice_is_the_first() {
    let half_past_two = || json!({"until": "02:30"});
    ends(&half_past_two(), "Europe/Berlin", "2026-03-29T00:00+01:00", "2026-03-29T03:00+02:00");
    ends(&half_past_two(), "Europe/Berlin", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00");
    ends(&half_past_two(), "Europe/Berlin", "2026-10-25T00:00+02:00", "2026-10-25T02:30+02:00");
    // Once a night, also in the one in which it is half past two again.
    ends(&half_past_two(), "Europe/Berlin", "2026-10-25T02:45+02:00", "2026-10-26T02:30+01:00");
    ends(&half_past_two(), "America/New_York", "2026-03-08T00:00-05:00", "2026-03-08T03:00-04:00");
    let half_past_one = json!({"until": "01:30"});
    ends(&half_past_one, "America/New_York", "2026-11-01T00:00-04:00", "2026-11-01T01:30-04:00");
}

#[test]
fn a_wait_until_a_weekday_ends_on_it() {
    let monday = || json!({"until": "09:00", "weekday": "mon"});
    // The first of July 2026 is a Wednesday.
    ends(&monday(), "Europe/Berlin", "2026-07-01T10:00+02:00", "2026-07-06T09:00+02:00");
    ends(&monday(), "Europe/Berlin", "2026-07-06T08:00+02:00", "2026-07-06T09:00+02:00");
    ends(&monday(), "Europe/Berlin", "2026-07-06T09:00+02:00", "2026-07-13T09:00+02:00");
    // Still Sunday in New York.
    ends(&monday(), "America/New_York", "2026-07-06T04:00+02:00", "2026-07-06T09:00-04:00");
    ends(
        &json!({"until": "02:30", "weekday": "sunday"}),
        "Europe/Berlin",
        "2026-03-23T00:00+01:00",
        "2026-03-29T03:00+02:00",
    );
    // Samoa had no 30 December 2011, which would have been a Friday.
    ends(
        &json!({"until": "09:00", "weekday": "fri"}),
        "Pacific/Apia",
        "2011-12-29T12:00-10:00",
        "2011-12-31T00:00+14:00",
    );
}

#[test]
fn the_zone_of_the_definition_is_for_those_without_one() {
    let definition = definition(
        &json!({"from": "09:00", "until": "17:00", "zone": "Asia/Tokyo"}),
        &json!({"until": "09:00", "zone": "Asia/Tokyo"}),
    );
    let Action::Wait(wait) = &definition.steps[0].action else { panic!("a wait") };
    let now = at("2026-07-01T20:00Z");
    assert_eq!(wait.ends(now, None), at("2026-07-02T09:00+09:00"));
    let window = definition.window.unwrap();
    assert_eq!(window.opens(now, None), Some(at("2026-07-02T09:00+09:00")));
    assert_eq!(window.opens(now, Some(&TimeZone::get("America/Los_Angeles").unwrap())), None);
}

/// `open` or when it opens.
#[track_caller]
fn opens(window: &Value, zone: &str, now: &str, expected: &str) {
    let window = definition(window, &json!("1 day")).window.unwrap();
    let zone = TimeZone::get(zone).unwrap();
    let found = window.opens(at(now), Some(&zone));
    let expected = (expected != "open").then(|| at(expected));
    assert_eq!(found, expected, "{:?}", found.map(|found| found.to_zoned(zone)));
}

#[test]
fn a_window_is_open_from_until_before() {
    let window =
        json!({"days": ["mon", "tue", "wed", "thu", "fri"], "from": "09:00", "until": "17:00"});
    let check = |now, expected| opens(&window, "Europe/Berlin", now, expected);
    check("2026-07-01T08:59:59.999+02:00", "2026-07-01T09:00+02:00");
    check("2026-07-01T09:00+02:00", "open");
    check("2026-07-01T16:59:59.999+02:00", "open");
    check("2026-07-01T17:00+02:00", "2026-07-02T09:00+02:00");
    // Friday evening, and the weekend.
    check("2026-07-03T17:00+02:00", "2026-07-06T09:00+02:00");
    check("2026-07-05T12:00+02:00", "2026-07-06T09:00+02:00");
    // The clock changes in between.
    check("2026-03-27T17:00+01:00", "2026-03-30T09:00+02:00");
    check("2026-10-23T17:00+02:00", "2026-10-26T09:00+01:00");
}

#[test]
fn a_window_may_go_over_midnight() {
    let window = json!({"days": ["fri"], "from": "22:00", "until": "02:00"});
    let check = |now, expected| opens(&window, "America/New_York", now, expected);
    check("2026-07-03T21:00-04:00", "2026-07-03T22:00-04:00");
    check("2026-07-03T23:00-04:00", "open");
    // Saturday by then, and still the night of Friday.
    check("2026-07-04T01:59-04:00", "open");
    check("2026-07-04T02:00-04:00", "2026-07-10T22:00-04:00");
    // The small hours of Friday are the night of Thursday.
    check("2026-07-03T01:00-04:00", "2026-07-03T22:00-04:00");
}

#[test]
fn from_and_until_alike_is_the_whole_day() {
    let sunday = json!({"days": ["sun"], "from": "09:00", "until": "09:00"});
    opens(&sunday, "Europe/Berlin", "2026-07-05T00:00+02:00", "open");
    opens(&sunday, "Europe/Berlin", "2026-07-05T23:59+02:00", "open");
    opens(&sunday, "Europe/Berlin", "2026-07-06T00:00+02:00", "2026-07-12T00:00+02:00");
    let always = json!({"from": "00:00", "until": "00:00"});
    opens(&always, "Europe/Berlin", "2026-10-25T02:30+01:00", "open");
}

#[test]
fn a_window_in_the_night_of_the_change_follows_the_clock() {
    let early = json!({"from": "02:30", "until": "04:00"});
    opens(&early, "Europe/Berlin", "2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00");
    opens(&early, "Europe/Berlin", "2026-03-29T03:00+02:00", "open");
    opens(&early, "Europe/Berlin", "2026-03-29T04:00+02:00", "2026-03-30T02:30+02:00");
    // In autumn it is open over both of the two.
    opens(&early, "Europe/Berlin", "2026-10-25T02:15+02:00", "2026-10-25T02:30+02:00");
    opens(&early, "Europe/Berlin", "2026-10-25T02:15+01:00", "open");
    // One that the clock skips as a whole does not open that day.
    let skipped = json!({"from": "02:10", "until": "02:50"});
    opens(&skipped, "America/New_York", "2026-03-08T00:00-05:00", "2026-03-09T02:10-04:00");
}

proptest! {
    #[test]
    fn a_window_is_open_when_it_opens_and_not_before(
        definition in random::definition(),
        zone in random::zone(),
        now in 1_300_000_000..2_000_000_000_i64,
    ) {
        let Some(window) = definition.window else { return Ok(()) };
        let now = Timestamp::from_second(now).unwrap();
        if let Some(opens) = window.opens(now, Some(&zone)) {
            prop_assert!(opens > now);
            prop_assert_eq!(window.opens(opens, Some(&zone)), None);
            let before = opens - jiff::SignedDuration::from_nanos(1);
            prop_assert_eq!(window.opens(before, Some(&zone)), Some(opens));
        }
    }

    #[test]
    fn a_wait_ends_later_and_when_it_says(
        definition in random::definition(),
        zone in random::zone(),
        now in 1_300_000_000..2_000_000_000_i64,
    ) {
        let now = Timestamp::from_second(now).unwrap();
        for step in &definition.steps {
            let Action::Wait(wait) = &step.action else { continue };
            let ends = wait.ends(now, Some(&zone));
            prop_assert!(ends > now);
            if let Wait::Until { time, .. } = wait {
                let before = ends - jiff::SignedDuration::from_nanos(1);
                // Where the clock skips it, that is when.
                let skipped = zone.to_offset(before) != zone.to_offset(ends);
                let shown = zone.to_datetime(ends).time();
                prop_assert!(shown == *time || skipped, "{shown} {time}");
            }
        }
    }
}
