//! The gate as a mailing to a condition asks it: for its own audience, and for each audience that its condition requires.
//!
//! Somebody who is meant because he is subscribed must not be written to after he has left, whichever way the audience was
//! named: by itself, in a part of which one is enough, or in a segment. So whoever requires an audience in a condition asks the
//! gate as if it were the mailing's own; where one of several audiences is enough, one of them has to let him pass.

use std::collections::HashMap;

use tidings_access::{ClientId, Cx, Slug, StorageError};
use tidings_delivery::eligibility::{
    self, Explanation, Kind, Loaded, Mailing, ManyRelations, Person, Reason, Verdict,
};
use tidings_kernel::{EmailAddress, Item};
use tidings_people::consent::{AudienceId, TopicId};
use tidings_sql::{Among, DatabaseError, Param, Row, Tx};

use super::condition::Condition;

/// The most groups of audiences that are asked of parts of which one is enough: each is a question for everybody.
const MOST_GROUPS: usize = 16;

/// What is asked of everybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Each of these has to let him pass. There is at least one.
    groups: Vec<Group>,
}

/// One of these has to let him pass. There is at least one.
type Group = Vec<Mailing>;

/// What a mailing says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    pub client: ClientId,
    pub audience: Option<AudienceId>,
    pub topic: Option<TopicId>,
}

/// What the gate says of somebody.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub verdict: Verdict,
    /// His item PROFILE, if there is one and it was read.
    pub profile: Option<Item>,
}

/// How much is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Everything,
    /// Only what keeps somebody from ever getting it.
    Skips,
}

impl Gate {
    /// The gate of a mailing that means those who meet this condition.
    pub fn load(
        tx: &mut Tx<'_>,
        cx: &Cx,
        own: &Own,
        condition: &Condition,
    ) -> Result<Self, DatabaseError> {
        let segments = conditions(tx, cx, &condition.segments())?;
        let required = required(condition, &segments);
        let known = ids(tx, cx, required.iter().flatten().copied())?;
        let id = |slug: &&Slug| known.iter().find(|(known, _)| known == *slug).map(|(_, id)| *id);
        let mut audiences: Vec<Vec<AudienceId>> =
            own.audience.map(|id| vec![id]).into_iter().collect();
        for group in &required {
            let group: Vec<_> = group.iter().filter_map(id).collect();
            // Nobody is subscribed to what there is not, and so nobody got here because of it.
            if !group.is_empty() && !audiences.contains(&group) {
                audiences.push(group);
            }
        }
        let mailing = |audience| Mailing {
            kind: Kind::Campaign,
            client: own.client,
            audience,
            topic: own.topic,
        };
        let mut groups: Vec<Group> = audiences
            .into_iter()
            .map(|group| group.into_iter().map(|id| mailing(Some(id))).collect())
            .collect();
        if groups.is_empty() {
            groups.push(vec![mailing(None)]);
        }
        Ok(Self { groups })
    }

    /// What is asked first, for whoever reads what the relations say of it together with other things.
    pub fn first(&self) -> &Mailing {
        // `load` makes none without one.
        &self.groups[0][0]
    }

    #[cfg(test)]
    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Whether it may go to each of them now, in their order.
    pub async fn check(&self, cx: &Cx, people: Vec<Person>) -> Result<Vec<Answer>, StorageError> {
        let first = ask(cx, (self.first(), Ask::Everything), people.clone()).await?;
        self.go_on(cx, Ask::Everything, (people, first)).await
    }

    /// The same with what the relations say of the first question.
    pub async fn check_with(
        &self,
        cx: &Cx,
        relations: ManyRelations,
        people: Vec<Person>,
    ) -> Result<Vec<Answer>, StorageError> {
        let answers =
            eligibility::check_all_with(cx, self.first(), relations, people.clone()).await?;
        let first = answers.into_iter().map(Answer::from).collect();
        self.go_on(cx, Ask::Everything, (people, first)).await
    }

