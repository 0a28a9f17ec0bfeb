//! How a run goes from step to step.

use althing_protocol::Label;
use althing_protocol::group::{Action, Approve, Author, Content, Job, Submit};
use althing_protocol::limits::WORK_REASON_BYTES_MAX;

use super::super::shares::{Ledger, Moment};
use super::super::work::{Finished, State, Why, Work};
use super::render;
use super::run::{Item, ItemState, RUN_RESULTS_MAX, RUNS_BYTES_MAX, Run, RunState, StepNow, StepState};

/// Moves a run, and submits and ends the tasks of its steps.
pub(super) struct Engine<'a> {
    /// The tasks of the group.
    pub work: &'a mut Work,
    /// The time of the group, and who shares its room.
    pub moment: Moment<'a>,
    /// Bytes of the other runs that have not ended.
    pub others: &'a Ledger,
}

impl Engine<'_> {
    /// Begins all steps that can begin. Ends the run if no step can any more.
    pub(super) fn proceed(&mut self, run: &mut Run) {
        let parents = run.workflow.parents();
        while run.state == RunState::Running && !is_failing(run) {
            let over = set_of(run, |state| matches!(state, StepState::Completed | StepState::Skipped));
            let ready = |at: &usize| run.steps[*at].state == StepState::Waiting && parents[*at] & !over == 0;
            let Some(at) = (0..run.steps.len()).find(ready) else { break };
            self.begin(run, at, parents[at]);
        }
        if run.state != RunState::Running {
            return;
        }
        if is_failing(run) {
            // What nobody answered is asked again when the run is resumed.
            for step in run.steps.iter_mut().filter(|step| step.state == StepState::Asking) {
                (step.state, step.question, step.due_ms) = (StepState::Waiting, None, None);
            }
            if !run.steps.iter().any(|step| step.state == StepState::Working) {
                run.state = RunState::Failed;
            }
        } else if run.steps.iter().all(StepNow::is_over) {
            run.state = RunState::Completed;
        }
    }

    /// Begins a step whose parents are over.
    fn begin(&mut self, run: &mut Run, at: usize, parents: u64) {
        let skipped = set_of(run, |state| state == StepState::Skipped);
        let holds = run.workflow.steps[at].when.as_ref().is_none_or(|when| {
            let step = run.step(&when.step).filter(|step| step.state == StepState::Completed);
            step.is_some_and(|step| when.test.holds(step.text()))
        });
        if !holds || (parents != 0 && parents & !skipped == 0) {
            run.steps[at].state = StepState::Skipped;
            return;
        }
        let step = run.workflow.steps[at].clone();
        let due_ms = step.timeout_ms.map(|ms| self.moment.now_ms.saturating_add(ms));
        match &step.action {
            Action::Approval(question) => match render::fill(run, question, "") {
                Ok(question) if self.fits(run, question.len()) => {
                    let step = &mut run.steps[at];
                    (step.state, step.question, step.due_ms) = (StepState::Asking, Some(question), due_ms);
                }
                Ok(_) => fail(run, at, FULL),
                Err(why) => fail(run, at, &why),
            },
            Action::Task(job) => {
                if let Err(why) = self.submit(run, at, job, due_ms) {
                    fail(run, at, &why);
                    return;
                }
                run.steps[at].state = StepState::Working;
                self.conclude(run, at);
            }
        }
    }

    /// Submits the tasks of a step, except those of items that completed before the run was resumed.
    fn submit(&mut self, run: &mut Run, at: usize, job: &Job, deadline_ms: Option<u64>) -> Result<(), String> {
        let items = match &job.for_each {
            Some(source) => render::items(source, run.step(source).map_or("", |step| step.text()))?,
            None => vec![String::new()],
        };
        let filled: Vec<String> =
            items.iter().map(|item| render::fill(run, &job.input, item)).collect::<Result<_, _>>()?;
        for (number, input) in filled.into_iter().enumerate() {
            if run.steps[at].items.get(number).is_some_and(|item| item.state == ItemState::Completed) {
                continue;
            }
            let submit = Submit {
                task: run.task_id(at, number),
                key: None,
                needs: job.needs.clone(),
                input: Content::Inline(input.into_bytes().into()),
                priority: job.priority,
                deadline_ms,
                attempts_max: job.attempts_max,
                lease_ms: job.lease_ms,
                dependencies: Vec::new(),
                resources: Vec::new(),
                // Which results a step reads cannot be told from what it makes of them: all count.
                label: run.label,
                channel: None,
            };
            let taken = self.work.submit_watched(run.author, run.owner, &submit, self.moment);
            let state = if taken.is_ok() { ItemState::Open } else { ItemState::Failed };
            let (step, item) = (&mut run.steps[at], Item { task: submit.task, state, result: None });
            if let Err(refusal) = taken {
                step.why = Some(short(&refusal.to_string()));
            }
            match step.items.get_mut(number) {
                Some(place) => *place = item,
                None => step.items.push(item),
            }
        }
        Ok(())
    }

    /// A task of the run ended.
    pub(super) fn note(&mut self, run: &mut Run, (at, number): (usize, usize), finished: Finished) {
        if finished.state == State::Completed {
            run.label = Label::of_both(run.label, Some(finished.label.unwrap_or(Label::UNLABELLED)));
        }
        let is_demanded = matches!(&run.workflow.steps[at].action, Action::Task(job) if job.verify == Some(true));
        let text = match finished.result {
            _ if finished.state == State::Completed && is_demanded && !finished.verified => Err(UNVERIFIED.to_owned()),
            Some(Content::Inline(bytes)) if finished.state == State::Completed => {
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Some(Content::Reference(_)) => Err("its result is a reference; let it return a text".to_owned()),
            _ => Err(reason(finished.state, finished.why.as_ref())),
        };
        let text = text.and_then(|text| if self.fits(run, text.len()) { Ok(text) } else { Err(FULL.to_owned()) });
        let step = &mut run.steps[at];
        let Some(item) = step.items.get_mut(number) else { return };
        match text {
            Ok(text) => (item.state, item.result) = (ItemState::Completed, Some(text)),
            Err(why) => {
                item.state = ItemState::Failed;
                step.why = Some(short(&why));
            }
        }
        self.conclude(run, at);
    }

    /// Ends a step all of whose tasks ended.
    fn conclude(&mut self, run: &mut Run, at: usize) {
        let step = &mut run.steps[at];
        if step.items.iter().any(|item| item.state == ItemState::Open) {
            return;
        }
        if step.items.iter().any(|item| item.state == ItemState::Failed) {
            step.state = StepState::Failed;
            return;
        }
        if run.workflow.steps[at].for_each().is_none() {
            let text = step.items.first_mut().and_then(|item| item.result.take()).unwrap_or_default();
            self.complete(run, at, text);
            return;
        }
        let step = &mut run.steps[at];
        let texts: Vec<&str> = step.items.iter().filter_map(|item| item.result.as_deref()).collect();
        let list = render::list(&texts);
        step.items.iter_mut().for_each(|item| item.result = None);
        if self.fits(run, list.len()) {
            self.complete(run, at, list);
        } else {
            // The results were one by one within the bound; as a list they are not, and are not kept.
            run.steps[at].items.clear();
            fail(run, at, FULL);
        }
    }

    /// Records the result of a step, and repeats its loop if it must.
    fn complete(&mut self, run: &mut Run, at: usize, text: String) {
        let good = run.workflow.steps[at].repeat.as_ref().is_none_or(|repeat| repeat.until.holds(&text));
        let rounds_max = run.workflow.steps[at].repeat.as_ref().map_or(1, |repeat| u32::from(repeat.rounds_max));
        let step = &mut run.steps[at];
        (step.state, step.result, step.why) = (StepState::Completed, Some(text), None);
        if good {
            return;
        }
        if step.round - step.round_first + 1 < rounds_max {
            self.repeat(run, at);
        } else {
            let why = format!("after {rounds_max} rounds its result is not what it must be; resume the run for more");
            fail(run, at, &why);
        }
    }

    /// Begins the next round of the loop that ends with this step.
    fn repeat(&mut self, run: &mut Run, last: usize) {
        for at in run.workflow.body(last) {
            let step = &mut run.steps[at];
            let result = step.result.take();
            let (round, round_first) = (step.round.saturating_add(1), step.round_first);
            *step = StepNow { round, round_first, last: result, ..StepNow::default() };
        }
    }

    /// Lets a run that failed go on.
    pub(super) fn resume(&mut self, run: &mut Run) {
        run.state = RunState::Running;
        run.ended = None;
        run.resumed = run.resumed.saturating_add(1);
        for at in 0..run.steps.len() {
            if run.steps[at].state != StepState::Failed {
                continue;
            }
            if run.steps[at].result.is_some() {
                run.steps[at].round_first = run.steps[at].round.saturating_add(1);
                self.repeat(run, at);
            } else {
                (run.steps[at].state, run.steps[at].why, run.steps[at].by) = (StepState::Waiting, None, None);
            }
        }
        self.proceed(run);
    }

    /// Somebody answered what a step asks.
    pub(super) fn answer(&mut self, run: &mut Run, at: usize, approve: &Approve, author: Author) {
        let step = &mut run.steps[at];
        (step.question, step.due_ms, step.by) = (None, None, Some(author));
        if approve.approved {
            self.complete(run, at, approve.note.clone());
        } else {
            fail(run, at, &format!("{author} rejected it: {}", approve.note));
        }
        self.proceed(run);
    }

    /// Nobody answered in time.
    pub(super) fn expire(&mut self, run: &mut Run) {
        let now_ms = self.moment.now_ms;
        let is_late = |step: &StepNow| step.state == StepState::Asking && step.due_ms.is_some_and(|ms| ms <= now_ms);
        let late: Vec<usize> = (0..run.steps.len()).filter(|at| is_late(&run.steps[*at])).collect();
        for at in late {
            fail(run, at, "nobody answered in time; resume the run to ask again");
        }
        self.proceed(run);
    }

    /// Ends a run, and its tasks.
    pub(super) fn cancel(&mut self, run: &mut Run, author: Author) {
        let open: Vec<_> = run.open().collect();
        for (at, number, task) in open {
            self.work.cancel_watched(task, author, self.moment.now_ms);
            run.steps[at].items[number].state = ItemState::Failed;
        }
        for step in &mut run.steps {
            if matches!(step.state, StepState::Working | StepState::Asking) {
                (step.state, step.due_ms) = (StepState::Failed, None);
                step.why = Some("the run was canceled".to_owned());
            }
        }
        run.state = RunState::Canceled;
    }

    /// Whether a result, or a question, of that many bytes may be kept beside what the runs have now.
    fn fits(&self, run: &Run, bytes: usize) -> bool {
        let all = run.bytes() + bytes;
        run.results_bytes() + bytes <= RUN_RESULTS_MAX
            && self.others.fits(&run.owner, all, RUNS_BYTES_MAX, self.moment.sharers)
    }
}

/// Why a step fails whose result nobody verified.
const UNVERIFIED: &str =
    "its result is not verified, and the step says `verify: true`: no gate of its agent's contract judged it";
/// Why a result, or a question, is not kept.
const FULL: &str = "the results of the run are too large to be kept; let its steps return less";

fn is_failing(run: &Run) -> bool {
    run.steps.iter().any(|step| step.state == StepState::Failed)
}

fn set_of(run: &Run, is_in: impl Fn(StepState) -> bool) -> u64 {
    let places = run.steps.iter().enumerate().filter(|(_, step)| is_in(step.state));
    places.fold(0, |set, (at, _)| set | 1 << at)
}

/// A step fails.
fn fail(run: &mut Run, at: usize, why: &str) {
    let step = &mut run.steps[at];
    (step.state, step.question, step.due_ms) = (StepState::Failed, None, None);
    step.why = Some(short(why));
}

fn reason(state: State, why: Option<&Why>) -> String {
    why.map_or_else(|| format!("its task is {state}"), |why| format!("its task is {state}: {why}"))
}

fn short(text: &str) -> String {
    let mut end = text.len().min(WORK_REASON_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
