//! From a campaign and a person to a mail: what is the same for all is made once, and only the rest for each.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tidings_access::{Cx, StorageError};
use tidings_delivery::letterhead;
use tidings_delivery::links::Links;
use tidings_delivery::templates::{
    self, Known, Learned, Stored, TemplateKey, Templates, Wanted, variables_known,
};
use tidings_kernel::{EmailAddress, Item, Mail};
use tidings_mail::{Letter, Mailbox, compose};
use tidings_people::contacts::Other;
use tidings_templates::{Compiled, Lines, RenderError, Rendered, Source, compile_lines};

use super::load::Recipient;
use crate::campaigns::{Campaign, CampaignId, Content, Tracking};

/// How many contents are kept.
const KEPT: usize = 100;

/// A content that is ready to be rendered for anybody.
pub(super) struct Paper {
    content: Content,
    body: Body,
    /// What stands in the place of the template's own.
    lines: Lines,
    /// What has to be looked up for each person, because the content names it.
    pub(super) wanted: Wanted,
}

enum Body {
    Stored(Arc<Stored>),
    Inline(Compiled),
}

/// The contents that this process has made ready. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Papers(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    papers: HashMap<Place, Arc<Paper>>,
    /// The oldest first.
    order: VecDeque<Place>,
}

/// Which of a campaign's variants.
type Place = (CampaignId, Option<i64>);

impl Papers {
    /// What somebody gets whose row has this arm, or why nobody can get it.
    pub(super) async fn find(
        &self,
        cx: &Cx,
        templates: &Templates,
        campaign: &Campaign,
        arm: Option<i64>,
    ) -> Result<Result<Arc<Paper>, String>, StorageError> {
        let place = (campaign.id, campaign.arm(arm));
        let content = campaign.content_for(arm);
        if let Some(paper) = self.lock().papers.get(&place).filter(|kept| kept.content == content) {
            return Ok(Ok(Arc::clone(paper)));
        }
        let paper = match make(cx, templates, content).await? {
            Ok(paper) => Arc::new(paper),
            Err(why) => return Ok(Err(why)),
        };
        let mut kept = self.lock();
        if kept.papers.insert(place, Arc::clone(&paper)).is_none() {
            kept.order.push_back(place);
        }
        if kept.order.len() > KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.papers.remove(&oldest);
        }
        Ok(Ok(paper))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn make(
    cx: &Cx,
    templates: &Templates,
    content: Content,
) -> Result<Result<Paper, String>, StorageError> {
    let (body, lines) = match &content.template {
        Some(template) => {
            let (Ok(key), Some(version)) = (template.key.parse::<TemplateKey>(), template.version)
            else {
                return Ok(Err(format!("template {} has no version to be sent", template.key)));
            };
            let Some(stored) = templates.version(cx, &key, version).await? else {
                return Ok(Err(format!("there is no version {version} of template {key}")));
            };
            let lines = compile_lines(content.subject.as_deref(), content.preview_text.as_deref());
            let Ok(lines) = lines else {
                return Ok(Err("its subject cannot be rendered".to_owned()));
            };
            (Body::Stored(stored), lines)
        }
        None => {
            let source = Source {
                subject: content.subject.clone().unwrap_or_default(),
                html: content.html.clone(),
                text: content.text.clone(),
                preheader: content.preview_text.clone(),
                ..Source::default()
            };
            match tidings_templates::compile(&source, &BTreeMap::new()) {
                Ok(compiled) => (Body::Inline(compiled), Lines::default()),
                Err(_) => return Ok(Err("its content cannot be rendered".to_owned())),
            }
        }
    };
    let mut wanted = match &body {
        Body::Stored(stored) => Wanted::of(stored.roots()),
        Body::Inline(compiled) => Wanted::of(compiled.roots()),
    };
    wanted.add(&Wanted::of(lines.roots()));
    Ok(Ok(Paper { content, body, lines, wanted }))
}

impl Paper {
    pub(super) fn template_key(&self) -> Option<&str> {
        self.content.template.as_ref().map(|template| template.key.as_str())
    }

    fn render(&self, variables: &Map<String, Value>) -> Result<Rendered, RenderError> {
        match &self.body {
            Body::Stored(stored) => stored.render_with(&self.lines, variables),
            Body::Inline(compiled) => compiled.render(variables),
        }
    }

    /// What must be known of a person and is not.
    fn missing(&self, variables: &Map<String, Value>) -> Vec<String> {
        match &self.body {
            Body::Stored(stored) => templates::missing(stored, variables),
            Body::Inline(_) => Vec::new(),
        }
    }
}

/// What is known of a person.
pub(super) struct Person {
    pub(super) row: Recipient,
    pub(super) email: EmailAddress,
    pub(super) profile: Option<Item>,
    /// His other addresses, if he may need them.
    pub(super) others: Vec<Other>,
    pub(super) learned: Learned,
    pub(super) paper: Arc<Paper>,
}

/// A mail, and what the send log will say of it.
pub(super) struct Written {
    pub(super) mail: Mail,
    pub(super) subject: String,
}

/// Writes the letters of one campaign.
pub(super) struct Desk<'a> {
    pub(super) campaign: &'a Campaign,
    pub(super) links: &'a Links,
    pub(super) labels: &'a templates::display_names::DisplayNames,
    from: Mailbox,
    reply_to: Option<EmailAddress>,
    feedback_id: String,
}

