//! What a definition names that is somewhere else, each with where it names it: so that whoever keeps definitions can ask
//! whether it is there, and knows which events matter.

use std::collections::BTreeSet;

use tidings_access::Slug;
use tidings_delivery::templates::TemplateKey;

use super::{Action, Check, Definition, Mails, Step, WaitFor};

impl Definition {
    /// Every step, those in branches too, in the order in which they are written.
    pub fn all_steps(&self) -> Vec<&Step> {
        let mut all = Vec::new();
        collect(&self.steps, &mut all);
        all
    }

    /// The events that do something: bring in, take out, send a mail, end a wait.
    pub fn events_named(&self) -> BTreeSet<&str> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        names.extend(self.trigger.iter().map(|trigger| trigger.event.as_str()));
        names.extend(self.exit_on.iter().map(|exit| exit.event.as_str()));
        names.extend(self.events.iter().map(|one| one.event.as_str()));
        names.extend(self.all_steps().into_iter().filter_map(|step| match &step.action {
            Action::WaitFor(WaitFor { event, .. }) => Some(event.as_str()),
            _ => None,
        }));
        names
    }

    /// The templates that it sends, each with its pointer.
    pub fn templates_sent(&self) -> Vec<(String, &TemplateKey)> {
        let events = self.events.iter().enumerate();
        let mut found: Vec<_> = events
            .map(|(place, one)| (format!("/events/{place}/send"), &one.mail.template))
            .collect();
        for step in self.all_steps() {
            let at = &step.pointer;
            match &step.action {
                Action::Send(Mails::One(mail)) => {
                    found.push((format!("{at}/send"), &mail.template));
                }
                Action::Send(Mails::Variants(mails)) => {
                    let mails = mails.iter().enumerate();
                    found.extend(mails.map(|(place, mail)| {
                        (format!("{at}/send/variants/{place}/template"), &mail.template)
                    }));
                }
                _ => {}
            }
        }
        found
    }

    /// The audiences of which its conditions ask, each with its pointer. Its own is not among them.
    pub fn audiences_asked(&self) -> Vec<(String, &Slug)> {
        let mut found = Vec::new();
        for step in self.all_steps() {
            if let Action::Condition { check: Check::Matches(condition), .. } = &step.action {
                let slugs = condition.audiences().into_iter();
                found.extend(slugs.map(|slug| (format!("{}/condition", step.pointer), slug)));
            }
        }
        found
    }
}

fn collect<'d>(steps: &'d [Step], all: &mut Vec<&'d Step>) {
    for step in steps {
        all.push(step);
        match &step.action {
            Action::Condition { then, otherwise, .. }
            | Action::WaitFor(WaitFor { then, otherwise, .. }) => {
                collect(then, all);
                collect(otherwise, all);
            }
            Action::Choice { branches, default, .. } => {
                branches.iter().for_each(|branch| collect(&branch.steps, all));
                collect(default, all);
            }
            Action::Send(_)
            | Action::Wait(_)
            | Action::Tag { .. }
            | Action::Set(_)
            | Action::Inbox(_)
            | Action::Webhook { .. }
            | Action::Exit { .. } => {}
        }
    }
}