    /// Who of them can never get it, as far as is known now.
    pub async fn skips(
        &self,
        cx: &Cx,
        people: Vec<Person>,
    ) -> Result<Vec<Option<Reason>>, StorageError> {
        let first = ask(cx, (self.first(), Ask::Skips), people.clone()).await?;
        let answers = self.go_on(cx, Ask::Skips, (people, first)).await?;
        let skip = |answer: Answer| match answer.verdict {
            Verdict::Skip(reason) => Some(reason),
            Verdict::Send | Verdict::Defer { .. } => None,
        };
        Ok(answers.into_iter().map(skip).collect())
    }

    /// How it decides about one person, and on what.
    pub async fn explain(
        &self,
        cx: &Cx,
        email: &EmailAddress,
    ) -> Result<Explanation, StorageError> {
        let decides = explain_group(cx, &self.groups[0], email).await?;
        if matches!(decides.verdict, Verdict::Skip(_)) {
            return Ok(decides);
        }
        for group in &self.groups[1..] {
            let said = explain_group(cx, group, email).await?;
            if matches!(said.verdict, Verdict::Skip(_)) {
                return Ok(said);
            }
        }
        Ok(decides)
    }

    /// Asks all that is asked after the first question. Most mailings have no other.
    async fn go_on(
        &self,
        cx: &Cx,
        how: Ask,
        (people, first): (Vec<Person>, Vec<Answer>),
    ) -> Result<Vec<Answer>, StorageError> {
        let mut answers = of_group(cx, how, &self.groups[0], (&people, first)).await?;
        for group in &self.groups[1..] {
            // Whoever is stopped already is not asked about again.
            let is_open = |place: &usize| !matches!(answers[*place].verdict, Verdict::Skip(_));
            let open: Vec<usize> = (0..answers.len()).filter(is_open).collect();
            let some: Vec<Person> =
                open.iter().map(|place| again(&people[*place], &answers[*place])).collect();
            let first = ask(cx, (&group[0], how), some.clone()).await?;
            let said = of_group(cx, how, group, (&some, first)).await?;
            for (place, answer) in open.into_iter().zip(said) {
                if matches!(answer.verdict, Verdict::Skip(_)) {
                    answers[place].verdict = answer.verdict;
                }
            }
        }
        Ok(answers)
    }
}

/// What the first of a group says, or if that stops him what the first says that does not.
async fn explain_group(
    cx: &Cx,
    group: &Group,
    email: &EmailAddress,
) -> Result<Explanation, StorageError> {
    let first = eligibility::check(cx, &group[0].about(email.clone())).await?;
    if !is_of_audience(first.verdict) {
        return Ok(first);
    }
    for mailing in &group[1..] {
        let said = eligibility::check(cx, &mailing.about(email.clone())).await?;
        if !is_of_audience(said.verdict) {
            return Ok(said);
        }
    }
    Ok(first)
}

/// What the first of a group says, and for those whom it stops what the first says that does not.
async fn of_group(
    cx: &Cx,
    how: Ask,
    group: &Group,
    (people, first): (&[Person], Vec<Answer>),
) -> Result<Vec<Answer>, StorageError> {
    let mut answers = first;
    for mailing in &group[1..] {
        let is_stopped = |place: &usize| is_of_audience(answers[*place].verdict);
        let stopped: Vec<usize> = (0..answers.len()).filter(is_stopped).collect();
        let some = stopped.iter().map(|place| again(&people[*place], &answers[*place])).collect();
        let said = ask(cx, (mailing, how), some).await?;
        for (place, answer) in stopped.into_iter().zip(said) {
            if !is_of_audience(answer.verdict) {
                answers[place] = answer;
            }
        }
    }
    Ok(answers)
}

/// The groups of audiences of each of which everybody whom it means is subscribed to one.
fn required<'c>(
    condition: &'c Condition,
    segments: &'c HashMap<Slug, Condition>,
) -> Vec<Vec<&'c Slug>> {
    match condition {
        Condition::Audience(slug) => vec![vec![slug]],
        Condition::Segment(slug) => {
            segments.get(slug).map_or_else(Vec::new, |inside| required(inside, segments))
        }
        Condition::All(parts) => parts.iter().flat_map(|part| required(part, segments)).collect(),
        Condition::Any(parts) => {
            let mut parts = parts.iter().map(|part| required(part, segments));
            let first = parts.next().unwrap_or_default();
            parts.fold(first, |before, next| either(&before, &next))
        }
        Condition::Not(_) | Condition::Tag(_) | Condition::Known(..) | Condition::Contacts(_) => {
            Vec::new()
        }
    }
}

