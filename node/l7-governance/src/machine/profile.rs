//! Profiles of tools: what an owner says of them. What nobody said is what needs the most care, whatever a tool says of itself.

use std::collections::{BTreeMap, BTreeSet};

use althing_execution::tools::{HAND_OVER, is_within};
use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use althing_td::{Effect, ToolTerms};

/// The server of the node itself whose tools ask other nodes and change nothing.
pub(crate) const ASKS: &str = "mesh";

/// What is said of tools, of the node and then of the agent's file: the node goes before the file.
#[derive(Debug, Clone, Copy)]
pub struct Statements<'a> {
    /// Of their effects.
    pub effects: [&'a BTreeMap<String, Effect>; 2],
    /// Of what else there is.
    pub terms: [&'a BTreeMap<String, ToolTerms>; 2],
    /// The servers of this machine.
    pub here: &'a BTreeSet<String>,
}

/// The profile of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolProfile {
    /// What it does if it is called once more.
    pub effect: Effect,
    /// Whether what it answers can be relied on.
    pub trusted: bool,
    /// The label of what it answers, if somebody said it.
    pub label: Option<DataLabel>,
    /// The strictest label of data that it may be given.
    pub clearance: DataLabel,
    /// How much care it needs, if somebody said it.
    pub tier: Option<u8>,
    /// Whether its arguments get to somebody outside this node, as those of a search or a fetch do. Where nobody says it, only those of
    /// a tool stay that a server of this machine has, and that changes nothing.
    pub leaves: bool,
    /// Whether an owner wrote more than its effect: then labels decide about it without a policy too.
    pub is_stated: bool,
}

impl Default for ToolProfile {
    fn default() -> ToolProfile {
        ToolProfile {
            effect: Effect::Final,
            trusted: false,
            label: None,
            clearance: DataLabel::Public,
            tier: None,
            leaves: true,
            is_stated: false,
        }
    }
}

impl ToolProfile {
    /// The profile of `server/tool`.
    #[must_use]
    pub fn of(tool: &str, said: Statements<'_>) -> ToolProfile {
        let effect = said.effects.into_iter().find_map(|list| Effect::said(list, tool));
        let [node, file] = said.terms.map(|list| ToolTerms::said(list, tool));
        let terms = node.or(file);
        let rest = ToolProfile::default();
        let effect = effect.unwrap_or(rest.effect);
        let is_here = || tool.split_once('/').is_some_and(|(server, _)| said.here.contains(server));
        ToolProfile {
            effect,
            trusted: terms.trusted.unwrap_or(rest.trusted),
            label: terms.label,
            clearance: terms.clearance.unwrap_or(rest.clearance),
            tier: terms.tier,
            leaves: terms.leaves.unwrap_or_else(|| effect != Effect::None || !is_here()),
            is_stated: terms.is_said(),
        }
    }

    /// The same, with what the node itself knows of its own tools: what they do and where they go, nobody chooses.
    #[must_use]
    pub fn known(self, tool: &str) -> ToolProfile {
        let server = tool.split_once('/').map_or("", |(server, _)| server);
        match server {
            _ if is_within(tool) => ToolProfile { effect: Effect::None, ..ToolProfile::unlimited() },
            // The same work comes to its recipient once, however often it is offered.
            _ if tool == HAND_OVER => ToolProfile { effect: Effect::Repeatable, leaves: true, ..self },
            ASKS => ToolProfile { effect: Effect::None, leaves: true, ..self },
            _ => self,
        }
    }

    /// That of what stays within the node: it may be given everything, and answers nothing that was not given to it.
    pub(crate) fn unlimited() -> ToolProfile {
        ToolProfile { trusted: true, clearance: DataLabel::Restricted, leaves: false, ..ToolProfile::default() }
    }

    /// That of a model, which changes nothing by itself: how far it is cleared, and whether somebody wrote that.
    #[must_use]
    pub fn of_model(clearance: DataLabel, is_written: bool) -> ToolProfile {
        let (effect, trusted, is_stated) = (Effect::None, true, is_written);
        ToolProfile { effect, trusted, clearance, is_stated, leaves: false, ..ToolProfile::default() }
    }

    /// The label of what it answers to an agent whose contract has that label.
    #[must_use]
    pub fn result_label(&self, of_contract: DataLabel) -> Label {
        Label { level: self.label.unwrap_or(of_contract), trusted: self.trusted }
    }

