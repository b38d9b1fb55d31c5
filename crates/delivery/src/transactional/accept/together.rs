//! Callers who come while others are being served are served together, in the next go.
//!
//! A go costs the store nearly the same for one message and for sixty. Whoever comes alone is served at once; nobody waits for
//! others to come.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings_access::{Actor, ClientId, Cx, WorkspaceId};
use tidings_sql::DatabaseError;
use tokio::sync::oneshot;

use super::{AcceptError, Accepted, Messages};
use crate::transactional::in_flight::Turn;
use crate::transactional::request::Send;

/// The most messages of one go.
const MOST: usize = 64;
/// So many goes of the same callers are under way at once: while one waits for the disk, the next is being read.
const AT_ONCE: usize = 2;

type Answer = Result<Accepted, AcceptError>;
/// Who asks: what is the same for all that are served together.
type Window = (WorkspaceId, Actor, ClientId);

#[derive(Clone, Default)]
pub(super) struct Line(Arc<Mutex<HashMap<Window, Queue>>>);

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    clerks: usize,
}

struct Waiting {
    cx: Cx,
    send: Send,
    turn: Option<Turn>,
    answer: oneshot::Sender<Answer>,
}

impl Line {
    pub(super) async fn wait(&self, messages: &Messages, cx: &Cx, send: Send) -> Answer {
        let window = (cx.workspace_id(), cx.actor().clone(), send.client);
        let (answer, answered) = oneshot::channel();
        let turn = messages.turn(&send)?;
        let waiting = Waiting { cx: cx.clone(), send, turn, answer };
        if self.join(&window, waiting) {
            // Not by this caller himself: should he go away, others wait for it all the same.
            tokio::spawn(serve(messages.clone(), window));
        }
        // Without an answer only if serving it panicked.
        answered.await.unwrap_or_else(|_| Err(DatabaseError::Panicked.into()))
    }

    /// Whether another clerk is needed.
    fn join(&self, window: &Window, waiting: Waiting) -> bool {
        let mut all = self.lock();
        let queue = all.entry(window.clone()).or_default();
        queue.waiting.push(waiting);
        let needed = queue.clerks < AT_ONCE;
        queue.clerks += usize::from(needed);
        needed
    }

    /// The next ones. When there are none, the clerk goes.
    fn next(&self, window: &Window) -> Vec<Waiting> {
        let mut all = self.lock();
        let Some(queue) = all.get_mut(window) else { return Vec::new() };
        let count = queue.waiting.len().min(MOST);
        let next: Vec<Waiting> = queue.waiting.drain(..count).collect();
        if next.is_empty() {
            queue.clerks -= 1;
            if queue.clerks == 0 {
                all.remove(window);
            }
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Window, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves whoever waits, until nobody does.
async fn serve(messages: Messages, window: Window) {
    loop {
        let next = messages.line.next(&window);
        // They came one after the other, so the last has the latest time.
        let Some(cx) = next.last().map(|waiting| waiting.cx.clone()) else { return };
        let (sends, answers): (Vec<_>, Vec<_>) =
            next.into_iter().map(|one| (one.send, (one.answer, one.turn))).unzip();
        // A task of its own, so that a panic ends this go and not the clerk.
        let serving = messages.clone();
        let served = tokio::spawn(async move { serving.accept_in_turn(&cx, sends).await }).await;
        for ((answer, turn), told) in answers.into_iter().zip(served.unwrap_or_default()) {
            // His key is free before he knows, so that he can ask again at once. Whoever went away does so one day.
            drop(turn);
            drop(answer.send(told));
        }
    }
}
