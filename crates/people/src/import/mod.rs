//! People out of a file: any number of them, a part at a time.
//!
//! A part is read in a thread of its own, made known in the relations with a few statements, and written with a few
//! transactions. What a file says is added to what is known: an empty cell clears nothing, and nothing in a file takes
//! back an unsubscription or a suppression. Whoever imports a file twice changes nothing the second time, so an
//! import that was interrupted is begun again. Not here: the one person that an application knows (`contacts::upsert`).

mod bulk;
mod file;
mod mapping;
mod part;
mod row;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::io::Read;

use futures_util::StreamExt as _;
use serde_json::json;
use tidings_access::{Change, ClientId, Cx, Slug, StorageError};
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Row};
use tokio::sync::{mpsc, watch};

use crate::contacts::Tag;
use bulk::{Audience, Entry};
use file::File;
use row::Person;

pub use file::FileError;
pub use mapping::{Assignment, AssignmentError, Field, Mapping, MappingError};
pub use row::Fault;
pub(crate) use row::{GUARD, is_like_a_formula};

/// So many lines are a part: few commits of many lines are faster than many of few.
const PART: usize = 4_000;
/// A part of longer lines is full with so many bytes, so memory is bounded whatever the file holds.
const PART_BYTES: u64 = 2 * 1_024 * 1_024;
/// So many parts are under way at once: one is written while another is looked up.
const AT_ONCE: usize = 2;
/// So many addresses a preview remembers, to tell who comes twice.
const REMEMBERED: usize = 2_000_000;

/// What everybody in the file gets.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub assignments: Vec<Assignment>,
    pub tags: BTreeSet<Tag>,
    /// Whoever has no subscription to it yet is subscribed.
    pub audience: Option<Slug>,
    /// How they confirm it, where the audience wants that.
    pub confirmation: Confirmation,
    /// Where the file comes from, and by what right: it is kept as the proof of every subscription.
    pub source: String,
}

/// How those who come new to an audience with double opt-in confirm it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// Whoever comes is asked, by a mail in the name of this client if the audience has a template for it. Without one of the
    /// two, whoever imports asks by himself.
    Ask(Option<ClientId>),
    /// They have confirmed it elsewhere, as the source says.
    Given,
}

impl Default for Confirmation {
    fn default() -> Self {
        Self::Ask(None)
    }
}

/// How the lines ended. Each is one of new, updated, unchanged and invalid; the rest is about some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counts {
    pub lines: u64,
    pub new: u64,
    pub updated: u64,
    pub unchanged: u64,
    pub invalid: u64,
    /// Must not be written to, before or because of this file.
    pub suppressed: u64,
    /// From everything, before or because of this file.
    pub unsubscribed: u64,
    /// Newly subscribed to the audience.
    pub subscribed: u64,
    /// Of those: a mail asks to confirm it.
    pub asked: u64,
}

