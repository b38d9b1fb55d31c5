//! The pace over time, which the tests make up.

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_000_000_000_000 + millis).unwrap()
}

/// How many of a lane get through in a second, asking every ten milliseconds.
fn through(pace: &Pace, lane: Lane, from: i64) -> usize {
    (0..100).filter(|n| pace.ready(lane, at(from + n * 10)).is_ok()).count()
}

fn empty(pace: &Pace, now: Timestamp) {
    while pace.ready(Lane::Campaign, now).is_ok() {}
}

#[test]
fn a_second_s_worth_at_once_and_then_the_rate() {
    let pace = Pace::new(14, at(0));
    let at_once = (0..100).filter(|_| pace.ready(Lane::Campaign, at(0)).is_ok()).count();
    assert_eq!(at_once, 14);
    let in_ten_seconds: usize = (0..10).map(|n| through(&pace, Lane::Campaign, n * 1000)).sum();
    assert!((138..=141).contains(&in_ten_seconds), "{in_ten_seconds}");
    // What was not used is not saved up.
    assert!(through(&pace, Lane::Campaign, 3_600_000) <= 28);
}

#[test]
fn who_comes_when_told_is_served() {
    let pace = Pace::new(3, at(0));
    empty(&pace, at(0));
    let mut told = Vec::new();
    for _ in 0..5 {
        let NotBefore(then) = pace.ready(Lane::Transactional, at(1)).unwrap_err();
        assert!(told.last().is_none_or(|last| *last < then), "two were told the same");
        told.push(then);
    }
    for then in told {
        assert_eq!(pace.ready(Lane::Transactional, then), Ok(()), "at {then}");
    }
}

#[test]
fn nobody_is_sent_away_for_long() {
    let pace = Pace::new(1, at(0));
    for _ in 0..1000 {
        if let Err(NotBefore(then)) = pace.ready(Lane::Campaign, at(0)) {
            assert!(then <= at(10_001), "{then}");
        }
    }
}

#[test]
fn a_campaign_waits_while_somebody_waits() {
    let pace = Pace::new(10, at(0));
    empty(&pace, at(0));
    let NotBefore(mine) = pace.ready(Lane::Transactional, at(0)).unwrap_err();
    // There is a token, and it is not the campaign's.
    let NotBefore(theirs) = pace.ready(Lane::Campaign, mine).unwrap_err();
    assert!(theirs > mine);
    assert_eq!(pace.ready(Lane::Transactional, mine), Ok(()));
    assert_eq!(pace.ready(Lane::Campaign, theirs), Ok(()));
}

#[test]
fn a_campaign_does_not_wait_for_somebody_who_went_elsewhere() {
    let pace = Pace::new(10, at(0));
    empty(&pace, at(0));
    let NotBefore(promised) = pace.ready(Lane::Transactional, at(0)).unwrap_err();
    let later = promised.checked_add(SignedDuration::from_millis(1001)).unwrap();
    assert!(pace.ready(Lane::Campaign, promised).is_err());
    assert_eq!(pace.ready(Lane::Campaign, later), Ok(()));
}

#[test]
fn under_full_load_only_the_first_lane_moves() {
    let pace = Pace::new(10, at(0));
    empty(&pace, at(0));
    let (mut first, mut second) = (0, 0);
    for n in 1..1000 {
        // Two ask for transactional mail at a time, so that one always waits.
        for _ in 0..2 {
            first += usize::from(pace.ready(Lane::Transactional, at(n * 10)).is_ok());
        }
        second += usize::from(pace.ready(Lane::Campaign, at(n * 10)).is_ok());
    }
    assert!((98..=101).contains(&first), "{first}");
    assert_eq!(second, 0);
}

#[test]
fn a_blow_halves_the_rate_and_time_heals_it() {
    let pace = Pace::new(40, at(0));
    pace.throttled(None, at(0));
    // The rest of the same burst.
    pace.throttled(None, at(10));
    pace.throttled(None, at(999));
    assert!((pace.rate(at(1000)) - 22.0).abs() < 0.1, "{}", pace.rate(at(1000)));
    let NotBefore(then) = pace.ready(Lane::Transactional, at(1000)).unwrap_err();
    assert!(then >= at(1999), "{then}");
    assert!((pace.rate(at(10_000)) - 40.0).abs() < 0.1);
}

#[test]
fn the_rate_never_falls_below_one_a_second() {
    let pace = Pace::new(5, at(0));
    for n in 0..100 {
        pace.throttled(None, at(n * 1000));
    }
    assert!((1.0..1.6).contains(&pace.rate(at(99_000))));
    let slow = through(&pace, Lane::Campaign, 100_100);
    assert!((1..=2).contains(&slow), "{slow}");
}

#[test]
fn the_provider_says_how_long_to_wait() {
    let pace = Pace::new(5, at(0));
    pace.throttled(Some(Duration::from_secs(30)), at(0));
    let NotBefore(then) = pace.ready(Lane::Campaign, at(1)).unwrap_err();
    assert!(then >= at(30_000), "{then}");
    assert!(pace.ready(Lane::Campaign, at(29_999)).is_err());
    assert_eq!(pace.ready(Lane::Campaign, then), Ok(()));
}

#[test]
fn a_clock_that_goes_back_gives_nothing_away() {
    let pace = Pace::new(2, at(10_000));
    empty(&pace, at(10_000));
    assert!(pace.ready(Lane::Campaign, at(0)).is_err());
    assert!(pace.ready(Lane::Campaign, at(10_000)).is_err());
}

#[test]
fn many_get_as_many_as_there_is_room_for() {
    let pace = Pace::new(20, at(0));
    assert_eq!(pace.ready_for(Lane::Campaign, 16, at(0)), Ok(16));
    assert_eq!(pace.ready_for(Lane::Campaign, 16, at(0)), Ok(4));
    let NotBefore(then) = pace.ready_for(Lane::Campaign, 16, at(0)).unwrap_err();
    assert_eq!(then, at(51));
    assert_eq!(pace.ready_for(Lane::Campaign, 16, then), Ok(1));
    // In all it is the rate, however many are asked for at once.
    let served = (1..=100).filter_map(|n| pace.ready_for(Lane::Campaign, 16, at(n * 100)).ok());
    assert_eq!(served.sum::<usize>(), 199);
    // And somebody who waits goes first.
    assert_eq!(pace.ready_for(Lane::Campaign, 1, at(10_050)), Ok(1));
    let NotBefore(then) = pace.ready(Lane::Transactional, at(10_050)).unwrap_err();
    assert!(pace.ready_for(Lane::Campaign, 16, then).is_err());
    assert_eq!(pace.ready(Lane::Transactional, then), Ok(()));
}
