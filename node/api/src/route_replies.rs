//! What a node answers about routing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RouteMode;

/// What `POST /route` answers: whom a sentence is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteReply {
    /// The agent, or the two that are close; empty for none.
    pub chosen: Vec<RouteChoice>,
    /// The best candidates.
    pub best: Vec<RouteChoice>,
    /// How it was routed.
    pub mode: RouteMode,
    /// The least score of a sentence that is for an agent, 0 to 1.
    pub threshold: f64,
    /// Agents among which was chosen.
    pub considered: usize,
    /// Agents of strangers that were left out.
    pub left_out: usize,
    /// Labelled sentences that were learned.
    pub learned: usize,
    /// How long the decision took, without learning anew, microseconds.
    pub took_us: u64,
    /// Whether dense vectors were used, where the node has a model of embeddings and the mode uses it; else not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<RouteEmbeddings>,
}

/// A candidate, with how it scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteChoice {
    /// Its urn, by which it is called.
    pub agent: String,
    /// Which agent, by name.
    pub name: String,
    /// Its title for people.
    pub title: String,
    /// Whether its publisher is a stranger.
    pub stranger: bool,
    /// The share of the sentence that its words explain, 0 to 1.
    pub keyword: f64,
    /// How sure the classifier is, 0 to 1.
    pub vector: f64,
    /// What decides, 0 to 1.
    pub score: f64,
}

/// Whether dense vectors were used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteEmbeddings {
    /// Which model makes them, by name.
    pub model: String,
    /// Why the classifier decided without them; not written where they were used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// How long the model took for a sentence, microseconds.
    pub took_us: u64,
}

/// Labelled sentences were learned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteLesson {
    /// How many sentences of the file.
    pub learned: usize,
    /// How many sentences the node knows now.
    pub known: usize,
}

/// What was learned is forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteRemoval {
    /// How many sentences.
    pub forgotten: usize,
}

/// What `POST /route/channel` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelReply {
    /// An agent for each capability, in the order in which they were asked for.
    pub channel: Vec<ChannelAgent>,
}

/// The agent for one capability of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelAgent {
    /// What the channel wants.
    pub capability: String,
    /// Its urn, by which it is called.
    pub agent: String,
    /// Which agent, by name.
    pub name: String,
    /// Where it runs: the DID of a node.
    pub node: String,
    /// The version of the capability; empty for one without.
    pub version: String,
}

/// What `POST /route/eval` answers: how well the sentences of a file are routed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteReport {
    /// One for each mode, and one more for each that uses dense vectors.
    pub modes: Vec<RouteScore>,
    /// Agents that the sentences are for.
    pub agents: usize,
    /// Sentences of the file that were learned first.
    pub learned_of_file: usize,
    /// Sentences that had been learned before.
    pub learned_before: usize,
    /// Sentences that were tested.
    pub tested: usize,
    /// How long learning took, milliseconds.
    pub learning_ms: u64,
    /// Whether dense vectors were used too, where the node has a model of embeddings and a mode uses it; else not written.
    /// The time is that of one tested sentence, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<RouteEmbeddings>,
}

/// How well one mode routes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteScore {
    /// Which.
    pub mode: RouteMode,
    /// Whether dense vectors were used.
    pub dense: bool,
    /// Whether a model chose among the best.
    pub by_model: bool,
    /// Sentences that are for an agent.
    pub in_scope: usize,
    /// Those whose best agent is the right one, and was not refused.
    pub right: usize,
    /// Those that two agents are close for: whoever asks would be asked back.
    pub close: usize,
    /// Those that were refused, though they are for an agent.
    pub refused_in_scope: usize,
    /// Sentences that are for no agent.
    pub out_of_scope: usize,
    /// Those that were refused, as they are for no agent.
    pub refused: usize,
    /// The least score of a sentence that is for an agent, 0 to 1.
    pub threshold: f64,
    /// Time of one route, nanoseconds, on average.
    pub route_ns: u64,
    /// The first sentences that were routed wrong.
    pub mistakes: Vec<RouteMistake>,
    /// The share of sentences for agents whose best agent is the right one, 0 to 1; none without such sentences.
    pub accuracy: Option<f64>,
    /// The share of sentences for no agent that were refused, 0 to 1; none without such sentences.
    pub refusal: Option<f64>,
}

