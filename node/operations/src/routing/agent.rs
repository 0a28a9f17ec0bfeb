//! `router`: a native agent that sends each message to the agent that it is for. It finds agents and calls them by the system
//! calls of its contract (`mesh/find_agents`, `mesh/describe_agent`, `agents/NAME`), so that it reaches none that its contract
//! does not name, and on behalf of whoever asked it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use althing_execution::agent::Made;
use althing_execution::agents::INPUT_REQUIRED;
use althing_execution::tools::Tools;
use althing_execution::{Agent, AgentError, CandidateList, Output, SystemCalls, Turn};
use althing_routing::{Candidate, Decision, Route, Router};
use althing_td::Description;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::routing::RouteMode;

/// Agents that it chooses among.
const AGENTS_MAX: usize = 64;
/// Action and target of the skill by which an agent is known as a router: nothing is routed to routers.
const ROUTES: (Option<&str>, Option<&str>) = (Some("route"), Some("message"));

/// Whether an agent is a router.
pub(super) fn routes(description: &Description) -> bool {
    description.capabilities().iter().any(|skill| (skill.action.as_deref(), skill.target.as_deref()) == ROUTES)
}

/// The agent.
pub struct RouterAgent {
    tools: Arc<Tools>,
    mode: RouteMode,
    built: Mutex<Option<Built>>,
}

/// A router, and the answers that it was made from.
struct Built {
    found: Vec<Value>,
    router: Arc<Router>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    mode: RouteMode,
}

/// What it keeps from one message of a task to the next.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum PendingRoute {
    /// It asked which agent a sentence is for.
    Asked { sentence: String, agents: Vec<String> },
    /// An agent waits for an answer.
    Waits { agent: String, task: String },
}

/// The arguments of `mesh/find_agents`.
#[derive(Serialize)]
struct FindArguments {
    limit: usize,
}

/// The arguments of `mesh/describe_agent`: an id as `mesh/find_agents` gave it.
#[derive(Serialize)]
struct DescribeArguments<'a> {
    agent: &'a Value,
}

/// The arguments of `agents/NAME`.
#[derive(Serialize)]
struct MessageArguments<'a> {
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
}

impl RouterAgent {
    /// The agent of this configuration: `mode`, which is `keyword`, `vector` or `hybrid` (the default).
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn build(config: &Value, _folder: &Path, calls: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
        let mode = if config.is_null() {
            RouteMode::default()
        } else {
            let read = Config::deserialize(config).map(|config| config.mode);
            read.ok()
                .filter(|mode| *mode != RouteMode::Model)
                .ok_or("`router` takes `mode: keyword`, `mode: vector` or `mode: hybrid`")?
        };
        Ok(Arc::new(RouterAgent { tools: calls.tools.clone(), mode, built: Mutex::default() }))
    }

    async fn invoke(&self, tool: &str, arguments: &impl Serialize) -> Result<Value, AgentError> {
        let arguments = serde_json::to_string(arguments).expect("texts and numbers are JSON");
        let (outcome, _) = self.tools.invoke(tool, &arguments).await;
        outcome.map_err(|error| AgentError::Failed(format!("{tool}: {error}")))
    }

    /// The router for the agents that are found now.
    async fn router(&self) -> Result<Arc<Router>, AgentError> {
        let answer = self.invoke("mesh/find_agents", &FindArguments { limit: AGENTS_MAX }).await?;
        let mut found = answer["structuredContent"]["agents"].as_array().cloned().unwrap_or_default();
        let routes = |skill: &Value| (skill["action"].as_str(), skill["target"].as_str()) == ROUTES;
        found.retain(|agent| !agent["skills"].as_array().into_iter().flatten().any(routes));
        for agent in found.iter_mut().filter_map(Value::as_object_mut) {
            // What changes without the agent changing.
            ["nodes", "status", "load", "success"].iter().for_each(|name| drop(agent.remove(*name)));
        }
        found.sort_by(|one, other| one["id"].as_str().cmp(&other["id"].as_str()));
        let known = self
            .built
            .lock()
            .expect("no holder of the router panics")
            .as_ref()
            .and_then(|built| (built.found == found).then(|| built.router.clone()));
        if let Some(router) = known {
            return Ok(router);
        }
        let mut candidates = Vec::with_capacity(found.len());
        for agent in &found {
            // Its examples; an agent that has gone meanwhile is left out.
            let described = self.invoke("mesh/describe_agent", &DescribeArguments { agent: &agent["id"] }).await;
            candidates.extend(described.ok().map(|described| candidate(&described["structuredContent"])));
        }
        let router = Arc::new(Router::new(candidates, &[], None));
        let built = Built { found, router: router.clone() };
        *self.built.lock().expect("no holder of the router panics") = Some(built);
        Ok(router)
    }

