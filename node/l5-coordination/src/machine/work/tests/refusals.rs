//! What is refused, and how the life of a task goes otherwise.

use althing_protocol::group::{
    Abandon, Choice, ConflictRule, Decline, Define, Depend, Fail, Reference, Refuse, Rule, Steal,
};

use althing_protocol::ObjectError;

use super::super::super::outcome::Reply;
use super::super::{TASK_LIFE_MS, Why};
use super::WorkRow;
use super::*;

fn run(group: &mut Group, author: Author, command: &Command) -> Result<Option<u64>, Refusal> {
    group.execute(author, command)
}

fn fail(claim: Claim, retry: bool) -> Command {
    Command::Fail(Fail { claim, reason: "broken".to_owned(), retry })
}

fn refuse(claim: Claim) -> Command {
    Command::Refuse(Refuse { claim, reason: "not for you".to_owned() })
}

fn abandon(number: u32) -> Command {
    Command::Abandon(Abandon { task: id(number), reason: "nobody may".to_owned() })
}

/// P-113, P-115
#[test]
fn a_task_goes_from_its_submission_to_its_result() {
    let mut group = group(2);
    assert_eq!(run(&mut group, owner(), &submit(task(1))), Ok(Some(1)));
    assert_eq!(run(&mut group, member(2), &submit(after(2, &[1]))), Ok(Some(2)));
    assert_eq!((state(&group, 1), state(&group, 2)), (State::Ready, State::Blocked));
    let claim = assign(&mut group, 1, 2).expect("it is ready");
    assert_eq!(run(&mut group, member(2), &Command::Start(claim)), Ok(None));
    assert_eq!(group.work.tasks().held_by(&node(2)).map(|task| task.id()).collect::<Vec<_>>(), [id(1)]);
    assert_eq!(run(&mut group, member(2), &complete(claim)), Ok(None));
    assert_eq!((state(&group, 1), state(&group, 2)), (State::Completed, State::Ready));
    assert_eq!(run(&mut group, member(2), &complete(claim)), Err(Refusal::Fenced { current: claim.token }));
}

/// P-112
#[test]
fn the_same_key_of_the_same_author_stands_for_the_same_task() {
    let mut group = group(2);
    let keyed = |number| submit(Submit { key: Some(b"once".to_vec().into()), ..task(number) });
    assert_eq!(run(&mut group, member(1), &keyed(1)), Ok(Some(1)));
    assert_eq!(run(&mut group, member(1), &keyed(2)), Ok(Some(1)));
    assert_eq!(run(&mut group, member(2), &keyed(3)), Ok(Some(2)), "another author's keys are its own");
    assert_eq!(group.work.tasks().len(), 2);
    assert_eq!(group.work.tasks().find(member(2), b"once").map(|task| task.id()), Some(id(3)));
}

/// P-112
#[test]
fn submissions_are_refused() {
    let mut group = group(1);
    let mut refused = |task: Submit| run(&mut group, member(1), &submit(task)).err();
    assert_eq!(refused(task(1)), None);
    assert_eq!(refused(task(1)), Some(Refusal::TaskExists(id(1))));
    assert_eq!(refused(after(2, &[9])), Some(Refusal::UnknownTask(id(9))));
    assert_eq!(refused(after(2, &[2])), Some(Refusal::UnknownTask(id(2))));
    let late = refused(Submit { deadline_ms: Some(1_000), ..task(2) });
    assert!(matches!(late, Some(Refusal::Invalid(_))), "{late:?}");
    let reference = Reference { digest: [9; 32], bytes: 1, media_type: "text/plain".to_owned(), holder: node(1) };
    let elsewhere = refused(Submit { input: Content::Reference(reference), ..task(2) });
    assert!(matches!(elsewhere, Some(Refusal::Invalid(why)) if why.contains("reference")));
}

