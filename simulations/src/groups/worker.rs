//! What runs a group's tasks on a simulated member. A task says how long it takes, and whether its first attempt fails.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_coordination::{Again, Assigned, Report, WorkFailure, Worker};
use althing_protocol::group::WorkId;
use althing_protocol::{PublicKey, PublisherId};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::evidence::{Begun, Books};
use super::flaw::Flaw;

/// What all workers can do.
pub const CAPABILITY: &str = "work";
/// Of so many tasks it declines one.
const DECLINES: u64 = 11;

/// A worker.
pub(super) struct Laborer {
    pub node: PublicKey,
    pub books: Books,
    pub flaw: Arc<dyn Flaw>,
}

/// What a task says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// How long it takes.
    pub takes_ms: u64,
    /// The first attempt fails.
    pub is_flaky: bool,
}

impl Order {
    /// As a task's input.
    #[must_use]
    pub fn to_input(self) -> Vec<u8> {
        format!("{} {}", self.takes_ms, u8::from(self.is_flaky)).into_bytes()
    }

    fn read(input: &[u8]) -> Order {
        let text = String::from_utf8_lossy(input);
        let (takes, flaky) = text.split_once(' ').unwrap_or((&text, "0"));
        Order { takes_ms: takes.parse().unwrap_or(0), is_flaky: flaky == "1" }
    }
}

/// The token in a task's result.
#[must_use]
pub fn token_of(result: &[u8]) -> u64 {
    result.try_into().map_or(0, u64::from_be_bytes)
}

impl Laborer {
    fn begin(&self, task: WorkId, token: u64) {
        let asked = self.books.event();
        self.books.note(format_args!("{} asks to begin {task} by {token}", self.node));
        self.books.open().begun.push(Begun { node: self.node, task, token, between: (asked, i64::MAX), ended: None });
    }
}

/// The entry of the run of a task that is not marked yet.
fn mark(books: &Books, node: PublicKey, task: WorkId, token: u64, mark: impl Fn(&mut Begun) -> bool) {
    let mut evidence = books.open();
    let ours = |begun: &&mut Begun| begun.node == node && begun.task == task && begun.token == token;
    if !evidence.begun.iter_mut().rev().filter(ours).any(mark) {
        // It was told to begin what it did not ask for, or twice.
        evidence.begun.push(Begun { node, task, token, between: (0, books.event()), ended: None });
    }
}

impl Worker for Laborer {
    fn report(&self, _: &BTreeSet<PublisherId>) -> Report {
        let capabilities = vec![CAPABILITY.to_owned()];
        Report { capabilities, slots: 2, memory_mib: 1_024, cores: 2, ..Report::default() }
    }

    fn admit<'a>(&'a self, task: &'a Assigned) -> BoxFuture<'a, Result<(), WorkFailure>> {
        async move {
            if (task.token + u64::from(self.node.as_bytes()[0])).is_multiple_of(DECLINES) {
                return Err(WorkFailure { reason: "it is tired".to_owned(), again: Again::Any });
            }
            self.begin(task.task, task.token);
            Ok(())
        }
        .boxed()
    }

    fn run(&self, mut task: Assigned) -> BoxFuture<'static, Result<Vec<u8>, WorkFailure>> {
        let times = self.flaw.on_task(&mut task);
        let (books, node) = (self.books.clone(), self.node);
        async move {
            let (id, token, order) = (task.task, task.token, Order::read(&task.input));
            for _ in 0..times {
                let told = books.event();
                books.note(format_args!("{node} begins {id} by {token}"));
                mark(&books, node, id, token, |begun| {
                    let is_open = begun.between.1 == i64::MAX;
                    if is_open {
                        begun.between.1 = told;
                    }
                    is_open
                });
            }
            tokio::time::sleep(Duration::from_millis(order.takes_ms)).await;
            if order.is_flaky && task.attempt == 1 {
                return Err(WorkFailure { reason: "it was told to".to_owned(), again: Again::Any });
            }
            let ended = books.event();
            mark(&books, node, id, token, |begun| begun.ended.is_none() && begun.ended.replace(ended).is_none());
            Ok(token.to_be_bytes().to_vec())
        }
        .boxed()
    }
}
