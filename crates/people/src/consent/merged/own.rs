//! What each of those who became one person said himself, and what follows for the person: decisions without IO.
//!
//! A person who was put together is as strict as the strictest of those he was put together from. So what each of them said is
//! kept beside, and whoever joins or leaves, the rest follows from it anew.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tidings_access::ClientId;

use super::super::rows::Subscription;
use super::super::{AudienceId, Status, TopicId};

/// What somebody takes back or agrees to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Everything,
    Place(AudienceId, Option<ClientId>),
    Topic(TopicId),
}

/// How a subscription stands, the strictest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Standing {
    Subscribed,
    Pending,
    Unsubscribed,
}

/// What one lead said. Numbers and times only: it outlives who said it. All times are milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Own {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) left_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) places: Vec<Place>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) topics: Vec<Topic>,
}

/// An audience, or one client's part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) audience: i64,
    pub(super) client: Option<i64>,
    pub(super) standing: Standing,
    pub(super) verified_at: Option<i64>,
    pub(super) agreed_at: Option<i64>,
    pub(super) left_at: Option<i64>,
    pub(super) updated_at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Topic {
    pub(super) topic: i64,
    pub(super) on: bool,
    pub(super) updated_at: i64,
}

/// What some agreed to while they were one. It holds as long as they are: nobody knows who of them said it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Together {
    pub(super) leads: BTreeSet<i64>,
    /// That they left everything holds no more.
    #[serde(default)]
    came_back: bool,
    #[serde(default)]
    places: Vec<Place>,
    #[serde(default)]
    topics: Vec<Topic>,
}

/// Everybody whom one person is put together from, he who has stayed first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) members: Vec<(i64, Own)>,
    pub(super) together: Vec<Together>,
}

impl Family {
    /// Takes something back, for everybody: nobody knows who of them said it. Had they come back to it together, it is now that
    /// they leave, whenever one of them had left before.
    pub(super) fn take_back(&mut self, what: What, at: i64) {
        for together in &mut self.together {
            let back = together.take_back(what);
            let of_them = |(lead, _): &&mut (i64, Own)| together.leads.contains(lead);
            for (_, own) in self.members.iter_mut().filter(of_them) {
                *own = std::mem::take(own).and_together(&back);
            }
        }
        for (_, own) in &mut self.members {
            own.take_back(what, at);
        }
    }

    /// They agree to what this says, and one of them himself, if it is known who.
    pub(super) fn agree(&mut self, by: Option<i64>, said: &Agreed) {
        for (_, own) in self.members.iter_mut().filter(|(lead, _)| Some(*lead) == by) {
            match said {
                Agreed::Everything => own.left_at = None,
                Agreed::Place(place) => put_place(&mut own.places, place.clone()),
                Agreed::Topic(topic) => put_topic(&mut own.topics, *topic),
            }
        }
        let leads: BTreeSet<i64> = self.members.iter().map(|(lead, _)| *lead).collect();
        let known = self.together.iter().position(|together| together.leads == leads);
        let place = known.unwrap_or_else(|| {
            self.together.push(Together { leads, ..Together::default() });
            self.together.len() - 1
        });
        let together = &mut self.together[place];
        match said {
            Agreed::Everything => together.came_back = true,
            Agreed::Place(place) => put_place(&mut together.places, place.clone()),
            Agreed::Topic(topic) => put_topic(&mut together.topics, *topic),
        }
    }

    /// What was written to the rows of the person by whoever knows nothing of families: who is not told apart there is meant, or
    /// everybody if it is strict. `home` says whose a row is that none of them had.
    pub(super) fn settle(&mut self, now: &Own, home: impl Fn(&Place) -> Option<i64>) {
        let known = self.strictest();
        if let (Some(left_at), None) = (now.left_at, known.left_at) {
            self.take_back(What::Everything, left_at);
        }
        for place in &now.places {
            let before = known.place(place.key());
            let is_strict = place.standing == Standing::Unsubscribed;
            if is_strict && before.is_none_or(|before| before.standing != Standing::Unsubscribed) {
                let what = What::Place(place.audience.into(), place.client.map(ClientId::from));
                self.take_back(what, place.left_at.unwrap_or(place.updated_at));
            } else if before.is_none() {
                let home = home(place);
                let of = self.members.iter().position(|(lead, _)| Some(*lead) == home);
                if let Some((_, own)) = self.members.get_mut(of.unwrap_or_default()) {
                    put_place(&mut own.places, place.clone());
                }
            }
        }
        for topic in now.topics.iter().filter(|topic| !topic.on) {
            let is_off = |known: &Topic| known.topic == topic.topic && !known.on;
            if !known.topics.iter().any(is_off) {
                self.take_back(What::Topic(topic.topic.into()), topic.updated_at);
            }
        }
    }