/// P-111
#[test]
fn the_charter_says_who_submits_and_nobody_acts_for_another_one() {
    let policy = Policy { write: Rule::Owners, ..Policy::default() };
    let mut group = group_under(2, policy);
    let other = Author::Publisher(PublisherId::from_digest([2; 32]));
    let define = Command::Define(Define { resource: "r".to_owned(), rule: ConflictRule::Human });
    let decide = Command::Decide(Choice { resource: "r".to_owned(), task: id(1) });
    for command in [submit(task(1)), define.clone()] {
        assert!(matches!(run(&mut group, member(1), &command), Err(Refusal::NotPermitted(_))));
        assert!(run(&mut group, owner(), &command).is_ok());
    }
    let depend = Command::Depend(Depend { task: id(1), on: id(1) });
    for command in [Command::Cancel(id(1)), depend, decide] {
        for author in [member(1), other] {
            assert!(matches!(run(&mut group, author, &command), Err(Refusal::NotPermitted(_))), "{command:?}");
        }
    }
    let claim = Claim { task: id(1), token: 1 };
    let vote = Command::Vote(Choice { resource: "r".to_owned(), task: id(1) });
    let assign = Command::Assign(Assign { task: id(1), member: node(1), attempt: 1 });
    let steal = Command::Steal(Steal { task: id(1), from: node(1) });
    let decline = Command::Decline(Decline { claim, reason: String::new() });
    let (start, renew) = (Command::Start(claim), Command::Renew(claim));
    let given_up = [refuse(claim), abandon(1)];
    for command in
        [vote, assign, steal, decline, start, renew, complete(claim), fail(claim, true)].iter().chain(&given_up)
    {
        assert!(matches!(run(&mut group, owner(), command), Err(Refusal::Author(_))), "{command:?}");
        assert_eq!(run(&mut group, member(9), command), Err(Refusal::NotAMember(node(9))), "{command:?}");
    }
    assert_eq!(run(&mut group, member(2), &Command::Tick), Ok(None));
}

/// P-114
#[test]
fn assignments_are_refused() {
    let mut group = group(2);
    assert_eq!(assign(&mut group, 1, 1), Err(Refusal::UnknownTask(id(1))));
    run(&mut group, owner(), &submit(task(1))).expect("room");
    run(&mut group, owner(), &submit(after(2, &[1]))).expect("room");
    assert_eq!(assign(&mut group, 1, 9), Err(Refusal::NotAMember(node(9))));
    assert_eq!(assign(&mut group, 2, 1), Err(Refusal::TaskState { task: id(2), state: State::Blocked }));
    let early = Command::Assign(Assign { task: id(1), member: node(1), attempt: 2 });
    assert_eq!(run(&mut group, member(1), &early), Err(Refusal::Attempt { current: 1 }));
    assign(&mut group, 1, 1).expect("it is ready");
    assert_eq!(assign(&mut group, 1, 2), Err(Refusal::TaskState { task: id(1), state: State::Assigned }));
}

/// P-115, P-117
#[test]
fn only_who_has_a_task_works_on_it() {
    let mut group = group(2);
    run(&mut group, owner(), &submit(task(1))).expect("room");
    let claim = assign(&mut group, 1, 2).expect("it is ready");
    assert_eq!(run(&mut group, member(1), &complete(claim)), Err(Refusal::Holder(node(2))));
    let old = Claim { token: claim.token - 1, ..claim };
    assert_eq!(run(&mut group, member(2), &complete(old)), Err(Refusal::Fenced { current: claim.token }));
    run(&mut group, member(2), &Command::Start(claim)).expect("it is assigned");
    let working = || Err(Refusal::TaskState { task: id(1), state: State::Working });
    assert_eq!(run(&mut group, member(2), &Command::Start(claim)), working());
    let decline = Command::Decline(Decline { claim, reason: String::new() });
    assert_eq!(run(&mut group, member(2), &decline), working());
    let steal = |from| Command::Steal(Steal { task: id(1), from: node(from) });
    assert_eq!(run(&mut group, member(1), &steal(2)), working());
    assert_eq!(run(&mut group, member(1), &steal(1)), Err(Refusal::Holder(node(2))));
    let depend = Command::Depend(Depend { task: id(1), on: id(1) });
    assert_eq!(run(&mut group, owner(), &depend), working());
    assert_eq!(run(&mut group, owner(), &Command::Cancel(id(1))), Ok(None));
    let canceled = Err(Refusal::TaskState { task: id(1), state: State::Canceled });
    assert_eq!(run(&mut group, owner(), &Command::Cancel(id(1))), canceled);
    assert_eq!(run(&mut group, member(2), &complete(claim)), Err(Refusal::Fenced { current: claim.token }));
}

/// P-115, P-117
#[test]
fn a_stolen_task_is_fenced_and_counted() {
    let mut group = group(3);
    run(&mut group, owner(), &submit(task(1))).expect("room");
    let first = assign(&mut group, 1, 2).expect("it is ready");
    let steal = Command::Steal(Steal { task: id(1), from: node(2) });
    assert_eq!(run(&mut group, member(3), &steal), Ok(Some(first.token + 1)));
    assert_eq!(run(&mut group, member(2), &complete(first)), Err(Refusal::Fenced { current: first.token + 1 }));
    let stolen = group.work.tasks().get(&id(1)).expect("it is there");
    assert_eq!((stolen.steals, stolen.handovers, stolen.attempt), (1, 1, 1));
    assert_eq!(run(&mut group, member(3), &complete(Claim { token: 2, ..first })), Ok(None));
}

