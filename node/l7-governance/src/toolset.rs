//! The agents, tools and models that policies may speak of, as far as this node has met them.

use std::collections::{BTreeMap, BTreeSet};

use althing_execution::tools::ModelClearance;
use althing_policy::{Entry, Kind, Schema, TOOLS_MAX, ToolInput, ToolSignature};
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentId, AgentRef};
use althing_td::{Effect, ToolTerms};
use serde_json::Value;

use crate::machine::profile::ToolProfile;

/// What an owner says of the tools of one agent, and who has them.
pub use althing_execution::tools::ToolStatements as Profiles;

/// Agents of other nodes, nodes and models that are remembered: a stranger makes no more of them.
const OTHERS_MAX: usize = 4_096;

/// One tool of one agent.
#[derive(Debug, Clone, PartialEq)]
struct KnownTool {
    /// Of its arguments; nothing where nobody listed it.
    input: Option<ToolInput>,
    profile: ToolProfile,
}

/// One tool, of each agent that has one of that name: what one agent calls so says nothing of that of another.
type ToolOfAgents = BTreeMap<String, KnownTool>;

/// The version and the publisher of an agent.
type AgentFacts = (String, String);

/// All that policies may speak of. It grows, and each growth is told, but for what a request brings along: who is remembered of those
/// is known to whatever is made next.
#[derive(Debug, Clone, Default)]
pub(crate) struct Toolset {
    /// Those that run here.
    agents: BTreeMap<String, AgentFacts>,
    /// Those of other nodes, the owner's too, as a request named them last.
    others: BTreeMap<String, AgentFacts>,
    tools: BTreeMap<String, ToolOfAgents>,
    /// The agents with tools, in the order in which they came.
    bound: Vec<String>,
    models: BTreeMap<String, ModelClearance>,
    nodes: BTreeSet<String>,
    revision: u64,
    tools_revision: u64,
}

impl Toolset {
    /// How often it changed.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// How often tools changed.
    pub(crate) fn tools_revision(&self) -> u64 {
        self.tools_revision
    }

    /// The agents with tools, the one that came last first.
    pub(crate) fn newest_bound(&self) -> impl Iterator<Item = &String> {
        self.bound.iter().rev()
    }

    /// Takes an agent of this node. There is room for it whatever strangers named: how many there are is bounded where they are added.
    pub(crate) fn take_agent(&mut self, agent: &AgentRef) {
        self.take_own(&agent.id, &agent.version);
    }

    /// The same, by its id; without a version where nobody knows yet in which it will run.
    pub(crate) fn take_own(&mut self, id: &AgentId, version: &str) {
        self.keep_named(&id.to_string(), version, &id.publisher().to_string());
    }

    /// The same, by the parts of its name.
    fn keep_named(&mut self, id: &str, version: &str, publisher: &str) {
        let is_known = |(of, by): &AgentFacts| by == publisher && (of == version || version.is_empty());
        if self.agents.get(id).is_some_and(is_known) {
            return;
        }
        self.agents.insert(id.to_owned(), (version.to_owned(), publisher.to_owned()));
        self.revision += 1;
    }

    /// An agent of this node acts, by the parts of its name: what policies read of it in this request alone, where it was taken in
    /// another version. While two versions answer, the calls of one would make anew what those of the other read.
    pub(crate) fn act(&mut self, id: &str, version: &str, publisher: &str) -> Option<Entry> {
        match self.agents.get(id) {
            Some((of, by)) if of == version && by == publisher => None,
            Some((of, _)) if !of.is_empty() => Some(agent(id, version, publisher)),
            // Nobody knew yet in which version it would run.
            _ => {
                self.keep_named(id, version, publisher);
                None
            }
        }
    }

    /// An agent is named that may run elsewhere, by the parts of its name: what policies read of it in this request; nothing where they
    /// know it as an agent of this node in that version.
    pub(crate) fn take_named(&mut self, id: &str, version: &str, publisher: &str) -> Option<Entry> {
        match self.agents.get(id) {
            Some((of, by)) if by == publisher && (of == version || version.is_empty()) => None,
            _ => Some(self.take_other(id, version, publisher)),
        }
    }

