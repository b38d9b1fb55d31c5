//! Sequences and executions as callers see them.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tidings_sequences::executions::{
    Doing, Enrolment, Execution, Failed, Funnel, Simulated, StepNumbers, Walked,
};
use tidings_sequences::versions::{Sequence, VersionSummary};
use utoipa::ToSchema;

use crate::v1::stats::CountsBody;

#[derive(Serialize, ToSchema)]
#[schema(as = Sequence)]
pub(in crate::v1) struct SequenceBody {
    #[schema(example = "onboarding")]
    id: String,
    name: Option<String>,
    /// Its mails go to those who have unsubscribed, too
    transactional: bool,
    /// The event with which people come in; null if they come in by hand only
    #[schema(example = "user.signed_up")]
    trigger: Option<String>,
    /// The version that whoever comes in walks through
    #[schema(minimum = 1)]
    version: i64,
    /// Whether people come in. Whoever is in it goes on, whatever it is
    #[schema(value_type = String, pattern = "^(active|paused|archived)$")]
    status: &'static str,
    /// How many people are in it now
    #[schema(minimum = 0)]
    active: u64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SequenceShown)]
pub(in crate::v1) struct ShownBody {
    #[serde(flatten)]
    pub(super) sequence: SequenceBody,
    /// The active version
    #[schema(value_type = Object)]
    pub(super) definition: Value,
    /// What became of its mails
    pub(super) counts: CountsBody,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SequencePut)]
pub(in crate::v1) struct PutBody {
    pub(super) id: String,
    /// `changed` also says that what was archived is active again
    #[schema(value_type = String, pattern = "^(created|changed|unchanged)$")]
    pub(super) change: &'static str,
    /// The one that is active now
    #[schema(minimum = 1)]
    pub(super) version: i64,
    /// Whether nothing was written
    pub(super) dry_run: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SequenceVersion)]
pub(in crate::v1) struct VersionBody {
    #[schema(minimum = 1)]
    version: i64,
    /// Whether it is the one that whoever comes in walks through
    active: bool,
    /// Of the definition: two that are alike are the same
    hash: String,
    /// `operator`, or `key:` and the public id of a key
    created_by: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SequenceVersionShown)]
pub(in crate::v1) struct VersionShownBody {
    #[schema(minimum = 1)]
    pub(super) version: i64,
    /// Whether it is the one that whoever comes in walks through
    pub(super) active: bool,
    #[schema(value_type = Object)]
    pub(super) definition: Value,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Execution)]
pub(in crate::v1) struct ExecutionBody {
    #[schema(pattern = "^[0-9a-f]{32}$")]
    id: String,
    #[schema(example = "tidings:execution:onboarding:0197c5f1a2b300112233445566778899")]
    arn: String,
    #[schema(example = "onboarding")]
    sequence: String,
    /// The one that was active when it began
    #[schema(minimum = 1)]
    version: i64,
    #[schema(format = Email)]
    email: String,
    /// The step where the person is; null at the end
    #[schema(example = "2")]
    step: Option<String>,
    #[schema(value_type = String, pattern = "^(going|waiting|waiting_for)$")]
    state: &'static str,
    /// The event that is waited for
    waiting_for: Option<String>,
    /// Since when the person is there
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// When it goes on by itself
    #[schema(value_type = String, format = DateTime)]
    next_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// It fails if it is not at its end by then
    #[schema(value_type = String, format = DateTime)]
    deadline: Timestamp,
    transactional: bool,
    /// How often the step could not be done
    #[schema(minimum = 0)]
    tries: u32,
    last_error: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Entry)]
pub(in crate::v1) struct EntryBody {
    /// `already_in`: goes on where the person is; `too_soon`: was in it not long ago; `replayed`: this key did it before
    #[schema(value_type = String, pattern = "^(began|restarted|already_in|too_soon|replayed)$")]
    pub(super) outcome: &'static str,
    /// Where the person is; null for whoever is not in it
    pub(super) execution: Option<ExecutionBody>,
    /// From when on the person may come in again
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) again_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = FailedExecution)]
pub(in crate::v1) struct FailedBody {
    #[serde(flatten)]
    execution: ExecutionBody,
    /// `timed_out`, or what the step that could not be done says
    reason: String,
    #[schema(value_type = String, format = DateTime)]
    failed_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Enrolment)]
pub(in crate::v1) struct EnrolmentBody {
    #[schema(pattern = "^[0-9a-f]{32}$")]
    id: String,
    sequence: String,
    #[schema(value_type = String, pattern = "^(running|ended)$")]
    status: &'static str,
    /// Whom it means
    #[schema(value_type = Object)]
    r#where: Value,
    #[schema(value_type = String, format = DateTime)]
    began_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// How many contacts were looked at
    #[schema(minimum = 0)]
    looked_at: i64,
    #[schema(minimum = 0)]
    entered: i64,
    /// Stayed where they were, by the sequence's own rule
    #[schema(minimum = 0)]
    already_in: i64,
    /// Must not be written to, or do not want to be
    #[schema(minimum = 0)]
    refused: i64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Funnel)]
