//! Whatever is asked of a campaign, in whatever order: it is where a much simpler one would be.

use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidings_jobs::contracts::{CampaignEmail, Contract as _};
use tidings_kernel::{Outgoing, QueueEngine as _, queues};
use tidings_testbed::Bed;

use super::control::bounces;
use super::{World, find};
use crate::campaigns::batches::batch_id;
use crate::campaigns::control::{
    ControlError, Start, When, cancel, pause, resume, retry_failed, start,
};
use crate::campaigns::draft::{self, Draft, DraftError};
use crate::campaigns::{CampaignId, Schedule, Status};

#[derive(Debug, Clone, Copy)]
enum Command {
    /// When it says itself.
    Start,
    StartNow,
    /// Its name becomes another one.
    Edit,
    /// In so many minutes.
    Schedule(i64),
    Pause,
    Resume,
    Cancel,
    Retry,
    /// The workers of the steps work.
    Steps,
    /// The workers of the mails do.
    Mails,
    /// The queue hands over once more all that it ever has.
    Redeliver,
    /// Too many bounce.
    Bounces,
    /// There is nobody any more whom it could come from.
    LoseSender,
    /// So many minutes pass.
    Wait(i64),
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        2 => Just(Command::Start),
        1 => Just(Command::StartNow),
        1 => Just(Command::Edit),
        1 => Just(Command::Redeliver),
        1 => Just(Command::Bounces),
        1 => Just(Command::LoseSender),
        1 => prop_oneof![Just(20), Just(45)].prop_map(Command::Schedule),
        2 => Just(Command::Pause),
        3 => Just(Command::Resume),
        1 => Just(Command::Cancel),
        2 => Just(Command::Retry),
        5 => Just(Command::Steps),
        4 => Just(Command::Mails),
        2 => prop_oneof![Just(10), Just(30), Just(120)].prop_map(Command::Wait),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Person {
    Pending,
    Sent,
    Failed,
    Skipped,
}

/// A campaign without batches, rows and queues: all people are on the queue, or none is.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact, and none follows from another")]
struct Simple {
    status: Status,
    paused_in: Option<Status>,
    scheduled: Option<Timestamp>,
    /// Somebody will look at it.
    step: bool,
    /// From when on somebody looks again at what is on the queue.
    watch: Option<Timestamp>,
    people: Vec<Person>,
    on_queue: bool,
    retrying: bool,
    brake: Brake,
    has_sender: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brake {
    /// Nothing has come back.
    Ready,
    /// Too much has, and nobody has looked yet.
    Due,
    /// It is paused because of that.
    Pulled,
    Released,
}

/// Of whom the first two fail each time.
const PEOPLE: usize = 6;
const FAILING: usize = 2;

impl Simple {
    fn new() -> Self {
        Self {
            status: Status::Draft,
            paused_in: None,
            scheduled: None,
            step: false,
            watch: None,
            people: Vec::new(),
            on_queue: false,
            retrying: false,
            brake: Brake::Ready,
            has_sender: true,
        }
    }

    /// Nothing starts without a sender.
    fn begin(&mut self) -> bool {
        if self.has_sender {
            (self.status, self.paused_in, self.step) = (Status::Snapshotting, None, true);
        }
        !self.has_sender
    }

    /// Whether the command is refused.
    fn obey(&mut self, command: Command, now: Timestamp) -> bool {
        let is_over = matches!(self.status, Status::Cancelled | Status::Failed);
        match command {
            Command::Start if is_over => return true,
            Command::Start => {
                // The same again starts nothing that is scheduled or paused.
                if self.status == Status::Draft {
                    return self.begin();
                }
            }
            Command::StartNow if is_over => return true,
            Command::StartNow => {
                if self.is_editable() {
                    let refused = self.begin();
                    if !refused {
                        self.scheduled = None;
                    }
                    return refused;
                }
            }
            Command::Edit => return !self.is_editable(),
            Command::Schedule(minutes) => {
                let at = now + minutes.minutes();
                let is_same = self.scheduled == Some(at) && self.status != Status::Draft;
                if is_same && !is_over {
                    return false;
                }
                if !self.is_editable() || !self.has_sender {
                    return true;
                }
                (self.status, self.scheduled) = (Status::Scheduled, Some(at));
                self.paused_in = None;
            }
            Command::Pause => match self.status {
                Status::Scheduled | Status::Snapshotting | Status::Sending => {
                    self.paused_in = Some(self.status);
                    self.status = Status::Paused;
                }
                Status::Paused => {}
                _ => return true,
            },
            Command::Resume => match self.status {
                Status::Paused => return self.go_on(now),
                Status::Scheduled | Status::Snapshotting | Status::Sending => {}
                _ => return true,
            },
            Command::Cancel => match self.status {
                Status::Sent | Status::Failed => return true,
                Status::Cancelled => {}
                _ => (self.status, self.paused_in, self.step) = (Status::Cancelled, None, true),
            },
            Command::Retry => match self.status {
                Status::Sent if !self.people.contains(&Person::Failed) => {}
                Status::Sent => {
                    self.status = Status::Sending;
                    (self.retrying, self.step) = (true, true);
                }
                _ => return true,
            },
            Command::Steps => self.work(now),
            Command::Mails => self.mail(now),
            Command::Bounces => {
                if self.brake == Brake::Ready {
                    self.brake = Brake::Due;
                }
            }
            Command::LoseSender => self.has_sender = false,
            Command::Redeliver | Command::Wait(_) => {}
        }
        false
    }

