//! Files that are shared through registries: agent files and workflow files, and the descriptions by which they are found.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use althing_protocol::group::{Action, Step, Target};

use crate::agent_file::{AGENT_FILE_BYTES_MAX, AgentFile, AgentFileError, MODE_DEFAULT};
use crate::describe::{describe, uri};
use crate::description::Description;
use crate::hidden::is_hidden;
use crate::reader::yaml::{self, Node};
use crate::validate::{ALTHING, CONTEXT_1_1, LMOS};
use crate::workflow_file::{WorkflowFile, WorkflowFileError, parse_workflow_file};

/// The `@type` of a workflow's description.
pub const WORKFLOW_TYPE: &str = "althing:Workflow";
/// The capability of a workflow begins so; its name follows.
const CAPABILITY: &str = "workflow.";

/// A file that is shared.
#[derive(Debug, Clone, PartialEq)]
pub enum SharedFile {
    /// An agent file.
    Agent(Box<AgentFile>),
    /// A workflow file.
    Workflow(WorkflowFile),
}

/// Why a file cannot be shared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharedFileError {
    /// It is no agent file.
    #[error("the agent file: {0}")]
    Agent(#[from] AgentFileError),
    /// It is no workflow file.
    #[error(transparent)]
    Workflow(#[from] WorkflowFileError),
    /// It is an app file.
    #[error(
        "this is an app file, which stands for what runs in one group and is not shared: share its agents and its workflows, \
         each by itself"
    )]
    App,
    /// The name of a capability that a step needs cannot be shown.
    #[error(
        "the workflow file: the step {step:?} needs a capability whose name has the invisible character U+{found:04X}: write it \
         without"
    )]
    Hidden {
        /// The step.
        step: String,
        /// The character.
        found: u32,
    },
}

impl SharedFile {
    /// Reads a file of either kind: one with `steps` is a workflow file, any other an agent file.
    ///
    /// # Errors
    /// [`SharedFileError`].
    pub fn parse(text: &str) -> Result<SharedFile, SharedFileError> {
        let keys = keys(text);
        if keys.iter().any(|key| key == "steps") {
            let file = parse_workflow_file(text)?;
            return match hidden(&file.workflow.steps) {
                Some(error) => Err(error),
                None => Ok(SharedFile::Workflow(file)),
            };
        }
        if keys.iter().any(|key| key == "agents") && keys.iter().any(|key| key == "group") {
            return Err(SharedFileError::App);
        }
        Ok(SharedFile::Agent(Box::new(AgentFile::parse(text)?)))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            SharedFile::Agent(file) => &file.name,
            SharedFile::Workflow(file) => &file.workflow.name,
        }
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &str {
        match self {
            SharedFile::Agent(file) => &file.version,
            SharedFile::Workflow(file) => &file.heading.version,
        }
    }

    /// Its description, as what has that URN. The same file and URN give the same bytes.
    #[must_use]
    pub fn describe(&self, urn: &str) -> Description {
        match self {
            SharedFile::Agent(file) => describe(file, urn),
            SharedFile::Workflow(file) => describe_workflow(file, urn),
        }
    }
}

/// The keys of a file; none of one that cannot be read.
fn keys(text: &str) -> Vec<String> {
    if text.len() > AGENT_FILE_BYTES_MAX {
        return Vec::new();
    }
    match yaml::parse(text).map(|root| root.node) {
        Ok(Node::Map(entries)) => entries.into_iter().map(|entry| entry.key).collect(),
        _ => Vec::new(),
    }
}