/// P-116
#[test]
fn a_lease_that_expires_ends_the_attempt_and_the_last_one_ends_the_task() {
    let mut group = group(2);
    run(&mut group, owner(), &submit(task(1))).expect("room");
    let claim = assign(&mut group, 1, 1).expect("it is ready");
    assert_eq!(group.work.tasks().next_expiry_ms(), Some(11_000));
    group.advance(10_999);
    run(&mut group, member(1), &Command::Renew(claim)).expect("it has it still");
    assert_eq!(group.work.tasks().next_expiry_ms(), Some(20_999));
    group.advance(20_999);
    assert_eq!((state(&group, 1), group.work.tasks().next_expiry_ms()), (State::Ready, Some(1_000 + TASK_LIFE_MS)));
    assert_eq!(run(&mut group, member(1), &complete(claim)), Err(Refusal::Fenced { current: claim.token }));
    assign(&mut group, 1, 2).expect("the second attempt");
    group.advance(40_000);
    let task = group.work.tasks().get(&id(1)).expect("it is kept");
    assert_eq!((task.state, task.why.clone()), (State::TimedOut, Some(Why::Lease(node(2)))));
}

/// P-116
#[test]
fn a_deadline_ends_a_task_wherever_it_is() {
    let mut group = group(2);
    for number in [1, 2, 3] {
        let until = Submit { deadline_ms: Some(5_000), ..task(number) };
        run(&mut group, owner(), &submit(until)).expect("room");
    }
    run(&mut group, owner(), &submit(Submit { deadline_ms: Some(5_000), ..after(4, &[1]) })).expect("room");
    let claim = assign(&mut group, 2, 1).expect("it is ready");
    run(&mut group, member(1), &Command::Start(claim)).expect("it is assigned");
    assign(&mut group, 3, 1).expect("it is ready");
    assert_eq!(group.work.tasks().next_expiry_ms(), Some(5_000));
    group.advance(5_000);
    for number in [1, 2, 3] {
        assert_eq!(state(&group, number), State::TimedOut);
    }
    assert_eq!(state(&group, 4), State::Failed, "it failed with the one that it depends on");
    assert_eq!(group.work.tasks().unfinished(), 0);
}

/// P-116
#[test]
fn a_task_without_a_deadline_ends_after_thirty_days() {
    let mut group = group(2);
    run(&mut group, owner(), &submit(task(1))).expect("room");
    group.advance(1_000 + TASK_LIFE_MS - 1);
    let claim = assign(&mut group, 1, 1).expect("it is ready yet");
    group.advance(1_000 + TASK_LIFE_MS);
    let ended = group.work.tasks().get(&id(1)).expect("it is kept");
    assert_eq!((ended.state, ended.why.clone()), (State::TimedOut, Some(Why::Deadline)));
    assert_eq!(ended.submit.deadline_ms, None, "it says what was submitted");
    assert_eq!(run(&mut group, member(1), &complete(claim)), Err(Refusal::Fenced { current: claim.token }));
}

/// P-116
#[test]
fn what_a_member_that_leaves_had_is_ready_at_once() {
    let mut group = group(3);
    run(&mut group, owner(), &submit(task(1))).expect("room");
    let claim = assign(&mut group, 1, 2).expect("it is ready");
    run(&mut group, member(2), &Command::Start(claim)).expect("it is assigned");
    run(&mut group, member(2), &Command::Leave).expect("others stay");
    let task = group.work.tasks().get(&id(1)).expect("it is there");
    assert_eq!((task.state, task.attempt, task.held), (State::Ready, 1, None));
    assert_eq!(run(&mut group, member(2), &complete(claim)), Err(Refusal::NotAMember(node(2))));
    assert!(assign(&mut group, 1, 3).is_ok());
}

/// P-115, P-116
#[test]
fn a_declined_task_waits_for_another_member_and_a_failed_one_for_another_attempt() {
    let mut group = group(2);
    run(&mut group, owner(), &submit(task(1))).expect("room");
    let claim = assign(&mut group, 1, 1).expect("it is ready");
    let decline = Command::Decline(Decline { claim, reason: "busy".to_owned() });
    run(&mut group, member(1), &decline).expect("it is assigned");
    let task = group.work.tasks().get(&id(1)).expect("it is there");
    assert_eq!((task.state, task.attempt, task.declined.contains(&node(1))), (State::Ready, 1, true));
    let claim = assign(&mut group, 1, 2).expect("it is ready");
    run(&mut group, member(2), &fail(claim, true)).expect("it has it");
    let task = group.work.tasks().get(&id(1)).expect("it is there");
    assert_eq!((task.state, task.attempt, task.declined.len()), (State::Ready, 2, 0));
    let claim = assign(&mut group, 1, 1).expect("it is ready");
    run(&mut group, member(1), &fail(claim, true)).expect("it has it");
    assert_eq!(state(&group, 1), State::Failed, "there is no third attempt");
    assert_eq!(group.work.tasks().get(&id(1)).map(|task| task.handovers), Some(2));
}

