//! What came of a campaign: how many were meant, sent to and left out, and what they did.
//!
//! Nothing is counted here. What became of the recipients says the ledger (`tallies`, counted when a batch ends); what
//! came back say the items `STATS#<key>` (`delivery::breakdown`, counted with each event). So what the answer
//! costs grows with domains, hours and links, and not with recipients; and it is bounded: of many domains and links the
//! largest are told, and the others together.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use tidings_access::{Cx, StorageError};
use tidings_delivery::breakdown::{self, OTHER, Part};
use tidings_delivery::counts::Counts;
use tidings_kernel::{Item, Query, tables};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::draft::Find;
use super::tallies::{Kind, Outcome};
use super::{Campaign, CampaignId, Status, store};

/// So many domains and links are told one by one.
pub const TOP: usize = 50;
/// So many hours from the first one are told one by one, and after them days.
pub const HOURS: i64 = 48;
/// So many days are told one by one; the last has all that came later.
pub const MAX_DAYS: usize = 400;
/// So many items are read at once.
const PAGE: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    pub campaign_id: i64,
    pub key: String,
    pub status: &'static str,
    /// Everybody it means, those who are skipped too.
    pub recipients: i64,
    pub outcomes: Outcomes,
    /// Why people were left out, the most frequent reason first.
    pub skipped: Vec<Named>,
    /// Why it failed.
    pub failed: Vec<Named>,
    /// All that came back. Each name says what it counts.
    pub totals: Counts,
    pub rates: Rates,
    pub opens: Split,
    pub clicks: Split,
    pub bounces: Vec<Bounces>,
    pub domains: Domains,
    pub links: Links,
    /// Over time, the first hours one by one.
    pub series: Vec<Slot>,
    pub variants: Vec<VariantResults>,
    /// The place of the variant that did best, once that is decided.
    pub winner: Option<i64>,
}

/// How it ended with the recipients so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// They have no end yet, or are in a batch that has none.
    pub pending: i64,
    pub sent: i64,
    pub failed: i64,
    pub skipped: i64,
    pub uncertain: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    pub name: String,
    pub count: i64,
}

/// What rates are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// The provider tells of deliveries.
    Delivered,
    /// It does not, or none has come yet.
    Sent,
}

/// Parts of one, each of messages: of whom it was opened once, and not how often. `None` where there is nothing to be a
/// part of. Deliveries and bounces are parts of what was sent; all others of the base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rates {
    pub base: Base,
    pub base_count: i64,
    pub delivered: Option<f64>,
    pub bounced: Option<f64>,
    pub opened: Option<f64>,
    pub human_opened: Option<f64>,
    pub clicked: Option<f64>,
    pub human_clicked: Option<f64>,
    /// Of those that a person opened, how many a person clicked.
    pub human_clicked_of_opened: Option<f64>,
    pub complained: Option<f64>,
    pub unsubscribed: Option<f64>,
    pub replied: Option<f64>,
}

/// Who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Split {
    /// By people, as far as can be told.
    pub human: i64,
    /// By machines, and by whom nobody can tell.
    pub other: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bounces {
    /// `hard`, `soft`, `content` or `unknown`.
    pub class: String,
    /// As the provider calls it.
    pub subtype: String,
    pub count: i64,
}

/// What was sent, and what came back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Numbers {
    pub sent: i64,
    pub events: Counts,
}

