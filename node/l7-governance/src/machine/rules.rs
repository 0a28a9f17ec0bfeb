//! The order in which rules decide about a call: the contract of the agent, the definition of the tool, labels and profiles,
//! the owner's policies, and last what people are asked.

use std::collections::BTreeMap;

use super::consent::DefinitionState;
use super::taint::{LabelFinding, Verdict};

/// Which rule decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Its owner stopped the agent.
    Stop,
    /// The agent's contract.
    Contract,
    /// The tool is not the one that is known.
    Definition,
    /// Labels and profiles.
    Labels,
    /// The owner's policies.
    Policy,
    /// What people said.
    People,
}

impl Rule {
    /// Its word, which does not change.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Rule::Stop => "stop",
            Rule::Contract => "contract",
            Rule::Definition => "definition",
            Rule::Labels => "labels",
            Rule::Policy => "policy",
            Rule::People => "people",
        }
    }
}

/// What one rule says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// It may be made, as far as this rule is concerned.
    Permit,
    /// It may, once this was given.
    Ask(Wants),
    /// It may not, and why.
    Deny(String),
}

/// What people must give before a call is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// Why the person must consent on whose behalf it is made; empty where no consent is wanted.
    pub consent: Vec<String>,
    /// How many others must sign off, by their role.
    pub sign_offs: BTreeMap<String, u8>,
}

impl Wants {
    /// The consent of one person, for a reason.
    #[must_use]
    pub fn consent(why: impl Into<String>) -> Wants {
        Wants { consent: vec![why.into()], sign_offs: BTreeMap::new() }
    }

    /// Whether nothing is wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.consent.is_empty() && self.sign_offs.is_empty()
    }

    /// All that both want; of one role as many as the stricter one wants.
    fn join(&mut self, other: Wants) {
        for why in other.consent {
            if !self.consent.contains(&why) {
                self.consent.push(why);
            }
        }
        for (role, count) in other.sign_offs {
            let most = self.sign_offs.entry(role).or_default();
            *most = count.max(*most);
        }
    }
}

/// What follows for a call before people are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// It is made.
    Permit,
    /// It is made once people gave this.
    Ask(Wants),
    /// It is not made.
    Deny {
        /// The first rule that denies.
        rule: Rule,
        /// Why, and what to do.
        reason: String,
    },
}

/// What all rules say of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statements {
    /// What the agent's contract says of it.
    pub contract: Statement,
    /// How the tool's definition stands to the one that is known.
    pub definition: DefinitionState,
    /// Labels and profiles; nothing of what is no tool.
    pub labels: Option<LabelFinding>,
    /// The policies in force; nothing where none is loaded.
    pub policy: Option<Statement>,
}

/// The conclusion of what all rules say: the first that denies decides, and all that any of them asks for is wanted.
#[must_use]
pub fn conclude(statements: Statements) -> Conclusion {
    let Statements { contract, definition, labels, policy } = statements;
    let in_order = [
        (Rule::Contract, contract),
        (Rule::Definition, of_definition(definition)),
        (Rule::Labels, labels.as_ref().map_or(Statement::Permit, of_labels)),
        (Rule::Policy, policy.unwrap_or(Statement::Permit)),
    ];
    let mut wants = Wants::default();
    for (rule, statement) in in_order {
        match statement {
            Statement::Permit => {}
            Statement::Ask(more) => wants.join(more),
            Statement::Deny(reason) => return Conclusion::Deny { rule, reason },
        }
    }
    if wants.is_empty() { Conclusion::Permit } else { Conclusion::Ask(wants) }
}

fn of_definition(state: DefinitionState) -> Statement {
    match state {
        DefinitionState::New | DefinitionState::Same => Statement::Permit,
        DefinitionState::Changed => Statement::Deny(
            "the tool, or whoever has it, is not what was agreed to when the agent was added, so that it is suspended: look \
             at what changed and add the agent again"
                .to_owned(),
        ),
        DefinitionState::Unknown => {
            Statement::Ask(Wants::consent("more tools are known than can be, and nobody can say whether this one changed"))
        }
    }
}

fn of_labels(finding: &LabelFinding) -> Statement {
    match finding.in_force() {
        Verdict::Permit => Statement::Permit,
        Verdict::Ask(reason) => Statement::Ask(Wants::consent(reason.to_string())),
        Verdict::Deny(reason) => Statement::Deny(reason.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::Label;
    use althing_protocol::contract::DataLabel;

    use super::*;
    use crate::machine::taint::{AskReason, DenyReason};

    fn labels(verdict: Verdict, decides: bool) -> Option<LabelFinding> {
        let label = Label { level: DataLabel::Confidential, trusted: false };
        Some(LabelFinding { label, verdict, decides })
    }

    fn deny(why: &str) -> Statement {
        Statement::Deny(why.to_owned())
    }

    fn permit() -> Statements {
        Statements { contract: Statement::Permit, definition: DefinitionState::Same, labels: None, policy: None }
    }

    fn denied_by(statements: Statements) -> Rule {
        match conclude(statements) {
            Conclusion::Deny { rule, .. } => rule,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_rule_denies_whatever_the_others_say_and_the_first_one_is_named() {
        let clearance = DenyReason::Clearance { level: DataLabel::Confidential, clearance: DataLabel::Public };
        let mut all = Statements {
            contract: deny("contract"),
            definition: DefinitionState::Changed,
            labels: labels(Verdict::Deny(clearance), true),
            policy: Some(deny("policy")),
        };
        assert_eq!(denied_by(all.clone()), Rule::Contract);
        all.contract = Statement::Ask(Wants::consent("contract"));
        assert_eq!(denied_by(all.clone()), Rule::Definition);
        all.definition = DefinitionState::Unknown;
        assert_eq!(denied_by(all.clone()), Rule::Labels);
        all.labels = labels(Verdict::Ask(AskReason::Effect), true);
        assert_eq!(denied_by(all.clone()), Rule::Policy);
        all.policy = Some(Statement::Permit);
        let Conclusion::Ask(wants) = conclude(all) else { panic!("it asks") };
        assert_eq!(wants.consent.len(), 3, "a permit of a policy takes back nothing that is asked: {wants:?}");
    }

    #[test]
    fn labels_decide_only_where_they_are_in_force() {
        let mut statements = permit();
        for verdict in [Verdict::Ask(AskReason::Text), Verdict::Deny(DenyReason::Tier { most: 1 })] {
            statements.labels = labels(verdict, false);
            assert_eq!(conclude(statements.clone()), Conclusion::Permit);
            statements.labels = labels(verdict, true);
            assert_ne!(conclude(statements.clone()), Conclusion::Permit);
        }
    }

    #[test]
    fn what_several_rules_ask_for_is_asked_for_once() {
        let sign_off =
            |count| Wants { consent: Vec::new(), sign_offs: BTreeMap::from([("auditor".to_owned(), count)]) };
        let mut wants = Wants::consent("it costs money");
        wants.join(sign_off(2));
        wants.join(Wants::consent("it costs money"));
        wants.join(sign_off(1));
        assert_eq!(wants, Wants { consent: vec!["it costs money".to_owned()], ..sign_off(2) });
        assert!(!wants.is_empty() && Wants::default().is_empty());
    }
}
