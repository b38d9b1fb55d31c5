//! What a step does and where somebody is, in a few words.

use std::time::Duration;

use serde_json::{Value, json};
use tidings_sequences::definition::{Mails, Op, Wait};
use tidings_sequences::executions::{Doing, Execution};

/// `send onboarding/welcome`, `wait 2d`.
pub(super) fn does(op: &Op) -> String {
    match op {
        Op::Send { mails: Mails::One(mail), .. } => format!("send {}", mail.template),
        Op::Send { mails: Mails::Variants(mails), .. } => {
            let first = mails.first().map(|mail| mail.template.to_string()).unwrap_or_default();
            format!("send {first} ({} variants)", mails.len())
        }
        Op::Wait { wait: Wait::For(long), .. } => format!("wait {}", brief(*long)),
        Op::Wait { wait: Wait::Until { weekday, time, .. }, .. } => {
            let day = weekday.map(|day| format!("{day:?} ")).unwrap_or_default();
            format!("wait until {day}{}", time.strftime("%H:%M"))
        }
        Op::WaitFor { event, timeout, .. } => format!("wait for {event}, {}", brief(*timeout)),
        Op::Choice { path, .. } => format!("choice {}", path.text),
        Op::Check { .. } => "condition".to_owned(),
        Op::Tag { add, remove, .. } => {
            let signed = add.iter().map(|tag| format!("+{tag}"));
            let signed = signed.chain(remove.iter().map(|tag| format!("-{tag}")));
            format!("tag {}", signed.collect::<Vec<_>>().join(" "))
        }
        Op::Set { values, .. } => {
            let names: Vec<&str> = values.keys().map(String::as_str).collect();
            format!("set {}", names.join(", "))
        }
        Op::Inbox { message, .. } => format!("inbox {}: {}", message.inbox, message.title_text()),
        Op::Webhook { event, .. } => format!("webhook {event}"),
        Op::Exit { .. } => "exit".to_owned(),
    }
}

/// `2d`, `1d 12h`, `30m`
fn brief(long: Duration) -> String {
    let minutes = long.as_secs() / 60;
    let parts = [(minutes / 1_440, "d"), (minutes / 60 % 24, "h"), (minutes % 60, "m")];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, unit)| format!("{count}{unit}")).collect::<Vec<_>>().join(" ")
}

/// `waits`, `waits for project.created`
pub(super) fn doing(execution: &Execution) -> String {
    let mut text = match &execution.doing {
        Doing::Going => "goes on".to_owned(),
        Doing::Waiting { .. } => "waits".to_owned(),
        Doing::WaitingFor { event, .. } => format!("waits for {event}"),
    };
    if execution.tries > 0 {
        text.push_str(&format!(", could not {} times", execution.tries));
    }
    text
}

/// For programs.
pub(super) fn shown(execution: &Execution) -> Value {
    let (doing, event) = match &execution.doing {
        Doing::Going => ("going", None),
        Doing::Waiting { .. } => ("waiting", None),
        Doing::WaitingFor { event, .. } => ("waiting_for", Some(event)),
    };
    let mut value = json!({
        "execution": execution.id.as_str(),
        "email": execution.email.as_str(),
        "sequence": execution.sequence,
        "version": execution.version,
        "step": execution.step,
        "doing": doing,
        "event": event,
        "next_at": execution.next_at(),
        "since": execution.since,
        "started_at": execution.started_at,
        "deadline": execution.deadline,
        "tries": execution.tries,
        "last_error": execution.last_error,
    });
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    value
}
