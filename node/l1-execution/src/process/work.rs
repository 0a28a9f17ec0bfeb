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
    calls: BTreeMap<u64, CallSpan>,
    /// Whether the contract of its agent has traces tell nothing.
    is_hidden: bool,
}

/// The span of a call that a program works on.
#[derive(Debug, Clone)]
pub struct CallSpan {
    /// Above what the program asks for it.
    pub span: Span,
    /// The hash of the manifest of the agent in whose turn it is; empty outside turns.
    pub binding_hash: Arc<str>,
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
        let turn = context::current();
        now.is_hidden |= turn.observability == Observability::None;
        let number = now.next;
        now.next += 1;
        now.calls.insert(number, CallSpan { span: Span::current(), binding_hash: turn.binding_hash });
        drop(now);
        WorkGuard { work: self.clone(), number }
    }

    /// Whether traces tell nothing of what it does.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.now().is_hidden
    }

    /// The call that it works on, if that is one call and no more: of several nobody knows for which it asks a host.
    #[must_use]
    pub fn only_call(&self) -> Option<CallSpan> {
        let now = self.now();
        let mut calls = now.calls.values();
        calls.next().filter(|_| now.calls.len() == 1).cloned()
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
        assert!(work.only_call().is_none(), "it works on nothing");
        let first = work.begin();
        assert!(work.clone().only_call().is_some());
        let second = work.begin();
        assert!(work.only_call().is_none(), "nobody knows for which of both it asks");
        drop(first);
        assert!(work.only_call().is_some());
        drop(second);
        assert!(work.only_call().is_none());
        assert!(!work.is_hidden());
    }

    #[test]
    fn what_a_program_asks_in_a_turn_is_of_the_manifest_of_that_turn() {
        let turn = CallContext { binding_hash: Arc::from("0a"), ..CallContext::default() };
        let work = Work::default();
        let _working = CALL_CONTEXT.sync_scope(turn, || work.begin());
        assert_eq!(work.only_call().map(|call| call.binding_hash), Some(Arc::from("0a")));
    }

    #[test]
    fn a_contract_that_hides_its_turns_hides_what_is_asked_between_them_too() {
        let hidden = CallContext { observability: Observability::None, ..CallContext::default() };
        let work = Work::default();
        drop(CALL_CONTEXT.sync_scope(hidden, || work.begin()));
        assert!(work.is_hidden() && work.only_call().is_none());
        assert!(Work::of(Observability::None).is_hidden());
        assert!(!Work::of(Observability::Calls).is_hidden());
    }
}