    /// How strict the person is.
    pub(super) fn strictest(&self) -> Own {
        let leads: BTreeSet<i64> = self.members.iter().map(|(lead, _)| *lead).collect();
        let holds = |together: &&Together| together.leads.is_subset(&leads);
        let all = self.members.iter().map(|(lead, own)| {
            let said = self.together.iter().filter(holds).filter(|said| said.leads.contains(lead));
            said.fold(own.clone(), Own::and_together)
        });
        strictest(&all.collect::<Vec<_>>())
    }

    /// Takes some out, the first of them in front. What all agreed to together holds no more.
    pub(super) fn split(&mut self, leads: &[i64]) -> Self {
        let is_his = |(lead, _): &(i64, Own)| leads.contains(lead);
        let (mut goes, stays): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.members).into_iter().partition(is_his);
        goes.sort_by_key(|(lead, _)| leads.iter().position(|one| one == lead));
        self.members = stays;
        let within = |together: &Together, members: &[(i64, Own)]| {
            together.leads.iter().all(|lead| members.iter().any(|(one, _)| one == lead))
        };
        let all = std::mem::take(&mut self.together);
        self.together = all.iter().filter(|one| within(one, &self.members)).cloned().collect();
        let together = all.into_iter().filter(|one| within(one, &goes)).collect();
        Self { members: goes, together }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.members.extend(other.members);
        self.together.extend(other.together);
    }
}

/// Something that somebody agreed to, as it stands since.
#[derive(Debug, Clone)]
pub(super) enum Agreed {
    Everything,
    Place(Place),
    Topic(Topic),
}

impl Together {
    /// Takes out what they agreed to of this.
    fn take_back(&mut self, what: What) -> Self {
        let mut back = Self::default();
        match what {
            What::Everything => back.came_back = std::mem::take(&mut self.came_back),
            What::Place(audience, client) => {
                let key = (audience.get(), client.map(ClientId::get));
                back.places = self.places.extract_if(.., |place| place.key() == key).collect();
            }
            What::Topic(topic) => {
                let is_it = |one: &mut Topic| one.topic == topic.get();
                back.topics = self.topics.extract_if(.., is_it).collect();
            }
        }
        back
    }
}

impl Own {
    fn place(&self, key: (i64, Option<i64>)) -> Option<&Place> {
        self.places.iter().find(|place| place.key() == key)
    }

    pub(super) fn take_back(&mut self, what: What, at: i64) {
        match what {
            What::Everything => drop(self.left_at.get_or_insert(at)),
            What::Place(audience, client) => {
                let (audience, client) = (audience.get(), client.map(ClientId::get));
                let left = Place {
                    audience,
                    client,
                    standing: Standing::Unsubscribed,
                    verified_at: None,
                    agreed_at: None,
                    left_at: Some(at),
                    updated_at: at,
                };
                match self.places.iter_mut().find(|place| place.key() == (audience, client)) {
                    Some(place) => place.leave(at),
                    None => self.places.push(left),
                }
            }
            What::Topic(topic) => {
                let is_off = |one: &Topic| one.topic == topic.get() && !one.on;
                if !self.topics.iter().any(is_off) {
                    let off = Topic { topic: topic.get(), on: false, updated_at: at };
                    put_topic(&mut self.topics, off);
                }
            }
        }
    }

    fn and_together(mut self, said: &Together) -> Self {
        if said.came_back {
            self.left_at = None;
        }
        for place in &said.places {
            put_place(&mut self.places, place.clone());
        }
        for topic in &said.topics {
            put_topic(&mut self.topics, *topic);
        }
        self
    }

    /// Since when he has left the whole audience, if he did not agree to this client's part of it since.
    fn left_whole(&self, part: &Place) -> Option<i64> {
        let whole = self.place((part.audience, None))?;
        let left_at = whole.left_at.filter(|_| whole.standing == Standing::Unsubscribed)?;
        let his = self.place(part.key()).filter(|his| his.standing == Standing::Subscribed);
        let is_back = his.and_then(|his| his.agreed_at).is_some_and(|at| at > left_at);
        (!is_back).then_some(left_at)
    }
}