impl<'a> Desk<'a> {
    /// `Err` says why nobody can be written to.
    pub(super) fn new(
        campaign: &'a Campaign,
        links: &'a Links,
        labels: &'a templates::display_names::DisplayNames,
    ) -> Result<Self, &'static str> {
        let sender = &campaign.sender;
        let from = sender.from_email.as_deref().and_then(|text| text.parse().ok());
        let from: EmailAddress = from.ok_or("the sender's address cannot be read")?;
        let feedback_id = letterhead::feedback_id(
            &campaign.key(),
            campaign.workspace,
            "campaign",
            sender.slug.as_deref(),
        );
        Ok(Self {
            campaign,
            links,
            labels,
            reply_to: sender.reply_to.as_deref().and_then(|text| text.parse().ok()),
            feedback_id,
            from: Mailbox { name: sender.from_name.clone(), email: from },
        })
    }

    /// The subject that a person got, or would get now.
    pub(super) fn subject(&self, person: Person, now: Timestamp) -> Option<String> {
        let to = person.row.addressee(self.campaign);
        let urls = (self.links.unsubscribe(&to), self.links.preferences(&to));
        let Person { email, profile, others, learned, paper, .. } = person;
        let known = (profile.as_ref(), others.as_slice(), learned);
        let variables = self.variables(&email, known, (&urls.0, &urls.1), now);
        paper.render(&variables).ok().map(|rendered| rendered.subject)
    }

    fn variables(
        &self,
        email: &EmailAddress,
        (profile, others, learned): (Option<&Item>, &[Other], Learned),
        (unsubscribe, preferences): (&str, &str),
        now: Timestamp,
    ) -> Map<String, Value> {
        let recipient = templates::Recipient {
            email,
            context: &Map::new(),
            unsubscribe_url: Some(unsubscribe),
            preferences_url: Some(preferences),
        };
        let known = Known { profile, others, labels: self.labels, learned };
        variables_known(known, &recipient, now)
    }

    /// The mail for a person, or why there can be none.
    pub(super) fn write(&self, person: Person, now: Timestamp) -> Result<Written, Unwritten> {
        let Person { row, email, profile, others, learned, paper } = person;
        let to = row.addressee(self.campaign);
        let (unsubscribe, preferences) = (self.links.unsubscribe(&to), self.links.preferences(&to));
        let known = (profile.as_ref(), others.as_slice(), learned);
        let variables = self.variables(&email, known, (&unsubscribe, &preferences), now);
        let missing = paper.missing(&variables);
        if !missing.is_empty() {
            let text = format!("nothing is known of {}", missing.join(", "));
            return Err(Unwritten::new("missing_variables", text));
        }
        let rendered = paper.render(&variables);
        let Rendered { subject, html, text } =
            rendered.map_err(|error| Unwritten::new("not_rendered", error.to_string()))?;
        let html = match html {
            Some(html) if self.campaign.tracking == Tracking::On => {
                let own = [unsubscribe.as_str(), preferences.as_str()];
                let mut click = |target: &str| {
                    if own.contains(&target) { None } else { self.links.click(&to, target) }
                };
                Some(tidings_templates::track(&html, &mut click, Some(&self.links.pixel(&to))))
            }
            html => html,
        };
        let letter = Letter {
            from: self.from.clone(),
            reply_to: self.reply_to.clone(),
            to: Mailbox::plain(email),
            cc: Vec::new(),
            bcc: Vec::new(),
            subject,
            html,
            text,
            message_id: self.links.message_id(
                &row.source(),
                self.campaign.workspace,
                letterhead::domain(&self.from.email),
            ),
            date: now,
            kind: letterhead::marketing(self.links, &to, &self.from.email),
            feedback_id: Some(self.feedback_id.clone()),
            headers: Vec::new(),
            attachments: Vec::new(),
            calendar: None,
        };
        let mut mail =
            compose(&letter).map_err(|error| Unwritten::new("not_composed", error.to_string()))?;
        mail.tags = vec![
            ("workspace", self.campaign.workspace.to_string()),
            ("message", row.source().reference()),
            ("campaign", self.campaign.id.to_string()),
        ];
        Ok(Written { mail, subject: letter.subject })
    }
}

/// Why there is no mail for somebody. Trying again would not help.
pub(super) struct Unwritten {
    /// One word, for the tallies.
    pub(super) kind: &'static str,
    pub(super) text: String,
}

impl Unwritten {
    pub(super) fn new(kind: &'static str, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}
