//! From the YAML tree to a workflow: known and required keys, types, bounds and defaults. How the steps fit together is
//! checked in `order` and by the protocol.

use althing_protocol::contract::Latency;
use althing_protocol::group::{Action, Job, Needs, Priority, Repeat, Step, Target, Test, When, Workflow};
use althing_protocol::limits::{
    AGENT_NAME_MAX, WORK_ATTEMPTS_MAX, WORK_LEASE_MAX_MS, WORK_LEASE_MIN_MS, WORK_NAME_BYTES_MAX, WORKFLOW_ROUNDS_MAX,
    WORKFLOW_STEPS_MAX, WORKFLOW_TIMEOUT_MAX_MS, WORKFLOW_TIMEOUT_MIN_MS,
};

use super::WorkflowFile;
use crate::heading;
use crate::json::excerpt;
use crate::reader::yaml::{At, Node};
use crate::reader::{Fields, FileProblem, Reader, is_word};

pub(super) const FILE_KEYS: [&str; 5] = ["name", "version", "title", "description", "steps"];
pub(super) const STEP_KEYS: [&str; 15] = [
    "id",
    "after",
    "when",
    "capability",
    "agent",
    "input",
    "approve",
    "attempts",
    "lease",
    "timeout",
    "priority",
    "for_each",
    "repeat",
    "needs",
    "verify",
];
/// One of them says what a step does.
pub(super) const ACTION_KEYS: [&str; 3] = ["capability", "agent", "approve"];
/// What only a task has.
pub(super) const TASK_KEYS: [&str; 7] = ["input", "attempts", "lease", "priority", "for_each", "needs", "verify"];
pub(super) const WHEN_KEYS: [&str; 3] = ["step", "equals", "contains"];
pub(super) const REPEAT_KEYS: [&str; 4] = ["from", "equals", "contains", "rounds"];
pub(super) const NEEDS_KEYS: [&str; 6] = ["labels", "memory_mib", "cores", "disk_mib", "gpus", "class"];

/// How many rounds a loop has, unless it says otherwise.
const ROUNDS_DEFAULT: u8 = 3;

/// The file as far as its shape is right, and the problems.
pub(super) fn read(root: &At) -> (Option<WorkflowFile>, Vec<FileProblem>) {
    let mut reader = Reader::default();
    let file = workflow(&mut reader, root);
    (file, reader.problems)
}

fn workflow(reader: &mut Reader, root: &At) -> Option<WorkflowFile> {
    let fields = reader.fields(root, "", &FILE_KEYS)?;
    let name = reader.needed_name(&fields, "name");
    let heading = heading::read(reader, &fields, name.as_deref().unwrap_or_default());
    let steps = reader.counted(&fields, "steps", 1..=WORKFLOW_STEPS_MAX, |reader, at, path| step(reader, at, &path));
    Some(WorkflowFile { heading, workflow: Workflow { name: name?, steps: steps? } })
}

fn step(reader: &mut Reader, at: &At, path: &str) -> Option<Step> {
    let fields = reader.fields(at, path, &STEP_KEYS)?;
    let id = id(reader, &fields);
    let mut after = reader.distinct(&fields, "after");
    let when = when(reader, &fields);
    let repeat = repeat(reader, &fields);
    let timeout_ms = reader.time(&fields, "timeout", WORKFLOW_TIMEOUT_MIN_MS..=WORKFLOW_TIMEOUT_MAX_MS);
    let action = action(reader, &fields);
    let (id, action) = (id?, action?);
    let each = if let Action::Task(job) = &action { job.for_each.clone() } else { None };
    // A step comes after each one that it names, so that nobody has to write it twice.
    let named = when.iter().map(|when| when.step.clone()).chain(each);
    let named = named.chain(repeat.iter().map(|repeat| repeat.from.clone()).filter(|from| *from != id));
    for other in named {
        if !after.contains(&other) {
            after.push(other);
        }
    }
    Some(Step { id, after, when, action, timeout_ms, repeat })
}

fn id(reader: &mut Reader, fields: &Fields<'_>) -> Option<String> {
    let id = reader.needed(fields, "id")?;
    if is_word(&id, AGENT_NAME_MAX, "-_") {
        return Some(id);
    }
    let message = format!("{:?} is not an id", excerpt(&id, 80));
    let fix = format!("Use 1 to {AGENT_NAME_MAX} of a-z, 0-9, - and _");
    reader.refuse(fields, "id", "id-form", message, fix);
    None
}

fn when(reader: &mut Reader, fields: &Fields<'_>) -> Option<When> {
    let when = reader.fields(fields.value("when")?, &fields.path_of("when"), &WHEN_KEYS)?;
    let (step, test) = (reader.needed(&when, "step"), test(reader, &when));
    Some(When { step: step?, test: test? })
}

fn repeat(reader: &mut Reader, fields: &Fields<'_>) -> Option<Repeat> {
    let repeat = reader.fields(fields.value("repeat")?, &fields.path_of("repeat"), &REPEAT_KEYS)?;
    let (from, until) = (reader.needed(&repeat, "from"), test(reader, &repeat));
    let rounds_max = reader.number(&repeat, "rounds", 1..=WORKFLOW_ROUNDS_MAX).unwrap_or(ROUNDS_DEFAULT);
    Some(Repeat { from: from?, until: until?, rounds_max })
}