/// P-113
#[test]
fn who_depends_on_what_failed_fails_and_who_would_close_a_circle_is_refused() {
    let mut group = group(1);
    for task in [task(1), after(2, &[1]), after(3, &[2]), task(4)] {
        run(&mut group, owner(), &submit(task)).expect("room");
    }
    let depend = |task, on| Command::Depend(Depend { task: id(task), on: id(on) });
    assert_eq!(run(&mut group, owner(), &depend(1, 3)), Err(Refusal::Circle { task: id(1), on: id(3) }));
    assert_eq!(run(&mut group, owner(), &depend(1, 1)), Err(Refusal::Circle { task: id(1), on: id(1) }));
    assert_eq!(run(&mut group, owner(), &depend(1, 9)), Err(Refusal::UnknownTask(id(9))));
    assert_eq!(run(&mut group, owner(), &depend(4, 3)), Ok(None));
    assert_eq!(run(&mut group, owner(), &depend(4, 3)), Ok(None), "it does already");
    assert_eq!(state(&group, 4), State::Blocked);
    run(&mut group, owner(), &Command::Cancel(id(1))).expect("it is not finished");
    for number in [2, 3, 4] {
        let task = group.work.tasks().get(&id(number)).expect("it is kept");
        let why = Some(Why::Dependency(id(1), State::Canceled));
        assert_eq!((task.state, task.why.clone()), (State::Failed, why));
    }
    run(&mut group, owner(), &submit(after(5, &[4]))).expect("room");
    assert_eq!(state(&group, 5), State::Failed, "what it depends on failed before");
}

/// P-116
#[test]
fn time_passes_with_each_entry_even_with_one_that_is_refused() {
    let mut group = group(2);
    run(&mut group, owner(), &submit(task(1))).expect("room");
    let claim = assign(&mut group, 1, 1).expect("it is ready");
    let wrong = Err(ObjectError::Shape("no batch".to_owned()));
    assert!(matches!(group.apply(11_000, &wrong), Reply::Refused(Refusal::Invalid(_))));
    assert_eq!(state(&group, 1), State::Ready);
    group.apply(10_000, &wrong);
    let claim = Claim { token: claim.token + 1, ..claim };
    assert_eq!(assign(&mut group, 1, 1), Ok(claim));
    assert_eq!(group.work.tasks().next_expiry_ms(), Some(21_000), "time does not go back");
}

/// P-105
#[test]
fn rows_that_contradict_each_other_are_refused() {
    let mut group = group(1);
    for task in [task(1), after(2, &[1])] {
        run(&mut group, owner(), &submit(task)).expect("room");
    }
    let rows: Vec<WorkRow> = group.work.rows().collect();
    assert_eq!(restored_work(rows.clone()).as_ref(), Ok(group.work()));
    let last = rows.len() - 1;
    let twice = [&rows[..], &rows[last..]].concat();
    assert!(restored_work(twice).is_err_and(|error| error.contains("an earlier row")));
    let without = [&rows[..last - 1], &rows[last..]].concat();
    assert!(restored_work(without).is_err_and(|error| error.contains("is missing")));
}

