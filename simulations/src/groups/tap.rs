//! Between the network and a member: writes down who claims to lead and who votes for whom.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::{Answer, Caller, Inbound, Request};
use althing_coordination::RaftService;
use althing_coordination::consensus::wire::{self, Append, Beats, Elect, Elected, SnapshotTaken};
use althing_protocol::PublicKey;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::evidence::Books;
use super::flaw::Flaw;

/// After how long a message comes a second time, where a flaw sends it twice.
const AGAIN: Duration = Duration::from_millis(400);

/// Serves a member's group, and watches.
pub(super) struct Tap {
    pub node: PublicKey,
    pub inner: Arc<RaftService>,
    pub books: Books,
    pub flaw: Arc<dyn Flaw>,
}

impl Inbound for Tap {
    fn call(&self, caller: Caller, mut request: Request) -> BoxFuture<'static, Answer> {
        let Tap { node, inner, books, flaw } = self;
        let (node, inner, books, flaw) = (*node, inner.clone(), books.clone(), flaw.clone());
        note_request(&books, caller.node, &request);
        if !books.open().honest.contains(&node) {
            books.keep(&request.operation, &request.body);
        }
        if let Some(again) = flaw.echo(node, &request) {
            let inner = inner.clone();
            tokio::spawn(async move {
                tokio::time::sleep(AGAIN).await;
                drop(inner.call(caller, again).await);
            });
        }
        if let Some(answer) = flaw.on_request(node, &mut request) {
            return std::future::ready(answer).boxed();
        }
        async move {
            let (operation, body) = (request.operation.clone(), request.body.clone());
            let mut answer = inner.call(caller, request).await;
            flaw.on_answer(node, &operation, &mut answer);
            if let Answer::Response(answer) = &answer {
                note_answer(&books, node, &operation, &body, answer);
            }
            answer
        }
        .boxed()
    }

    fn keeps_frames(&self) -> bool {
        self.inner.keeps_frames()
    }
}

fn note_request(books: &Books, from: PublicKey, request: &Request) {
    if !books.open().honest.contains(&from) {
        return;
    }
    match request.operation.as_str() {
        "append" => {
            let Ok(append) = wire::read::<Append>(&request.body) else { return };
            note_leader(books, from, append.leader.term);
        }
        "heartbeats" => {
            let Ok(Beats { beats, .. }) = wire::read(&request.body) else { return };
            beats.iter().for_each(|beat| note_leader(books, from, beat.term));
        }
        // A candidate votes for itself before it asks others.
        "vote" => {
            let Ok(elect) = wire::read::<Elect>(&request.body) else { return };
            books.open().votes.entry((from, elect.candidate.term)).or_default().insert(from);
        }
        _ => {}
    }
}

fn note_leader(books: &Books, from: PublicKey, term: u64) {
    let is_new = books.open().leaders.entry(term).or_default().insert(from);
    if is_new {
        books.note(format_args!("{from} leads in term {term}"));
    }
}

fn note_answer(books: &Books, node: PublicKey, operation: &str, asked: &[u8], answer: &[u8]) {
    if !books.open().honest.contains(&node) {
        return;
    }
    match operation {
        "vote" => {
            let (Ok(elect), Ok(elected)) = (wire::read::<Elect>(asked), wire::read::<Elected>(answer)) else { return };
            let candidate = elect.candidate;
            if elected.granted {
                books.note(format_args!("{node} votes for {} in term {}", candidate.node, candidate.term));
                books.open().votes.entry((node, candidate.term)).or_default().insert(candidate.node);
            }
        }
        "snapshot" if wire::read::<SnapshotTaken>(answer).is_ok_and(|taken| taken.ballot.is_some()) => {
            books.note(format_args!("{node} takes a snapshot"));
            books.open().snapshots += 1;
        }
        _ => {}
    }
}
