//! The item of a walk, and the rows that say who is where.

use jiff::Timestamp;
use serde_json::Value as Json;
use tidings_access::Cx;
use tidings_jobs::contracts::{Contract as _, SequenceStep, SequenceTask};
use tidings_kernel::{
    Condition, Expect, Item, Outgoing, StoreError, Timer, Txn, Workspace, queues, tables,
};
use tidings_people::keys::{STOP_REMEMBERED, time};

use super::{Doing, Execution, ExecutionId, keys};

impl Execution {
    /// In a transaction that lets somebody in: the walk, the two rows of seed 000, and the line by time.
    pub(super) fn begin(&self, txn: Txn, before: Option<&str>) -> Txn {
        let mut of_subscriber =
            tables::MAIN.bare_item(&keys::of_subscriber(&self.email, &self.sequence));
        of_subscriber.set("sequenceId", self.sequence.as_str());
        let mut of_sequence =
            tables::MAIN.bare_item(&keys::of_sequence(&self.email, &self.sequence));
        of_sequence.set("email", self.email.as_str());
        for row in [&mut of_subscriber, &mut of_sequence] {
            row.set("executionArn", self.arn());
            row.set("startedAt", time(self.started_at));
            row.set("transactional", self.transactional);
        }
        let mut line =
            tables::MAIN.bare_item(&keys::started(&self.sequence, self.started_at, &self.id));
        line.set("email", self.email.as_str());
        let there = match before {
            None => Expect::Absent,
            Some(arn) => Expect::That(Condition::eq("executionArn", arn)),
        };
        txn.put(&tables::MAIN, of_subscriber, there)
            .put(&tables::MAIN, of_sequence, Expect::Anything)
            .put(&tables::MAIN, line, Expect::Anything)
            .put(&tables::MAIN, self.to_item(), Expect::Absent)
    }

    /// In a transaction that lets somebody out, if nobody has moved him meanwhile. The rows of seed 000 go, too.
    pub(super) fn end(&self, txn: Txn) -> Txn {
        let own = Expect::That(Condition::eq("executionArn", self.arn()));
        self.end_walk(txn)
            .delete(&tables::MAIN, keys::of_subscriber(&self.email, &self.sequence), own)
            .delete(&tables::MAIN, keys::of_sequence(&self.email, &self.sequence), Expect::Anything)
    }

    /// The same without the rows that another execution of the same person takes over.
    pub(super) fn end_walk(&self, txn: Txn) -> Txn {
        txn.delete(&tables::MAIN, keys::state(&self.id), self.unchanged())
            .delete(
                &tables::MAIN,
                keys::started(&self.sequence, self.started_at, &self.id),
                Expect::Anything,
            )
            .cancel_timer(keys::timer(&self.id))
    }

    /// In a transaction that moves the walk, from what it was when it was loaded.
    pub(super) fn go_on(&self, txn: Txn) -> Txn {
        let mut item = self.to_item();
        item.set("rev", self.rev + 1);
        txn.put(&tables::MAIN, item, self.unchanged())
    }

    /// In a transaction that leaves the walk where it is: sees that it is woken, if nobody has moved it meanwhile.
    pub(super) fn stay(&self, txn: Txn, workspace: &Workspace) -> Txn {
        txn.check(&tables::MAIN, keys::state(&self.id), self.unchanged()).arm(self.timer(workspace))
    }

    fn unchanged(&self) -> Expect {
        Expect::That(Condition::eq("rev", self.rev))
    }

    /// Wakes it when it goes on by itself.
    pub(super) fn timer(&self, workspace: &Workspace) -> Timer {
        Timer {
            key: keys::timer(&self.id),
            due: self.next_at(),
            queue: &queues::SEQUENCE_STEPS,
            body: step(workspace, &self.id, SequenceTask::GoOn),
        }
    }

    /// Makes a worker look at it at once.
    pub(super) fn message(&self, workspace: &Workspace) -> Outgoing {
        Outgoing::new(&queues::SEQUENCE_STEPS, step(workspace, &self.id, SequenceTask::GoOn))
    }