/// The strictest of what several said, place by place. What one said alone is as he said it.
fn strictest(all: &[Own]) -> Own {
    if let [one] = all {
        return one.clone();
    }
    let left_at = all.iter().filter_map(|own| own.left_at).min();
    let mut strict = Own { left_at, ..Own::default() };
    for place in all.iter().flat_map(|own| &own.places) {
        match strict.places.iter_mut().find(|known| known.key() == place.key()) {
            Some(known) => known.tighten(place),
            None => strict.places.push(place.clone()),
        }
    }
    // Who agreed to one client's part since he left the audience is back for that part; that another one agreed to it tells nothing.
    for place in strict.places.iter_mut().filter(|place| place.client.is_some()) {
        if let Some(at) = all.iter().filter_map(|own| own.left_whole(place)).min() {
            place.leave(at);
        }
    }
    for topic in all.iter().flat_map(|own| &own.topics) {
        match strict.topics.iter_mut().find(|known| known.topic == topic.topic) {
            Some(known) if known.on && !topic.on => *known = *topic,
            Some(_) => {}
            None => strict.topics.push(*topic),
        }
    }
    strict
}

fn put_place(places: &mut Vec<Place>, place: Place) {
    places.retain(|known| known.key() != place.key());
    places.push(place);
}

fn put_topic(topics: &mut Vec<Topic>, topic: Topic) {
    topics.retain(|known| known.topic != topic.topic);
    topics.push(topic);
}

impl Place {
    pub(super) fn of(subscription: &Subscription) -> Self {
        let millis = |at: Option<jiff::Timestamp>| at.map(jiff::Timestamp::as_millisecond);
        Self {
            audience: subscription.audience.get(),
            client: subscription.client.map(ClientId::get),
            standing: match subscription.status {
                Status::Subscribed => Standing::Subscribed,
                Status::Pending => Standing::Pending,
                Status::Unsubscribed => Standing::Unsubscribed,
            },
            verified_at: millis(subscription.verified_at),
            agreed_at: millis(subscription.agreed_at),
            left_at: millis(subscription.unsubscribed_at),
            updated_at: subscription.updated_at.as_millisecond(),
        }
    }

    pub(super) fn key(&self) -> (i64, Option<i64>) {
        (self.audience, self.client)
    }

    /// The first date stays.
    fn leave(&mut self, at: i64) {
        if self.standing != Standing::Unsubscribed {
            self.standing = Standing::Unsubscribed;
            (self.left_at, self.updated_at) = (Some(at), at);
        }
    }

    fn tighten(&mut self, other: &Self) {
        if other.standing > self.standing {
            *self = other.clone();
        } else if other.standing == self.standing {
            self.verified_at = self.verified_at.and(other.verified_at);
            self.agreed_at = self.agreed_at.max(other.agreed_at);
            self.left_at = self.left_at.into_iter().chain(other.left_at).min();
        }
    }
}

impl From<Standing> for Status {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Subscribed => Self::Subscribed,
            Standing::Pending => Self::Pending,
            Standing::Unsubscribed => Self::Unsubscribed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> What {
        What::Place(7.into(), None)
    }

    fn subscribed(at: i64) -> Place {
        Place {
            audience: 7,
            client: None,
            standing: Standing::Subscribed,
            verified_at: None,
            agreed_at: Some(at),
            left_at: None,
            updated_at: at,
        }
    }

    /// Two of whom the first had left all that there is before they became one.
    fn family() -> Family {
        let mut first = Own::default();
        for what in [What::Everything, place(), What::Topic(3.into())] {
            first.take_back(what, 1);
        }
        Family { members: vec![(1, first), (2, Own::default())], together: Vec::new() }
    }

    #[test]
    fn who_comes_back_and_leaves_again_has_left_then() {
        let mut family = family();
        let on = Topic { topic: 3, on: true, updated_at: 5 };
        for said in [Agreed::Everything, Agreed::Place(subscribed(5)), Agreed::Topic(on)] {
            family.agree(None, &said);
        }
        let back = family.strictest();
        assert_eq!(
            (back.left_at, &back.places[..], &back.topics[..]),
            (None, &[subscribed(5)][..], &[on][..])
        );
        for what in [What::Everything, place(), What::Topic(3.into())] {
            family.take_back(what, 9);
            family.take_back(what, 11);
        }
        let left = family.strictest();
        assert_eq!(
            (left.left_at, left.places[0].left_at, left.topics[0].updated_at),
            (Some(9), Some(9), 9)
        );
        assert_eq!((left.places[0].standing, left.topics[0].on), (Standing::Unsubscribed, false));
    }

    #[test]
    fn who_leaves_again_without_having_come_back_left_the_first_time() {
        let mut family = family();
        family.take_back(What::Everything, 9);
        family.take_back(place(), 9);
        let left = family.strictest();
        assert_eq!((left.left_at, left.places[0].left_at), (Some(1), Some(1)));
    }
}