    /// Whoever lets one go on that has stopped by itself takes its brake off.
    fn release(&mut self) {
        if self.brake == Brake::Pulled {
            self.brake = Brake::Released;
        }
    }

    /// Whether nothing of it has begun.
    fn is_editable(&self) -> bool {
        matches!(self.status, Status::Draft | Status::Scheduled)
            || self.paused_in == Some(Status::Scheduled)
    }

    /// Whether that is refused.
    fn go_on(&mut self, now: Timestamp) -> bool {
        if self.paused_in == Some(Status::Scheduled) && self.scheduled.is_some_and(|at| at <= now) {
            return self.begin();
        }
        self.release();
        self.status = self.paused_in.take().unwrap_or(Status::Sending);
        self.step |= self.status != Status::Scheduled;
        false
    }

    /// The timer fires when it is time.
    fn pass(&mut self, now: Timestamp) {
        if self.status == Status::Scheduled && self.scheduled.is_some_and(|at| at <= now) {
            self.step = true;
        }
        let looks_again = self.watch.is_some_and(|at| at <= now);
        self.step |= self.status == Status::Sending && self.on_queue && looks_again;
    }

    fn work(&mut self, now: Timestamp) {
        if !std::mem::take(&mut self.step) {
            return;
        }
        if let (Status::Scheduled, Some(at)) = (self.status, self.scheduled)
            && at <= now
        {
            if now.duration_since(at).as_secs() > 3600 {
                (self.status, self.paused_in) = (Status::Paused, Some(Status::Scheduled));
            } else if self.has_sender {
                self.status = Status::Snapshotting;
            } else {
                self.status = Status::Failed;
            }
        }
        if self.status == Status::Snapshotting {
            self.status = Status::Sending;
            self.people = vec![Person::Pending; PEOPLE];
        }
        if self.status == Status::Sending {
            if std::mem::take(&mut self.retrying) {
                for person in self.people.iter_mut().filter(|one| **one == Person::Failed) {
                    *person = Person::Pending;
                }
            }
            self.feed(now);
        }
        if self.status == Status::Cancelled && !self.on_queue {
            self.give_up();
        }
    }

    fn feed(&mut self, now: Timestamp) {
        let is_open = self.people.contains(&Person::Pending);
        if is_open && self.brake == Brake::Due {
            (self.status, self.paused_in) = (Status::Paused, Some(Status::Sending));
            self.brake = Brake::Pulled;
            return;
        }
        self.on_queue = is_open;
        if self.on_queue {
            // Bounces come whether or not a batch is finished, so each minute somebody looks.
            self.watch = Some(now + 1.minute());
        } else {
            self.status = Status::Sent;
        }
    }

    fn give_up(&mut self) {
        for person in self.people.iter_mut().filter(|one| **one == Person::Pending) {
            *person = Person::Skipped;
        }
    }

