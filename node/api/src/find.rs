//! What a search finds, and how.

use althing_protocol::contract::Grade;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What `GET /find` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchReply {
    /// Agents, each once for each node that hosts it; the best first.
    pub agents: Vec<AgentMatch>,
    /// Things of others.
    pub things: Vec<ThingMatch>,
    /// How they were found; not written where nobody asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<SearchExplanation>,
    /// Where nothing was found: capabilities that may be meant by the one that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meant: Option<Vec<String>>,
}

/// An agent that was found, on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentMatch {
    /// Its urn, by which it is called.
    pub id: String,
    /// Its name, by which its owner calls it.
    pub name: String,
    /// Its title for people.
    pub title: String,
    /// What it does.
    pub description: Option<String>,
    /// How its programs are contained, in words, as its node says.
    pub containment: Option<String>,
    /// The DID of the node.
    pub node: String,
    /// What it can do.
    pub capabilities: Vec<CapabilitySummary>,
    /// The node's load, 0 to 1.
    pub load: f64,
    /// What the node's machine can do, as it says.
    pub machine: Option<MachineOffer>,
    /// `hrt`, `srt` or `dt`.
    pub class: Option<String>,
    /// Its turns there that run or wait.
    pub turns: Option<u32>,
    /// How its turns there went; not written where nothing is known of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<SuccessShare>,
    /// How the node is: `healthy`, `busy` or `offline`.
    pub status: String,
    /// How this node learned of it, in words.
    pub learned: String,
    /// How long ago the node was heard, milliseconds.
    pub heard_ms_ago: u64,
    /// How well the text fits (BM25), where one was given.
    pub score: Option<f64>,
    /// The tools that it exposes and that were looked for.
    pub tools: Vec<ToolMatch>,
}

/// The share of an agent's turns that went well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuccessShare {
    /// From 0 to 1.
    pub share: f64,
    /// From what it is known, in words: `measured here`, by verdicts of gates and failures on this node, or `claimed`, by the agent
    /// or by the node that hosts it.
    pub basis: String,
}

/// A capability in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilitySummary {
    /// Its id: `billing.view`.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What is done.
    pub action: Option<String>,
    /// What that is done to.
    pub target: Option<String>,
    /// Its version, if its author gave one.
    pub version: Option<String>,
}

/// What the machine of a node can do, as the node says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineOffer {
    /// Its grade; A is the best.
    #[schemars(with = "String")]
    pub grade: Grade,
    /// Processor cores.
    pub cores: u16,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// The share that hard real-time agents have of the core with most capacity left, 0 to 1.
    pub promised: f64,
}

/// A tool that an agent exposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolMatch {
    /// The agent's urn, and the tool.
    pub id: String,
    /// The agent's name, and the tool.
    pub name: String,
    /// Its title for people.
    pub title: String,
    /// What it does.
    pub description: String,
}

/// A Thing of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThingMatch {
    /// Its identifier.
    pub id: String,
    /// Its title for people.
    pub title: String,
    /// What it is.
    pub description: Option<String>,
    /// The ids of its capabilities.
    pub can: Vec<String>,
    /// Where its description was read: an address, or the name of a registry.
    pub from: String,
    /// What a registry says of it; not written if it was read elsewhere.
    #[serde(flatten)]
    pub release: Option<ThingRelease>,
}

/// A Thing that somebody released in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThingRelease {
    /// The version that is shown of it.
    pub version: String,
    /// The id of its publisher.
    pub publisher: String,
    /// What of other publishers was there before and has a name that looks like its own.
    pub twins: Vec<String>,
    /// Where it is asked.
    pub forms: Vec<ThingForm>,
}

/// Where a property, an action or an event of a Thing is asked, as its publisher describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThingForm {
    /// What it is of: `properties/temperature`.
    pub of: String,
    /// The address.
    pub href: Value,
    /// The operations: one, or a list of them.
    pub op: Value,
}

