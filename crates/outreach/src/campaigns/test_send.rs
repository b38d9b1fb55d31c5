//! Trying a campaign: real mails to the few people who want to see it, before everybody gets it.
//!
//! They are transactional messages like any other test (`delivery::transactional`): they say that they are tests, nothing
//! in them is tracked, who must not be written to gets none, and nothing of them is counted for the campaign.

use serde_json::{Map, Value};
use tidings_access::Cx;
use tidings_delivery::transactional::{
    self, AcceptError, Accepted, Lines, MAX_BATCH, MAX_TEST, Messages, Send, Wrong,
};
use tidings_kernel::EmailAddress;

use super::{Campaign, Content, Tracking};

#[derive(Debug, Clone)]
pub struct TestSend {
    pub campaign: Campaign,
    /// Who comes twice gets one.
    pub to: Vec<EmailAddress>,
    /// The name of one of its variants; all of them if left out.
    pub variant: Option<String>,
    /// Variables. Examples stand in for what neither this nor the person has.
    pub context: Map<String, Value>,
    /// Makes it safe to ask again: each message gets this and its place.
    pub idempotency_key: Option<String>,
}

/// What became of one test.
#[derive(Debug)]
pub struct Tested {
    pub to: EmailAddress,
    pub variant: Option<String>,
    pub answer: Result<Accepted, AcceptError>,
}

/// Writes a message down for each address and each variant, each with an answer of its own.
pub async fn test(cx: &Cx, messages: &Messages, cmd: TestSend) -> Result<Vec<Tested>, AcceptError> {
    let arms = arms(&cmd)?;
    let mut to: Vec<&EmailAddress> = Vec::new();
    for email in &cmd.to {
        if !to.contains(&email) {
            to.push(email);
        }
    }
    if !(1..=MAX_TEST).contains(&to.len()) {
        return Err(wrong("to", format!("use 1 to {MAX_TEST} addresses")));
    }
    if to.len() * arms.len() > MAX_BATCH {
        let told =
            format!("name a variant: with all of them there would be more than {MAX_BATCH} mails");
        return Err(wrong("variant", told));
    }
    let mut whom = Vec::new();
    for email in to {
        whom.extend(arms.iter().map(|arm| (email.clone(), *arm)));
    }
    let sends = whom.iter().enumerate().map(|(place, (email, arm))| {
        let key = cmd.idempotency_key.as_ref().map(|key| format!("{key}:{place}"));
        Send { idempotency_key: key, ..mail(&cmd, email.clone(), *arm) }
    });
    let answers = messages.accept_many(cx, sends.collect()).await?;
    let name = |arm: Option<i64>| {
        let place = usize::try_from(arm?).ok()?;
        cmd.campaign.variants.get(place).map(|variant| variant.name.clone())
    };
    let told = whom.into_iter().zip(answers).map(|((to, arm), answer)| Tested {
        to,
        variant: name(arm),
        answer,
    });
    Ok(told.collect())
}

/// Which variants are tried.
fn arms(cmd: &TestSend) -> Result<Vec<Option<i64>>, AcceptError> {
    let variants = &cmd.campaign.variants;
    let places = variants.iter().zip(0_i64..);
    match &cmd.variant {
        None if variants.is_empty() => Ok(vec![None]),
        None => Ok(places.map(|(_, place)| Some(place)).collect()),
        Some(name) => {
            let found = places.filter(|(variant, _)| variant.name == *name);
            let found: Vec<_> = found.map(|(_, place)| Some(place)).collect();
            if found.is_empty() {
                return Err(wrong("variant", format!("there is no variant {name}")));
            }
            Ok(found)
        }
    }
}

fn mail(cmd: &TestSend, to: EmailAddress, arm: Option<i64>) -> Send {
    let campaign = &cmd.campaign;
    let Content { template, subject, preview_text, html, text } = campaign.content_for(arm);
    let (content, subject) = match template {
        Some(template) => {
            let content = match template.version {
                Some(version) => transactional::Content::Version(template.key, version),
                None => transactional::Content::Template(template.key),
            };
            (content, subject)
        }
        None => {
            let subject = subject.unwrap_or_default();
            (transactional::Content::Inline { subject, html, text }, None)
        }
    };
    let notes = [("test".to_owned(), true.into()), ("campaign".to_owned(), campaign.key().into())];
    Send {
        lines: Lines { subject, preheader: preview_text },
        context: cmd.context.clone(),
        sender: campaign.sender.slug.as_deref().and_then(|slug| slug.parse().ok()),
        metadata: Map::from_iter(notes),
        tracking: Tracking::Off,
        test: true,
        ..Send::of(campaign.client, to, content)
    }
}

fn wrong(field: &str, message: String) -> AcceptError {
    AcceptError::Invalid(vec![Wrong { field: field.to_owned(), message }])
}