    /// The same of an agent of somebody else.
    fn take_other(&mut self, id: &str, version: &str, publisher: &str) -> Entry {
        let known = self.others.get(id).filter(|(_, by)| by == publisher);
        // Whoever names an agent as a sender may not know its version.
        let version = match known {
            Some((of, _)) if version.is_empty() => of.clone(),
            _ => version.to_owned(),
        };
        let has_room = self.others.len() < OTHERS_MAX || self.others.contains_key(id);
        if has_room && !self.agents.contains_key(id) {
            self.others.insert(id.to_owned(), (version.clone(), publisher.to_owned()));
        }
        agent(id, &version, publisher)
    }

    /// A model is asked, or given to an agent, by its name and how far it is cleared: what policies read of it in this request alone,
    /// where it was taken with another clearance. Two endpoints may have models of one name.
    pub(crate) fn take_model(&mut self, name: &str, clearance: ModelClearance) -> Option<Entry> {
        match self.models.get(name) {
            Some(known) if *known == clearance => None,
            None if self.models.len() < OTHERS_MAX => {
                self.models.insert(name.to_owned(), clearance);
                self.revision += 1;
                None
            }
            _ => Some(Entry::Model { id: name.to_owned(), clearance: clearance.level }),
        }
    }

    /// How far a model is cleared, as it was taken; nothing of one that nobody took.
    pub(crate) fn clearance_of(&self, model: &str) -> Option<ModelClearance> {
        self.models.get(model).copied()
    }

    /// The profile of a tool (`server/tool`): that of an agent, or of all that have one of that name what needs more care. Nothing of one
    /// that nobody has.
    pub(crate) fn profile_of(&self, agent: &str, tool: &str) -> Option<ToolProfile> {
        let of_agents = self.tools.get(tool)?;
        let own = of_agents.get(agent).map(|known| known.profile);
        own.or_else(|| of_agents.values().map(|known| known.profile).reduce(stricter))
    }