/// The TD 1.1 of a workflow: what it takes, its steps, and the agents and capabilities that they need. It has no forms,
/// since nothing serves it, and so no affordances; whoever looks for it finds it by the capability `workflow.NAME`.
fn describe_workflow(file: &WorkflowFile, urn: &str) -> Description {
    let (heading, workflow) = (&file.heading, &file.workflow);
    let about = heading.description.as_ref().unwrap_or(&heading.title);
    let (capabilities, agents) = needs(&workflow.steps);
    let td = json!({
        "@context": [CONTEXT_1_1, { "lmos": LMOS, "althing": ALTHING }],
        "id": uri(urn),
        "@type": WORKFLOW_TYPE,
        "title": heading.title,
        "description": about,
        "version": { "instance": heading.version },
        "securityDefinitions": { "auto_sc": { "scheme": "auto" } },
        "security": ["auto_sc"],
        "lmos:capabilities": [{
            "id": format!("{CAPABILITY}{}", workflow.name),
            "name": heading.title,
            "version": heading.version,
            "description": about,
            "althing:action": "run",
            "althing:target": workflow.name,
        }],
        "althing:inputModes": [MODE_DEFAULT],
        "althing:outputModes": [MODE_DEFAULT],
        "althing:steps": workflow.steps.iter().map(step).collect::<Vec<_>>(),
        "althing:needs": { "capabilities": capabilities, "agents": agents },
    });
    Description::made(td)
}

/// A capability with characters that nobody sees: it could look like another one.
fn hidden(steps: &[Step]) -> Option<SharedFileError> {
    let unseen = |c: &char| c.is_control() || is_hidden(*c);
    steps.iter().find_map(|step| {
        let Action::Task(job) = &step.action else { return None };
        let Target::Capability(name) = &job.needs.target else { return None };
        let found = name.chars().find(unseen)?;
        Some(SharedFileError::Hidden { step: step.id.clone(), found: u32::from(found) })
    })
}

/// The capabilities and the agents that steps need, each once, in the order of the steps.
#[must_use]
pub fn needs(steps: &[Step]) -> (Vec<&str>, Vec<&str>) {
    let (mut capabilities, mut agents) = (Vec::new(), Vec::new());
    for step in steps {
        let Action::Task(job) = &step.action else { continue };
        let (list, name) = match &job.needs.target {
            Target::Capability(name) => (&mut capabilities, name.as_str()),
            Target::Agent(name) => (&mut agents, name.as_str()),
        };
        if !list.contains(&name) {
            list.push(name);
        }
    }
    (capabilities, agents)
}

/// A step, without its texts.
fn step(step: &Step) -> Value {
    let mut out = Map::new();
    out.insert("id".to_owned(), json!(step.id));
    let (what, of) = match &step.action {
        Action::Approval(_) => ("approve", json!(true)),
        Action::Task(job) => match &job.needs.target {
            Target::Capability(name) => ("capability", json!(name)),
            Target::Agent(name) => ("agent", json!(name)),
        },
    };
    out.insert(what.to_owned(), of);
    if !step.after.is_empty() {
        out.insert("after".to_owned(), json!(step.after));
    }
    Value::Object(out)
}

