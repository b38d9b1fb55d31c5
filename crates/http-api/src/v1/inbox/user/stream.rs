//! `/inbox/v1/{inbox}/stream`: what changes in an inbox, told at once, as server-sent events.
//!
//! A connection begins to watch, then looks, and looks again after every hint (`inbox::hints`) and when something expires. Each event has a position: the
//! newest message that there was, archived or not, how often the user's part and everyone's had been changed, and how many of everyone's had not
//! expired. What came after a position is found again from the items, so nothing is kept for a connection that is gone, and none that
//! comes back misses anything. Ids follow clocks and may come late: where the messages that are newer do not explain all changes, `marks`
//! says that the list must be fetched again.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Access, AuthError, Cx, Scope, StorageError, WorkspaceId, authenticate_again};
use tidings_inbox::hints::{WatchError, Watching};
use tidings_inbox::ids::MessageId;
use tidings_inbox::read::{self, Counts, Shown};
use tidings_inbox::tokens::Tokens;
use tidings_inbox::{Inbox, LookError, Reader};

use super::admit::By;
use super::{CountsBody, MessageBody, STREAMS_METRIC, Visit};
use crate::health::Draining;
use crate::problem::{Problem, ProblemBody};
use crate::v1::V1;
use crate::v1::auth::Refusals;

/// So often something is sent, so that nobody on the way takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// So many new messages are told one by one. With more it is better to fetch the list.
const MOST: usize = 100;
/// The last that is told to who is not let in any more.
const EXPIRED: &str = "event: expired\ndata: {}\n\n";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Follow an inbox
///
/// Server-sent events: `message` (a new one), `marks` (something else has changed: fetch the list again), `counts`
/// (how many there are now; always the first), `expired` (the token or the key is over, and the stream ends). Each has a position as its id;
/// with `Last-Event-ID` the stream goes on from there. There is a comment every 15 seconds. Needs the scope `inbox:user`.
#[utoipa::path(
    get,
    path = "/inbox/v1/{inbox}/stream",
    tag = "Inbox of a user",
    security(("user_token" = []), ("key" = [])),
    params(
        ("inbox" = String, Path, description = "The key of the inbox"),
        ("X-User-Id" = Option<String>, Header, description = "Whose inbox, with an API key", max_length = 128),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that arrived"),
        ("token" = Option<String>, Query, description = "The user token, for an `EventSource`, which has no headers", max_length = 6000)
    ),
    responses(
        (status = 200, description = "Events until the token expires", content_type = "text/event-stream", body = String),
        (status = 422, description = "`X-User-Id` is missing or wrong", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "There can be no such inbox", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "This server has as many streams as it takes", body = ProblemBody, content_type = "application/problem+json"),
        Refusals
    )
)]
pub(super) async fn open(
    State(v1): State<V1>,
    visit: Visit,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    // One that is not ours says nothing: then the stream begins as for somebody new.
    let last: Option<Position> = last.and_then(|id| id.parse().ok());
    // Before anything is read, so that what changes meanwhile is told too.
    let watching = v1.services.inbox.hints.watch(
        visit.cx.workspace(),
        &visit.reader.inbox,
        &visit.reader.uid,
    )?;
    metrics::gauge!(STREAMS_METRIC).increment(1.0);
    let user = visit.user(&v1);
    let mut live = Live {
        access: v1.services.access.clone(),
        inbox: Arc::clone(&v1.services.inbox),
        draining: v1.services.draining.clone(),
        workspace: visit.cx.workspace_id(),
        reader: visit.reader,
        user,
        expires_at: visit.expires_at,
        tokens: v1.services.tokens.clone(),
        by: visit.by,
        watching,
        position: Position::default(),
        until: None,
        ready: None,
        over: false,
    };
    live.ready = Some(Box::pin(live.begin(&visit.cx, last)).await?);
    // Who asks by a key names his user now, and not again for as long as the stream goes on.
    live.reader.let_in.get_or_insert(visit.cx.now());
    let chunks = stream::unfold(live, |mut live| async move {
        let chunk = live.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), live))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that collect answers would keep events from their reader.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

impl From<WatchError> for Problem {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::User => Self::from_status(StatusCode::TOO_MANY_REQUESTS, error)
                .header(header::RETRY_AFTER, HeaderValue::from_static("30")),
            WatchError::Node => Self::unavailable(error),
        }
    }
}

/// Up to where somebody was told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Position {
    newest: Option<MessageId>,
    at: Revs,
}

/// What counts were made at, as `Counts::rev` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Revs {
    /// How often the user's part had been changed, and everyone's.
    own: i64,
    public: i64,
    /// How many messages to everyone there were: one that expires changes nothing that is stored.
    lasting: i64,
    /// When the user first came, which tells him from one of the same name who was forgotten.
    came: i64,
}

