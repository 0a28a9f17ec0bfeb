//! Values are linearizable registers: each read and each replacement saw what one order of all operations says, in which
//! what returned before another began is before it.

use std::collections::BTreeSet;

use porcupine_rs::{Model, Operation};

use super::super::clients::KEYS;
use super::super::evidence::{Deed, Operation as Done};
use super::search::{may_go_on, search};
use super::{Invariant, Seen};

pub(super) struct Register;

/// A register of one value.
#[derive(Debug, Clone)]
struct One;

#[derive(Debug, Clone)]
enum Step {
    Read(Option<u64>),
    Write(u64),
    Replace { expected: Option<u64>, value: u64, done: Option<bool> },
}

impl Model for One {
    type State = Option<u64>;
    type Op = Step;
    type Metadata = ();

    fn init() -> Option<u64> {
        None
    }

    fn step(state: &Option<u64>, step: &Step) -> (bool, Option<u64>) {
        if !may_go_on() {
            return (false, *state);
        }
        match *step {
            Step::Read(value) => (value == *state, *state),
            Step::Write(value) => (true, Some(value)),
            Step::Replace { expected, value, done } => {
                let holds = expected == *state;
                (done.is_none_or(|done| done == holds), if holds { Some(value) } else { *state })
            }
        }
    }
}

impl Invariant for Register {
    fn name(&self) -> &'static str {
        "values-are-linearizable"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        (0..KEYS).try_for_each(|key| judge(&seen.evidence.history, key))
    }
}

/// Whether what clients did to the value of one key has an order.
///
/// # Errors
/// The history, if it has none, or none was found in time.
pub fn judge(operations: &[Done], key: u8) -> Result<(), String> {
    search(&format!("the values of key-{key}"), &history(operations, key))
}

/// What was done to one key. What nobody answered and nobody saw, by reading it or by finding another value than was expected,
/// may have happened after everything else, and is left out.
fn history(operations: &[Done], key: u8) -> Vec<Operation<One>> {
    let step = |deed: &Deed| match *deed {
        Deed::Read { key: of, value } if of == key => Some(Step::Read(value)),
        Deed::Write { key: of, value, .. } if of == key => Some(Step::Write(value)),
        Deed::Replace { key: of, expected, value, done } if of == key => {
            Some(Step::Replace { expected, value, done: done.map(|version| version.is_some()) })
        }
        _ => None,
    };
    let known = operations.iter().filter(|operation| operation.returned.is_some());
    let read: BTreeSet<u64> = known
        .filter_map(|operation| match operation.deed {
            Deed::Read { value, .. } | Deed::Replace { expected: value, .. } => value,
            _ => None,
        })
        .collect();
    let refused: Vec<i64> = operations
        .iter()
        .filter_map(|operation| match operation.deed {
            Deed::Replace { key: of, done: Some(None), .. } if of == key => operation.returned,
            _ => None,
        })
        .collect();
    let refused_at = refused.iter().max().copied().unwrap_or(i64::MIN);
    let unseen = unseen(operations, key, &read, &refused);
    let counts = |step: &Step, called: i64| match step {
        Step::Read(_) => true,
        Step::Write(value) => read.contains(value) || unseen.contains(value),
        Step::Replace { value, .. } => read.contains(value) || called < refused_at,
    };
    let operation = |one: &Done| {
        let op = step(&one.deed).filter(|step| one.returned.is_some() || counts(step, one.called))?;
        let (call_time, return_time) = (one.called, one.returned.unwrap_or(i64::MAX));
        Some(Operation { client_id: Some(one.client), call_time, return_time, op, metadata: None })
    };
    operations.iter().filter_map(operation).collect()
}

/// The unanswered writes of values that nobody read which are worth trying. Each can only explain why a replacement found another
/// value, and one explains one; so as many are enough as were refused, and those that began first can stand wherever later ones
/// could. A crowd of them would have more orders than can be tried.
fn unseen(operations: &[Done], key: u8, read: &BTreeSet<u64>, refused: &[i64]) -> BTreeSet<u64> {
    let refused_at = refused.iter().max().copied().unwrap_or(i64::MIN);
    let mut writes: Vec<(i64, u64)> = operations
        .iter()
        .filter(|one| one.returned.is_none() && one.called < refused_at)
        .filter_map(|one| match one.deed {
            Deed::Write { key: of, value, .. } if of == key && !read.contains(&value) => Some((one.called, value)),
            _ => None,
        })
        .collect();
    writes.sort_unstable();
    writes.into_iter().take(refused.len()).map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use porcupine_rs::check_operations;

    use super::*;

    fn operation(call_time: i64, return_time: i64, op: Step) -> Operation<One> {
        Operation { client_id: None, call_time, return_time, op, metadata: None }
    }

    #[test]
    fn what_was_overwritten_is_not_read_again() {
        let write = |at, value| operation(at, at + 1, Step::Write(value));
        let read = |at, value| operation(at, at + 1, Step::Read(Some(value)));
        assert!(check_operations(&[write(1, 1), write(3, 2), read(5, 2)]));
        assert!(!check_operations(&[write(1, 1), write(3, 2), read(5, 1)]));
        assert!(check_operations(&[write(1, 1), operation(3, 9, Step::Write(2)), read(5, 1)]));
    }

    #[test]
    fn what_nobody_answered_may_have_happened_at_any_time_or_not_at_all() {
        let unknown = |value| operation(3, i64::MAX, Step::Write(value));
        let read = |at, value| operation(at, at + 1, Step::Read(value));
        assert!(check_operations(&[unknown(7), read(5, None), read(7, Some(7))]));
        assert!(check_operations(&[unknown(7), read(5, None)]));
        assert!(!check_operations(&[unknown(7), read(5, Some(7)), read(7, None)]));
    }

    /// A history of one client that floods, and of another one.
    fn flooded(refused: bool) -> Vec<Done> {
        let done =
            |client: u32, called: i64, returned: Option<i64>, deed: Deed| Done { client, called, returned, deed };
        let write = |value: u64| Deed::Write { key: 0, value, version: None };
        let crowd = (100..160).map(|value| done(9, 5, None, write(value)));
        let version = (!refused).then_some(3);
        let replace = Deed::Replace { key: 0, expected: Some(1), value: 2, done: Some(version) };
        let first = done(1, 1, Some(2), Deed::Write { key: 0, value: 1, version: Some(1) });
        crowd.chain([first, done(1, 7, Some(8), replace)]).collect()
    }

    #[test]
    fn of_many_unanswered_writes_as_many_are_tried_as_were_refused() {
        assert_eq!(history(&flooded(true), 0).len(), 3, "one of them explains the refusal");
        assert!(judge(&flooded(true), 0).is_ok());
        assert_eq!(history(&flooded(false), 0).len(), 2);
        assert!(judge(&flooded(false), 0).is_ok());
        // Without any there is no order.
        let mut alone = flooded(true);
        alone.retain(|one| one.client != 9);
        assert!(judge(&alone, 0).is_err());
    }
}
