//! People on their way through the demo's sequences: some have just begun, some are further, some have left.

use anyhow::Context as _;
use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_jobs::Worker;
use tidings_kernel::queues;
use tidings_sequences::events::{self, Event};
use tidings_sequences::executions::{active, of_contact, skip_wait};
use tidings_sequences::versions::Versions;

use super::contacts;
use crate::config::Config;
use crate::failure::Failure;
use crate::runtime::Runtime;

const ONBOARDING: &str = "onboarding";
const TRIAL: &str = "trial-ending";
const WIN_BACK: &str = "win-back";
/// How many come into each of them.
const NEWCOMERS: usize = 12;
const TRIALS: usize = 6;
const QUIET: usize = 3;
/// Far more turns than they need.
const TURNS: usize = 100;

/// Tells what happened to some of the demo's people, and takes them as far as they go now. Events have ids, so in a folder
/// that is kept nothing happens again.
pub(super) async fn begin(
    cx: &Cx,
    runtime: &Runtime,
    config: &Config,
) -> Result<Vec<(&'static str, u64)>, Failure> {
    let workers = runtime.workers(config);
    if tell(cx, first()).await? {
        work(&workers).await?;
        // What they do next they do later, and `cx` is one moment.
        let later = runtime.access().working_in(cx.workspace()).await?;
        let cx = later.context("the workspace is gone")?;
        tell(&cx, then()).await?;
        work(&workers).await?;
        for number in (0..NEWCOMERS).filter(|number| number % 3 == 1) {
            pass(&cx, ONBOARDING, newcomer(number)).await?;
        }
        for number in 3..5 {
            pass(&cx, TRIAL, on_trial(number)).await?;
        }
        work(&workers).await?;
    }
    let mut inside = Vec::new();
    for id in [ONBOARDING, TRIAL, WIN_BACK] {
        inside.push((id, active(cx, id).await?));
    }
    Ok(inside)
}

/// Whether the demo lets this person into one of them.
pub(super) fn is_inside(email: &str) -> bool {
    let newcomers = (0..NEWCOMERS).map(newcomer);
    let trials = (0..TRIALS).map(on_trial);
    newcomers.chain(trials).chain((0..QUIET).map(quiet)).any(|one| one == email)
}

fn newcomer(number: usize) -> String {
    contacts::email(100 + number)
}

fn on_trial(number: usize) -> String {
    contacts::email(300 + number)
}

fn quiet(number: usize) -> String {
    contacts::email(500 + number)
}

/// What lets people in.
fn first() -> Vec<(&'static str, String, Value)> {
    let plans = ["team", "solo", "free", "team", "solo"];
    let newcomers = (0..NEWCOMERS).map(|number| {
        let data = json!({"plan": plans[number % plans.len()], "utm": {"source": "search"}});
        ("user.signed_up", newcomer(number), data)
    });
    let trials = (0..TRIALS).map(|number| {
        let account = json!({"id": format!("a-{number}")});
        let data = json!({"account": account, "endsOn": "Friday", "projects": number % 4});
        ("trial.ending", on_trial(number), data)
    });
    let quiet = (0..QUIET).map(|number| {
        let data = json!({"days": 30 + number, "projects": 2, "lastSeenOn": "a month ago"});
        ("user.inactive", quiet(number), data)
    });
    newcomers.chain(trials).chain(quiet).collect()
}

/// What they do next.
fn then() -> Vec<(&'static str, String, Value)> {
    let mut told = Vec::new();
    for number in (0..NEWCOMERS).filter(|number| number % 3 == 0) {
        told.push(("project.created", newcomer(number), json!({})));
    }
    told.push(("user.deleted", newcomer(2), json!({})));
    for number in 0..2 {
        told.push(("plan.viewed", on_trial(number), json!({"plan": "team"})));
    }
    told.push(("subscription.started", on_trial(2), json!({})));
    told
}

/// Whether that was news.
async fn tell(cx: &Cx, told: Vec<(&'static str, String, Value)>) -> Result<bool, Failure> {
    let mut all = Vec::new();
    for (name, email, data) in told {
        let Value::Object(data) = data else { continue };
        all.push(Event {
            message_id: Some(format!("demo/{name}/{email}")),
            name: name.to_owned(),
            email: Some(email.parse()?),
            user_id: None,
            anonymous_id: None,
            occurred_at: None,
            data,
        });
    }
    let accepted = events::accept(cx, all).await?;
    Ok(accepted.iter().any(|one| !one.replayed))
}

/// Does not wait for what somebody waits for.
async fn pass(cx: &Cx, sequence: &str, email: String) -> Result<(), Failure> {
    let executions = of_contact(cx, &email.parse()?).await?;
    for execution in executions.iter().filter(|one| one.sequence == sequence) {
        skip_wait(cx, &Versions::default(), &execution.id).await?;
    }
    Ok(())
}

/// Until nothing is due any more. Whatever is left, the server does.
async fn work(workers: &[Worker]) -> Result<(), Failure> {
    let wanted = [&queues::SEQUENCE_EVENTS, &queues::SEQUENCE_STEPS, &queues::SEQUENCE_EMAIL];
    for _ in 0..TURNS {
        let mut did = 0;
        for queue in wanted {
            let found = workers.iter().find(|worker| worker.queue == queue);
            did += found.context("nobody works on sequences")?.run_until_idle().await?;
        }
        if did == 0 {
            break;
        }
    }
    Ok(())
}