/// How a search went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchExplanation {
    /// How long it took, microseconds.
    pub took_microseconds: u64,
    /// How the agents that are heard of were chosen.
    pub steps: SearchSteps,
    /// How other nodes were asked; none if none was.
    pub sought: Option<TableSearch>,
    /// How many Things of others are known.
    pub things: usize,
    /// What was not done, and why.
    pub skipped: Vec<SearchOmission>,
}

/// How agents were chosen: how many there are, and how many each condition left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchSteps {
    /// Agents known, counted on each node.
    pub known: usize,
    /// Left out because the text does not match.
    pub text: usize,
    /// Left out because no capability matches the id.
    pub capability: usize,
    /// Left out because no capability has action and target.
    pub action_target: usize,
    /// Left out because the node's load is higher.
    pub load: usize,
    /// Left out because the node's machine has a lower grade, or has not said one.
    pub grade: usize,
    /// Left out because of the limit.
    pub limit: usize,
    /// How the rest is ordered, in words.
    pub order: String,
}

/// How nodes were sought in the distributed table, and asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TableSearch {
    /// Requests of the look-up.
    pub requests: u32,
    /// Those that were answered.
    pub answered: u32,
    /// How long the look-up took, microseconds.
    pub lookup_microseconds: u64,
    /// Nodes that registries named.
    pub registries_named: usize,
    /// Candidates that were asked.
    pub asked: usize,
    /// Those that have what is looked for, and proved it.
    pub confirmed: usize,
    /// Those that do not have it.
    pub without: usize,
    /// Those that were not reached, or did not answer in time.
    pub silent: usize,
    /// Those whose answer does not hold.
    pub refused: usize,
    /// How long it took in all, microseconds.
    pub took_microseconds: u64,
}

/// A place where a search did not look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchOmission {
    /// Which.
    pub step: SearchPlace,
    /// Why, for people.
    pub why: String,
}

