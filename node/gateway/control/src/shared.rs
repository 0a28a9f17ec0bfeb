//! What a release brings, for whoever looks at it before it is signed or installed: the agent file, or a workflow's steps.

use std::collections::BTreeMap;

use althing_api::{
    InstallContents, ReleaseContents, StepAction, StepQuestion, StepRepeat, StepTarget, StepTask, StepTest,
    WorkflowOutline, WorkflowStep, WorkflowSteps,
};
use althing_discovery::Query;
use althing_operations::Operations;
use althing_protocol::group::{Action, Repeat, Step, Target, Test, When, Workflow};
use althing_td::{FileFolder, SharedFile, WorkflowFile, needs, reach};

/// Why an agent file can be written: it is stored so too.
const IS_JSON: &str = "an agent file is JSON";

/// What it brings: an agent, with what its programs ask to reach, or a workflow.
pub fn contents(node: &Operations, shared: &SharedFile) -> ReleaseContents {
    match shared {
        SharedFile::Agent(file) => ReleaseContents::Agent {
            file: serde_json::to_value(file).expect(IS_JSON),
            reaches: reach(file, FileFolder::Unknown),
        },
        SharedFile::Workflow(file) => ReleaseContents::Workflow { workflow: outline(node, file) },
    }
}

/// The same of what is installed here by that name; nothing where that cannot be read.
pub fn installed(node: &Operations, name: &str) -> Option<InstallContents> {
    if let Ok((file, _)) = node.agents.file(name) {
        let reaches = reach(&file, FileFolder::Unknown);
        return Some(InstallContents::Agent { reaches, file: serde_json::to_value(&file).expect(IS_JSON) });
    }
    match node.registries.workflows().find(name) {
        Ok(Some(workflow)) => Some(InstallContents::Workflow { workflow: WorkflowSteps { steps: steps(&workflow) } }),
        _ => None,
    }
}

fn test(test: &Test) -> String {
    match test {
        Test::Equals(text) => format!("equals {text:?}"),
        Test::Contains(text) => format!("contains {text:?}"),
    }
}

fn steps(workflow: &Workflow) -> Vec<WorkflowStep> {
    let when = |When { step, test: is }: &When| StepTest { step: step.clone(), is: test(is) };
    let repeat = |Repeat { from, until, rounds_max }: &Repeat| StepRepeat {
        from: from.clone(),
        until: test(until),
        rounds_max: *rounds_max,
    };
    let row = |step: &Step| WorkflowStep {
        id: step.id.clone(),
        after: step.after.clone(),
        timeout_ms: step.timeout_ms,
        when: step.when.as_ref().map(when),
        repeat: step.repeat.as_ref().map(repeat),
        action: action(&step.action),
    };
    workflow.steps.iter().map(row).collect()
}

fn action(action: &Action) -> StepAction {
    match action {
        Action::Approval(question) => StepAction::Approval(StepQuestion { approve: question.clone() }),
        Action::Task(job) => StepAction::Task(StepTask {
            input: job.input.clone(),
            for_each: job.for_each.clone(),
            attempts_max: job.attempts_max,
            target: match &job.needs.target {
                Target::Capability(name) => StepTarget::Capability(name.clone()),
                Target::Agent(name) => StepTarget::Agent(name.clone()),
            },
        }),
    }
}

fn outline(node: &Operations, file: &WorkflowFile) -> WorkflowOutline {
    let (capabilities, agents) = needs(&file.workflow.steps);
    let is_unknown = |query: Query| node.discovery.find(&Query { limit: Some(1), ..query }).0.is_empty();
    let lacking = capabilities
        .iter()
        .filter(|name| is_unknown(Query { capability: Some((**name).to_owned()), ..Query::default() }));
    let named = node.discovery.find(&Query { limit: Some(usize::MAX), ..Query::default() }).0;
    let hosted: BTreeMap<&str, ()> = named.iter().map(|found| (found.candidate.verified.agent.name(), ())).collect();
    let missing = agents.iter().filter(|name| !hosted.contains_key(**name) && node.agents.file(name).is_err());
    let owned = |name: &&str| (*name).to_owned();
    WorkflowOutline {
        name: file.workflow.name.clone(),
        title: file.heading.title.clone(),
        description: file.heading.description.clone(),
        version: file.heading.version.clone(),
        steps: steps(&file.workflow),
        unknown: lacking.chain(missing).map(owned).collect(),
        capabilities: capabilities.iter().map(owned).collect(),
        agents: agents.iter().map(owned).collect(),
    }
}
