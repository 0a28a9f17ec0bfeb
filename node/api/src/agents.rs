//! Agents of a node.

use althing_td::{AgentFile, Callers, Exposure};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{AgentInstance, Folder, LocalPath, Problem};

/// Adds or runs an agent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddRequest {
    /// Its file: as read, or its text (YAML), with its contract in it.
    #[serde(deserialize_with = "agent_file")]
    #[schemars(with = "Value")]
    pub file: AgentFile,
    /// Where relative paths in it start.
    pub folder: Folder,
    /// The files that were read for it, its own first and without links; only where `folder` is of the node's machine. No program
    /// writes them while it is added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<LocalPath>,
    /// The id of its reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// The digest of what `POST /adding` showed, where somebody agreed to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<String>,
}

/// An agent file as it was read, or its text.
fn agent_file<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AgentFile, D::Error> {
    let text = match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        read => return serde_json::from_value(read).map_err(D::Error::custom),
    };
    let file = AgentFile::parse(&text).map_err(D::Error::custom)?;
    match &file.contract_file {
        // Whoever reads a file of its own machine puts the contract in.
        Some(path) => Err(D::Error::custom(format!(
            "its contract is in {}: write it into the agent file, whose text is all that is read",
            path.display()
        ))),
        None => Ok(file),
    }
}

/// One line about an agent that runs for `althing run`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RunLine {
    /// It runs now.
    Runs(Box<AgentAddition>),
    /// Its status, once a second.
    Status(Box<AgentInstance>),
    /// It could not be run, or was stopped.
    Error(Problem),
}

/// An agent was added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentAddition {
    /// Its urn, by which others call it.
    pub id: String,
    /// Which agent, by name.
    pub name: String,
    /// Where its agent card is, if the node has a gateway.
    pub card: Option<String>,
    /// How it is, once its program or its server answered or is known not to; none if it is gone already.
    pub status: Option<AgentInstance>,
}

/// What an agent file changes of what was agreed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RightsChanges {
    /// Each of them; what widens comes first.
    pub changes: Vec<RightsChange>,
    /// Whether the agent, or a program of it, may do more by one of them.
    pub wider: bool,
    /// The digest of all of it: whoever agrees to it agrees to exactly that.
    pub digest: String,
}

/// One change of what an agent may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RightsChange {
    /// What: `runtime: command`, `tools.maps: sandbox`, `contract: secrets`.
    pub what: String,
    /// What it was, on one line; empty if there was none.
    pub old: String,
    /// What it is; empty if there is none.
    pub new: String,
    /// Whether it may do more by it.
    pub wider: bool,
}

/// The agents that were added to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// Each of them.
    pub agents: Vec<AgentSummary>,
}

/// An agent that was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentSummary {
    /// Which agent, by name.
    pub name: String,
    /// Its urn, by which others call it; none where its name makes none.
    pub id: Option<String>,
    /// Its title for people.
    pub title: String,
    /// Who may call it.
    #[schemars(with = "Value")]
    pub callers: Callers,
    /// Who may see it.
    #[schemars(with = "String")]
    pub exposure: Exposure,
    /// The ids of its skills.
    pub skills: Vec<String>,
}