/// P-151: begun or not, the attempt does not count, and the member gets the task by nobody's command again.
#[test]
fn who_refused_a_task_does_not_get_it_again() {
    let mut group = group(3);
    run(&mut group, owner(), &submit(task(1))).expect("room");
    let claim = assign(&mut group, 1, 2).expect("it is ready");
    assert_eq!(run(&mut group, member(3), &refuse(claim)), Err(Refusal::Holder(node(2))));
    let old = Claim { token: claim.token - 1, ..claim };
    assert_eq!(run(&mut group, member(2), &refuse(old)), Err(Refusal::Fenced { current: claim.token }));
    run(&mut group, member(2), &refuse(claim)).expect("it has it");
    assert_eq!(run(&mut group, member(2), &complete(claim)), Err(Refusal::Fenced { current: claim.token }));
    let known = group.work.tasks().get(&id(1)).expect("it is there");
    assert_eq!((known.state, known.attempt, known.held), (State::Ready, 1, None));
    assert_eq!(known.why, Some(Why::Refused(node(2), "not for you".to_owned())));
    assert_eq!(assign(&mut group, 1, 2), Err(Refusal::Excluded(node(2))));
    let claim = assign(&mut group, 1, 3).expect("another one may");
    let steal = |from| Command::Steal(Steal { task: id(1), from: node(from) });
    assert_eq!(run(&mut group, member(2), &steal(3)), Err(Refusal::Excluded(node(2))));
    run(&mut group, member(3), &Command::Start(claim)).expect("it has it");
    run(&mut group, member(3), &refuse(claim)).expect("also once it has begun");
    assert_eq!(group.work.tasks().get(&id(1)).map(|task| task.attempt), Some(1));
    // A later attempt does not change that.
    let claim = assign(&mut group, 1, 1).expect("the last one may");
    run(&mut group, member(1), &fail(claim, true)).expect("it has it");
    assert_eq!(assign(&mut group, 1, 3), Err(Refusal::Excluded(node(3))));
    assert_eq!(restored(&group), group);
    let claim = assign(&mut group, 1, 1).expect("the second attempt");
    run(&mut group, member(1), &complete(claim)).expect("it has it");
    assert_eq!(state(&group, 1), State::Completed);
}

/// P-151
#[test]
fn a_task_that_sixteen_members_refused_fails() {
    let mut group = group(17);
    run(&mut group, owner(), &submit(task(1))).expect("room");
    run(&mut group, owner(), &submit(after(2, &[1]))).expect("room");
    for seed in 1..=16 {
        assert_eq!(state(&group, 1), State::Ready);
        let claim = assign(&mut group, 1, seed).expect("it has not refused yet");
        run(&mut group, member(seed), &refuse(claim)).expect("it has it");
    }
    assert_eq!((state(&group, 1), state(&group, 2)), (State::Failed, State::Failed));
    let ended = group.work.tasks().get(&id(1)).expect("it is kept");
    assert_eq!(ended.why, Some(Why::Refused(node(16), "not for you".to_owned())));
    assert_eq!(ended.refused.len(), 16);
    assert_eq!(restored(&group), group);
}

/// P-152
#[test]
fn what_nobody_may_do_is_abandoned_and_what_somebody_has_is_not() {
    let mut group = group(2);
    assert_eq!(run(&mut group, member(1), &abandon(1)), Err(Refusal::UnknownTask(id(1))));
    run(&mut group, owner(), &submit(task(1))).expect("room");
    run(&mut group, owner(), &submit(after(2, &[1]))).expect("room");
    let is = |state| Err(Refusal::TaskState { task: id(if state == State::Blocked { 2 } else { 1 }), state });
    assert_eq!(run(&mut group, member(1), &abandon(2)), is(State::Blocked));
    let claim = assign(&mut group, 1, 2).expect("it is ready");
    assert_eq!(run(&mut group, member(1), &abandon(1)), is(State::Assigned));
    run(&mut group, member(2), &refuse(claim)).expect("it has it");
    run(&mut group, member(1), &abandon(1)).expect("nobody has it");
    assert_eq!((state(&group, 1), state(&group, 2)), (State::Failed, State::Failed), "and what depends on it");
    let why = group.work.tasks().get(&id(1)).and_then(|task| task.why.clone()).expect("a reason");
    assert!(why.to_string().ends_with("no member is left that may do it: nobody may"), "{why}");
    assert_eq!(run(&mut group, member(1), &abandon(1)), is(State::Failed));
    assert_eq!(restored(&group), group);
}

/// P-105: rows that no execution of P-151 can leave.
#[test]
fn rows_in_which_too_many_refused_or_a_member_has_what_it_refused_are_no_state() {
    let mut group = group(2);
    run(&mut group, owner(), &submit(task(1))).expect("room");
    let claim = assign(&mut group, 1, 2).expect("it is ready");
    run(&mut group, member(2), &refuse(claim)).expect("it has it");
    assign(&mut group, 1, 1).expect("another one may");
    let changed = |change: &dyn Fn(&mut super::super::WorkItem)| {
        let rows = group.work.rows().map(|row| match row {
            WorkRow::Task(mut task) => {
                change(&mut task);
                WorkRow::Task(task)
            }
            other => other,
        });
        restored_work(rows.collect())
    };
    assert!(changed(&|_| {}).is_ok());
    assert!(changed(&|task| task.held.as_mut().expect("held").member = node(2)).is_err());
    assert!(changed(&|task| task.note_refused(node(3), &"x".repeat(257))).is_err());
    assert!(changed(&|task| (3..=18).for_each(|seed| task.note_refused(node(seed), "no"))).is_err());
}