/// What a result must be: `equals` or `contains`.
fn test(reader: &mut Reader, fields: &Fields<'_>) -> Option<Test> {
    let key = match (fields.has("equals"), fields.has("contains")) {
        (true, false) => "equals",
        (false, true) => "contains",
        (both, _) => {
            let found = if both { "both tests are given" } else { "no test is given" };
            let fix = "Write exactly one of equals (the whole result) and contains (a part of it)";
            reader.problem(fields.path.clone(), fields.line, "test-choice", found.to_owned(), fix.to_owned());
            return None;
        }
    };
    let text = reader.argument(fields.value(key)?, fields.path_of(key))?;
    let text = reader.within(fields, key, text, WORK_NAME_BYTES_MAX)?;
    Some(if key == "equals" { Test::Equals(text) } else { Test::Contains(text) })
}

fn action(reader: &mut Reader, fields: &Fields<'_>) -> Option<Action> {
    let given: Vec<&str> = ACTION_KEYS.into_iter().filter(|key| fields.has(key)).collect();
    let [key] = given.as_slice() else {
        let found = if given.is_empty() { "none is given" } else { "more than one is given" };
        let fix = "Write exactly one of capability (what the agent must offer), agent (its name) and approve (what \
                   somebody is asked)";
        reader.problem(fields.path.clone(), fields.line, "action-choice", found.to_owned(), fix.to_owned());
        return None;
    };
    let target = match *key {
        "capability" => {
            let capability = reader.text(fields, "capability");
            capability.and_then(|text| reader.within(fields, key, text, WORK_NAME_BYTES_MAX)).map(Target::Capability)
        }
        "agent" => reader.name(fields, "agent").map(Target::Agent),
        _ => {
            for key in TASK_KEYS.into_iter().filter(|key| fields.has(key)) {
                let fix = "Leave it out, or write capability or agent in place of approve".to_owned();
                reader.refuse(fields, key, "not-both", "only a task has this, not an approval".to_owned(), fix);
            }
            return reader.text(fields, "approve").map(Action::Approval);
        }
    };
    let for_each = reader.text(fields, "for_each");
    // A step with a task for each item would otherwise hand the same input to all of them.
    let default = if for_each.is_some() { "{{item}}" } else { "{{input}}" };
    let input = reader.text(fields, "input").unwrap_or_else(|| default.to_owned());
    let attempts_max = reader.number(fields, "attempts", 1..=WORK_ATTEMPTS_MAX);
    let lease_ms = reader.time(fields, "lease", WORK_LEASE_MIN_MS..=WORK_LEASE_MAX_MS);
    let priority = priority(reader, fields);
    let verify = verify(reader, fields);
    // Read also where the target is wrong, so that all problems are found at once.
    let needs = needs(reader, fields, target.clone().unwrap_or(Target::Agent(String::new())));
    target?;
    let job = Job::new(needs, &input);
    let (attempts_max, lease_ms) = (attempts_max.unwrap_or(job.attempts_max), lease_ms.unwrap_or(job.lease_ms));
    Some(Action::Task(Box::new(Job { attempts_max, lease_ms, priority, for_each, verify, ..job })))
}

/// Whether the result must be verified; what is not wanted is not written.
fn verify(reader: &mut Reader, fields: &Fields<'_>) -> Option<bool> {
    let at = fields.value("verify")?;
    let Node::Bool(wanted) = at.node else {
        reader.wrong_type(fields.path_of("verify"), at, "true or false");
        return None;
    };
    wanted.then_some(true)
}

fn priority(reader: &mut Reader, fields: &Fields<'_>) -> Priority {
    const WORDS: [&str; 4] = ["low", "normal", "high", "critical"];
    let all = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
    let from_word = |word: &str| WORDS.iter().position(|known| *known == word).map(|place| all[place]);
    reader.word(fields, "priority", (&WORDS, ""), from_word).unwrap_or_default()
}

fn needs(reader: &mut Reader, fields: &Fields<'_>, target: Target) -> Needs {
    let needs = Needs::of(target);
    let map = fields.value("needs").and_then(|at| reader.fields(at, &fields.path_of("needs"), &NEEDS_KEYS));
    let Some(fields) = map else { return needs };
    let all = [Latency::Hrt, Latency::Srt, Latency::Dt];
    let words = all.map(Latency::name);
    let class = |word: &str| all.into_iter().find(|class| class.name() == word);
    Needs {
        labels: reader.labels(&fields),
        memory_mib: reader.number(&fields, "memory_mib", 1..=u32::MAX),
        cores: reader.number(&fields, "cores", 1..=u32::MAX),
        disk_mib: reader.number(&fields, "disk_mib", 1..=u32::MAX),
        gpus: reader.number(&fields, "gpus", 1..=u32::MAX),
        class: reader.word(&fields, "class", (&words, ""), class),
        ..needs
    }
}
