//! Rows of snapshots that a member changed: they are refused, or are a state in which every command can be executed.

use althing_protocol::group::{Fire, Missed, Repeat, Schedule, Test};
use proptest::prelude::*;

use super::*;

/// A group with a run that has a list, a loop and a question, one that failed, and a schedule that has an alarm.
fn busy() -> Group {
    let mut each = job("{{item}}");
    each.for_each = Some("plan".to_owned());
    let repeat = Some(Repeat { from: "draft".to_owned(), until: Test::Equals("good".to_owned()), rounds_max: 3 });
    let steps = [
        Step::new("plan", &[], task("{{input}}")),
        Step::new("write", &["plan"], Action::Task(Box::new(each))),
        Step::new("draft", &[], task("{{step.check}}")),
        Step { repeat, ..Step::new("check", &["draft"], task("")) },
        Step { timeout_ms: Some(9_000), ..Step::new("ask", &["plan"], Action::Approval("{{input}}?".to_owned())) },
    ];
    let mut group = begun(workflow(steps), "in");
    complete(&mut group, "plan", "[1, 2]");
    complete(&mut group, "write", "one");
    complete(&mut group, "draft", "first");
    complete(&mut group, "check", "bad");
    let single = workflow([Step::new("one", &[], task(""))]);
    let schedule = Schedule {
        name: "hourly".to_owned(),
        cron: "0 * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed: Missed::Skip,
        overlap: None,
        workflow: single,
        input: String::new(),
    };
    assert_eq!(group.execute(member(1), &Command::Schedule(Box::new(schedule))), Ok(None));
    for at_ms in [2_000, 3_000, 4_000] {
        group.advance(at_ms);
        assert!(group.execute(member(1), &fire(at_ms)).is_ok());
        let last = group.flows.schedules().get("hourly").and_then(|known| known.last_run).expect("it ran");
        let (.., task) = group.flows.runs().get(&last).and_then(|run| run.open().next()).expect("its task");
        fail_task(&mut group, task, false);
    }
    group
}

fn fire(at_ms: u64) -> Command {
    Command::Fire(Fire { name: "hourly".to_owned(), at_ms, since_ms: 1_000 })
}

/// The group with these rows as its runs and schedules, if they are read.
fn read(group: &Group, rows: &[Vec<u8>]) -> Option<Group> {
    let mut work = Work::default();
    group.work.rows().try_for_each(|row| work.take(row)).expect("sound");
    let mut reading = Reading::default();
    for row in rows {
        cbor::check(row, 1 << 20).ok()?;
        reading.take(minicbor::decode::<FlowRow>(row).ok()?).ok()?;
    }
    let flows = reading.finish(&mut work).ok()?;
    Some(Group { work, flows, ..group.clone() })
}

/// Gives every command that a state may have an answer to, and lets time pass.
fn go_on(group: &mut Group) {
    for round in 0..4 {
        let runs: Vec<Run> = group.flows.runs().iter().cloned().collect();
        for run in &runs {
            for (step, of) in run.steps.iter().zip(&run.workflow.steps) {
                let (id, round, note) = (of.id.clone(), step.round, "bad".to_owned());
                let approve = Approve { run: run.id, step: id, round, approved: true, note };
                let _ = group.execute(member(1), &Command::Approve(approve));
            }
            for (.., task) in run.open() {
                if group.work.tasks().get(&task).is_some_and(|task| !task.state.is_finished()) {
                    complete_task(group, task, "[\"bad\"]");
                }
            }
            let _ = group.execute(owner(), &Command::ResumeRun(run.id));
        }
        group.advance(group.now_ms.saturating_add(10_000));
        let _ = group.execute(member(1), &fire(group.now_ms - round));
        let command = RunWorkflow {
            run: WorkId::from_bytes([round as u8; 16]),
            workflow: workflow([Step::new("one", &[], task(""))]),
            input: String::new(),
        };
        let _ = group.execute(member(1), &Command::RunWorkflow(Box::new(command)));
    }
    let ids: Vec<WorkId> = group.flows.runs().iter().map(|run| run.id).collect();
    for id in ids {
        let _ = group.execute(owner(), &Command::CancelRun(id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// P-105
    #[test]
    fn changed_rows_are_refused_or_a_state_that_goes_on(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..3),
    ) {
        let group = busy();
        let mut rows: Vec<Vec<u8>> = group.flows.rows().map(|row| minicbor::to_vec(row).expect("a vector")).collect();
        let mut unchanged = read(&group, &rows).expect("its own rows");
        prop_assert_eq!(&unchanged.flows, &group.flows);
        go_on(&mut unchanged);
        let which = which.index(rows.len());
        let row = &mut rows[which];
        for (at, byte, how) in edits {
            let at = at.index(row.len());
            match how {
                0 => row[at] = byte,
                1 => row[at] ^= 1 << (byte % 8),
                // The largest number of eight bytes in the place of a small one.
                2 if row[at] < 0x18 => drop(row.splice(at..=at, [0x1b, 255, 255, 255, 255, 255, 255, 255, 255])),
                _ => row[at] = row[at].wrapping_add(1),
            }
        }
        if let Some(mut changed) = read(&group, &rows) {
            go_on(&mut changed);
        }
    }
}