impl FromStr for Revs {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.').map(|part| part.parse::<i64>().map_err(|_| ()));
        let mut next = || parts.next();
        let (own, public) = (next().ok_or(())??, next().ok_or(())??);
        // Positions once had no more than these two. No count is less than nothing, so such a one is never where we are.
        let (lasting, came) = (next().unwrap_or(Ok(-1))?, next().unwrap_or(Ok(-1))?);
        Ok(Self { own, public, lasting, came })
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (newest, at) = text.split_once('.').ok_or(())?;
        let newest = match newest {
            "0" => None,
            id => Some(id.parse().map_err(|_| ())?),
        };
        Ok(Self { newest, at: at.parse()? })
    }
}

impl Position {
    fn text(&self) -> String {
        let newest = self.newest.as_ref().map_or("0", MessageId::as_str);
        let Revs { own, public, lasting, came } = self.at;
        format!("{newest}.{own}.{public}.{lasting}.{came}")
    }

    /// Whether these messages are all that has changed between here and there.
    fn explained_by(&self, there: Revs, messages: &[Shown]) -> bool {
        let publics = messages.iter().filter(|shown| shown.is_public).count() as i64;
        // Who was in an inbox before it had a message comes for the first time with that, which is a change and shows nothing.
        let is_first = self.at.own == 0;
        let owns = messages.len() as i64 - publics + i64::from(is_first);
        // The numbers of the position may be anything: it comes from the caller.
        there.own.checked_sub(self.at.own) == Some(owns)
            && there.public.checked_sub(self.at.public) == Some(publics)
            && there.lasting.checked_sub(self.at.lasting) == Some(publics)
            && (is_first || there.came == self.at.came)
    }
}

/// One connection. While it waits it holds no more than this.
struct Live {
    access: Access,
    inbox: Arc<Inbox>,
    draining: Draining,
    workspace: WorkspaceId,
    reader: Reader,
    user: String,
    expires_at: Option<Timestamp>,
    tokens: Tokens,
    by: By,
    watching: Watching,
    position: Position,
    /// From when on the counts that were told last are otherwise, because something has expired.
    until: Option<Timestamp>,
    /// What is to be sent before anything else.
    ready: Option<String>,
    /// Whether that is the last.
    over: bool,
}

impl Drop for Live {
    fn drop(&mut self) {
        metrics::gauge!(STREAMS_METRIC).decrement(1.0);
    }
}

/// What ended the waiting.
enum Woken {
    Hint,
    Time,
    Stop,
}

impl Live {
    /// What a connection begins with: where it is now, or all since it was last here.
    async fn begin(&mut self, cx: &Cx, last: Option<Position>) -> Result<String, LookError> {
        let mut text = "retry: 3000\n\n".to_owned();
        if let Some(last) = last {
            self.position = last;
            let counts = read::counts(cx, &self.inbox, &self.reader).await?;
            // With the position of before: what is newer is still to come.
            let body = self.told(counts.clone());
            event(&mut text, "counts", &self.position, &body);
            text += &self.since(cx, counts).await?;
            return Ok(text);
        }
        let (newest, counts) = read::newest(cx, &self.inbox, &self.reader).await?;
        self.position = Position { newest, at: revs(&counts) };
        let body = self.told(counts);
        event(&mut text, "counts", &self.position, &body);
        Ok(text)
    }

