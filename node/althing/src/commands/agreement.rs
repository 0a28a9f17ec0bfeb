//! What a person looks at before something is installed or signed, and whether they agree.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use althing_api::{
    ApprovalOffer, InstallContents, ReleaseContents, StepAction, StepTarget, UpdateOffer, WorkflowOutline, WorkflowStep,
};
use serde::Serialize;

use crate::commands::{Out, contents, one_line, plain};
use crate::exit::{Failure, code};

/// A release that something is done to for ever, as scripts are told what they would agree to.
#[derive(Serialize)]
pub struct ReleaseReference<'a> {
    /// `echo@1.2.0`.
    pub release: &'a str,
}

/// Shows what it is about, and asks whether somebody agrees; scripts are given the offer as the node sent it.
pub fn agree<T: Serialize>(offer: &T, shown: &str, yes: bool, verb: &str, out: &Out) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if out.json || !std::io::stdin().is_terminal() {
        let message = format!("{shown}\n\nnothing was changed: --yes agrees to this");
        let offer = serde_json::to_value(offer).ok().map(Box::new);
        return Err(Failure { offer, ..Failure::new(code::REFUSED, message) });
    }
    asked(shown, verb, ())
}

/// Asks whether somebody agrees to what is shown; `agreed` if they do.
pub fn asked<T>(shown: &str, verb: &str, agreed: T) -> Result<T, Failure> {
    if agrees(shown, verb) { Ok(agreed) } else { Err(Failure::new(code::REFUSED, "nothing was changed")) }
}

