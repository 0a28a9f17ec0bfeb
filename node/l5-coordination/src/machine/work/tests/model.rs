//! Random commands, beside a small model of who has which task.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::group::{
    Abandon, Assign, Choice, Claim, Command, Complete, ConflictRule, Content, Decline, Define, Depend, Fail, Priority,
    Refuse, Steal, Submit,
};
use proptest::prelude::*;

use super::super::{State, WorkItem};
use super::*;

const TASKS: u32 = 10;
const MEMBERS: u8 = 4;
const RESOURCES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Step {
    Do(u8, Command),
    /// A command by the token that the task has now.
    Claim(u8, u32, Use),
    /// One by any token.
    Replay(u8, u32, u64, Use),
    Assign(u32, u8),
    Advance(u64),
    Leave(u8),
    Return(u8),
}

#[derive(Debug, Clone, Copy)]
enum Use {
    Start,
    Renew,
    Decline,
    Refuse,
    Complete,
    Fail(bool),
}

impl Use {
    fn command(self, claim: Claim) -> Command {
        let reason = "no".to_owned();
        match self {
            Use::Start => Command::Start(claim),
            Use::Renew => Command::Renew(claim),
            Use::Decline => Command::Decline(Decline { claim, reason }),
            Use::Refuse => Command::Refuse(Refuse { claim, reason }),
            Use::Complete => {
                let result = Content::Inline(vec![1; 9].into());
                Command::Complete(Complete { claim, result, label: None, verified: None })
            }
            Use::Fail(retry) => Command::Fail(Fail { claim, reason, retry }),
        }
    }
}

fn uses() -> impl Strategy<Value = Use> {
    prop_oneof![
        3 => Just(Use::Start),
        1 => Just(Use::Renew),
        1 => Just(Use::Decline),
        1 => Just(Use::Refuse),
        3 => Just(Use::Complete),
        1 => any::<bool>().prop_map(Use::Fail),
    ]
}

fn submits() -> impl Strategy<Value = Submit> {
    let who = (0..TASKS, prop::option::weighted(0.2, 0..3u8), 0..4u8);
    // Whole seconds, so that leases and deadlines end just when an entry is applied.
    let times = (1..4u8, 1..5u64, prop::option::weighted(0.3, 2..20u64));
    let links = (prop::collection::btree_set(0..TASKS, 0..3), prop::sample::subsequence(&RESOURCES[..], 0..=3));
    (who, times, links).prop_map(|((number, key, priority), (attempts_max, lease, deadline), (on, wants))| {
        let priority = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical][usize::from(priority)];
        let dependencies = on.into_iter().map(id).collect();
        let key = key.map(|key| vec![key].into());
        let (lease_ms, deadline_ms) = (lease * 1_000, deadline.map(|deadline| deadline * 1_000));
        Submit { key, priority, attempts_max, lease_ms, deadline_ms, dependencies, ..wanting(number, &wants) }
    })
}

fn commands() -> impl Strategy<Value = Command> {
    let rule = prop::sample::select(vec![
        ConflictRule::First,
        ConflictRule::Vote,
        ConflictRule::Priority,
        ConflictRule::Human,
    ]);
    let name = || prop::sample::select(&RESOURCES[..]).prop_map(str::to_owned);
    let choice = || (name(), 0..TASKS).prop_map(|(resource, task)| Choice { resource, task: id(task) });
    prop_oneof![
        12 => submits().prop_map(submit),
        3 => (0..TASKS, 0..TASKS).prop_map(|(task, on)| Command::Depend(Depend { task: id(task), on: id(on) })),
        3 => (0..TASKS, 1..=MEMBERS).prop_map(|(task, from)| Command::Steal(Steal { task: id(task), from: node(from) })),
        1 => (0..TASKS).prop_map(|task| Command::Cancel(id(task))),
        1 => (name(), rule).prop_map(|(resource, rule)| Command::Define(Define { resource, rule })),
        4 => choice().prop_map(Command::Vote),
        1 => choice().prop_map(Command::Decide),
        1 => (0..TASKS).prop_map(|task| Command::Abandon(Abandon { task: id(task), reason: String::new() })),
        1 => Just(Command::Tick),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    // 0 is the owner.
    prop_oneof![
        8 => (0..=MEMBERS, commands()).prop_map(|(by, command)| Step::Do(by, command)),
        6 => (1..=MEMBERS, 0..TASKS, uses()).prop_map(|(by, task, what)| Step::Claim(by, task, what)),
        2 => (1..=MEMBERS, 0..TASKS, 0..30u64, uses())
            .prop_map(|(by, task, token, what)| Step::Replay(by, task, token, what)),
        8 => (0..TASKS, 1..=MEMBERS).prop_map(|(task, to)| Step::Assign(task, to)),
        2 => (0..8u64).prop_map(|halves| Step::Advance(halves * 500)),
        1 => (1..=MEMBERS).prop_map(Step::Leave),
        1 => (1..=MEMBERS).prop_map(Step::Return),
    ]
}

fn author(by: u8) -> Author {
    if by == 0 { owner() } else { member(by) }
}

/// Who has a task, by which token, until when, and whether it began.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Has {
    node: PublicKey,
    token: u64,
    until_ms: u64,
    began: bool,
}

