//! Profiles of a node: what its owner demands of it before it starts, and what no profile looks at.

use std::fmt;
use std::str::FromStr;

use althing_execution::tools::{HAND_OVER, is_within};
use althing_protocol::Contract;
use althing_protocol::contract::covers;
use althing_td::Effect;

use super::profile::{ASKS, Statements, ToolProfile};

/// The role of those who approve.
pub const APPROVER_ROLE: &str = "approver";
/// People who must have it where a profile demands approvers.
pub const APPROVERS_MIN: usize = 2;
/// All other agents, as contracts name them.
const AGENTS: &str = "agents/*";
/// Agents that are named where they have no gate; more are counted.
const NAMED_MAX: usize = 5;

/// How much is demanded of a node; each demands what the one before does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum NodeProfile {
    /// Of one person, on one machine.
    #[default]
    Local,
    /// Several nodes of an owner.
    Fleet,
    /// Of an organisation.
    Enterprise,
    /// Of one that must prove to others what its agents did.
    Regulated,
}

/// What a profile can demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Labels decide, whether a policy set is in force or not.
    Labels,
    /// A witness signs the audit log.
    Witness,
    /// There are people who can approve.
    Approvers,
    /// Agents with effects have gates.
    Gates,
}

/// Which profile demands what, in the order of [`NodeProfile::ALL`].
const DEMANDS: [(Demand, [bool; 4]); 4] = [
    (Demand::Labels, [false, true, true, true]),
    (Demand::Witness, [false, false, true, true]),
    (Demand::Approvers, [false, false, false, true]),
    (Demand::Gates, [false, false, false, true]),
];

/// What a node must have for its profile, as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileFacts {
    /// Witnesses of the audit log that are configured.
    pub witnesses: usize,
    /// People in [`APPROVER_ROLE`] who can answer.
    pub approvers: usize,
    /// Agents with effects whose answers nothing looks at.
    pub ungated: Vec<UngatedAgent>,
}

/// An agent with effects whose answers nothing looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UngatedAgent {
    /// Its name, as its file has it.
    pub agent: String,
    /// A tool with an effect that it may call: `server/tool`, or `server/*`.
    pub tool: String,
}

/// What is missing for a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileGap {
    /// No witness.
    #[error(
        "no witness signs the audit log: name one in `[audit] witnesses` of the configuration, by its address and the key \
         that it prints when it starts"
    )]
    Witness,
    /// Too few people can approve.
    #[error(
        "{able} of its people can answer as {APPROVER_ROLE}, and {APPROVERS_MIN} must: give two people that role, and a key \
         each, in the file of people (`governance/people.yaml` in the node's data); the owner needs no key"
    )]
    Approvers {
        /// How many can.
        able: usize,
    },
    /// An agent with effects has no gate.
    #[error(
        "the agent {:?} may call {}, which has an effect, and nothing looks at what it answers: write `verify` in its \
         contract (of which `finished` is a gate for models alone), or say `effect: none` of the tool if it has none",
        .0.agent, .0.tool
    )]
    Gate(UngatedAgent),
    /// More of them.
    #[error("{0} more agents with an effect have no gate in their contracts")]
    Gates(usize),
}

impl NodeProfile {
    /// All, from the one that demands nothing.
    pub const ALL: [NodeProfile; 4] =
        [NodeProfile::Local, NodeProfile::Fleet, NodeProfile::Enterprise, NodeProfile::Regulated];

    /// Its word, which does not change.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            NodeProfile::Local => "local",
            NodeProfile::Fleet => "fleet",
            NodeProfile::Enterprise => "enterprise",
            NodeProfile::Regulated => "regulated",
        }
    }

    /// Whether it demands that.
    #[must_use]
    pub fn demands(self, what: Demand) -> bool {
        let row = DEMANDS.iter().find(|(demand, _)| *demand == what);
        let of = NodeProfile::ALL.iter().position(|profile| *profile == self);
        row.zip(of).is_some_and(|((_, by), of)| by[of])
    }

    /// What is missing for it; nothing where the node may start.
    #[must_use]
    pub fn gaps(self, facts: &ProfileFacts) -> Vec<ProfileGap> {
        let mut gaps = Vec::new();
        if self.demands(Demand::Witness) && facts.witnesses == 0 {
            gaps.push(ProfileGap::Witness);
        }
        if self.demands(Demand::Approvers) && facts.approvers < APPROVERS_MIN {
            gaps.push(ProfileGap::Approvers { able: facts.approvers });
        }
        if self.demands(Demand::Gates) {
            gaps.extend(facts.ungated.iter().take(NAMED_MAX).cloned().map(ProfileGap::Gate));
            gaps.extend((facts.ungated.len() > NAMED_MAX).then(|| ProfileGap::Gates(facts.ungated.len() - NAMED_MAX)));
        }
        gaps
    }

    /// What it does not look at, for whoever relies on it; nothing of the profile that demands nothing.
    #[must_use]
    pub fn blind_spots(self) -> Option<&'static str> {
        match self {
            NodeProfile::Local => None,
            NodeProfile::Fleet => Some("that the owner's other nodes have the same profile"),
            NodeProfile::Enterprise => Some(
                "that witnesses are run by somebody else and answer in time, that the owner's other nodes have the same \
                 profile, and what policies say",
            ),
            NodeProfile::Regulated => Some(
                "that witnesses are run by somebody else and answer in time, that approvers are different people, what gates \
                 look for, what programs do without a sandbox, that the owner's other nodes have the same profile, what \
                 policies say, and whether all this is enough for any law",
            ),
        }
    }
}

impl fmt::Display for NodeProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A word that is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no profile of a node; there are local, fleet, enterprise and regulated")]
pub struct NoProfile(String);