/// What happens on the way.
#[derive(Debug)]
pub enum Event<'a> {
    /// How the columns are understood.
    Mapped(&'a Mapping),
    /// A line is left out.
    Left(&'a Fault),
    /// So far.
    Progress(&'a Counts),
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("there is no audience {0}")]
    NoAudience(Slug),
    #[error("the import stopped at line {line}, and can be begun again")]
    Store { line: u64, source: StorageError },
}

/// Takes in everybody in the file.
pub async fn run(
    cx: &Cx,
    file: impl Read + Send + 'static,
    settings: Settings,
    tell: impl FnMut(Event<'_>),
) -> Result<Counts, ImportError> {
    each_part(cx, file, settings, Mode::Write, tell).await
}

/// Before the first person: whoever finds them later finds who brought them.
async fn audit(cx: &Cx, settings: &Settings) -> Result<(), DatabaseError> {
    let told = json!({
        "audience": settings.audience.as_ref().map(Slug::as_str),
        "confirmed": settings.confirmation == Confirmation::Given,
        "tags": settings.tags.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    let change = Change::new("contact.import", "workspace", cx.workspace()).after(told);
    let within = cx.clone();
    cx.database().write(move |tx| within.record_change(tx, &change)).await
}

/// What `run` would do, without doing it.
pub async fn preview(
    cx: &Cx,
    file: impl Read + Send + 'static,
    settings: Settings,
    tell: impl FnMut(Event<'_>),
) -> Result<Counts, ImportError> {
    let seen = Seen { state: RandomState::new(), hashes: HashSet::new() };
    each_part(cx, file, settings, Mode::Look(seen), tell).await
}

enum Mode {
    Write,
    Look(Seen),
}

async fn each_part(
    cx: &Cx,
    file: impl Read + Send + 'static,
    settings: Settings,
    mut mode: Mode,
    mut tell: impl FnMut(Event<'_>),
) -> Result<Counts, ImportError> {
    let audience = find_audience(cx, &settings).await?;
    let mut parts = read_in_parts(file, settings.assignments.clone());
    let mapping = parts.recv().await.expect("the reader says how the columns are understood")?;
    if let Piece::Mapping(mapping) = &mapping {
        tell(Event::Mapped(mapping));
    }
    if matches!(mode, Mode::Write) {
        let audited = audit(cx, &settings).await;
        audited.map_err(|error| ImportError::Store { line: 0, source: error.into() })?;
    }
    let order = part::Order { tags: settings.tags, audience, source: settings.source };
    let looking = matches!(mode, Mode::Look(_));
    let order = &order;
    let parts = futures_util::stream::poll_fn(|context| parts.poll_recv(context));
    let mut turns = Turns::default();
    let work = parts.map(|read| {
        let turn = turns.next(read.as_ref().map_or(&[], Piece::lines));
        async move {
            let turn = turn.come().await;
            let Piece::Lines(lines) = read? else { return Ok(part::Done::default()) };
            let first = lines.first().map_or(0, line_of);
            let done = match looking {
                true => part::look(cx, order, lines).await,
                false => part::write(cx, order, lines).await,
            };
            drop(turn);
            done.map_err(|source| ImportError::Store { line: first, source })
        }
    });
    let mut work = std::pin::pin!(work.buffered(AT_ONCE));
    let mut counts = Counts::default();
    while let Some(done) = work.next().await {
        let mut done = done?;
        if let Mode::Look(seen) = &mut mode {
            seen.correct(&mut done);
        }
        done.faults.iter().for_each(|fault| tell(Event::Left(fault)));
        counts.add(&done.counts);
        if audience.is_some_and(Audience::asks) {
            counts.asked = counts.subscribed;
        }
        tell(Event::Progress(&counts));
    }
    Ok(counts)
}

fn line_of(line: &Result<Person, Fault>) -> u64 {
    line.as_ref().map_or_else(|fault| fault.line, |person| person.line)
}

/// What the reading thread gives: the mapping first, then lines.
enum Piece {
    Mapping(Mapping),
    Lines(Vec<Result<Person, Fault>>),
}

impl Piece {
    fn lines(&self) -> &[Result<Person, Fault>] {
        match self {
            Self::Mapping(_) => &[],
            Self::Lines(lines) => lines,
        }
    }
}

/// Which parts have to wait for which: whoever is in two of them gets the later line last.
#[derive(Default)]
struct Turns {
    state: RandomState,
    /// The parts that can be under way when the next one begins: who is in them, and what tells that they have ended.
    before: VecDeque<(HashSet<u64>, watch::Receiver<()>)>,
}

/// The turn of one part. The next ones that share a person with it come when this is dropped.
struct Turn {
    _under_way: watch::Sender<()>,
    after: Vec<watch::Receiver<()>>,
}

impl Turns {
    fn next(&mut self, lines: &[Result<Person, Fault>]) -> Turn {
        let people = lines.iter().filter_map(|line| line.as_ref().ok());
        let people: HashSet<u64> =
            people.map(|person| self.state.hash_one(&person.email)).collect();
        let shared = self.before.iter().filter(|(others, _)| !others.is_disjoint(&people));
        let after = shared.map(|(_, ended)| ended.clone()).collect();
        let (under_way, ended) = watch::channel(());
        if self.before.len() == AT_ONCE {
            self.before.pop_front();
        }
        self.before.push_back((people, ended));
        Turn { _under_way: under_way, after }
    }
}

impl Turn {
    async fn come(mut self) -> Self {
        for ended in &mut self.after {
            // Nobody ever sends anything, so this is that the part has ended.
            while ended.changed().await.is_ok() {}
        }
        self
    }
}

/// Reads in a thread of its own, not further ahead than a few parts.
fn read_in_parts(
    file: impl Read + Send + 'static,
    assignments: Vec<Assignment>,
) -> mpsc::Receiver<Result<Piece, ImportError>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        // Whoever listens no more has lost interest, and then reading ends.
        let mut file = match File::open(file, &assignments) {
            Ok(file) => file,
            Err(error) => return drop(sender.blocking_send(Err(error.into()))),
        };
        let mapping = Piece::Mapping(file.mapping().clone());
        let mut open = sender.blocking_send(Ok(mapping)).is_ok();
        while open {
            let next = file.next_lines(PART, PART_BYTES);
            if matches!(&next, Ok(lines) if lines.is_empty()) {
                return;
            }
            let failed = next.is_err();
            let sent = sender.blocking_send(next.map(Piece::Lines).map_err(ImportError::from));
            open = sent.is_ok() && !failed;
        }
    });
    receiver
}

async fn find_audience(cx: &Cx, settings: &Settings) -> Result<Option<Audience>, ImportError> {
    let Some(slug) = settings.audience.clone() else { return Ok(None) };
    let (workspace, wanted) = (cx.workspace_id().get(), slug.clone());
    let confirmation = settings.confirmation;
    let find = cx.database().read(move |tx| {
        let sql = "SELECT id, double_opt_in, confirm_template_key FROM audiences
                   WHERE workspace_id = $1 AND slug = $2";
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Text(wanted.as_str())])?;
        let audience = |row: &Row| {
            let (double_opt_in, template) = (row.int(1)? == 1, row.optional_text(2)?);
            let entry = match confirmation {
                Confirmation::Given => Entry::Confirmed,
                Confirmation::Ask(client) if double_opt_in => {
                    Entry::Pending(client.filter(|_| template.is_some()))
                }
                Confirmation::Ask(_) => Entry::Subscribed,
            };
            Ok(Audience { id: row.int(0)?, entry })
        };
        rows.first().map(audience).transpose()
    });
    let found = find
        .await
        .map_err(|error: DatabaseError| ImportError::Store { line: 1, source: error.into() });
    found?.map(Some).ok_or(ImportError::NoAudience(slug))
}

/// Who came before in a file that is only looked at: an import would find them as contacts.
struct Seen {
    state: RandomState,
    hashes: HashSet<u64>,
}

/// As what somebody came before.
#[derive(Hash)]
enum Met {
    New,
    Joining,
}

impl Seen {
    fn correct(&mut self, done: &mut part::Done) {
        for email in &done.new {
            if !self.is_first(Met::New, email) {
                done.counts.new -= 1;
                done.counts.updated += 1;
            }
        }
        for email in &done.joining {
            done.counts.subscribed += u64::from(self.is_first(Met::Joining, email));
        }
    }

    /// Beyond what is remembered everybody is the first.
    fn is_first(&mut self, met: Met, email: &EmailAddress) -> bool {
        let hash = self.state.hash_one((met, email));
        if self.hashes.len() >= REMEMBERED {
            return !self.hashes.contains(&hash);
        }
        self.hashes.insert(hash)
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.new += other.new;
        self.updated += other.updated;
        self.unchanged += other.unchanged;
        self.invalid += other.invalid;
        self.suppressed += other.suppressed;
        self.unsubscribed += other.unsubscribed;
        self.subscribed += other.subscribed;
    }
}
