//! A definition as a drawing: a flowchart in the language of Mermaid, which many tools show.

use tidings_outreach::audience::Condition;

use super::read::{written_duration, written_time, written_weekday};
use super::{Check, Definition, Mail, Mails, Op, Place, Program, Setting, Wait};

/// So many characters of a label are shown.
const MAX_LABEL: usize = 80;

/// The whole graph: what brings people in, every step with its branches and where they meet again, what takes people out,
/// and the mails that go by themselves.
pub fn mermaid(definition: &Definition) -> String {
    let program = Program::of(definition.clone());
    let mut out = String::from("flowchart TD\n");
    let mut line = |text: String| {
        out.push_str("    ");
        out.push_str(&text);
        out.push('\n');
    };
    let trigger = match &definition.trigger {
        Some(trigger) => escaped(&trigger.event),
        None => "entered by hand".to_owned(),
    };
    line(format!("begin([\"{trigger}\"]) --> {}", node(&program, 0)));
    for (at, place) in program.places.iter().enumerate() {
        line(format!("{}{}", node(&program, at), shape(place)));
        for (label, to) in edges(&place.op) {
            let label = label.map(|label| format!("|\"{}\"|", escaped(&label))).unwrap_or_default();
            line(format!("{} -->{label} {}", node(&program, at), node(&program, to)));
        }
    }
    if program.places.iter().any(|place| place.op.nexts().contains(&program.end())) {
        line("finish([\"end\"])".to_owned());
    }
    for (number, exit) in definition.exit_on.iter().enumerate() {
        line(format!("x{number}>\"{}\"] -.-> out([\"taken out\"])", escaped(&exit.event)));
    }
    for (number, one) in definition.events.iter().enumerate() {
        let mail = mail(&one.mail);
        line(format!("e{number}>\"{}\"] --> m{number}[\"send {mail}\"]", escaped(&one.event)));
    }
    out
}

fn node(program: &Program, at: usize) -> String {
    if at >= program.end() { "finish".to_owned() } else { format!("s{at}") }
}

fn shape(Place { op, .. }: &Place) -> String {
    match op {
        Op::Send { mails: Mails::One(one), .. } => format!("[\"send {}\"]", mail(one)),
        Op::Send { mails: Mails::Variants(all), .. } => {
            let all: Vec<_> = all.iter().map(mail).collect();
            format!("[\"send one of<br/>{}\"]", all.join("<br/>"))
        }
        Op::Wait { wait, .. } => format!("{{{{\"wait {}\"}}}}", escaped(&wait_text(wait))),
        Op::WaitFor { event, timeout, .. } => {
            let long = written_duration(*timeout);
            format!("{{\"wait for {}<br/>at most {long}\"}}", escaped(event))
        }
        Op::Choice { path, .. } => format!("{{\"{}\"}}", escaped(&path.text)),
        Op::Check { check, .. } => format!("{{\"{}\"}}", escaped(&question(check))),
        Op::Tag { add, remove, .. } => {
            let add = add.iter().map(|tag| format!("+{tag}"));
            let tags: Vec<_> = add.chain(remove.iter().map(|tag| format!("-{tag}"))).collect();
            format!("[\"tag {}\"]", escaped(&tags.join(" ")))
        }
        Op::Set { values, .. } => {
            let set = |(name, setting): (&String, &Setting)| match setting {
                Setting::Value(value) => format!("{name} = {value}"),
                Setting::FromTrigger(path) => format!("{name} = {path}"),
            };
            let values: Vec<_> = values.iter().map(set).collect();
            format!("[\"set {}\"]", escaped(&values.join(", ")))
        }
        Op::Inbox { message, .. } => {
            let title = escaped(&message.title_text());
            format!("[/\"inbox {}<br/>{title}\"/]", escaped(message.inbox.as_str()))
        }
        Op::Webhook { event, .. } => format!("[/\"webhook {}\"/]", escaped(event)),
        Op::Exit { reason: Some(reason) } => format!("([\"exit: {}\"])", escaped(reason)),
        Op::Exit { reason: None } => "([\"exit\"])".to_owned(),
    }
}

fn edges(op: &Op) -> Vec<(Option<String>, usize)> {
    let two = |one: &str, to: usize, other: &str, or: usize| {
        vec![(Some(one.to_owned()), to), (Some(other.to_owned()), or)]
    };
    match op {
        Op::WaitFor { came, late, .. } => two("it came", *came, "too late", *late),
        Op::Check { yes, no, .. } => two("yes", *yes, "no", *no),
        Op::Choice { branches, default, .. } => {
            let text = |value: &serde_json::Value| match value {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let branches = branches.iter().map(|(value, to)| (Some(text(value)), *to));
            branches.chain([(Some("else".to_owned()), *default)]).collect()
        }
        Op::Send { .. }
        | Op::Wait { .. }
        | Op::Tag { .. }
        | Op::Set { .. }
        | Op::Inbox { .. }
        | Op::Webhook { .. }
        | Op::Exit { .. } => op.nexts().into_iter().map(|to| (None, to)).collect(),
    }
}

fn mail(Mail { template, subject }: &Mail) -> String {
    match subject {
        Some(subject) => format!("{template}<br/>{}", escaped(subject)),
        None => template.to_string(),
    }
}

fn wait_text(wait: &Wait) -> String {
    match wait {
        Wait::For(duration) => written_duration(*duration),
        Wait::Until { weekday: Some(day), time, .. } => {
            format!("until {} {}", written_weekday(*day), written_time(*time))
        }
        Wait::Until { weekday: None, time, .. } => format!("until {}", written_time(*time)),
    }
}

fn question(check: &Check) -> String {
    match check {
        Check::HasBeenSent(key) => format!("has been sent {key}?"),
        Check::HasOpened(key) => format!("has opened {key}?"),
        Check::HasClicked(key) => format!("has clicked {key}?"),
        Check::FieldExists(field) => format!("has {field}?"),
        Check::FieldEquals(field, value) => format!("{field} is {value}?"),
        Check::Matches(condition) => format!("{}?", in_words(condition)),
    }
}

fn in_words(condition: &Condition) -> String {
    let joined = |parts: &[Condition], between: &str| match parts {
        [one] => in_words(one),
        parts => {
            let parts: Vec<_> = parts.iter().map(in_words).collect();
            format!("({})", parts.join(between))
        }
    };
    match condition {
        Condition::All(parts) if parts.is_empty() => "anybody".to_owned(),
        Condition::All(parts) => joined(parts, " and "),
        Condition::Any(parts) => joined(parts, " or "),
        Condition::Not(inner) => format!("not {}", in_words(inner)),
        Condition::Audience(slug) => format!("in audience {slug}"),
        Condition::Segment(slug) => format!("in segment {slug}"),
        Condition::Tag(tag) => format!("tagged {tag}"),
        Condition::Known(subject, test) => {
            let test_name = test.name().replace('_', " ");
            format!("{} {} {test_name} {}", subject.kind(), subject.name(), test.wanted())
        }
        Condition::Contacts(listed) => format!("one of {} addresses", listed.as_slice().len()),
    }
}

/// A text within quotes, in which nothing means anything to Mermaid or to HTML.
fn escaped(text: &str) -> String {
    let clipped: String = match text.char_indices().nth(MAX_LABEL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    let mut out = String::new();
    for character in clipped.chars() {
        match character {
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            '#' => out.push_str("#35;"),
            '`' => out.push_str("#96;"),
            '\\' => out.push_str("#92;"),
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}