    /// The next that is to be sent, or nothing if this is the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(ready) = self.ready.take() {
                return Some(ready);
            }
            if self.over {
                return None;
            }
            if self.left(self.expires_at) == Some(Duration::ZERO) {
                return self.end(EXPIRED);
            }
            let due = [self.left(self.expires_at), self.left(self.until), Some(HEARTBEAT)];
            match self.wait(due.into_iter().flatten().min().unwrap_or(HEARTBEAT)).await {
                Woken::Stop => return self.end(": the server stops\n\n"),
                Woken::Time if self.left(self.until) != Some(Duration::ZERO) => {
                    return Some(":\n\n".to_owned());
                }
                // In a box: a connection that waits must not have room for all that looking takes.
                Woken::Hint | Woken::Time => match Box::pin(self.look()).await {
                    Ok(news) => self.ready = news,
                    Err(LookError::Forgotten) => return self.end(EXPIRED),
                    Err(error) => {
                        let error = tidings_kernel::causes(&error);
                        tracing::warn!(%error, "A stream ends, because the inbox could not be read");
                        return None;
                    }
                },
            }
        }
    }

    /// How long it is until then; nothing if that time is past.
    fn left(&self, at: Option<Timestamp>) -> Option<Duration> {
        let left = at?.duration_since(self.access.now());
        Some(Duration::try_from(left).unwrap_or_default())
    }

    async fn wait(&mut self, at_most: Duration) -> Woken {
        let (watching, draining) = (&mut self.watching, &self.draining);
        let woken = async {
            tokio::select! {
                () = draining.begun() => Woken::Stop,
                () = watching.changed() => Woken::Hint,
            }
        };
        tokio::time::timeout(at_most, woken).await.unwrap_or(Woken::Time)
    }

    fn end(&mut self, last: &str) -> Option<String> {
        self.over = true;
        Some(last.to_owned())
    }

    /// What has changed since the position, if anything has.
    async fn look(&mut self) -> Result<Option<String>, LookError> {
        let Some(cx) = self.admitted().await? else {
            self.over = true;
            return Ok(None);
        };
        let counts = read::counts(&cx, &self.inbox, &self.reader).await?;
        let told = self.since(&cx, counts).await?;
        Ok(Some(told).filter(|told| !told.is_empty()))
    }

    /// A new context each time: it has the time, and the workspace may be disabled by now, or the key revoked.
    async fn admitted(&self) -> Result<Option<Cx>, StorageError> {
        let key = match &self.by {
            By::Key(key) => key,
            By::Token { signed_by } => {
                if !self.tokens.is_key_good(self.access.now(), *signed_by).await {
                    return Ok(None);
                }
                return Ok(self.access.visiting(self.workspace.get()).await?);
            }
        };
        match authenticate_again(&self.access, key).await {
            Ok(caller) if caller.scopes.has(Scope::InboxUser) => {
                Ok(Some(self.access.on_behalf_of(&caller)))
            }
            Err(AuthError::Store(error)) => Err(error.into()),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// The events between the position and these counts, and moves there. The counts came first: what is newer than
    /// they are is told again, and nothing is left out.
    async fn since(&mut self, cx: &Cx, counts: Counts) -> Result<String, LookError> {
        let there = revs(&counts);
        let mut text = String::new();
        if there == self.position.at {
            self.told(counts);
            return Ok(text);
        }
        let oldest = MessageId::first_of(Timestamp::UNIX_EPOCH);
        let after = self.position.newest.as_ref().unwrap_or(&oldest);
        let newer = read::newer(cx, &self.inbox, &self.reader, after, MOST).await?;
        let is_all = !newer.more && self.position.explained_by(there, &newer.messages);
        if newer.more {
            let (newest, _) = read::newest(cx, &self.inbox, &self.reader).await?;
            self.position.newest = newest.max(self.position.newest.take());
        } else {
            for shown in newer.messages {
                self.position.newest = Some(shown.message.id.clone());
                // What was archived is on no list, so it is no news either.
                if shown.archived_at.is_some() {
                    continue;
                }
                event(&mut text, "message", &self.position, &json!(MessageBody::from(shown)));
            }
        }
        self.position.at = there;
        if !is_all {
            event(&mut text, "marks", &self.position, &json!({}));
        }
        let body = self.told(counts);
        event(&mut text, "counts", &self.position, &body);
        Ok(text)
    }

    /// The body of counts that are told now.
    fn told(&mut self, counts: Counts) -> serde_json::Value {
        // What is past already was taken out of them; a clock that goes back must not make us look without a pause.
        self.until = counts.until.filter(|at| *at > self.access.now());
        json!(CountsBody::new(counts, self.user.clone()))
    }
}

fn revs(counts: &Counts) -> Revs {
    counts.rev.parse().unwrap_or_default()
}

/// JSON has no line breaks in it, so one line holds all of it. It may have the two that Unicode has besides, which end no
/// line of an event stream; not everybody who reads one knows that.
fn event(text: &mut String, name: &str, at: &Position, data: &serde_json::Value) {
    let data = data.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    let written = write!(text, "id: {}\nevent: {name}\ndata: {data}\n\n", at.text());
    written.expect("a text takes everything");
}

#[cfg(test)]
mod tests {
    use super::{Position, Revs};

    #[test]
    fn a_position_is_read_again_and_nothing_else_is_one() {
        let id = "0GV8YLWQ000000001".parse().unwrap();
        for position in [
            Position { newest: Some(id), at: Revs { own: 12, public: 0, lasting: 0, came: 9 } },
            Position { newest: None, at: Revs { own: 0, public: 7, lasting: 3, came: 0 } },
        ] {
            assert_eq!(position.text().parse(), Ok(position));
        }
        for other in ["", "0", "0.1", "x.1.2", "0.a.b", "0.1.2.x", "0GV8YLWQ000000001.1", "7"] {
            assert_eq!(other.parse::<Position>(), Err(()), "{other}");
        }
    }
}