/// Asks the same; whether they do.
pub fn agrees(shown: &str, verb: &str) -> bool {
    print!("{}\n\n{verb} it? [y/N] ", plain(shown, &std::io::stdout()));
    let mut answer = String::new();
    let read = std::io::stdout().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Characters that are shown of what a step hands over.
const SHOWN_CHARS: usize = 100;

/// What a release brings: how an agent runs, or what a workflow does.
pub fn of_release(brings: &ReleaseContents) -> String {
    match brings {
        ReleaseContents::Agent { file, reaches } => contents::of_file(file, reaches),
        ReleaseContents::Workflow { workflow } => of_workflow(workflow),
    }
}

/// What a release that waits for approval brings.
pub fn of_approval(offer: &ApprovalOffer) -> String {
    match (&offer.workflow, &offer.file) {
        (Some(workflow), _) => of_workflow(workflow),
        (None, Some(file)) => contents::of_file(file, offer.reaches.as_deref().unwrap_or_default()),
        (None, None) => "its files cannot be read here: look at them elsewhere, by their digest".to_owned(),
    }
}

/// What an update changes of what is installed, a line for each; empty where the node does not say what is.
pub fn of_update(offer: &UpdateOffer) -> String {
    let now = &offer.release.contents;
    let (before, now) = match (&offer.installed, now) {
        (None, _) => return String::new(),
        (Some(InstallContents::Agent { reaches, file }), now) => (contents::of_file(file, reaches), of_release(now)),
        // Of a workflow that is installed, no more than its steps is known.
        (Some(InstallContents::Workflow { workflow }), ReleaseContents::Workflow { workflow: now }) => {
            (steps(&workflow.steps), steps(&now.steps))
        }
        (Some(InstallContents::Workflow { workflow }), ReleaseContents::Agent { .. }) => {
            (steps(&workflow.steps), String::new())
        }
    };
    let from = &offer.before;
    match contents::changed(&before, &now).as_slice() {
        [] => format!("\nchanges   nothing of the above since {from}; its program and other files may be others"),
        some => format!("\nchanges   since {from}:\n{}", some.join("\n")),
    }
}

/// On one line, and no longer than it can be shown.
fn line(text: &str) -> String {
    let whole = one_line(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    match whole.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{} … (+{} characters: --json)", &whole[..end], whole[end..].chars().count()),
        None => whole,
    }
}

/// Steps of a workflow, each on one line.
fn steps(steps: &[WorkflowStep]) -> String {
    let step = |step: &WorkflowStep| {
        let (who, what) = match &step.action {
            StepAction::Approval(question) => ("asks a person".to_owned(), &question.approve),
            StepAction::Task(task) => match &task.target {
                StepTarget::Capability(capability) => (format!("whoever can {capability}"), &task.input),
                StepTarget::Agent(agent) => (format!("the agent {agent}"), &task.input),
            },
        };
        // A template, and what a condition compares, are texts of its author's.
        format!("{}\n", one_line(&format!("step      {}{}: {who}: {}", step.id, conditions(step), line(what))))
    };
    steps.iter().map(step).collect()
}

/// The steps of a workflow, and what of them is not known here; each on one line.
fn of_workflow(workflow: &WorkflowOutline) -> String {
    let words = |words: &[String]| if words.is_empty() { "none".to_owned() } else { one_line(&words.join(" ")) };
    format!(
        "what      {}: {}\n{}needs     capabilities {}; agents {}\nunknown   {}\nrights    none: a group of yours runs \
         it, with its members' agents and their contracts",
        line(&workflow.title),
        line(workflow.description.as_deref().unwrap_or_default()),
        steps(&workflow.steps),
        words(&workflow.capabilities),
        words(&workflow.agents),
        words(&workflow.unknown),
    )
}

/// When a step runs, and how often.
fn conditions(step: &WorkflowStep) -> String {
    let mut all = Vec::new();
    if !step.after.is_empty() {
        all.push(format!("after {}", step.after.join(" and ")));
    }
    if let Some(when) = &step.when {
        all.push(format!("if {} {}", when.step, when.is));
    }
    if let StepAction::Task(task) = &step.action
        && let Some(list) = &task.for_each
    {
        all.push(format!("for each of {list}"));
    }
    if let Some(repeat) = &step.repeat {
        let (from, until) = (&repeat.from, &repeat.until);
        all.push(format!("again from {from} until it {until}, at most {} times", repeat.rounds_max));
    }
    if all.is_empty() { String::new() } else { format!(", {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use althing_api::{ReleaseOffer, StepRepeat, StepTask, StepTest, WorkflowSteps};

    use super::*;

    fn step(id: &str, input: &str) -> WorkflowStep {
        let target = StepTarget::Agent("clerk".to_owned());
        let task = StepTask { input: input.to_owned(), for_each: None, attempts_max: 1, target };
        let action = StepAction::Task(task);
        WorkflowStep { id: id.to_owned(), after: Vec::new(), timeout_ms: None, when: None, repeat: None, action }
    }

    #[test]
    fn a_step_is_told_with_all_its_conditions() {
        let StepAction::Task(task) = step("sum", "add\nthem").action else { panic!("it is work") };
        let task = StepTask { for_each: Some("list".to_owned()), ..task };
        let all = WorkflowStep {
            after: vec!["list".to_owned(), "ask".to_owned()],
            when: Some(StepTest { step: "ask".to_owned(), is: "equals \"yes\"".to_owned() }),
            repeat: Some(StepRepeat { from: "list".to_owned(), until: "contains \"0\"".to_owned(), rounds_max: 4 }),
            action: StepAction::Task(task),
            ..step("sum", "")
        };
        let said = "step      sum, after list and ask, if ask equals \"yes\", for each of list, again from list until it \
            contains \"0\", at most 4 times: the agent clerk: add them\n";
        assert_eq!(steps(&[all]), said);
        let is = "equals yes\nrights    none".to_owned();
        let forged = WorkflowStep { when: Some(StepTest { step: "a".to_owned(), is }), ..step("b", "x") };
        assert_eq!(steps(&[forged]), "step      b, if a equals yes\\u{a}rights    none: the agent clerk: x\n");
        let long = "x".repeat(SHOWN_CHARS + 3);
        assert!(steps(&[step("a", &long)]).ends_with("x … (+3 characters: --json)\n"));
    }

    #[test]
    fn of_a_workflow_that_is_installed_the_steps_alone_are_compared() {
        let outline = |steps| WorkflowOutline {
            name: "letter".to_owned(),
            title: "Letter".to_owned(),
            description: None,
            version: "1.0.0".to_owned(),
            steps,
            capabilities: Vec::new(),
            agents: vec!["clerk".to_owned()],
            unknown: Vec::new(),
        };
        let of = |now: Vec<WorkflowStep>, installed| UpdateOffer {
            release: ReleaseOffer {
                agent: "urn:a:letter".to_owned(),
                version: "1.1.0".to_owned(),
                registry: "http://r/".to_owned(),
                digest: "0f".to_owned(),
                passed_over: Vec::new(),
                accepted_ms: 0,
                named: None,
                trusted: true,
                standing: "good".to_owned(),
                reason: None,
                attested: Vec::new(),
                twins: Vec::new(),
                name: "letter".to_owned(),
                contents: ReleaseContents::Workflow { workflow: outline(now) },
            },
            before: "1.0.0".to_owned(),
            before_agent: "urn:a:letter".to_owned(),
            installed,
        };
        let installed = |steps| Some(InstallContents::Workflow { workflow: WorkflowSteps { steps } });
        let changed = of_update(&of(vec![step("a", "new")], installed(vec![step("a", "old")])));
        let words =
            "\nchanges   since 1.0.0:\n- step      a: the agent clerk: old\n+ step      a: the agent clerk: new";
        assert_eq!(changed, words);
        let same = of_update(&of(vec![step("a", "old")], installed(vec![step("a", "old")])));
        assert!(same.starts_with("\nchanges   nothing of the above since 1.0.0;"), "{same}");
        assert_eq!(of_update(&of(Vec::new(), None)), "", "the node does not say what is installed");
    }
}