    /// Whether its tier is above the highest that a contract lets its agent have; one that nobody said is the highest.
    #[must_use]
    pub fn is_above(&self, tier_max: Option<u8>) -> bool {
        tier_max.is_some_and(|most| self.tier.unwrap_or(ToolTerms::TIER_MAX) > most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(clearance: DataLabel) -> ToolTerms {
        ToolTerms { clearance: Some(clearance), ..ToolTerms::default() }
    }

    #[test]
    fn what_nobody_profiled_needs_the_most_care() {
        let (effects, none, here) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::from(["shop".to_owned()]));
        let said = Statements { effects: [&effects; 2], terms: [&none; 2], here: &here };
        let profile = ToolProfile::of("shop/pay", said);
        assert_eq!(profile, ToolProfile::default());
        assert_eq!((profile.effect, profile.trusted, profile.clearance), (Effect::Final, false, DataLabel::Public));
        let label = profile.result_label(DataLabel::Internal);
        assert_eq!(label, Label { level: DataLabel::Internal, trusted: false });
        assert!(profile.is_above(Some(8)) && !profile.is_above(Some(9)) && !profile.is_above(None));
    }

    #[test]
    fn arguments_stay_in_a_read_of_a_server_of_this_machine_unless_an_owner_says_otherwise() {
        let here = BTreeSet::from(["notes".to_owned()]);
        let read = |tool: &str| (tool.to_owned(), Effect::None);
        let effects = BTreeMap::from([read("notes/find"), read("notes/fetch"), read("far/find"), read("far/fetch")]);
        let leaves = |leaves| ToolTerms { leaves: Some(leaves), ..ToolTerms::default() };
        let terms = BTreeMap::from([("notes/fetch".to_owned(), leaves(true)), ("far/find".to_owned(), leaves(false))]);
        let none = (BTreeMap::new(), BTreeMap::new());
        let said = Statements { effects: [&effects, &none.0], terms: [&terms, &none.1], here: &here };
        let found = ["notes/find", "notes/fetch", "notes/write", "far/find", "far/fetch"]
            .map(|tool| ToolProfile::of(tool, said).leaves);
        assert_eq!(found, [false, true, true, false, true]);
    }

    #[test]
    fn what_the_nodes_own_tools_do_nobody_chooses_and_what_hands_work_over_leaves_the_node() {
        let said =
            ToolProfile { tier: Some(2), clearance: DataLabel::Internal, leaves: false, ..ToolProfile::default() };
        for within in ["memory/put", "session/note", "session/checkpoint"] {
            let known = said.known(within);
            assert_eq!((known.effect, known.clearance), (Effect::None, DataLabel::Restricted), "{within}");
            assert!(known.trusted && !known.leaves, "{within}");
        }
        assert_eq!(said.known("session/handoff"), ToolProfile { effect: Effect::Repeatable, leaves: true, ..said });
        assert_eq!(said.known("mesh/find_agents"), ToolProfile { effect: Effect::None, leaves: true, ..said });
        assert_eq!(said.known("agents/clerk"), said);
    }

    #[test]
    fn the_node_goes_before_the_file_and_a_tool_before_its_server() {
        let list = |entries: &[(&str, ToolTerms)]| {
            entries.iter().map(|(name, terms)| ((*name).to_owned(), *terms)).collect::<BTreeMap<_, _>>()
        };
        let trusted = ToolTerms { trusted: Some(true), label: Some(DataLabel::Restricted), ..ToolTerms::default() };
        let node = list(&[("shop/*", terms(DataLabel::Internal))]);
        let file = list(&[("shop/pay", terms(DataLabel::Restricted)), ("shop/*", trusted)]);
        let effects = BTreeMap::from([("shop/*".to_owned(), Effect::None)]);
        let other = BTreeMap::from([("shop/pay".to_owned(), Effect::Keyed)]);
        let here = BTreeSet::new();
        let said = Statements { effects: [&effects, &other], terms: [&node, &file], here: &here };
        let pay = ToolProfile::of("shop/pay", said);
        assert_eq!((pay.effect, pay.clearance, pay.trusted), (Effect::None, DataLabel::Internal, true));
        assert_eq!(pay.result_label(DataLabel::Public).level, DataLabel::Restricted);
        assert!(pay.is_stated);
        assert!(!ToolProfile::of("bank/pay", said).is_stated);
    }
}
