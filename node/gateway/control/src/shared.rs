//! What a release brings, for whoever looks at it before it is signed or installed: the agent file, or a workflow's steps.

use std::collections::BTreeMap;

use althing_discovery::Query;
use althing_node::{FileFolder, Node, reach};
use althing_protocol::group::{Action, Repeat, Step, Target, Test, Workflow};
use althing_td::{SharedFile, WorkflowFile, needs};
use serde_json::{Value, json};

/// Writes it into an answer: as `file` for an agent, with what its programs ask to reach, and as `workflow`.
pub fn put(answer: &mut Value, node: &Node, shared: &SharedFile) {
    match shared {
        SharedFile::Agent(file) => {
            answer["file"] = json!(file);
            answer["reaches"] = json!(reach(file, FileFolder::Unknown));
        }
        SharedFile::Workflow(file) => answer["workflow"] = workflow(node, file),
    }
}

/// The same of what is installed here by that name; nothing where that cannot be read.
pub fn installed(node: &Node, name: &str) -> Value {
    if let Ok((file, _)) = node.agents.file(name) {
        return json!({ "reaches": reach(&file, FileFolder::Unknown), "file": file });
    }
    match node.registries.workflows().find(name) {
        Ok(Some(workflow)) => json!({ "workflow": { "steps": steps(&workflow) } }),
        _ => Value::Null,
    }
}

fn test(test: &Test) -> String {
    match test {
        Test::Equals(text) => format!("equals {text:?}"),
        Test::Contains(text) => format!("contains {text:?}"),
    }
}

fn steps(workflow: &Workflow) -> Vec<Value> {
    let row = |step: &Step| {
        let mut row = json!({ "id": step.id, "after": step.after, "timeoutMs": step.timeout_ms });
        if let Some(when) = &step.when {
            row["when"] = json!({ "step": when.step, "is": test(&when.test) });
        }
        if let Some(repeat) = &step.repeat {
            let Repeat { from, until, rounds_max } = repeat;
            row["repeat"] = json!({ "from": from, "until": test(until), "roundsMax": rounds_max });
        }
        match &step.action {
            Action::Approval(question) => row["approve"] = json!(question),
            Action::Task(job) => {
                row["input"] = json!(job.input);
                row["forEach"] = json!(job.for_each);
                row["attemptsMax"] = json!(job.attempts_max);
                match &job.needs.target {
                    Target::Capability(name) => row["capability"] = json!(name),
                    Target::Agent(name) => row["agent"] = json!(name),
                }
            }
        }
        row
    };
    workflow.steps.iter().map(row).collect()
}

fn workflow(node: &Node, file: &WorkflowFile) -> Value {
    let (capabilities, agents) = needs(&file.workflow.steps);
    let is_unknown = |query: Query| node.discovery.find(&Query { limit: Some(1), ..query }).0.is_empty();
    let lacking = capabilities
        .iter()
        .filter(|name| is_unknown(Query { capability: Some((**name).to_owned()), ..Query::default() }));
    let named = node.discovery.find(&Query { limit: Some(usize::MAX), ..Query::default() }).0;
    let hosted: BTreeMap<&str, ()> = named.iter().map(|found| (found.candidate.verified.agent.name(), ())).collect();
    let missing = agents.iter().filter(|name| !hosted.contains_key(**name) && node.agents.file(name).is_err());
    json!({
        "name": file.workflow.name,
        "title": file.heading.title,
        "description": file.heading.description,
        "version": file.heading.version,
        "steps": steps(&file.workflow),
        "capabilities": capabilities,
        "agents": agents,
        "unknown": lacking.chain(missing).collect::<Vec<_>>(),
    })
}