    fn mail(&mut self, now: Timestamp) {
        if !std::mem::take(&mut self.on_queue) {
            return;
        }
        match self.status {
            Status::Cancelled => self.give_up(),
            Status::Sending => {
                for (place, person) in self.people.iter_mut().enumerate() {
                    if *person == Person::Pending {
                        *person = if place < FAILING { Person::Failed } else { Person::Sent };
                    }
                }
                if !self.retrying {
                    self.feed(now);
                }
            }
            _ => {}
        }
    }
}

async fn obey(world: &World<'_>, id: CampaignId, command: Command) -> bool {
    let cx = world.bed.cx().await;
    let when = |minutes: i64| Some(When::Then(Schedule::At(cx.now() + minutes.minutes())));
    let done = match command {
        Command::Start => start(&cx, Start { campaign: find(id), when: None }).await.map(drop),
        Command::StartNow => {
            start(&cx, Start { campaign: find(id), when: Some(When::Now) }).await.map(drop)
        }
        Command::Edit => return edit(world, id).await,
        Command::Redeliver => {
            redeliver(world, id).await;
            Ok(())
        }
        Command::Bounces => {
            bounces(world, id, 1).await;
            Ok(())
        }
        Command::LoseSender => {
            world.run_sql("DELETE FROM senders").await;
            Ok(())
        }
        Command::Schedule(minutes) => {
            start(&cx, Start { campaign: find(id), when: when(minutes) }).await.map(drop)
        }
        Command::Pause => pause(&cx, find(id), None).await.map(drop),
        Command::Resume => resume(&cx, find(id), None).await.map(drop),
        Command::Cancel => cancel(&cx, find(id), None).await.map(drop),
        Command::Retry => retry_failed(&cx, find(id), None).await.map(drop),
        Command::Steps => {
            world.step().await;
            Ok(())
        }
        Command::Mails => {
            world.mail().await;
            Ok(())
        }
        Command::Wait(minutes) => {
            world.bed.advance(minutes).await;
            Ok(())
        }
    };
    match done {
        Ok(()) => false,
        Err(ControlError::Illegal { .. } | ControlError::Invalid(_)) => true,
        Err(error) => panic!("{error:?}"),
    }
}

async fn edit(world: &World<'_>, id: CampaignId) -> bool {
    let cx = world.bed.cx().await;
    let name = format!("Spring at {}", cx.now());
    let draft = Draft { name: name.clone(), ..world.draft() };
    match draft::update(&cx, find(id), draft).await {
        Ok(campaign) => {
            assert_eq!(campaign.name, name);
            false
        }
        Err(DraftError::Illegal { .. }) => true,
        Err(error) => panic!("{error:?}"),
    }
}

async fn redeliver(world: &World<'_>, id: CampaignId) {
    let sql = format!(
        "SELECT number, CAST(recipient_ids AS TEXT) FROM campaign_batches
         WHERE campaign_id = {id} AND fed_at IS NOT NULL AND CAST(recipient_ids AS TEXT) <> '[]'"
    );
    for row in world.rows(&sql).await {
        let message = CampaignEmail {
            campaign_id: id.get(),
            batch_id: batch_id(id, row.int(0).unwrap()),
            campaign_recipient_ids: serde_json::from_str(row.text(1).unwrap()).unwrap(),
            idempotency_key: None,
            metadata: None,
        };
        let again = Outgoing::new(&queues::CAMPAIGN_EMAIL, message.to_body().unwrap());
        world.bed.queues.send(vec![again]).await.unwrap();
    }
}

async fn people(world: &World<'_>, id: CampaignId) -> Vec<Person> {
    let sql =
        format!("SELECT status FROM campaign_recipients WHERE campaign_id = {id} ORDER BY id");
    let rows = world.rows(&sql).await;
    let person = |row: &tidings_sql::Row| match row.text(0).unwrap() {
        "pending" => Person::Pending,
        "sent" => Person::Sent,
        "failed" => Person::Failed,
        "skipped" => Person::Skipped,
        other => panic!("{other}"),
    };
    rows.iter().map(person).collect()
}

async fn obeys_like_a_simple_one(bed: &Bed, commands: &[Command]) {
    let world = World::new(bed).await;
    world.people((0..FAILING).map(|number| format!("fail{number}@example.org"))).await;
    world.crowd(PEOPLE - FAILING).await;
    let id = world.drafted(world.draft()).await;
    let mut simple = Simple::new();
    for (place, command) in commands.iter().enumerate() {
        let now = bed.access.now();
        let refused = obey(&world, id, *command).await;
        assert_eq!(refused, simple.obey(*command, now), "{command:?} at {place}: {simple:?}");
        simple.pass(bed.access.now());
        let campaign = world.campaign(id).await;
        let state = (campaign.status, campaign.paused_in);
        assert_eq!(state, (simple.status, simple.paused_in), "{command:?} at {place}");
        assert_eq!(people(&world, id).await, simple.people, "{command:?} at {place}");
        world.check(id).await;
    }
    // Whatever happened, nobody was sent to twice, and it comes to an end.
    world.run().await;
    // It may have to be let go on twice, if what comes back stops it again.
    for _ in 0..2 {
        if world.status(id).await == Status::Paused && simple.has_sender {
            resume(&bed.cx().await, find(id), None).await.unwrap();
            world.run().await;
        }
    }
    world.check(id).await;
    let sql = format!(
        "SELECT attempts FROM campaign_recipients WHERE campaign_id = {id} AND status = 'sent'"
    );
    assert!(world.rows(&sql).await.iter().all(|row| row.int(0).unwrap() == 1));
    let ended = [Status::Draft, Status::Scheduled, Status::Sent, Status::Cancelled, Status::Failed];
    let status = world.status(id).await;
    let waits = status == Status::Paused && !simple.has_sender;
    assert!(waits || ended.contains(&status), "it is {status}");
}

fn run(cases: u32, bed: fn() -> std::pin::Pin<Box<dyn Future<Output = Bed>>>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let commands = proptest::collection::vec(command(), 1..24);
    let run = TestRunner::new(config).run(&commands, |commands| {
        runtime.block_on(async { obeys_like_a_simple_one(&bed().await, &commands).await });
        Ok(())
    });
    run.unwrap();
}

#[test]
fn whatever_is_asked_of_it_a_campaign_is_where_a_simple_one_is() {
    run(25, || Box::pin(Bed::memory()));
}

#[test]
fn the_same_on_postgresql() {
    run(3, || Box::pin(Bed::postgres()));
}