/// Whether the bytes are the description of a workflow; no others of its members are looked at.
#[must_use]
pub fn is_workflow(td: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "@type")]
        of: String,
    }
    // Most are descriptions of agents, which are not read for this.
    td.windows(WORKFLOW_TYPE.len()).any(|bytes| bytes == WORKFLOW_TYPE.as_bytes())
        && serde_json::from_slice::<Typed>(td).is_ok_and(|typed| typed.of == WORKFLOW_TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Strictness, validate_as};

    const REVIEW: &str = "name: review\nversion: 1.2.0\ntitle: Review of a text\ndescription: Says what is missing.\nsteps:\n  \
                          - { id: read, capability: text.read }\n  \
                          - { id: ask, after: read, approve: \"Send {{step.read}}?\" }\n  \
                          - { id: send, after: ask, agent: mailer, input: \"secret {{step.read}}\" }\n  \
                          - { id: again, after: ask, capability: text.read }\n";
    const URN: &str = "urn:althing:zQm:review";

    fn workflow(text: &str) -> WorkflowFile {
        match SharedFile::parse(text) {
            Ok(SharedFile::Workflow(file)) => file,
            other => panic!("a workflow, not {other:?}"),
        }
    }

    #[test]
    fn a_workflow_is_described_with_its_steps_and_needs_and_without_its_texts() {
        let file = SharedFile::parse(REVIEW).expect("a workflow");
        assert_eq!((file.name(), file.version()), ("review", "1.2.0"));
        let made = file.describe(URN);
        let report = validate_as(made.bytes(), Strictness::Own);
        assert!(report.findings.is_empty(), "{report}");
        let value = made.value();
        assert_eq!((&value["@type"], &value["title"]), (&json!(WORKFLOW_TYPE), &json!("Review of a text")));
        assert_eq!(value["althing:needs"], json!({ "capabilities": ["text.read"], "agents": ["mailer"] }));
        assert_eq!(value["althing:steps"][1], json!({ "id": "ask", "approve": true, "after": ["read"] }));
        assert_eq!(made.capabilities()[0].id, "workflow.review");
        let text = value.to_string();
        assert!(!text.contains("secret") && !text.contains("forms") && !text.contains("Send"), "{text}");
        assert!(is_workflow(made.bytes()));
        assert_eq!(file.describe(URN), made, "the same bytes again");
    }

    #[test]
    fn a_heading_has_defaults_and_what_is_wrong_in_it_is_told() {
        let plain = "name: a\nsteps: [{ id: x, agent: y }]\n";
        let heading = workflow(plain).heading;
        assert_eq!((heading.version.as_str(), heading.title.as_str(), heading.description), ("1.0.0", "a", None));
        for (key, wrong, rule) in [
            ("version", "one", "semver"),
            ("version", "1.0", "semver"),
            ("title", "\"\"", "out-of-range"),
            ("title", "\"a\\nb\"", "one-line"),
            ("title", "\"a\\u202Eb\"", "hidden-character"),
            ("title", "\"p\\u0430ypal\"", "look-alike"),
            ("description", "\"a\\u200Bb\"", "hidden-character"),
            ("summary", "x", "unknown-key"),
        ] {
            let text = format!("{key}: \"{}\"\n{plain}", wrong.trim_matches('"'));
            let Err(SharedFileError::Workflow(WorkflowFileError::Invalid(problems))) = SharedFile::parse(&text) else {
                panic!("{text} is refused")
            };
            assert!(problems.iter().any(|problem| problem.rule == rule), "{text}: {problems:?}");
        }
    }

    #[test]
    fn files_of_each_kind_are_told_apart() {
        let agent = "name: echo\ndescription: Says it.\nruntime: { native: { builtin: echo } }\n";
        assert!(matches!(SharedFile::parse(agent), Ok(SharedFile::Agent(_))));
        let app = "name: a\ngroup: team\nagents: [{ file: echo.yaml }]\n";
        assert_eq!(SharedFile::parse(app), Err(SharedFileError::App));
        for text in ["", "[]", "a: b", ": :", &" ".repeat(AGENT_FILE_BYTES_MAX + 1)] {
            assert!(matches!(SharedFile::parse(text), Err(SharedFileError::Agent(_))));
        }
        let large = format!("{REVIEW}# {}\n", "x".repeat(200 * 1024));
        let refused = SharedFile::parse(&large);
        assert!(matches!(refused, Err(SharedFileError::Workflow(WorkflowFileError::TooLarge(_)))), "{refused:?}");
        let both = format!("{REVIEW}runtime: {{ native: {{ builtin: echo }} }}\n");
        assert!(matches!(SharedFile::parse(&both), Err(SharedFileError::Workflow(_))), "no file is of two kinds");
    }

    #[test]
    fn only_a_description_of_a_workflow_is_one() {
        let agent = "name: echo\ndescription: \"No althing:Workflow\"\nruntime: { native: { builtin: echo } }\n";
        let described = SharedFile::parse(agent).expect("an agent").describe(URN);
        assert!(!is_workflow(described.bytes()));
        assert!(!is_workflow(b"") && !is_workflow(b"althing:Workflow") && !is_workflow(b"{\"@type\":\"lmos:Agent\"}"));
    }

    #[test]
    fn a_capability_that_looks_like_another_one_is_not_shared() {
        for name in ["a\\u202Eb", "a\\nb", "a\\u0007b"] {
            let text = format!("name: a\nsteps: [{{ id: x, capability: \"{name}\" }}]\n");
            let shared = SharedFile::parse(&text);
            assert!(matches!(&shared, Err(SharedFileError::Hidden { step, .. }) if step == "x"), "{name}: {shared:?}");
        }
    }
}