/// By the domain of the recipient.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Domains {
    /// Those that most was sent to.
    pub top: Vec<DomainResults>,
    /// How many there are besides.
    pub other_count: i64,
    pub others: Numbers,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DomainResults {
    pub domain: String,
    pub numbers: Numbers,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Links {
    /// Those that were clicked most.
    pub top: Vec<LinkResults>,
    /// All others together. Their uniques are sums: who clicked two of them is in them twice.
    pub others: Counts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkResults {
    pub url: String,
    pub clicks: Counts,
}

/// An hour or a day in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Slot {
    pub from: Timestamp,
    pub span: Span,
    /// It has no uniques: a message that is opened in two hours is opened in both.
    pub numbers: Numbers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    Hour,
    Day,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VariantResults {
    pub place: i64,
    pub name: String,
    pub winner: bool,
    pub numbers: Numbers,
}

#[derive(Debug, thiserror::Error)]
pub enum LookError {
    #[error("there is no campaign {0}")]
    Missing(CampaignId),
    #[error("the campaign could not be looked at")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for LookError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

impl From<tidings_kernel::StoreError> for LookError {
    fn from(error: tidings_kernel::StoreError) -> Self {
        Self::Store(error.into())
    }
}

/// What came of a campaign until now.
pub async fn results(cx: &Cx, find: Find) -> Result<Results, LookError> {
    let within = cx.clone();
    let read = cx.database().read(move |tx| {
        let found = store::glance(tx, &within, find.id)?.filter(|one| find.sees(one));
        let Some(campaign) = found else { return Ok(None) };
        let ledger = Ledger::read(tx, &within, campaign.id)?;
        Ok::<_, DatabaseError>(Some((campaign, ledger)))
    });
    let (campaign, ledger) = read.await?.ok_or(LookError::Missing(find.id))?;
    let events = Events::read(cx, &campaign.key(), &ledger.domains).await?;
    Ok(put_together(&campaign, ledger, events))
}

/// What the ledger has counted.
#[derive(Debug, Default)]
struct Ledger {
    outcomes: Outcomes,
    skipped: Vec<Named>,
    failed: Vec<Named>,
    /// What was sent by hour and by the place of the variant.
    hours: BTreeMap<String, i64>,
    arms: BTreeMap<i64, i64>,
    /// The domains that most was sent to, and how many there are and were sent to in all.
    domains: Vec<Named>,
    domain_count: i64,
    domain_sent: i64,
}

impl Ledger {
    fn read(tx: &mut Tx<'_>, cx: &Cx, id: CampaignId) -> Result<Self, DatabaseError> {
        let mut ledger = Self::default();
        let of = [Param::Int(cx.workspace_id().get()), Param::Int(id.get())];
        // There may be as many domains as recipients, so they are not read one by one.
        let sql = "SELECT kind, name, count FROM campaign_tallies
                   WHERE workspace_id = $1 AND campaign_id = $2 AND kind <> 'domain' AND count <> 0
                   ORDER BY kind, count DESC, name";
        for row in tx.query(sql, &of)? {
            ledger.add(&row)?;
        }
        let sql = "SELECT name, count FROM campaign_tallies
                   WHERE workspace_id = $1 AND campaign_id = $2 AND kind = 'domain' AND count <> 0
                   ORDER BY count DESC, name LIMIT $3";
        for row in tx.query(sql, &[of[0], of[1], Param::Int(TOP as i64)])? {
            ledger.domains.push(Named { name: row.text(0)?.to_owned(), count: row.int(1)? });
        }
        let sql = "SELECT COUNT(*), CAST(COALESCE(SUM(count), 0) AS BIGINT) FROM campaign_tallies
                   WHERE workspace_id = $1 AND campaign_id = $2 AND kind = 'domain' AND count <> 0";
        if let Some(row) = tx.query(sql, &of)?.first() {
            (ledger.domain_count, ledger.domain_sent) = (row.int(0)?, row.int(1)?);
        }
        Ok(ledger)
    }

    fn add(&mut self, row: &Row) -> Result<(), DatabaseError> {
        let (kind, name, count) = (row.text(0)?, row.text(1)?, row.int(2)?);
        let named = || Named { name: name.to_owned(), count };
        match Kind::ALL.into_iter().find(|one| one.as_str() == kind) {
            Some(Kind::Outcome) => {
                let outcomes = &mut self.outcomes;
                match Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == name) {
                    Some(Outcome::Sent) => outcomes.sent = count,
                    Some(Outcome::Failed) => outcomes.failed = count,
                    Some(Outcome::Skipped) => outcomes.skipped = count,
                    Some(Outcome::Uncertain) => outcomes.uncertain = count,
                    None => return Err(DatabaseError::damaged(1, "an outcome")),
                }
            }
            Some(Kind::Skipped) => self.skipped.push(named()),
            Some(Kind::Failed) => self.failed.push(named()),
            Some(Kind::Arm) => drop(self.arms.insert(row.parsed(1, "a place")?, count)),
            Some(Kind::Hour) => drop(self.hours.insert(name.to_owned(), count)),
            Some(Kind::Domain) | None => {}
        }
        Ok(())
    }
}

/// What the items have counted.
#[derive(Debug, Default)]
struct Events {
    totals: Counts,
    domains: Vec<Counts>,
    hours: BTreeMap<String, Counts>,
    arms: BTreeMap<i64, Counts>,
    links: Vec<LinkResults>,
    /// Of links that have no numbers of their own.
    other_links: Counts,
    bounces: Vec<Bounces>,
}

impl Events {
    async fn read(cx: &Cx, key: &str, domains: &[Named]) -> Result<Self, StorageError> {
        let items = cx.items().await?;
        let mut events = Self::default();
        // Before the totals, which are then at least as much: what is not in one of these is in the others.
        let wanted: Vec<_> =
            domains.iter().map(|one| breakdown::keys::domain(key, &one.name)).collect();
        if !wanted.is_empty() {
            let found = items.batch_get(&tables::MAIN, &wanted).await?.into_iter();
            events.domains =
                found.map(|item| item.as_ref().map(Counts::of).unwrap_or_default()).collect();
        }
        // In the order of the sort keys: variants, bounces and the totals; domains, which may be many; hours and links.
        for (low, high) in [("HOUR#", "LINKS"), ("ARM#", "COUNTERS")] {
            let mut cursor = None;
            loop {
                let query = Query::new(&tables::MAIN, breakdown::keys::partition(key))
                    .between(low, high)
                    .limit(PAGE)
                    .after(cursor);
                let page = items.query(query).await?;
                page.items.iter().for_each(|item| events.add(item));
                cursor = page.cursor;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(events)
    }

    fn add(&mut self, item: &Item) {
        let Some(part) = item.text("SK").and_then(Part::of) else { return };
        let counts = Counts::of(item);
        match part {
            Part::Total => self.totals = counts,
            Part::Hour(hour) => drop(self.hours.insert(hour.to_owned(), counts)),
            Part::Arm(arm) => drop(self.arms.insert(arm, counts)),
            Part::Link(OTHER) => self.other_links.add(counts),
            Part::Link(_) => {
                let url = item.text(breakdown::URL).unwrap_or_default().to_owned();
                self.links.push(LinkResults { url, clicks: counts });
            }
            Part::Bounce { class, subtype } if counts.bounce_count > 0 => {
                let (class, subtype) = (class.to_owned(), subtype.to_owned());
                self.bounces.push(Bounces { class, subtype, count: counts.bounce_count });
            }
            Part::Bounce { .. } | Part::Domain(_) => {}
        }
    }
}

fn put_together(campaign: &Campaign, ledger: Ledger, mut events: Events) -> Results {
    let recipients = campaign.progress.recipients;
    let mut outcomes = ledger.outcomes;
    let ended = outcomes.sent + outcomes.failed + outcomes.skipped + outcomes.uncertain;
    outcomes.pending = (recipients - ended).max(0);
    let totals = events.totals.clone();
    events.bounces.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.class.cmp(&b.class)));
    events.bounces.truncate(TOP);
    let winner = campaign.progress.winner;
    let variants = campaign.variants.iter().enumerate().map(|(place, variant)| {
        let place = place as i64;
        let sent = ledger.arms.get(&place).copied().unwrap_or(0);
        let numbers = Numbers { sent, events: events.arms.remove(&place).unwrap_or_default() };
        VariantResults { place, name: variant.name.clone(), winner: winner == Some(place), numbers }
    });
    Results {
        campaign_id: campaign.id.get(),
        key: campaign.key(),
        status: Status::as_str(campaign.status),
        recipients,
        rates: rates(outcomes.sent, &totals),
        outcomes,
        opens: split(totals.open_count, totals.human_open_count),
        clicks: split(totals.click_count, totals.human_click_count),
        variants: variants.collect(),
        winner,
        bounces: events.bounces,
        links: links(events.links, events.other_links),
        series: series(&ledger.hours, events.hours),
        domains: domains(
            (ledger.domains, events.domains),
            (ledger.domain_count, ledger.domain_sent),
            totals.clone(),
        ),
        skipped: ledger.skipped,
        failed: ledger.failed,
        totals,
    }
}

fn split(all: i64, human: i64) -> Split {
    Split { human, other: (all - human).max(0) }
}

fn rates(sent: i64, totals: &Counts) -> Rates {
    let (base, base_count) = match totals.delivery_count {
        0 => (Base::Sent, sent),
        delivered => (Base::Delivered, delivered),
    };
    let part = |count: i64, of: i64| (of > 0).then(|| count as f64 / of as f64);
    Rates {
        base,
        base_count,
        delivered: part(totals.delivery_count, sent).filter(|_| base == Base::Delivered),
        bounced: part(totals.bounce_count, sent),
        opened: part(totals.unique_open_count, base_count),
        human_opened: part(totals.unique_human_open_count, base_count),
        clicked: part(totals.unique_click_count, base_count),
        human_clicked: part(totals.unique_human_click_count, base_count),
        human_clicked_of_opened: part(
            totals.unique_human_click_count,
            totals.unique_human_open_count,
        ),
        complained: part(totals.complaint_count, base_count),
        unsubscribed: part(totals.unsubscribe_count, base_count),
        replied: part(totals.reply_count, base_count),
    }
}

/// All that is not of the domains that are told is of the others.
fn domains(
    (sent, events): (Vec<Named>, Vec<Counts>),
    (count, all_sent): (i64, i64),
    totals: Counts,
) -> Domains {
    let mut told = Numbers::default();
    let mut top = Vec::with_capacity(sent.len());
    for (Named { name, count }, events) in sent.into_iter().zip(events) {
        told.sent += count;
        told.events.add(events.clone());
        top.push(DomainResults { domain: name, numbers: Numbers { sent: count, events } });
    }
    let mut others = totals.without(told.events);
    // What was sent is counted in whole, and by the ledger.
    others.send_count = 0;
    let other_count = (count - top.len() as i64).max(0);
    let others = Numbers { sent: (all_sent - told.sent).max(0), events: others };
    Domains { top, other_count, others }
}

fn links(mut all: Vec<LinkResults>, mut others: Counts) -> Links {
    let most = |link: &LinkResults| {
        (
            std::cmp::Reverse(link.clicks.unique_human_click_count),
            std::cmp::Reverse(link.clicks.click_count),
        )
    };
    all.sort_by(|a, b| most(a).cmp(&most(b)).then_with(|| a.url.cmp(&b.url)));
    let rest = all.split_off(all.len().min(TOP));
    rest.into_iter().for_each(|link| others.add(link.clicks));
    Links { top: all, others }
}

/// What happened in each hour, and after the first hours in each day. Times in which nothing happened are left out.
fn series(sent: &BTreeMap<String, i64>, mut events: BTreeMap<String, Counts>) -> Vec<Slot> {
    let mut hours = BTreeMap::<Timestamp, Numbers>::new();
    for (hour, count) in sent {
        if let Some(at) = time_of(hour) {
            hours.entry(at).or_default().sent += count;
        }
    }
    while let Some((hour, counts)) = events.pop_first() {
        if let Some(at) = time_of(&hour) {
            hours.entry(at).or_default().events.add(counts);
        }
    }
    let Some(first) = hours.keys().next().copied() else { return Vec::new() };
    let days_from = first.saturating_add(SignedDuration::from_hours(HOURS)).unwrap_or(first);
    let mut slots = Vec::<Slot>::new();
    let mut days = 0;
    for (at, numbers) in hours {
        let (from, span) = if at < days_from { (at, Span::Hour) } else { (day_of(at), Span::Day) };
        let full = days >= MAX_DAYS;
        match slots.last_mut() {
            Some(slot) if (slot.from, slot.span) == (from, span) || (full && span == Span::Day) => {
                slot.numbers.sent += numbers.sent;
                slot.numbers.events.add(numbers.events);
            }
            _ => {
                days += usize::from(span == Span::Day);
                slots.push(Slot { from, span, numbers });
            }
        }
    }
    slots
}

/// The beginning of an hour as it is in keys: `2026-04-02T10`.
fn time_of(hour: &str) -> Option<Timestamp> {
    format!("{hour}:00:00Z").parse().ok()
}

fn day_of(at: Timestamp) -> Timestamp {
    const DAY: i64 = 86_400;
    Timestamp::from_second(at.as_second().div_euclid(DAY) * DAY).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tidings_delivery::counts::Counts;

    use super::{Base, LinkResults, Named, Span, TOP, domains, links, rates, series};

    #[test]
    fn rates_say_what_they_are_of() {
        let totals = Counts { unique_open_count: 25, bounce_count: 10, ..Counts::default() };
        let of_sent = rates(100, &totals);
        assert_eq!((of_sent.base, of_sent.base_count), (Base::Sent, 100));
        assert_eq!((of_sent.opened, of_sent.bounced), (Some(0.25), Some(0.1)));
        assert_eq!((of_sent.delivered, of_sent.human_clicked_of_opened), (None, None));
        let delivered = rates(100, &Counts { delivery_count: 50, ..totals });
        assert_eq!((delivered.base, delivered.base_count), (Base::Delivered, 50));
        assert_eq!((delivered.opened, delivered.bounced), (Some(0.5), Some(0.1)));
        assert_eq!(delivered.delivered, Some(0.5));
        assert_eq!(rates(0, &Counts::default()).opened, None);
    }

    #[test]
    fn two_days_are_told_by_hour_and_then_each_day() {
        let sent =
            BTreeMap::from([("2026-04-01T22".to_owned(), 7), ("2026-04-01T23".to_owned(), 2)]);
        let open = || Counts { open_count: 1, ..Counts::default() };
        let hours =
            ["2026-04-01T23", "2026-04-03T21", "2026-04-03T22", "2026-04-03T23", "2026-04-09T00"];
        let events = hours.into_iter().map(|hour| (hour.to_owned(), open())).collect();
        let slots = series(&sent, events);
        let told: Vec<_> = slots
            .iter()
            .map(|slot| {
                let word = if slot.span == Span::Hour { "hour" } else { "day" };
                let numbers = &slot.numbers;
                format!("{word} {} {} {}", slot.from, numbers.sent, numbers.events.open_count)
            })
            .collect();
        assert_eq!(
            told,
            [
                "hour 2026-04-01T22:00:00Z 7 0",
                "hour 2026-04-01T23:00:00Z 2 1",
                "hour 2026-04-03T21:00:00Z 0 1",
                "day 2026-04-03T00:00:00Z 0 2",
                "day 2026-04-09T00:00:00Z 0 1",
            ]
        );
    }

    #[test]
    fn a_series_has_an_end_however_long_people_open() {
        let hour = |day: i64| {
            let at = jiff::Timestamp::from_second(1_775_000_000 + day * 86_400).unwrap();
            (super::super::tallies::hour(at), Counts { open_count: 1, ..Counts::default() })
        };
        let slots = series(&BTreeMap::new(), (0..1_000).map(hour).collect());
        assert!(slots.len() <= super::MAX_DAYS + 2);
        let opens: i64 = slots.iter().map(|slot| slot.numbers.events.open_count).sum();
        assert_eq!(opens, 1_000);
    }

    #[test]
    fn what_is_not_told_one_by_one_is_told_together() {
        let link = |at: i64| LinkResults {
            url: format!("https://shop.test/{at}"),
            clicks: Counts { click_count: at, ..Counts::default() },
        };
        let unnamed = Counts { click_count: 5, ..Counts::default() };
        let links = links((0..60).map(link).collect(), unnamed);
        assert_eq!(links.top.len(), TOP);
        assert_eq!(links.top[0].clicks.click_count, 59);
        assert_eq!(links.others.click_count, (0..10).sum::<i64>() + 5);

        let counts = |delivery_count| Counts { delivery_count, ..Counts::default() };
        let sent = vec![
            Named { name: "a.test".into(), count: 7 },
            Named { name: "b.test".into(), count: 3 },
        ];
        let totals = Counts { send_count: 12, ..counts(11) };
        let domains = domains((sent, vec![counts(6), counts(3)]), (4, 12), totals);
        assert_eq!((domains.other_count, domains.others.sent), (2, 2));
        assert_eq!(domains.others.events, counts(2));
    }
}