pub(in crate::v1) struct FunnelBody {
    #[schema(minimum = 1)]
    version: i64,
    /// How many came in
    entered: i64,
    /// Still in it
    active: i64,
    /// Came to the end
    completed: i64,
    failed: i64,
    /// Went out before: an exit, a stop, a restart
    left: i64,
    /// In the order of the definition
    steps: Vec<FunnelStepBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = FunnelStep)]
pub(in crate::v1) struct FunnelStepBody {
    #[schema(example = "3.then.1")]
    step: String,
    entered: i64,
    /// Still there
    waiting: i64,
    passed: i64,
    /// Mails that were not sent, for a reason; the walk went on
    skipped: i64,
    failed: i64,
    left: i64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Simulation)]
pub(in crate::v1) struct SimulatedBody {
    /// Why this person would not come in, if so
    #[schema(value_type = Option<String>, example = "global_unsubscribe")]
    refused: Option<&'static str>,
    steps: Vec<WalkedBody>,
    #[schema(value_type = String, format = DateTime)]
    ended_at: Timestamp,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SimulatedStep)]
pub(in crate::v1) struct WalkedBody {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    step: String,
    #[schema(value_type = String, example = "send")]
    kind: &'static str,
    /// In words
    told: String,
}

impl From<(Sequence, u64)> for SequenceBody {
    fn from((sequence, active): (Sequence, u64)) -> Self {
        Self {
            id: sequence.id,
            name: sequence.name,
            transactional: sequence.transactional,
            trigger: sequence.trigger,
            version: sequence.version,
            status: sequence.status.as_str(),
            active,
            created_at: sequence.created_at,
            updated_at: sequence.updated_at,
        }
    }
}

impl VersionBody {
    pub(super) fn new(summary: VersionSummary, active: i64) -> Self {
        let VersionSummary { version, hash, created_by, created_at } = summary;
        Self { version, active: version == active, hash, created_by, created_at }
    }
}

impl From<Execution> for ExecutionBody {
    fn from(execution: Execution) -> Self {
        let (arn, next_at) = (execution.arn(), execution.next_at());
        let (state, waiting_for) = match execution.doing {
            Doing::Going => ("going", None),
            Doing::Waiting { .. } => ("waiting", None),
            Doing::WaitingFor { event, .. } => ("waiting_for", Some(event)),
        };
        Self {
            id: execution.id.to_string(),
            arn,
            sequence: execution.sequence,
            version: execution.version,
            email: execution.email.to_string(),
            step: Some(execution.step).filter(|step| !step.is_empty()),
            state,
            waiting_for,
            since: execution.since,
            next_at,
            started_at: execution.started_at,
            deadline: execution.deadline,
            transactional: execution.transactional,
            tries: execution.tries,
            last_error: execution.last_error,
        }
    }
}

impl From<Failed> for FailedBody {
    fn from(Failed { execution, reason, failed_at }: Failed) -> Self {
        Self { execution: execution.into(), reason, failed_at }
    }
}

impl From<Enrolment> for EnrolmentBody {
    fn from(enrolment: Enrolment) -> Self {
        let counts = enrolment.counts;
        Self {
            id: enrolment.id.to_string(),
            status: if enrolment.ended_at.is_some() { "ended" } else { "running" },
            r#where: enrolment.condition.to_json(),
            sequence: enrolment.sequence,
            began_at: enrolment.began_at,
            ended_at: enrolment.ended_at,
            looked_at: counts.looked_at,
            entered: counts.entered,
            already_in: counts.already_in,
            refused: counts.refused,
        }
    }
}

impl From<Funnel> for FunnelBody {
    fn from(funnel: Funnel) -> Self {
        Self {
            version: funnel.version,
            entered: funnel.entered,
            active: funnel.active,
            completed: funnel.completed,
            failed: funnel.failed,
            left: funnel.left,
            steps: funnel.steps.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<StepNumbers> for FunnelStepBody {
    fn from(numbers: StepNumbers) -> Self {
        let StepNumbers { step, entered, waiting, passed, skipped, failed, left } = numbers;
        Self { step, entered, waiting, passed, skipped, failed, left }
    }
}

impl From<Simulated> for SimulatedBody {
    fn from(Simulated { refused, walked, ended_at }: Simulated) -> Self {
        Self { refused, steps: walked.into_iter().map(Into::into).collect(), ended_at }
    }
}

impl From<Walked> for WalkedBody {
    fn from(Walked { at, step, kind, told }: Walked) -> Self {
        Self { at, step, kind, told }
    }
}
