//! Searches in the control API: what is found, how, which capabilities may have been meant, and where nobody was asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_api::{
    AgentMatch, CapabilitySummary, FindQuery, MachineOffer, SearchExplanation, SearchOmission, SearchPlace,
    SearchReply, SearchSteps, SuccessShare, TableSearch, ThingMatch,
};
use althing_calls::finding::Success;
use althing_discovery::{Explanation, Found, Learned, Query, SearchReport, Thing};
use althing_operations::Operations;
use althing_protocol::near;
use althing_protocol::object::Health;
use althing_td::Capability;
use axum::Json;
use axum::extract::State;

use crate::body::Parameters;
use crate::{attesting, tools};

/// Agents whose capabilities are compared, at most.
const AGENTS_MAX: usize = 1_000;
/// Capabilities that are named where another was asked for.
const MEANT_MAX: usize = 3;

/// `GET /find`
pub async fn find(State(node): State<Arc<Operations>>, Parameters(asked): Parameters<FindQuery>) -> Json<SearchReply> {
    let FindQuery { capability, action, target, text, max_load, min_grade, limit, signed_in } = asked;
    let query = Query { capability, action, target, text, max_load, min_grade, limit };
    let begun = tokio::time::Instant::now();
    let released = node.registries.things();
    let ((found, why), published) =
        futures::future::join(node.discovery.search(&query), released.find(&query, signed_in)).await;
    let took = begun.elapsed();
    let agents: Vec<AgentMatch> = found.iter().map(|found| agent(&node, &query, found)).collect();
    let heard = node.discovery.things(&query);
    let things: Vec<ThingMatch> = heard.iter().map(thing).chain(published.iter().map(attesting::thing)).collect();
    let meant = (agents.is_empty() && things.is_empty()).then(|| meant(&node, &query));
    let explain = SearchExplanation {
        took_microseconds: micros(took),
        sought: why.sought.as_ref().map(sought),
        things: node.discovery.reading_things().0,
        skipped: skipped(&node, &query, why.sought.is_some()),
        steps: steps(why),
    };
    Json(SearchReply { agents, things, explain: Some(explain), meant })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn steps(why: Explanation) -> SearchSteps {
    let Explanation { known, text, capability, action_target, load, grade, limit, order, sought: _ } = why;
    SearchSteps { known, text, capability, action_target, load, grade, limit, order: order.to_owned() }
}

fn sought(report: &SearchReport) -> TableSearch {
    TableSearch {
        requests: report.requests,
        answered: report.answered,
        lookup_microseconds: micros(report.lookup),
        registries_named: report.hinted,
        asked: report.asked,
        confirmed: report.confirmed,
        without: report.without,
        silent: report.silent,
        refused: report.refused,
        took_microseconds: micros(report.took),
    }
}

/// Somebody else's Thing.
fn thing(thing: &Thing) -> ThingMatch {
    ThingMatch {
        id: thing.id.clone(),
        title: thing.description.title().to_owned(),
        description: thing.description.description().map(str::to_owned),
        can: thing.description.capabilities().iter().map(|capability| capability.id.clone()).collect(),
        from: thing.from.clone(),
        release: None,
    }
}

/// An agent on one node.
fn agent(node: &Operations, query: &Query, found: &Found) -> AgentMatch {
    let description = &found.candidate.description;
    let machine = |machine: althing_protocol::object::Machine| MachineOffer {
        grade: machine.grade,
        cores: machine.cores,
        memory_mib: machine.memory_mib,
        promised: f64::from(machine.promised_permille) / 1_000.0,
    };
    let status = match found.health {
        Health::Healthy => "healthy",
        Health::Busy => "busy",
        Health::Leaving => "offline",
    };
    let learned = match found.learned {
        Learned::Local => "hosted here",
        Learned::Push => "told by its node",
        Learned::Asked => "asked of its node",
    };
    AgentMatch {
        id: found.candidate.verified.agent.to_string(),
        name: found.candidate.verified.agent.name().to_owned(),
        title: description.title().to_owned(),
        description: description.description().map(str::to_owned),
        containment: description.contained().map(|contained| contained.words().to_owned()),
        node: found.node.did(),
        capabilities: description.capabilities().iter().map(capability).collect(),
        load: f64::from(found.load_permille) / 1_000.0,
        machine: found.machine.map(machine),
        class: found.load.map(|load| load.latency.name().to_owned()),
        turns: found.load.map(|load| load.turns),
        success: Success::of(&node.calls, found)
            .map(|known| SuccessShare { share: known.share(), basis: known.basis.to_owned() }),
        status: status.to_owned(),
        learned: learned.to_owned(),
        heard_ms_ago: found.heard_ms_ago,
        score: found.score.map(f64::from),
        tools: tools::of(query, found),
    }
}

fn capability(known: &Capability) -> CapabilitySummary {
    CapabilitySummary {
        id: known.id.clone(),
        name: known.name.clone(),
        action: known.action.clone(),
        target: known.target.clone(),
        version: known.version.clone(),
    }
}

/// The capabilities that may be meant where no agent has the one that was asked for; nothing where none was.
fn meant(node: &Operations, query: &Query) -> Vec<String> {
    let Some(asked) = &query.capability else { return Vec::new() };
    let (all, _) = node.discovery.find(&Query { limit: Some(AGENTS_MAX), ..Query::default() });
    let known = all.iter().flat_map(|found| found.candidate.description.capabilities());
    near_capabilities(asked, &known.map(|capability| capability.id.as_str()).collect())
}

fn near_capabilities(asked: &str, known: &BTreeSet<&str>) -> Vec<String> {
    let id = asked.split('@').next().unwrap_or(asked);
    // It is there, and its version is another one, or the agent's node has too much to do.
    if known.contains(id) {
        return if id == asked { Vec::new() } else { vec![id.to_owned()] };
    }
    let base = id.trim_end_matches('*').trim_end_matches('.');
    let lower = base.to_lowercase();
    let begins = |name: &&&str| name.to_lowercase().strip_prefix(&lower).is_some_and(|rest| rest.starts_with('.'));
    let within: Vec<&str> = known.iter().filter(begins).copied().collect();
    if let Some(first) = within.first().filter(|_| !id.contains('*')) {
        let family = format!("{}.*", first.get(..base.len()).unwrap_or(base));
        return within.iter().take(MEANT_MAX).map(|name| (*name).to_owned()).chain([family]).collect();
    }
    let has_word = |name: &&&str| name.to_lowercase().split('.').any(|word| word == lower);
    let with_word: Vec<String> = known.iter().filter(has_word).take(MEANT_MAX).map(|name| (*name).to_owned()).collect();
    if !with_word.is_empty() {
        return with_word;
    }
    // A typo, in the whole or in what it begins with.
    let families: BTreeSet<&str> = known.iter().filter_map(|name| Some(name.rsplit_once('.')?.0)).collect();
    let nearest = near::nearest(base, known.iter().copied()).map(str::to_owned);
    let family = || near::nearest(base, families.iter().copied()).map(|family| format!("{family}.*"));
    nearest.or_else(family).into_iter().collect()
}

/// The steps that a search did not take, each with why.
fn skipped(node: &Operations, query: &Query, was_sought: bool) -> Vec<SearchOmission> {
    let registries = node.registries.list().len();
    let all = [
        table(query, was_sought).map(|why| (SearchPlace::Table, why)),
        directory(query, registries).map(|why| (SearchPlace::Registries, why)),
    ];
    all.into_iter().flatten().map(|(step, why)| SearchOmission { step, why: why.to_owned() }).collect()
}

fn asks_for_capability(query: &Query) -> bool {
    query.capability.is_some() || query.action.is_some() || query.target.is_some()
}

/// Why other nodes were not asked.
fn table(query: &Query, was_sought: bool) -> Option<&'static str> {
    let has_part_of_word = |id: &String| id.split('@').next().is_some_and(|id| id.trim_end_matches(".*").contains('*'));
    match was_sought {
        true => None,
        false if !asks_for_capability(query) => {
            Some("only a capability, an action or a target can be asked of nodes that are not heard of")
        }
        false if query.capability.as_ref().is_some_and(has_part_of_word) => {
            Some("nobody can be asked for a part of a word: `*` stands for whole words, as in billing.*")
        }
        false => Some("all nodes of the network are heard of, so that nobody else can have it"),
    }
}

