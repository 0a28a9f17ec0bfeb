//! What a program works on now, so that what it asks of hosts is told in the trace of that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::contract::Observability;
use tracing::Span;

use crate::context;

/// The calls that one program works on. Copies are of the same program.
#[derive(Debug, Clone, Default)]
pub struct Work(Arc<Mutex<Now>>);

#[derive(Debug, Default)]
struct Now {
    next: u64,
    calls: BTreeMap<u64, Span>,
    /// Whether the contract of its agent has traces tell nothing.
    is_hidden: bool,
}

/// Keeps a call among those that a program works on, until it is dropped.
#[derive(Debug)]
pub struct WorkGuard {
    work: Work,
    number: u64,
}

impl Work {
    /// Of a program whose agent has that contract.
    #[must_use]
    pub fn of(observability: Observability) -> Work {
        let work = Work::default();
        work.now().is_hidden = observability == Observability::None;
        work
    }

    /// Begins the call whose turn runs here, in the current span.
    #[must_use]
    pub fn begin(&self) -> WorkGuard {
        let mut now = self.now();
        // All calls of a program are of one agent, so of one contract. A call outside of turns knows of none.
        now.is_hidden |= context::current().observability == Observability::None;
        let number = now.next;
        now.next += 1;
        now.calls.insert(number, Span::current());
        drop(now);
        WorkGuard { work: self.clone(), number }
    }

    /// Whether traces tell nothing of what it does.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.now().is_hidden
    }

    /// The span of the call that it works on, if that is one call and no more: of several nobody knows for which it asks a host.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        let now = self.now();
        let mut spans = now.calls.values();
        spans.next().filter(|_| now.calls.len() == 1).cloned()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().expect("no holder of a program's work panics")
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        self.work.now().calls.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use crate::context::{CALL_CONTEXT, CallContext};

    use super::*;

    #[test]
    fn what_a_program_asks_is_for_the_only_call_that_it_works_on() {
        let work = Work::default();
        assert!(work.span().is_none(), "it works on nothing");
        let first = work.begin();
        assert!(work.clone().span().is_some());
        let second = work.begin();
        assert!(work.span().is_none(), "nobody knows for which of both it asks");
        drop(first);
        assert!(work.span().is_some());
        drop(second);
        assert!(work.span().is_none());
        assert!(!work.is_hidden());
    }

    #[test]
    fn a_contract_that_hides_its_turns_hides_what_is_asked_between_them_too() {
        let hidden = CallContext { observability: Observability::None, ..CallContext::default() };
        let work = Work::default();
        drop(CALL_CONTEXT.sync_scope(hidden, || work.begin()));
        assert!(work.is_hidden() && work.span().is_none());
        assert!(Work::of(Observability::None).is_hidden());
        assert!(!Work::of(Observability::Calls).is_hidden());
    }
}