/// Whoever meets one of two parts is in one of the groups of each pair. If one of the parts requires nothing, neither do both.
fn either<'c>(these: &[Vec<&'c Slug>], those: &[Vec<&'c Slug>]) -> Vec<Vec<&'c Slug>> {
    let mut pairs = Vec::new();
    for one in these {
        for other in those {
            let mut both = one.clone();
            both.extend(other.iter().filter(|slug| !one.contains(slug)));
            if !pairs.contains(&both) {
                pairs.push(both);
            }
        }
    }
    // Each of them has to hold, so with some left out it only asks less.
    pairs.truncate(MOST_GROUPS);
    pairs
}

/// What segments mean that a condition names. A segment names no other.
fn conditions(
    tx: &mut Tx<'_>,
    cx: &Cx,
    slugs: &[&Slug],
) -> Result<HashMap<Slug, Condition>, DatabaseError> {
    if slugs.is_empty() {
        return Ok(HashMap::new());
    }
    let slugs: Vec<&str> = slugs.iter().map(|slug| slug.as_str()).collect();
    let sql = "SELECT slug, CAST(condition AS TEXT) FROM segments
               WHERE workspace_id = $1 AND deleted_at IS NULL AND slug IN (SELECT value FROM {given})";
    let workspace = [Param::Int(cx.workspace_id().get())];
    let rows = tx.query_among(sql, &workspace, Among::Texts(&slugs))?;
    let read = |row: &Row| {
        let condition = serde_json::from_str(row.text(1)?)
            .map_err(|_| DatabaseError::damaged(1, "the condition of a segment"))?;
        Ok((row.parsed(0, "a slug")?, condition))
    };
    rows.iter().map(read).collect()
}

fn ids<'s>(
    tx: &mut Tx<'_>,
    cx: &Cx,
    slugs: impl Iterator<Item = &'s Slug>,
) -> Result<Vec<(Slug, AudienceId)>, DatabaseError> {
    let slugs: Vec<&str> = slugs.map(Slug::as_str).collect();
    if slugs.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT slug, id FROM audiences
               WHERE workspace_id = $1 AND slug IN (SELECT value FROM {given})";
    let workspace = [Param::Int(cx.workspace_id().get())];
    let rows = tx.query_among(sql, &workspace, Among::Texts(&slugs))?;
    rows.iter().map(|row| Ok((row.parsed(0, "a slug")?, row.int(1)?.into()))).collect()
}

async fn ask(
    cx: &Cx,
    (mailing, how): (&Mailing, Ask),
    people: Vec<Person>,
) -> Result<Vec<Answer>, StorageError> {
    if people.is_empty() {
        return Ok(Vec::new());
    }
    Ok(match how {
        Ask::Everything => {
            let answers = eligibility::check_all(cx, mailing, people).await?;
            answers.into_iter().map(Answer::from).collect()
        }
        Ask::Skips => {
            let skips = eligibility::skips_all(cx, mailing, people).await?;
            let verdict = |skip: Option<Reason>| skip.map_or(Verdict::Send, Verdict::Skip);
            skips.into_iter().map(|skip| Answer { verdict: verdict(skip), profile: None }).collect()
        }
    })
}

/// The same person, whose profile may be known by now.
fn again(person: &Person, answer: &Answer) -> Person {
    let profile = match &person.profile {
        Loaded::NotYet if answer.profile.is_some() => Loaded::Profile(answer.profile.clone()),
        profile => profile.clone(),
    };
    Person { email: person.email.clone(), profile }
}

/// Whether he is stopped by what he said to this audience: another one may let him pass.
fn is_of_audience(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Send | Verdict::Defer { .. } => false,
        Verdict::Skip(reason) => matches!(
            reason,
            Reason::AudienceUnsubscribe
                | Reason::ClientUnsubscribe
                | Reason::NotSubscribed
                | Reason::Unverified
        ),
    }
}

impl From<eligibility::Answer> for Answer {
    fn from(answer: eligibility::Answer) -> Self {
        Self { verdict: answer.explanation.verdict, profile: answer.profile }
    }
}