/// Why registries were not asked for Things.
fn directory(query: &Query, followed: usize) -> Option<&'static str> {
    if followed == 0 {
        return Some("this node follows none");
    }
    if !asks_for_capability(query) {
        return Some("only a capability, an action or a target can be asked of them");
    }
    let of_nodes = query.max_load.is_some() || query.min_grade.is_some();
    of_nodes.then_some("loads and grades are of nodes, which they do not know")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_near_capability_is_told_which() {
        let known = BTreeSet::from(["billing.pay", "billing.view", "weather.say"]);
        for (asked, meant) in [
            ("weather", vec!["weather.say", "weather.*"]),
            ("Weather", vec!["weather.say", "weather.*"]),
            ("billing", vec!["billing.pay", "billing.view", "billing.*"]),
            ("say", vec!["weather.say"]),
            ("wether.say", vec!["weather.say"]),
            ("wether.*", vec!["weather.*"]),
            ("weather.say@^2", vec!["weather.say"]),
            ("weather.say", vec![]),
            ("translate", vec![]),
            ("", vec![]),
            ("*", vec![]),
        ] {
            assert_eq!(near_capabilities(asked, &known), meant, "{asked}");
        }
        assert!(near_capabilities("weather", &BTreeSet::new()).is_empty());
    }

    #[test]
    fn each_step_that_was_not_taken_has_its_reason() {
        let by = |capability: &str| Query { capability: Some(capability.to_owned()), ..Query::default() };
        assert_eq!((table(&by("a.b"), true), directory(&by("a.b"), 1)), (None, None));
        assert!(table(&by("a.b"), false).is_some_and(|why| why.contains("heard of, so that")));
        assert!(table(&by("bill*"), false).is_some_and(|why| why.contains("part of a word")));
        let text = Query { text: Some("pay".to_owned()), ..Query::default() };
        assert!(table(&text, false).is_some_and(|why| why.starts_with("only a capability")));
        assert!(directory(&text, 1).is_some_and(|why| why.starts_with("only a capability")));
        assert!(directory(&by("a.b"), 0).is_some_and(|why| why.contains("follows none")));
        let load = Query { max_load: Some(0.5), ..by("a.b") };
        assert!(directory(&load, 1).is_some_and(|why| why.contains("of nodes")));
    }
}
