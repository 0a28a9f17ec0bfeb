//! `GET /events`: what happens in the directory, as server-sent events. Their ids are indexes of the log, from which any of
//! them can be told again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use althing_edge::{Origins, Peer, Place};
use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use futures::stream::{self, Stream};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::super::Shared;
use super::super::problem::{Answer, Problem};
use super::{origin, reader};
use crate::service::{Event, EventKind, Registry};

/// Streams at one time, of all readers.
const STREAMS_MAX: usize = 512;
/// Streams at one time of one origin.
const STREAMS_OF_ORIGIN_MAX: usize = 64;
/// Entries that a reader may be behind before it takes turns with others that are.
const BEHIND_MAX: u64 = 64;
/// Between two signs of life.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

static STREAMS: Semaphore = Semaphore::const_new(STREAMS_MAX);
static ORIGINS: LazyLock<Origins> = LazyLock::new(|| Origins::of(STREAMS_OF_ORIGIN_MAX));

/// What is told, and from where on.
struct Telling {
    registry: Arc<Registry>,
    grown: watch::Receiver<u64>,
    next: u64,
    kind: Option<EventKind>,
    is_full: bool,
    /// Whether events have no name: some consumers hear no others.
    is_unnamed: bool,
    /// What was shown: nothing is told once it is taken back.
    headers: HeaderMap,
    ready: VecDeque<Event>,
    _permit: SemaphorePermit<'static>,
    _place: Option<Place>,
}

impl Telling {
    /// The next event; none when the log cannot be read.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            reader(&self.registry, &self.headers).ok()?;
            if let Some(event) = self.ready.pop_front() {
                let sent = Sent::default().id(event.index.to_string()).data(event.data.to_string());
                return Some(if self.is_unnamed { sent } else { sent.event(event.kind.name()) });
            }
            let size = *self.grown.borrow_and_update();
            if self.next >= size {
                self.grown.changed().await.ok()?;
                continue;
            }
            let (events, next) = self.read(size).await?;
            self.next = next;
            let kind = self.kind;
            self.ready.extend(events.into_iter().filter(|event| kind.is_none_or(|kind| kind == event.kind)));
        }
    }

    /// Some events. Those who are far behind take turns, beside everything else.
    async fn read(&self, size: u64) -> Option<(Vec<Event>, u64)> {
        let (registry, from, is_full) = (self.registry.clone(), self.next, self.is_full);
        let read = if size - from <= BEHIND_MAX {
            registry.events(from, is_full)
        } else {
            let turn = self.registry.turns().replay().await;
            let reading = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                registry.events(from, is_full)
            });
            reading.await.ok()?
        };
        read.inspect_err(|error| tracing::error!(%error, "events cannot be read")).ok()
    }
}

fn event_stream(telling: Telling) -> impl Stream<Item = Result<Sent, Infallible>> {
    stream::unfold(telling, |mut telling| async move { telling.next().await.map(|sent| (Ok(sent), telling)) })
}

fn answer(
    registry: Arc<Registry>,
    peer: Peer,
    kind: Option<EventKind>,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Answer {
    reader(&registry, headers)?;
    let full = || {
        let detail = format!("{STREAMS_OF_ORIGIN_MAX} readers at your address hear events now: end some of them");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).retry_after(60)
    };
    let place = origin(peer).map(|origin| ORIGINS.place(origin).ok_or_else(full)).transpose()?;
    let permit = STREAMS.try_acquire().map_err(|_| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{STREAMS_MAX} readers hear events now; try later"))
            .retry_after(60)
    })?;
    let value = |name: &str| {
        let words = query.unwrap_or_default().split('&').map(|word| word.split_once('=').unwrap_or((word, "true")));
        words.into_iter().find_map(|(word, value)| (word == name).then_some(value))
    };
    let is_set = |name: &str| value(name).is_some_and(|value| value != "false");
    let grown = registry.grown();
    let number = |text: Option<&str>, what: &str| {
        let number = text.and_then(|text| text.trim().parse::<u64>().ok());
        number.ok_or_else(|| Problem::bad(format!("{what} is a number, an index of the log")))
    };
    let next = match (headers.get("last-event-id"), value("from")) {
        (Some(last), _) => number(last.to_str().ok(), "Last-Event-ID")?.saturating_add(1),
        (None, Some(from)) => number(Some(from), "`from`")?,
        (None, None) => *grown.borrow(),
    };
    let telling = Telling {
        registry,
        grown,
        next,
        kind,
        is_full: is_set("diff"),
        is_unnamed: is_set("unnamed"),
        headers: headers.clone(),
        ready: VecDeque::new(),
        _permit: permit,
        _place: place,
    };
    Ok(Sse::new(event_stream(telling)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

pub async fn all(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    answer(registry, peer, None, query.as_deref(), &headers)
}

pub async fn of_kind(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Path(kind): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let known = EventKind::ALL.into_iter().find(|known| known.name() == kind);
    let kind = known.ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "events are thing_created, thing_updated and thing_deleted")
    })?;
    answer(registry, peer, Some(kind), query.as_deref(), &headers)
}