/// Where a search looks beyond the nodes that are heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SearchPlace {
    /// The distributed table, and the nodes that it names.
    Table,
    /// The registries that the node follows.
    Registries,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::golden::assert_json;

    fn own(text: &str) -> String {
        text.to_owned()
    }

    fn steps() -> SearchSteps {
        SearchSteps {
            known: 9,
            text: 1,
            capability: 2,
            action_target: 3,
            load: 4,
            grade: 5,
            limit: 6,
            order: own("load"),
        }
    }

    /// The same as JSON.
    const STEPS: &str = concat!(
        r#"{"known":9,"text":1,"capability":2,"action_target":3,"load":4,"grade":5,"limit":6,"#,
        r#""order":"load"}"#,
    );

    fn agent() -> AgentMatch {
        AgentMatch {
            id: own("urn:x"),
            name: own("bill"),
            title: own("Bills"),
            description: None,
            containment: None,
            node: own("did:key:z6Mk"),
            capabilities: Vec::new(),
            load: 0.25,
            machine: None,
            class: None,
            turns: None,
            success: None,
            status: own("healthy"),
            learned: own("hosted here"),
            heard_ms_ago: 40,
            score: None,
            tools: Vec::new(),
        }
    }

    #[test]
    fn an_agent_is_told_with_what_is_not_known_of_it() {
        let json = concat!(
            r#"{"id":"urn:x","name":"bill","title":"Bills","description":null,"containment":null,"#,
            r#""node":"did:key:z6Mk","capabilities":[],"load":0.25,"machine":null,"class":null,"turns":null,"#,
            r#""status":"healthy","learned":"hosted here","heardMsAgo":40,"score":null,"tools":[]}"#,
        );
        assert_json(&agent(), json);
    }

    #[test]
    fn an_agent_is_told_with_its_machine_and_its_tools() {
        let can = CapabilitySummary {
            id: own("billing.view"),
            name: own("View"),
            action: Some(own("view")),
            target: None,
            version: Some(own("1.2.0")),
        };
        let tool =
            ToolMatch { id: own("urn:x/pay"), name: own("bill/pay"), title: own("Pay"), description: own("Pays") };
        let known = AgentMatch {
            description: Some(own("Sees bills")),
            containment: Some(own("contained")),
            capabilities: vec![can],
            machine: Some(MachineOffer { grade: Grade::B, cores: 4, memory_mib: 2_048, promised: 0.5 }),
            class: Some(own("srt")),
            turns: Some(3),
            success: Some(SuccessShare { share: 0.75, basis: own("measured here") }),
            score: Some(1.5),
            tools: vec![tool],
            ..agent()
        };
        let json = concat!(
            r#"{"id":"urn:x","name":"bill","title":"Bills","description":"Sees bills","containment":"contained","#,
            r#""node":"did:key:z6Mk","capabilities":[{"id":"billing.view","name":"View","action":"view","#,
            r#""target":null,"version":"1.2.0"}],"load":0.25,"machine":{"grade":"B","cores":4,"memoryMib":2048,"#,
            r#""promised":0.5},"class":"srt","turns":3,"success":{"share":0.75,"basis":"measured here"},"#,
            r#""status":"healthy","learned":"hosted here","heardMsAgo":40,"#,
            r#""score":1.5,"tools":[{"id":"urn:x/pay","name":"bill/pay","title":"Pay","description":"Pays"}]}"#,
        );
        assert_json(&known, json);
    }

    #[test]
    fn things_are_told_and_what_registries_say_only_of_theirs() {
        let heard = ThingMatch {
            id: own("urn:lamp"),
            title: own("Lamp"),
            description: None,
            can: vec![own("light.on")],
            from: own("http://192.0.2.7/td"),
            release: None,
        };
        let form = ThingForm { of: own("actions/on"), href: json!("http://x/on"), op: Value::Null };
        let release = ThingRelease {
            version: own("1.0.0"),
            publisher: own("urn:p"),
            twins: vec![own("urn:t")],
            forms: vec![form],
        };
        let released = ThingMatch { from: own("main"), release: Some(release), ..heard.clone() };
        let reply = SearchReply { agents: Vec::new(), things: vec![heard, released], explain: None, meant: None };
        let json = concat!(
            r#"{"agents":[],"things":[{"id":"urn:lamp","title":"Lamp","description":null,"can":["light.on"],"#,
            r#""from":"http://192.0.2.7/td"},{"id":"urn:lamp","title":"Lamp","description":null,"can":["light.on"],"#,
            r#""from":"main","version":"1.0.0","publisher":"urn:p","twins":["urn:t"],"#,
            r#""forms":[{"of":"actions/on","href":"http://x/on","op":null}]}]}"#,
        );
        assert_json(&reply, json);
    }

    #[test]
    fn a_search_that_finds_nothing_tells_how_it_went_and_what_may_be_meant() {
        let omission = |step| SearchOmission { step, why: own("no") };
        let explain = SearchExplanation {
            took_microseconds: 7,
            steps: steps(),
            sought: None,
            things: 1,
            skipped: vec![omission(SearchPlace::Table), omission(SearchPlace::Registries)],
        };
        let nothing = SearchReply {
            agents: Vec::new(),
            things: Vec::new(),
            explain: Some(explain.clone()),
            meant: Some(Vec::new()),
        };
        let skipped = r#"[{"step":"table","why":"no"},{"step":"registries","why":"no"}]"#;
        let begun = r#"{"agents":[],"things":[],"explain":{"tookMicroseconds":7,"steps":"#;
        let ended = format!(r#","sought":null,"things":1,"skipped":{skipped}}},"meant":[]}}"#);
        assert_json(&nothing, &format!("{begun}{STEPS}{ended}"));
        let sought = TableSearch {
            requests: 1,
            answered: 2,
            lookup_microseconds: 3,
            registries_named: 4,
            asked: 5,
            confirmed: 6,
            without: 7,
            silent: 8,
            refused: 9,
            took_microseconds: 10,
        };
        let told = concat!(
            r#""sought":{"requests":1,"answered":2,"lookupMicroseconds":3,"registriesNamed":4,"asked":5,"#,
            r#""confirmed":6,"without":7,"silent":8,"refused":9,"tookMicroseconds":10},"things":1,"skipped":[]}"#,
        );
        let asked = SearchExplanation { sought: Some(sought), skipped: Vec::new(), ..explain };
        assert_json(&asked, &format!(r#"{{"tookMicroseconds":7,"steps":{STEPS},{told}"#));
    }
}
