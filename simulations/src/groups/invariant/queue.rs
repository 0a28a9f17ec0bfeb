//! The tasks are a linearizable queue: they have one order, each is begun by rising tokens, and completed once, by whoever
//! began it last.

use std::collections::{BTreeMap, BTreeSet};

use porcupine_rs::{Model, Operation};

use super::super::clients::task_number;
use super::super::evidence::{Begun, Deed, Operation as Done, Phase};
use super::search::{may_go_on, search};
use super::{Invariant, Seen};

pub(super) struct Queue;

/// The queue.
#[derive(Debug, Clone)]
struct Tasks;

/// A task: its number, how far it is, and the token by which it was begun last.
type Entry = (u32, Phase, u64);

#[derive(Debug, Clone)]
enum Step {
    Submit { task: u32, number: Option<u64> },
    Begin { task: u32, token: u64 },
    End { task: u32, phase: Phase },
    Cancel { task: u32, done: Option<bool> },
    Look(Vec<(u32, Phase)>),
}

impl Model for Tasks {
    type State = Vec<Entry>;
    type Op = Step;
    type Metadata = ();

    fn init() -> Vec<Entry> {
        Vec::new()
    }

    fn step(state: &Vec<Entry>, step: &Step) -> (bool, Vec<Entry>) {
        if !may_go_on() {
            return (false, state.clone());
        }
        let mut next = state.clone();
        let at = |task: u32| state.iter().position(|(known, ..)| *known == task);
        let open = |task: u32| at(task).filter(|at| state[*at].1 == Phase::Open);
        let fits = match step {
            Step::Submit { task, number } => {
                next.push((*task, Phase::Open, 0));
                at(*task).is_none() && number.is_none_or(|number| number == next.len() as u64)
            }
            Step::Begin { task, token } => open(*task).is_some_and(|at| {
                next[at].2 = *token;
                *token > state[at].2
            }),
            Step::End { task, phase } => open(*task).is_some_and(|at| {
                next[at].1 = *phase;
                !matches!(phase, Phase::Completed(token) if *token != state[at].2)
            }),
            Step::Cancel { task, done } => {
                let open = open(*task);
                open.into_iter().for_each(|at| next[at].1 = Phase::Canceled);
                done.is_none_or(|done| done == open.is_some())
            }
            Step::Look(tasks) => {
                state.len() == tasks.len()
                    && state.iter().zip(tasks).all(|(known, (task, phase))| (known.0, known.1) == (*task, *phase))
            }
        };
        (fits, next)
    }
}

fn operation(called: i64, returned: Option<i64>, op: Step) -> Operation<Tasks> {
    let return_time = returned.unwrap_or(i64::MAX);
    Operation { client_id: None, call_time: called, return_time, op, metadata: None }
}

