//! An import that is told while it goes on: a line of JSON for each thing that happens, and one for the end.
//!
//! It goes on only as fast as somebody reads: whoever hangs up ends it, as with any other request.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use tidings_access::Cx;
use tidings_people::import::{self, Counts, Event, ImportError, Settings};
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::files::{ColumnBody, LineBody, as_file, shown};
use crate::problem::Problem;

pub(super) const KIND: &str = "application/x-ndjson";

/// How the lines that were read ended.
#[derive(Serialize, ToSchema)]
#[schema(as = ImportCounts)]
pub(super) struct CountsBody {
    lines: u64,
    new: u64,
    updated: u64,
    unchanged: u64,
    /// Left out
    invalid: u64,
    /// Of the lines: must not be written to
    suppressed: u64,
    /// Of the lines: unsubscribed from everything
    unsubscribed: u64,
    /// Of the lines: newly subscribed to the audience
    subscribed: u64,
    /// Of those: a mail asks to confirm it
    asked: u64,
}

/// A line of an import that is told while it goes on
#[derive(Serialize, ToSchema)]
#[schema(as = ImportLine)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Told {
    /// How the columns are understood. The first line.
    Columns { columns: Vec<ColumnBody> },
    /// A line of the file is left out.
    Error(LineBody),
    /// So far
    Progress(CountsBody),
    /// All of it. The last line.
    Done(CountsBody),
    /// It ended before its end, and can be sent again. The last line instead.
    Problem {
        /// As any other problem, but for the id of the request, which is in the header of the answer
        #[schema(value_type = Object)]
        problem: serde_json::Value,
    },
}

/// Whether the caller wants to be told while it goes on.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(','));
    kinds.any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case(KIND)
    })
}

/// Takes in a file and answers with lines. What is wrong before the first of them is a problem like any other.
pub(super) async fn answer(
    cx: Cx,
    (settings, dry_run): (Settings, bool),
    body: Body,
    limit: Duration,
) -> Result<Response, Problem> {
    let (sender, told) = mpsc::unbounded_channel();
    let tell = move |event: Event<'_>| {
        // Whoever does not hear it has hung up, and then this ends too.
        let _ = sender.send(match event {
            Event::Mapped(mapping) => {
                Told::Columns { columns: mapping.columns().iter().map(shown).collect() }
            }
            Event::Left(fault) => Told::Error(LineBody::from(fault)),
            Event::Progress(counts) => Told::Progress(CountsBody::from(*counts)),
        });
    };
    let (file, feed) = as_file(body);
    let work = async move {
        let import = async {
            match dry_run {
                true => import::preview(&cx, file, settings, tell).await,
                false => import::run(&cx, file, settings, tell).await,
            }
        };
        tokio::join!(import, feed).0
    };
    // The answer begins before the work ends, so the limit on requests does not hold for it.
    let work = Box::pin(tokio::time::timeout(limit, work));
    let mut lines = Box::pin(stream::unfold(Import { work: Some(work), told, end: None }, next));
    let first = match lines.next().await {
        Some(Err(problem)) => return Err(problem),
        first => first,
    };
    let written = stream::iter(first).chain(lines).map(|line| {
        let line = line.unwrap_or_else(|problem| Told::Problem { problem: problem.body() });
        let mut line = serde_json::to_vec(&line).unwrap_or_default();
        line.push(b'\n');
        Ok::<_, Infallible>(Bytes::from(line))
    });
    Ok(([(header::CONTENT_TYPE, KIND)], Body::from_stream(written)).into_response())
}

type Ended = Result<Result<Counts, ImportError>, tokio::time::error::Elapsed>;

/// An import under way.
struct Import {
    /// Until it has ended.
    work: Option<Pin<Box<dyn Future<Output = Ended> + Send>>>,
    told: mpsc::UnboundedReceiver<Told>,
    /// What is still to be said when all that was told has been.
    end: Option<Result<Told, Problem>>,
}

/// What is told next. The work goes on while somebody waits for that, and no longer: so what waits to be read is little.
async fn next(mut import: Import) -> Option<(Result<Told, Problem>, Import)> {
    if let Some(mut work) = import.work.take() {
        tokio::select! {
            biased;
            told = import.told.recv() => if let Some(told) = told {
                import.work = Some(work);
                return Some((Ok(told), import));
            } else {
                import.end = Some(ended(work.await));
            },
            end = &mut work => import.end = Some(ended(end)),
        }
    }
    match import.told.recv().await {
        Some(told) => Some((Ok(told), import)),
        None => import.end.take().map(|end| (end, import)),
    }
}

fn ended(end: Ended) -> Result<Told, Problem> {
    match end {
        Ok(Ok(counts)) => Ok(Told::Done(CountsBody::from(counts))),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(crate::took_too_long()),
    }
}

impl From<Counts> for CountsBody {
    fn from(counts: Counts) -> Self {
        let Counts {
            lines,
            new,
            updated,
            unchanged,
            invalid,
            suppressed,
            unsubscribed,
            subscribed,
            asked,
        } = counts;
        Self {
            lines,
            new,
            updated,
            unchanged,
            invalid,
            suppressed,
            unsubscribed,
            subscribed,
            asked,
        }
    }
}