    /// What is known here of one kind that requests name: agents of this node, tools or models, by name.
    pub(crate) fn names(&self, kind: Kind) -> Vec<String> {
        match kind {
            Kind::Agent => self.agents.keys().cloned().collect(),
            Kind::Tool => self.tools.keys().cloned().collect(),
            Kind::Model => self.models.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// How many tools may be given public data alone, where one agent has one so, and how many there are.
    pub(crate) fn uncleared(&self) -> (usize, usize) {
        let strictest = |tool: &&ToolOfAgents| tool.values().map(|known| known.profile.clearance).min();
        let uncleared = self.tools.values().filter(|tool| strictest(tool) == Some(DataLabel::Public));
        (uncleared.count(), self.tools.len())
    }

    /// A node is named, by its id: what policies read of it in this request.
    pub(crate) fn take_node(&mut self, id: &str) -> Entry {
        if self.nodes.len() < OTHERS_MAX && !self.nodes.contains(id) {
            self.nodes.insert(id.to_owned());
        }
        Entry::Node { id: id.to_owned() }
    }

    /// Takes the tools (`server/tool`) of an agent as their servers list them, in the place of those that they listed before.
    pub(crate) fn take_listed<'a>(
        &mut self,
        agent: &str,
        listed: impl Iterator<Item = (&'a str, &'a Value, ToolProfile)>,
    ) {
        let mut names = BTreeSet::new();
        for (tool, input, profile) in listed {
            names.insert(tool);
            self.put(agent, tool, KnownTool { input: Some(ToolInput::of_schema(input)), profile });
        }
        let mut is_gone = false;
        for (tool, of_agents) in &mut self.tools {
            let was_listed = of_agents.get(agent).is_some_and(|known| known.input.is_some());
            if was_listed && !names.contains(tool.as_str()) {
                of_agents.remove(agent);
                is_gone = true;
            }
        }
        if is_gone {
            self.tools.retain(|_, of_agents| !of_agents.is_empty());
            if !self.tools.values().any(|of_agents| of_agents.contains_key(agent)) {
                self.bound.retain(|bound| bound != agent);
            }
            self.changes();
        }
    }

    /// Takes a tool of an agent that has a definition and is not listed: one of the node's own. Of what is said of it at two times
    /// what needs more care holds.
    pub(crate) fn take_tool(&mut self, agent: &str, tool: &str, profile: ToolProfile) {
        let next = match self.tools.get(tool).and_then(|of_agents| of_agents.get(agent)) {
            None => KnownTool { input: None, profile },
            // It is said anew of each call.
            Some(known) if known.profile == stricter(known.profile, profile) => return,
            Some(known) => KnownTool { input: known.input.clone(), profile: stricter(known.profile, profile) },
        };
        self.put(agent, tool, next);
    }

    fn put(&mut self, agent: &str, tool: &str, next: KnownTool) {
        let known = self.tools.get(tool).and_then(|of_agents| of_agents.get(agent));
        let is_full = known.is_none() && self.tools.values().map(BTreeMap::len).sum::<usize>() >= TOOLS_MAX;
        if is_full || known == Some(&next) {
            return;
        }
        self.tools.entry(tool.to_owned()).or_default().insert(agent.to_owned(), next);
        if !self.bound.iter().any(|bound| bound == agent) {
            self.bound.push(agent.to_owned());
        }
        self.changes();
    }

    fn changes(&mut self) {
        self.revision += 1;
        self.tools_revision += 1;
    }

    /// What policies are checked against, without the tools of some agents.
    pub(crate) fn schema(&self, left_out: &BTreeSet<String>) -> Schema {
        let unlisted = ToolInput::of_schema(&Value::Null);
        let (mut tools, mut variants) = (Vec::new(), Vec::new());
        for (name, of_agents) in self.known(left_out) {
            let Some((server, name)) = name.split_once('/') else { continue };
            let signature = |input| ToolSignature { server, name, input };
            let inputs = of_agents.iter().map(|(agent, tool)| (*agent, tool.input.as_ref().unwrap_or(&unlisted)));
            match inputs.clone().next() {
                Some((_, input)) if inputs.clone().all(|(_, other)| other == input) => tools.push(signature(input)),
                _ => variants.extend(inputs.map(|(agent, input)| (agent, signature(input)))),
            }
        }
        Schema::with_variants(&tools, &variants)
    }

    /// What policies read of all of it. Of tools that two agents have by one name it is what needs more care.
    pub(crate) fn entries(&self, left_out: &BTreeSet<String>) -> Vec<Entry> {
        let others = self.others.iter().filter(|(id, _)| !self.agents.contains_key(*id));
        let agents = self.agents.iter().chain(others);
        let agents = agents.map(|(id, (version, publisher))| agent(id, version, publisher));
        let known = self.known(left_out);
        let tools = known.filter_map(|(name, of_agents)| {
            let profiles = of_agents.iter().map(|(_, tool)| tool.profile);
            Some(entry(name.split_once('/')?, profiles.reduce(stricter)?))
        });
        let model = |(id, known): (&String, &ModelClearance)| Entry::Model { id: id.clone(), clearance: known.level };
        let models = self.models.iter().map(model);
        let nodes = self.nodes.iter().map(|id| Entry::Node { id: id.clone() });
        agents.chain(tools).chain(models).chain(nodes).collect()
    }

    /// What policies read of the tools of single agents, where another agent has another tool by that name.
    pub(crate) fn own_entries(&self, left_out: &BTreeSet<String>) -> BTreeMap<String, Vec<Entry>> {
        let mut own: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for (name, of_agents) in self.known(left_out) {
            let Some(parts) = name.split_once('/') else { continue };
            let mut profiles = of_agents.iter().map(|(_, tool)| tool.profile);
            let first = profiles.next();
            if profiles.all(|other| Some(other) == first) {
                continue;
            }
            for (agent, tool) in of_agents {
                own.entry(agent.to_owned()).or_default().push(entry(parts, tool.profile));
            }
        }
        own
    }

    /// The tools, without those of some agents.
    fn known<'a>(
        &'a self,
        left_out: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = (&'a String, Vec<(&'a str, &'a KnownTool)>)> {
        let of = move |(name, of_agents): (&'a String, &'a ToolOfAgents)| {
            let own = of_agents.iter().filter(|(agent, _)| !left_out.contains(*agent));
            (name, own.map(|(agent, tool)| (agent.as_str(), tool)).collect::<Vec<_>>())
        };
        self.tools.iter().map(of).filter(|(_, of_agents)| !of_agents.is_empty())
    }
}

fn agent(id: &str, version: &str, publisher: &str) -> Entry {
    Entry::Agent { id: id.to_owned(), version: version.to_owned(), publisher: Some(publisher.to_owned()) }
}

fn entry((server, name): (&str, &str), profile: ToolProfile) -> Entry {
    Entry::Tool {
        server: server.to_owned(),
        name: name.to_owned(),
        effect: word(profile.effect).to_owned(),
        trusted: profile.trusted,
        label: profile.label.unwrap_or(DataLabel::Confidential),
        clearance: profile.clearance,
        tier: u32::from(profile.tier.unwrap_or(ToolTerms::TIER_MAX)),
    }
}

fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "none",
        Effect::Repeatable => "repeatable",
        Effect::Keyed => "keyed",
        Effect::Final => "final",
    }
}