#[derive(Default)]
struct Model {
    has: BTreeMap<WorkId, Has>,
    refused: BTreeSet<(WorkId, PublicKey)>,
    tokens: u64,
    completed: BTreeSet<WorkId>,
    finished: BTreeMap<WorkId, WorkItem>,
}

impl Model {
    /// Whether a command by a token must succeed; none: the model does not know.
    fn expects(&self, group: &Group, by: u8, command: &Command) -> Option<bool> {
        let is_member = group.members.get(&node(by)).is_some();
        let has = |claim: &Claim| {
            let has = self.has.get(&claim.task).filter(|has| has.token == claim.token && has.node == node(by));
            has.filter(|_| is_member)
        };
        match command {
            Command::Start(claim) => Some(has(claim).is_some_and(|has| !has.began)),
            Command::Decline(decline) => Some(has(&decline.claim).is_some_and(|has| !has.began)),
            Command::Renew(claim) => Some(has(claim).is_some()),
            Command::Complete(complete) => Some(has(&complete.claim).is_some()),
            Command::Fail(fail) => Some(has(&fail.claim).is_some()),
            Command::Refuse(refuse) => Some(has(&refuse.claim).is_some()),
            Command::Steal(steal) => {
                let of = self.has.get(&steal.task);
                let may = is_member && !self.refused.contains(&(steal.task, node(by)));
                Some(may && of.is_some_and(|has| has.node == steal.from && has.node != node(by) && !has.began))
            }
            _ => None,
        }
    }

    /// A command succeeded.
    fn note(&mut self, group: &Group, by: u8, command: &Command, number: Option<u64>) {
        let until = |task: &WorkId| group.now_ms + group.work.tasks().get(task).map_or(0, |task| task.submit.lease_ms);
        match command {
            Command::Assign(Assign { task, member, .. }) => self.given(*task, *member, number, until(task)),
            Command::Steal(Steal { task, .. }) => self.given(*task, node(by), number, until(task)),
            Command::Start(claim) | Command::Renew(claim) => {
                let has = self.has.get_mut(&claim.task).expect("it was claimed");
                has.began |= matches!(command, Command::Start(_));
                has.until_ms = until(&claim.task);
            }
            Command::Decline(Decline { claim, .. }) | Command::Fail(Fail { claim, .. }) => {
                self.has.remove(&claim.task);
            }
            Command::Refuse(Refuse { claim, .. }) => {
                self.has.remove(&claim.task);
                self.refused.insert((claim.task, node(by)));
            }
            Command::Complete(Complete { claim, .. }) => {
                self.has.remove(&claim.task);
                assert!(self.completed.insert(claim.task), "it completed twice");
            }
            Command::Cancel(task) => drop(self.has.remove(task)),
            _ => {}
        }
    }

    fn given(&mut self, task: WorkId, node: PublicKey, token: Option<u64>, until_ms: u64) {
        let token = token.expect("a token");
        assert!(token > self.tokens, "tokens increase");
        assert!(!self.refused.contains(&(task, node)), "it refused the task");
        self.tokens = token;
        self.has.insert(task, Has { node, token, until_ms, began: false });
    }

    fn run(&mut self, group: &mut Group, by: u8, command: &Command) -> Result<(), TestCaseError> {
        let (before, expected) = (group.clone(), self.expects(group, by, command));
        let result = group.execute(author(by), command);
        if let Some(expected) = expected {
            prop_assert_eq!(result.is_ok(), expected, "{:?} by {}: {:?}", command, by, result);
        }
        match result {
            Ok(number) => self.note(group, by, command, number),
            Err(_) => prop_assert_eq!(&before, group, "what is refused changes nothing"),
        }
        Ok(())
    }