    /// Sends a message to an agent, and passes its answer on.
    async fn send(
        &self,
        agent: &str,
        message: &str,
        task: Option<&str>,
        turn: &Turn,
        out: &Output,
    ) -> Result<(), AgentError> {
        let answer = self.invoke(&format!("agents/{agent}"), &MessageArguments { message, task }).await?;
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        let about = &answer["structuredContent"];
        if about["state"] == INPUT_REQUIRED {
            let task = about["task"].as_str().unwrap_or_default().to_owned();
            self.keep(&PendingRoute::Waits { agent: agent.to_owned(), task }, out).await?;
            return out.ask(turn, text).await;
        }
        if answer["isError"] == true {
            return Err(AgentError::Failed(format!("{agent}: {text}")));
        }
        out.text(agent, text).await
    }

    async fn keep(&self, kept: &PendingRoute, out: &Output) -> Result<(), AgentError> {
        out.put(Made::Remember(serde_json::to_string(kept).unwrap_or_default())).await
    }

    /// Sends a sentence to the agent that it is for, or asks back.
    async fn route(&self, sentence: String, turn: &Turn, out: &Output) -> Result<(), AgentError> {
        let router = self.router().await?;
        let name = |place: usize| router.candidates()[place].name.clone();
        let route = router.route(self.mode.scores(), &sentence, None);
        let told = || candidates(&router, &route);
        CandidateList::record(&tracing::Span::current(), "althing.route.candidates", told);
        match route.decision {
            Decision::To(place) => self.send(&name(place), &sentence, None, turn, out).await,
            Decision::Close(one, other) => {
                let question =
                    format!("Is that for {} or for {}? Answer with one of these names.", name(one), name(other));
                self.keep(&PendingRoute::Asked { sentence, agents: vec![name(one), name(other)] }, out).await?;
                out.ask(turn, question).await
            }
            Decision::Nobody => {
                let known = router.candidates().len();
                Err(AgentError::Rejected(format!("none of the {known} agents that it may call is for that")))
            }
        }
    }
}

/// The agents that a sentence may be for, the best first, and why it is sent to one or to none.
fn candidates(router: &Router, route: &Route) -> CandidateList {
    let mut list = CandidateList::default();
    for scored in &route.scored {
        let why = match route.decision {
            Decision::To(place) if place == scored.candidate => "chosen: the best, with a lead",
            Decision::Close(one, other) if [one, other].contains(&scored.candidate) => "asked about: two are close",
            _ if scored.score < route.threshold => "left out: its score is too low",
            _ => "left out: another is better",
        };
        // What is no number is 0.
        let score = (scored.score.clamp(0.0, 1.0) * 1_000.0).round() as u16;
        list.add(&router.candidates()[scored.candidate].id, Some(score), why);
    }
    list
}