/// How much care an effect needs.
fn care(effect: Effect) -> u8 {
    match effect {
        Effect::None => 0,
        Effect::Repeatable => 1,
        Effect::Keyed => 2,
        Effect::Final => 3,
    }
}

/// The profile of a tool that two agents have by one name.
fn stricter(one: ToolProfile, other: ToolProfile) -> ToolProfile {
    ToolProfile {
        effect: if care(other.effect) > care(one.effect) { other.effect } else { one.effect },
        trusted: one.trusted && other.trusted,
        label: one.label.zip(other.label).map(|(one, other)| one.max(other)),
        clearance: one.clearance.min(other.clearance),
        tier: one.tier.zip(other.tier).map(|(one, other)| one.max(other)),
        leaves: one.leaves || other.leaves,
        is_stated: one.is_stated || other.is_stated,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trusted() -> ToolProfile {
        ToolProfile {
            effect: Effect::None,
            trusted: true,
            label: Some(DataLabel::Internal),
            clearance: DataLabel::Restricted,
            tier: Some(1),
            leaves: false,
            is_stated: true,
        }
    }

    fn tool_of(entries: &[Entry]) -> (&str, bool) {
        let tool = entries.iter().find_map(|entry| match entry {
            Entry::Tool { effect, trusted, .. } => Some((effect.as_str(), *trusted)),
            _ => None,
        });
        tool.expect("a tool")
    }

    #[test]
    fn a_tool_of_another_agent_with_the_same_name_takes_nothing_from_that_of_the_owner() {
        let (mut tools, none) = (Toolset::default(), BTreeSet::new());
        let schema = json!({ "type": "object", "properties": { "to": { "type": "string" } } });
        tools.take_listed("own", [("shop/pay", &schema, trusted())].into_iter());
        let at = tools.revision();
        tools.take_listed("own", [("shop/pay", &schema, trusted())].into_iter());
        assert_eq!(tools.revision(), at, "nothing changed");
        assert!(tools.own_entries(&none).is_empty(), "there is one tool of that name");
        let other = json!({});
        tools.take_listed("stranger", [("shop/pay", &other, ToolProfile::default())].into_iter());
        assert!(tools.revision() > at && tools.tools_revision() == tools.revision());
        assert_eq!(tool_of(&tools.entries(&none)), ("final", false), "for whoever has none of them");
        let own = tools.own_entries(&none);
        assert_eq!((tool_of(&own["own"]), tool_of(&own["stranger"])), (("none", true), ("final", false)));
        let without = BTreeSet::from(["stranger".to_owned()]);
        assert_eq!(tool_of(&tools.entries(&without)), ("none", true));
        assert!(tools.own_entries(&without).is_empty());
        assert_eq!(tools.newest_bound().collect::<Vec<_>>(), ["stranger", "own"]);
    }

    #[test]
    fn what_a_server_does_not_list_any_more_is_gone_and_what_the_node_has_itself_stays() {
        let (mut tools, none) = (Toolset::default(), BTreeSet::new());
        let schema = json!({ "type": "object" });
        tools.take_tool("own", "mesh/find", trusted());
        tools.take_listed("own", [("shop/pay", &schema, trusted())].into_iter());
        assert_eq!(tools.known(&none).count(), 2);
        tools.take_tool("own", "mesh/find", ToolProfile::default());
        tools.take_listed("own", std::iter::empty());
        let left: Vec<&str> = tools.known(&none).map(|(name, _)| name.as_str()).collect();
        assert_eq!(left, ["mesh/find"]);
        assert_eq!(tool_of(&tools.entries(&none)), ("final", false), "what needs more care holds");
        tools.take_listed("other", [("shop/pay", &schema, trusted())].into_iter());
        tools.take_listed("other", std::iter::empty());
        assert_eq!(tools.newest_bound().collect::<Vec<_>>(), ["own"], "the other one has no tools any more");
    }

    #[test]
    fn whom_a_request_brings_along_is_remembered_up_to_a_bound_and_makes_nothing_anew() {
        let mut tools = Toolset::default();
        let at = tools.revision();
        for number in 0..OTHERS_MAX {
            tools.take_other(&format!("a{number}"), "1.0.0", "p");
            tools.take_node(&format!("n{number}"));
        }
        // These are read all the same.
        assert_eq!(tools.take_other("one-more", "1.0.0", "p"), agent("one-more", "1.0.0", "p"));
        assert_eq!(tools.take_node("one-more"), Entry::Node { id: "one-more".to_owned() });
        assert_eq!(tools.take_other("a0", "1.0.1", "p"), agent("a0", "1.0.1", "p"), "one that is known may change");
        assert_eq!(tools.take_other("a0", "", "p"), agent("a0", "1.0.1", "p"), "nobody said another version");
        assert_eq!(tools.revision(), at);
        assert_eq!(tools.entries(&BTreeSet::new()).len(), 2 * OTHERS_MAX);
        // Nobody else takes the room of the owner's.
        let own: AgentId = "urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw:echo".parse().expect("an id");
        tools.take_own(&own, "");
        assert!(tools.agents.contains_key(&own.to_string()) && tools.revision() > at);
    }

    #[test]
    fn two_versions_that_answer_by_turns_make_nothing_anew() {
        let mut tools = Toolset::default();
        tools.keep_named("own", "1.0.0", "p");
        let at = tools.revision();
        for _ in 0..100 {
            assert_eq!(tools.act("own", "1.0.0", "p"), None);
            assert_eq!(tools.act("own", "2.0.0", "p"), Some(agent("own", "2.0.0", "p")));
        }
        assert_eq!(tools.revision(), at);
        // Nobody knew of this one in which version it would run.
        tools.keep_named("next", "", "p");
        let at = tools.revision();
        assert_eq!(tools.act("next", "1.0.0", "p"), None);
        assert!(tools.revision() > at);
    }

    #[test]
    fn two_models_of_one_name_are_each_read_with_their_own_clearance_and_make_nothing_anew() {
        let mut tools = Toolset::default();
        let cleared = |level| ModelClearance { level, is_written: true };
        let internal = cleared(DataLabel::Internal);
        assert_eq!(tools.take_model("small", internal), None);
        let at = tools.revision();
        for _ in 0..3 {
            let other = Entry::Model { id: "small".to_owned(), clearance: DataLabel::Restricted };
            assert_eq!(tools.take_model("small", cleared(DataLabel::Restricted)), Some(other));
            assert_eq!(tools.take_model("small", internal), None);
        }
        assert_eq!((tools.revision(), tools.clearance_of("small")), (at, Some(internal)));
        let known = Entry::Model { id: "small".to_owned(), clearance: DataLabel::Internal };
        assert!(tools.entries(&BTreeSet::new()).contains(&known));
        for number in 0..OTHERS_MAX {
            tools.take_model(&format!("m{number}"), internal);
        }
        let beyond = Entry::Model { id: "one-more".to_owned(), clearance: DataLabel::Internal };
        assert_eq!(tools.take_model("one-more", internal), Some(beyond), "it is read all the same");
    }

    #[test]
    fn what_a_server_says_of_a_schema_beside_its_types_is_nothing_new() {
        let mut tools = Toolset::default();
        let schema = |about: &str| {
            let to = json!({ "type": "string", "description": about });
            json!({ "type": "object", "properties": { "to": to } })
        };
        tools.take_listed("own", [("shop/pay", &schema("whom"), trusted())].into_iter());
        let at = tools.revision();
        tools.take_listed("own", [("shop/pay", &schema("who is paid"), trusted())].into_iter());
        assert_eq!(tools.revision(), at);
        tools.take_listed("own", [("shop/pay", &json!({ "type": "object" }), trusted())].into_iter());
        assert!(tools.revision() > at);
    }
}