/// What clients did, and the ends of tasks that they saw first. What nobody answered and nobody saw may have happened after
/// everything else, and is left out.
fn of_clients(done: &[Done], begun: &[Begun]) -> Vec<Operation<Tasks>> {
    let (mut history, mut ended) = (Vec::new(), BTreeSet::new());
    let submitted = submissions(done);
    let looked: BTreeSet<(u32, bool)> = done
        .iter()
        .flat_map(|one| match &one.deed {
            Deed::Look { tasks } => {
                tasks.iter().flat_map(|(task, phase)| [(*task, false), (*task, *phase == Phase::Canceled)]).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    let counts = |deed: &Deed| match deed {
        Deed::Submit { task, .. } => looked.contains(&(*task, false)),
        Deed::Cancel { task, .. } => looked.contains(&(*task, true)),
        _ => true,
    };
    let mut operations: Vec<_> = done.iter().collect();
    operations.sort_by_key(|one| one.returned);
    for one in operations.into_iter().filter(|one| one.returned.is_some() || counts(&one.deed)) {
        let step = match &one.deed {
            Deed::Submit { task, number } => Step::Submit { task: *task, number: *number },
            Deed::Cancel { task, done } => Step::Cancel { task: *task, done: *done },
            Deed::Look { tasks } => {
                for (task, phase) in tasks.iter().filter(|(_, phase)| super::super::stage::is_ended(*phase)) {
                    // Cancellations are operations themselves.
                    if *phase != Phase::Canceled && ended.insert(*task) {
                        let called = end_of(begun, *task, *phase);
                        let called = called.or(submitted.get(task).copied()).unwrap_or(0);
                        history.push(operation(called, one.returned, Step::End { task: *task, phase: *phase }));
                    }
                }
                Step::Look(tasks.clone())
            }
            Deed::Read { .. } | Deed::Write { .. } | Deed::Replace { .. } => continue,
        };
        history.push(operation(one.called, one.returned, step));
    }
    history
}

/// When each task was submitted.
fn submissions(done: &[Done]) -> BTreeMap<u32, i64> {
    let submitted = |one: &Done| match one.deed {
        Deed::Submit { task, .. } => Some((task, one.called)),
        _ => None,
    };
    done.iter().filter_map(submitted).collect()
}

/// Whether what clients did to tasks has an order, where nobody saw the workers: who completed a task has begun it with that
/// token at some time between its submission and the first look that saw it completed.
///
/// # Errors
/// The history, if it has none, or none was found in time.
pub fn judge(done: &[Done]) -> Result<(), String> {
    let mut history = of_clients(done, &[]);
    let ends: Vec<(i64, Option<i64>, u32, u64)> = history
        .iter()
        .filter_map(|one| match one.op {
            Step::End { task, phase: Phase::Completed(token) } => {
                Some((one.call_time, Some(one.return_time), task, token))
            }
            _ => None,
        })
        .collect();
    for (called, returned, task, token) in ends {
        history.push(operation(called, returned, Step::Begin { task, token }));
    }
    search("the tasks", &history)
}

/// When the worker had the result of a task that was completed.
fn end_of(begun: &[Begun], task: u32, phase: Phase) -> Option<i64> {
    let Phase::Completed(token) = phase else { return None };
    begun.iter().find(|begun| task_number(begun.task) == task && begun.token == token)?.ended
}

impl Invariant for Queue {
    fn name(&self) -> &'static str {
        "tasks-are-a-linearizable-queue"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        let mut history = of_clients(&seen.evidence.history, &seen.evidence.begun);
        for begun in &seen.evidence.begun {
            if begun.between.1 != i64::MAX {
                let step = Step::Begin { task: task_number(begun.task), token: begun.token };
                history.push(operation(begun.between.0, Some(begun.between.1), step));
            }
        }
        search("the tasks", &history)
    }
}

#[cfg(test)]
mod tests {
    use porcupine_rs::check_operations;

    use super::*;

    fn submit(at: i64, task: u32, number: u64) -> Operation<Tasks> {
        operation(at, Some(at + 1), Step::Submit { task, number: Some(number) })
    }

    fn begin(at: i64, token: u64) -> Operation<Tasks> {
        operation(at, Some(at + 1), Step::Begin { task: 1, token })
    }

    fn end(at: i64, token: u64) -> Operation<Tasks> {
        operation(at, Some(at + 1), Step::End { task: 1, phase: Phase::Completed(token) })
    }

    #[test]
    fn a_task_is_completed_by_whoever_began_it_last_and_once() {
        assert!(check_operations(&[submit(1, 1, 1), begin(3, 5), end(5, 5)]));
        assert!(check_operations(&[submit(1, 1, 1), begin(3, 5), begin(5, 6), end(7, 6)]));
        assert!(!check_operations(&[submit(1, 1, 1), begin(3, 5), begin(5, 6), end(7, 5)]), "an old token");
        assert!(!check_operations(&[submit(1, 1, 1), begin(3, 6), begin(5, 6), end(7, 6)]), "a token twice");
        assert!(!check_operations(&[submit(1, 1, 1), begin(3, 5), end(5, 5), end(7, 5)]), "twice");
    }

    #[test]
    fn clients_alone_are_judged_where_nobody_saw_the_workers() {
        let done = |called, returned, deed| Done { client: 1, called, returned, deed };
        let submit = |at, task, number| done(at, Some(at + 1), Deed::Submit { task, number: Some(number) });
        let look = |at, tasks: &[(u32, Phase)]| done(at, Some(at + 1), Deed::Look { tasks: tasks.to_vec() });
        let unanswered = done(5, None, Deed::Submit { task: 3, number: None });
        let (open, completed) = (Phase::Open, Phase::Completed(7));
        let good = [
            submit(1, 1, 1),
            submit(3, 2, 2),
            unanswered,
            look(7, &[(1, completed), (2, open)]),
            look(9, &[(1, completed), (2, open), (3, open)]),
        ];
        assert!(judge(&good).is_ok());
        let forgets = [submit(1, 1, 1), look(3, &[(1, completed)]), look(5, &[(1, open)])];
        assert!(judge(&forgets).is_err(), "what is completed stays so");
        let again = [submit(1, 1, 1), look(3, &[(1, completed)]), look(5, &[(1, Phase::Completed(8))])];
        assert!(judge(&again).is_err(), "it is completed once");
        let stale = [submit(1, 1, 1), submit(3, 2, 2), look(5, &[(1, open)])];
        assert!(judge(&stale).is_err(), "what was acknowledged is seen");
    }

    #[test]
    fn tasks_have_one_order() {
        let look = |at, tasks: &[u32]| {
            let tasks = tasks.iter().map(|task| (*task, Phase::Open)).collect();
            operation(at, Some(at + 1), Step::Look(tasks))
        };
        assert!(check_operations(&[submit(1, 1, 1), submit(3, 2, 2), look(5, &[1, 2])]));
        assert!(!check_operations(&[submit(1, 1, 1), submit(3, 2, 2), look(5, &[2, 1])]));
        assert!(!check_operations(&[submit(1, 1, 1), submit(3, 2, 2), look(5, &[1])]));
        assert!(!check_operations(&[submit(1, 1, 2), submit(3, 2, 1)]), "numbers in another order");
    }
}