/// An agent was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentRemoval {
    /// Its name.
    pub removed: String,
    /// The secrets that were its own, and stay.
    pub secrets_kept: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;
    use crate::{AgentCondition, FirstOutput, Kind};

    fn instance() -> AgentInstance {
        AgentInstance {
            turns_total: 3,
            first_output_us: FirstOutput { p50: 1.5, p99: 2.0, late: 0 },
            ..AgentInstance::new("echo", "srt", "native", AgentCondition::Ready)
        }
    }

    /// The same as JSON.
    const INSTANCE: &str = concat!(
        r#"{"name":"echo","class":"srt","runtime":"native","state":"ready","why":null,"pid":null,"said":null,"#,
        r#""containment":[],"turns":0,"turnsTotal":3,"firstOutputUs":{"p50":1.5,"p99":2.0,"late":0},"hrt":null,"#,
        r#""toolsRefused":[]}"#,
    );

    #[test]
    fn an_agent_file_is_sent_as_read_or_as_its_text() {
        let base = "name: echo\ndescription: Repeats\nruntime: { native: { builtin: echo } }\n";
        let text = format!("{base}contract: {{ class: {{ latency: srt }} }}\n");
        let file = AgentFile::parse(&text).expect("an agent file");
        for sent in [serde_json::json!(file), serde_json::json!(text)] {
            let json = serde_json::json!({ "file": sent, "folder": { "upload": { "map.txt": "" } } });
            let request: AddRequest = serde_json::from_value(json).expect("a request");
            assert_eq!(request.file, file);
            assert!(matches!(&request.folder, Folder::Upload(files) if files.has("map.txt")));
        }
        let apart = format!("{base}contract: contract.yaml\n");
        for (sent, why) in [(apart.as_str(), "contract.yaml"), ("[", "")] {
            let json = serde_json::json!({ "file": sent, "folder": { "upload": {} } });
            let error = serde_json::from_value::<AddRequest>(json).expect_err("refused").to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_addition_is_told_with_what_it_does_not_have() {
        let gone = AgentAddition { id: "urn:x".to_owned(), name: "echo".to_owned(), card: None, status: None };
        assert_json(&gone, r#"{"id":"urn:x","name":"echo","card":null,"status":null}"#);
        let card = Some("http://127.0.0.1:1/a2a/echo".to_owned());
        let there = AgentAddition { card, status: Some(instance()), ..gone };
        let json =
            format!(r#"{{"id":"urn:x","name":"echo","card":"http://127.0.0.1:1/a2a/echo","status":{INSTANCE}}}"#);
        assert_json(&there, &json);
    }

    #[test]
    fn an_agent_that_runs_for_a_client_is_told_line_by_line() {
        let gone = AgentAddition { id: "urn:x".to_owned(), name: "echo".to_owned(), card: None, status: None };
        let lines = [
            (
                RunLine::Runs(Box::new(gone)),
                r#"{"runs":{"id":"urn:x","name":"echo","card":null,"status":null}}"#.to_owned(),
            ),
            (RunLine::Status(Box::new(instance())), format!(r#"{{"status":{INSTANCE}}}"#)),
            (
                RunLine::Error(Problem::new(Kind::Failed, "no")),
                r#"{"error":{"kind":"failed","message":"no"}}"#.to_owned(),
            ),
        ];
        for (line, json) in lines {
            assert_eq!(serde_json::to_string(&line).expect("a line is JSON"), json);
            let read: RunLine = serde_json::from_str(&json).expect("it has the shape of a line");
            assert_eq!(serde_json::to_string(&read).expect("a line is JSON"), json);
        }
    }

    #[test]
    fn agents_are_listed_by_what_their_files_say() {
        let listed = AgentSummary {
            name: "echo".to_owned(),
            id: None,
            title: "Echo".to_owned(),
            callers: Callers::Listed(vec!["did:key:z6Mk".to_owned()]),
            exposure: Exposure::Public,
            skills: Vec::new(),
        };
        let open = AgentSummary {
            id: Some("urn:x".to_owned()),
            callers: Callers::ThisNode,
            exposure: Exposure::Hidden,
            skills: vec!["say".to_owned()],
            ..listed.clone()
        };
        assert_json(
            &AgentList { agents: vec![listed, open] },
            concat!(
                r#"{"agents":[{"name":"echo","id":null,"title":"Echo","callers":["did:key:z6Mk"],"exposure":"public","#,
                r#""skills":[]},{"name":"echo","id":"urn:x","title":"Echo","callers":"this-node","exposure":"hidden","#,
                r#""skills":["say"]}]}"#,
            ),
        );
        let removal = AgentRemoval { removed: "echo".to_owned(), secrets_kept: vec!["echo.KEY".to_owned()] };
        assert_json(&removal, r#"{"removed":"echo","secretsKept":["echo.KEY"]}"#);
    }

    #[test]
    fn changes_are_told_with_what_widens() {
        let change = RightsChange {
            what: "tools.maps: sandbox".to_owned(),
            old: String::new(),
            new: "read /srv".to_owned(),
            wider: true,
        };
        assert_json(
            &RightsChanges { changes: vec![change], wider: true, digest: "9c0d".to_owned() },
            concat!(
                r#"{"changes":[{"what":"tools.maps: sandbox","old":"","new":"read /srv","wider":true}],"wider":true,"#,
                r#""digest":"9c0d"}"#,
            ),
        );
    }
}