impl FromStr for NodeProfile {
    type Err = NoProfile;

    fn from_str(word: &str) -> Result<NodeProfile, NoProfile> {
        let known = NodeProfile::ALL.into_iter().find(|profile| profile.word() == word);
        known.ok_or_else(|| NoProfile(word.chars().take(40).collect()))
    }
}

/// A tool with an effect that an agent with this contract may call, where no gate looks at what the agent answers; `is_model`:
/// whether a model makes its answers. Of all tools of a server (`server/*`) none may have one.
#[must_use]
pub fn ungated_tool(contract: &Contract, is_model: bool, said: Statements<'_>) -> Option<String> {
    if contract.verify.judges_answers(is_model) {
        return None;
    }
    // Work is handed over to agents alone that the contract names too.
    let hands_over = contract.capabilities.iter().any(|tool| covers(AGENTS, tool));
    let is_wanted = |tool: &&String| (hands_over && covers(tool, HAND_OVER)) || has_effect(tool, said);
    contract.capabilities.iter().find(is_wanted).cloned()
}

fn has_effect(tool: &str, said: Statements<'_>) -> bool {
    let server = tool.split_once('/').map_or(tool, |(server, _)| server);
    if is_within(tool) || server == ASKS || tool == HAND_OVER {
        return false;
    }
    let is_other = |effect: &Effect| *effect != Effect::None;
    let is_of_server = |name: &str| name.split_once('/').is_some_and(|(of, _)| of == server);
    let mut all = said.effects.into_iter().flatten();
    is_other(&ToolProfile::of(tool, said).effect)
        || (tool.ends_with("/*") && all.any(|(name, effect)| is_of_server(name) && is_other(effect)))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;

    use super::*;

    fn contract(capabilities: &[&str], verify: bool) -> Contract {
        let mut contract = json!({ "class": { "latency": "srt" }, "capabilities": capabilities });
        if verify {
            contract["verify"] = json!({ "finished": true });
        }
        serde_json::from_value(contract).expect("a contract")
    }

    fn ungated(count: usize) -> ProfileFacts {
        let of = |number: usize| UngatedAgent { agent: format!("a{number}"), tool: "shop/order".to_owned() };
        ProfileFacts { witnesses: 1, approvers: 2, ungated: (0..count).map(of).collect() }
    }

    #[test]
    fn each_profile_demands_what_the_one_before_does() {
        for (what, _) in DEMANDS {
            let demanded = NodeProfile::ALL.map(|profile| profile.demands(what));
            assert!(demanded.is_sorted(), "{what:?}: {demanded:?}");
            assert!(!NodeProfile::Local.demands(what) && NodeProfile::Regulated.demands(what), "{what:?}");
        }
        let none = ProfileFacts::default();
        assert!(NodeProfile::Local.gaps(&none).is_empty() && NodeProfile::Fleet.gaps(&none).is_empty());
        assert_eq!(NodeProfile::Enterprise.gaps(&none), [ProfileGap::Witness]);
        assert_eq!(NodeProfile::Regulated.gaps(&none), [ProfileGap::Witness, ProfileGap::Approvers { able: 0 }]);
        assert!(NodeProfile::Regulated.gaps(&ungated(0)).is_empty());
        assert!(NodeProfile::Regulated.blind_spots().is_some_and(|told| told.contains("any law")));
    }

    #[test]
    fn agents_without_gates_are_named_and_many_are_counted() {
        let gaps = NodeProfile::Regulated.gaps(&ungated(1));
        assert!(gaps.len() == 1 && gaps[0].to_string().contains("\"a0\" may call shop/order"), "{gaps:?}");
        let gaps = NodeProfile::Regulated.gaps(&ungated(NAMED_MAX + 2));
        assert_eq!(gaps.len(), NAMED_MAX + 1);
        assert_eq!(gaps[NAMED_MAX], ProfileGap::Gates(2));
        assert!(NodeProfile::Enterprise.gaps(&ungated(1)).is_empty());
    }

    #[test]
    fn profiles_have_words() {
        for profile in NodeProfile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let told = "Regulated".parse::<NodeProfile>().expect_err("it is written otherwise").to_string();
        assert!(told.contains("local, fleet, enterprise and regulated"), "{told}");
    }

    #[test]
    fn a_tool_that_nobody_profiled_has_an_effect_and_a_gate_looks_at_what_is_answered() {
        let (none, terms, here) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let effects = BTreeMap::from([
            ("shop/search".to_owned(), Effect::None),
            ("files/*".to_owned(), Effect::None),
            ("mail/*".to_owned(), Effect::None),
            ("mail/send".to_owned(), Effect::Final),
        ]);
        let said = Statements { effects: [&effects, &none], terms: [&terms; 2], here: &here };
        let found = |tools: &[&str], verify| ungated_tool(&contract(tools, verify), true, said);
        assert_eq!(found(&["shop/search", "files/*", "memory/*", "session/*"], false), None);
        assert_eq!(found(&["shop/search", "shop/order"], false).as_deref(), Some("shop/order"));
        assert_eq!(found(&["mail/*"], false).as_deref(), Some("mail/*"), "one of them sends");
        assert_eq!(found(&["agents/clerk"], false).as_deref(), Some("agents/clerk"));
        assert_eq!(found(&["session/handoff"], false), None, "there is nobody to whom work could go");
        for named in ["session/handoff", "session/*"] {
            assert_eq!(found(&[named, "agents/*"], false).as_deref(), Some(named), "it gives work away");
        }
        assert_eq!(found(&["shop/order"], true), None);
        let program = ungated_tool(&contract(&["shop/order"], true), false, said);
        assert_eq!(program.as_deref(), Some("shop/order"), "nobody says whether a program was cut");
    }
}