    fn step(&mut self, group: &mut Group, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Do(by, command) => return self.run(group, *by, command),
            Step::Claim(by, number, what) => {
                let task = id(*number);
                let token = group.work.tasks().get(&task).map_or(0, |task| task.token);
                // Mostly by who has it.
                let holder = group.work.tasks().get(&task).and_then(|task| task.held).map(|held| held.member);
                let by = (1..=MEMBERS).find(|seed| Some(node(*seed)) == holder).unwrap_or(*by);
                return self.run(group, by, &what.command(Claim { task, token }));
            }
            Step::Replay(by, number, token, what) => {
                return self.run(group, *by, &what.command(Claim { task: id(*number), token: *token }));
            }
            Step::Assign(number, to) => {
                let attempt = group.work.tasks().get(&id(*number)).map_or(1, |task| task.attempt);
                let assign = Assign { task: id(*number), member: node(*to), attempt };
                return self.run(group, 1, &Command::Assign(assign));
            }
            Step::Advance(ms) => {
                group.advance(group.now_ms + ms);
                let (now_ms, work) = (group.now_ms, &group.work);
                let deadline = |task: &WorkId| work.tasks().get(task).and_then(|task| task.submit.deadline_ms);
                self.has.retain(|task, has| has.until_ms > now_ms && deadline(task).is_none_or(|at| at > now_ms));
            }
            // The first member stays.
            Step::Leave(1) | Step::Return(1) => {}
            Step::Leave(by) => {
                if group.execute(member(*by), &Command::Leave).is_ok() {
                    self.has.retain(|_, has| has.node != node(*by));
                }
            }
            Step::Return(by) => {
                drop(group.members.join(node(*by), PublisherId::from_digest([1; 32]), Vec::new(), None, 5))
            }
        }
        Ok(())
    }

    /// What holds after each step.
    fn check(&mut self, group: &Group) -> Result<(), TestCaseError> {
        let held = group.work.tasks().iter().filter_map(|task| Some((task.id(), task.held?)));
        let held: BTreeMap<_, _> = held.map(|(task, held)| (task, (held.member, held.token, held.until_ms))).collect();
        let model = self.has.iter().map(|(task, has)| (*task, (has.node, has.token, has.until_ms)));
        prop_assert_eq!(held, model.collect::<BTreeMap<_, _>>(), "who has which task");
        for task in group.work.tasks().iter() {
            match self.finished.get(&task.id()) {
                Some(as_it_was) => prop_assert_eq!(task, as_it_was, "what is finished stays as it is"),
                None if task.state.is_finished() => drop(self.finished.insert(task.id(), task.clone())),
                None => {}
            }
            let completed = task.state == State::Completed;
            prop_assert_eq!(completed, self.completed.contains(&task.id()));
            prop_assert_eq!(completed, task.result.is_some());
        }
        let first_due = group.work.tasks().iter().filter_map(WorkItem::due_ms).min();
        prop_assert_eq!(group.work.tasks().next_expiry_ms(), first_due);
        prop_assert!(first_due.is_none_or(|due_ms| due_ms > group.now_ms));
        Ok(())
    }
}

/// Dependencies have no circle, and nothing begins before what it depends on completed.
fn dependencies(group: &Group) -> Result<(), TestCaseError> {
    let state = |on: &WorkId| group.work.tasks().get(on).expect("it is kept").state;
    for task in group.work.tasks().iter() {
        let states: Vec<State> = task.submit.dependencies.iter().map(state).collect();
        let all = states.iter().all(|state| *state == State::Completed);
        match task.state {
            State::Blocked => {
                prop_assert!(!all && states.iter().all(|on| !on.is_finished() || *on == State::Completed))
            }
            State::Ready | State::Assigned | State::Working | State::Completed => prop_assert!(all),
            State::Failed | State::TimedOut | State::Canceled => {}
        }
    }
    let mut placed: BTreeSet<WorkId> = BTreeSet::new();
    loop {
        let free = |task: &&WorkItem| task.submit.dependencies.iter().all(|on| placed.contains(on));
        let next: Vec<_> =
            group.work.tasks().iter().filter(free).map(WorkItem::id).filter(|id| !placed.contains(id)).collect();
        if next.is_empty() {
            break;
        }
        placed.extend(next);
    }
    prop_assert_eq!(placed.len(), group.work.tasks().len(), "a circle");
    Ok(())
}

/// No resource has two holders, whoever may be assigned can be, and somebody can be unless people must choose.
fn resources(group: &Group) -> Result<(), TestCaseError> {
    let held = group.work.tasks().iter().filter(|task| task.held.is_some());
    let used: Vec<&String> = held.flat_map(|task| &task.submit.resources).collect();
    let once: BTreeSet<&String> = used.iter().copied().collect();
    prop_assert_eq!(used.len(), once.len(), "two have one resource");
    let assignable: Vec<WorkId> = group.work.assignable(group.members.len()).map(WorkItem::id).collect();
    for task in group.work.tasks().ready() {
        let assign = Command::Assign(Assign { task: task.id(), member: node(1), attempt: task.attempt });
        let assigned = group.clone().execute(member(1), &assign);
        let may = task.refused.of(&node(1)).is_none();
        prop_assert_eq!(assigned.is_ok(), may && assignable.contains(&task.id()), "{:?}", assigned);
    }
    let open = |(_, resource): (_, &super::super::Resource)| resource.rule != ConflictRule::Priority;
    let free = |task: &WorkItem| task.submit.resources.iter().all(|name| !once.contains(name));
    if !group.work.resources().iter().any(open) && group.work.tasks().ready().any(free) {
        prop_assert!(!assignable.is_empty(), "nobody can go on");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    /// P-105, P-113, P-114, P-115, P-116, P-117, P-118, P-151
    #[test]
    fn whatever_the_commands_the_tasks_are_sound(steps in prop::collection::vec(steps(), 1..120)) {
        let (mut group, mut model) = (group(MEMBERS), Model::default());
        for step in &steps {
            model.step(&mut group, step)?;
            model.check(&group)?;
            dependencies(&group)?;
            resources(&group)?;
            prop_assert_eq!(&restored(&group), &group, "the rows are the state");
        }
    }
}