    /// In the transaction that takes it out: a worker takes back what is not sent yet. Whoever has it in hand at this moment
    /// may still give a mail away after that; he finds the mark, and takes it back himself.
    pub(super) fn take_back(&self, txn: Txn, cx: &Cx) -> Txn {
        let until = cx.now().saturating_add(STOP_REMEMBERED).unwrap_or(Timestamp::MAX);
        let mark = tables::MAIN.bare_item(&keys::stopped(&self.id)).with("ttl", until.as_second());
        let body = step(cx.workspace(), &self.id, SequenceTask::TakeBack);
        txn.put(&tables::MAIN, mark, Expect::Anything)
            .enqueue(Outgoing::new(&queues::SEQUENCE_STEPS, body))
    }

    pub(super) fn to_item(&self) -> Item {
        let mut item = tables::MAIN.bare_item(&keys::state(&self.id));
        self.write(&mut item);
        item
    }

    pub(super) fn write(&self, item: &mut Item) {
        item.set("executionId", self.id.as_str());
        item.set("email", self.email.as_str());
        item.set("sequenceId", self.sequence.as_str());
        item.set("version", self.version);
        item.set("transactional", self.transactional);
        item.set("startedAt", time(self.started_at));
        item.set("toldAt", time(self.told_at));
        item.set("deadline", time(self.deadline));
        item.set("at", i64::try_from(self.at).unwrap_or(i64::MAX));
        item.set("step", self.step.as_str());
        item.set("since", time(self.since));
        item.set("tries", i64::from(self.tries));
        item.set("input", self.input.to_string());
        item.set("rev", self.rev);
        if let Some(error) = &self.last_error {
            item.set("lastError", error.as_str());
        }
        match &self.doing {
            Doing::Going => {}
            Doing::Waiting { until } => item.set("until", time(*until)),
            Doing::WaitingFor { event, until } => {
                item.set("until", time(*until));
                item.set("event", event.as_str());
            }
        }
    }

    pub(super) fn read(item: &Item) -> Result<Self, StoreError> {
        let damaged = |name: &str| {
            let told = format!("an execution has no readable {name}");
            StoreError::Corrupt(Box::new(std::io::Error::other(told)))
        };
        let text = |name: &'static str| item.text(name).ok_or_else(|| damaged(name));
        let number = |name: &'static str| item.integer(name).ok_or_else(|| damaged(name));
        let at = |name: &'static str| text(name)?.parse::<Timestamp>().map_err(|_| damaged(name));
        let until = item.text("until").map(|_| at("until")).transpose()?;
        let doing = match (until, item.text("event")) {
            (None, _) => Doing::Going,
            (Some(until), None) => Doing::Waiting { until },
            (Some(until), Some(event)) => Doing::WaitingFor { event: event.to_owned(), until },
        };
        Ok(Self {
            id: ExecutionId::parse(text("executionId")?).ok_or_else(|| damaged("executionId"))?,
            email: text("email")?.parse().map_err(|_| damaged("email"))?,
            sequence: text("sequenceId")?.to_owned(),
            version: number("version")?,
            transactional: item.get("transactional") == Some(&true.into()),
            started_at: at("startedAt")?,
            told_at: at("toldAt")?,
            deadline: at("deadline")?,
            at: usize::try_from(number("at")?).map_err(|_| damaged("at"))?,
            step: item.text("step").unwrap_or_default().to_owned(),
            since: at("since")?,
            doing,
            tries: u32::try_from(number("tries")?).unwrap_or(u32::MAX),
            last_error: item.text("lastError").map(ToOwned::to_owned),
            input: serde_json::from_str(text("input")?).unwrap_or(Json::Null),
            rev: number("rev")?,
        })
    }
}

fn step(workspace: &Workspace, id: &ExecutionId, task: SequenceTask) -> String {
    let step = SequenceStep::new(workspace.clone(), task, id.as_str());
    step.to_body().expect("an id is within its bounds")
}