/// The candidate that `mesh/describe_agent` describes. System calls tell of near agents only.
fn candidate(described: &Value) -> Candidate {
    let text = |value: &Value, member: &str| value[member].as_str().unwrap_or_default().to_owned();
    let mut lines = vec![text(described, "title"), text(described, "description")];
    let mut examples = Vec::new();
    for skill in described["skills"].as_array().into_iter().flatten() {
        lines.push([text(skill, "action"), text(skill, "target"), text(skill, "name")].join(" "));
        lines.push(text(skill, "description"));
        let texts = |member: &str| -> Vec<String> {
            let all = skill[member].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        lines.push(texts("tags").join(" "));
        examples.extend(texts("examples"));
    }
    Candidate {
        id: text(described, "id"),
        name: text(described, "name"),
        near: true,
        description: lines.join("\n"),
        examples,
    }
}

/// The agent that an answer names, of those that were asked about.
fn named<'a>(answer: &str, agents: &'a [String]) -> Option<&'a String> {
    let answer = answer.to_lowercase();
    let mut hits = agents
        .iter()
        .filter(|agent| answer.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == agent.as_str()));
    let hit = hits.next()?;
    // Whoever names both has not chosen.
    hits.next().is_none().then_some(hit)
}

impl Agent for RouterAgent {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let text = turn.text();
            let kept = turn.remembered.as_deref().and_then(|kept| serde_json::from_str(kept).ok());
            match kept {
                Some(PendingRoute::Waits { agent, task }) => self.send(&agent, &text, Some(&task), &turn, &out).await,
                Some(PendingRoute::Asked { sentence, agents }) => match named(&text, &agents) {
                    Some(agent) => self.send(agent, &sentence, None, &turn, &out).await,
                    // Another sentence.
                    None => self.route(text, &turn, &out).await,
                },
                None => self.route(text, &turn, &out).await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use althing_routing::Scored;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_sent_with_the_task_that_it_continues_and_with_none_otherwise() {
        let sent = |task| serde_json::to_string(&MessageArguments { message: "hi", task }).expect("JSON");
        assert_eq!(sent(None), r#"{"message":"hi"}"#);
        assert_eq!(sent(Some("t")), r#"{"message":"hi","task":"t"}"#);
    }

    #[test]
    fn of_a_sentence_the_agents_are_told_with_their_scores_and_why_one_was_chosen() {
        let candidate = |name: &str| Candidate {
            id: format!("urn:{name}"),
            name: name.to_owned(),
            near: true,
            description: name.to_owned(),
            examples: Vec::new(),
        };
        let router = Router::new(vec![candidate("pay"), candidate("view")], &[], None);
        let scored = |candidate, score| Scored { candidate, keyword: score, vector: 0.0, score };
        let told = |decision, scored: Vec<Scored>| {
            let route = Route { decision, scored, threshold: 0.5 };
            candidates(&router, &route).text()
        };
        let apart = vec![scored(1, 0.75), scored(0, 0.25)];
        let chosen = r#"[{"id":"urn:view","score":0.75,"why":"chosen: the best, with a lead"},"#;
        let other = r#"{"id":"urn:pay","score":0.25,"why":"left out: its score is too low"}]"#;
        assert_eq!(told(Decision::To(1), apart), format!("{chosen}{other}"));
        let close = told(Decision::Close(0, 1), vec![scored(0, 0.75), scored(1, 0.75)]);
        assert_eq!(close.matches("asked about").count(), 2, "{close}");
        assert_eq!(told(Decision::Nobody, vec![scored(0, f32::NAN)]).matches("left out").count(), 1);
    }

    #[test]
    fn an_answer_names_one_of_those_that_were_asked_about() {
        let agents = ["bill-payer".to_owned(), "orders".to_owned()];
        assert_eq!(named("Orders, please", &agents), Some(&agents[1]));
        assert_eq!(named("the bill-payer", &agents), Some(&agents[0]));
        assert_eq!(named("orders or bill-payer", &agents), None);
        assert_eq!(named("none of them", &agents), None);
    }

    #[test]
    fn a_description_becomes_a_candidate_with_its_examples() {
        let described = json!({
            "id": "urn:a", "name": "a", "title": "A", "description": "Does it",
            "skills": [{ "id": "s", "name": "S", "description": null, "action": "do", "target": "it", "tags": ["x"],
                         "examples": ["do it", 7] }],
        });
        let read = candidate(&described);
        assert_eq!((read.id.as_str(), read.near), ("urn:a", true));
        assert_eq!(read.description, "A\nDoes it\ndo it S\n\nx");
        assert_eq!(read.examples, ["do it"]);
        assert_eq!(candidate(&Value::Null).name, "");
    }
}