/// A sentence that was routed wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteMistake {
    /// The sentence itself.
    pub instruction: String,
    /// Which agent it is for; empty for none.
    pub wanted: String,
    /// Which agent was chosen; empty for none.
    pub got: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn choice() -> RouteChoice {
        RouteChoice {
            agent: "urn:x".to_owned(),
            name: "echo".to_owned(),
            title: "Echo".to_owned(),
            stranger: false,
            keyword: f64::from(0.3_f32),
            vector: 0.5,
            score: 1.0,
        }
    }

    /// The same as JSON: a score of 32 bits has the digits that it has with 64.
    const CHOICE: &str = concat!(
        r#"{"agent":"urn:x","name":"echo","title":"Echo","stranger":false,"keyword":0.30000001192092896,"#,
        r#""vector":0.5,"score":1.0}"#,
    );

    #[test]
    fn whom_a_sentence_is_for_is_told_with_how_that_was_found() {
        let routed = RouteReply {
            chosen: vec![choice()],
            best: vec![choice()],
            mode: RouteMode::Hybrid,
            threshold: 0.25,
            considered: 2,
            left_out: 1,
            learned: 0,
            took_us: 7,
            embeddings: None,
        };
        let begin = format!(
            r#"{{"chosen":[{CHOICE}],"best":[{CHOICE}],"mode":"hybrid","threshold":0.25,"considered":2,"leftOut":1,"#
        );
        assert_json(&routed, &format!(r#"{begin}"learned":0,"tookUs":7}}"#));
        let used = RouteEmbeddings { model: "small".to_owned(), missing: None, took_us: 9 };
        let unused = RouteEmbeddings { missing: Some("it left".to_owned()), ..used.clone() };
        assert_json(
            &RouteReply { embeddings: Some(used), ..routed.clone() },
            &format!(r#"{begin}"learned":0,"tookUs":7,"embeddings":{{"model":"small","tookUs":9}}}}"#),
        );
        assert_json(
            &RouteReply { embeddings: Some(unused), ..routed },
            &format!(
                r#"{begin}"learned":0,"tookUs":7,"embeddings":{{"model":"small","missing":"it left","tookUs":9}}}}"#
            ),
        );
    }

    #[test]
    fn what_is_learned_and_forgotten_is_counted() {
        assert_json(&RouteLesson { learned: 2, known: 5 }, r#"{"learned":2,"known":5}"#);
        assert_json(&RouteRemoval { forgotten: 5 }, r#"{"forgotten":5}"#);
        let agent = ChannelAgent {
            capability: "a.b@^1".to_owned(),
            agent: "urn:x".to_owned(),
            name: "echo".to_owned(),
            node: "did:key:z6Mk".to_owned(),
            version: String::new(),
        };
        assert_json(
            &ChannelReply { channel: vec![agent] },
            concat!(
                r#"{"channel":[{"capability":"a.b@^1","agent":"urn:x","name":"echo","node":"did:key:z6Mk","#,
                r#""version":""}]}"#,
            ),
        );
    }

    #[test]
    fn an_evaluation_is_told_mode_by_mode() {
        let mistake = RouteMistake { instruction: "do".to_owned(), wanted: "a".to_owned(), got: String::new() };
        let score = RouteScore {
            mode: RouteMode::Model,
            dense: false,
            by_model: true,
            in_scope: 4,
            right: 3,
            close: 0,
            refused_in_scope: 1,
            out_of_scope: 0,
            refused: 0,
            threshold: 0.25,
            route_ns: 1_500,
            mistakes: vec![mistake],
            accuracy: Some(0.75),
            refusal: None,
        };
        let report = RouteReport {
            modes: vec![score],
            agents: 2,
            learned_of_file: 3,
            learned_before: 0,
            tested: 4,
            learning_ms: 6,
            embeddings: None,
        };
        assert_json(
            &report,
            concat!(
                r#"{"modes":[{"mode":"model","dense":false,"byModel":true,"inScope":4,"right":3,"close":0,"#,
                r#""refusedInScope":1,"outOfScope":0,"refused":0,"threshold":0.25,"routeNs":1500,"#,
                r#""mistakes":[{"instruction":"do","wanted":"a","got":""}],"accuracy":0.75,"refusal":null}],"#,
                r#""agents":2,"learnedOfFile":3,"learnedBefore":0,"tested":4,"learningMs":6}"#,
            ),
        );
    }
}
