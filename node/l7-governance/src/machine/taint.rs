//! What a turn was given, taken together: how far its data may go, and whether they can be relied on. There is one label for the
//! whole turn, since nobody can tell which of the texts that a model read made it say what.

use std::fmt;

use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use althing_td::Effect;

use super::profile::ToolProfile;

/// The label of all that a turn was given so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taint(Label);

/// Where the message of a turn comes from that says nothing of its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This node.
    Here,
    /// Another one.
    Elsewhere,
}

impl Taint {
    /// Of a turn that begins with a message of that label, of an agent whose contract has the label `of_contract`.
    #[must_use]
    pub fn of_message(label: Option<Label>, origin: Origin, of_contract: DataLabel) -> Taint {
        Taint(label.unwrap_or(match origin {
            Origin::Here => Label { level: of_contract, trusted: true },
            Origin::Elsewhere => Label { level: DataLabel::Confidential, trusted: false },
        }))
    }

    /// The turn was given something else.
    pub fn read(&mut self, label: Label) {
        self.0 = self.0.join(label);
    }

    /// The label of everything that the turn says from now on.
    #[must_use]
    pub fn label(self) -> Label {
        self.0
    }
}

/// A call, as far as labels decide about it.
#[derive(Debug, Clone, Copy)]
pub struct LabelledCall<'a> {
    /// Of the tool.
    pub profile: &'a ToolProfile,
    /// Whether there are any.
    pub has_arguments: bool,
    /// The label of texts that the model did not see and that the arguments name by handles.
    pub hidden: Option<Label>,
    /// The highest tier that the contract lets the agent have.
    pub tier_max: Option<u8>,
}

/// What follows from labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may be made.
    Permit,
    /// A person is asked first.
    Ask(AskReason),
    /// It may not.
    Deny(DenyReason),
}

/// Why a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskReason {
    /// It has an effect.
    Effect,
    /// Its arguments leave the node.
    Text,
}

/// Why it is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenyReason {
    /// The tool is not cleared for the data.
    Clearance {
        /// The label of the data.
        level: DataLabel,
        /// The strictest label of data that the tool may be given.
        clearance: DataLabel,
    },
    /// The model is not cleared for the data.
    Model {
        /// The label of the data.
        level: DataLabel,
        /// The strictest label of data that the model may be given.
        clearance: DataLabel,
    },
    /// The tool needs more care than the contract allows.
    Tier {
        /// The highest tier that it allows.
        most: u8,
    },
}

impl Verdict {
    /// Its word, which does not change.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Permit => "permit",
            Verdict::Ask(_) => "ask",
            Verdict::Deny(_) => "deny",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Permit => f.write_str("permit"),
            Verdict::Ask(reason) => write!(f, "ask: {reason}"),
            Verdict::Deny(reason) => write!(f, "deny: {reason}"),
        }
    }
}

impl fmt::Display for AskReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AskReason::Effect => "the turn read something that nobody vouches for, and this call has an effect",
            AskReason::Text => {
                "the turn read something that nobody vouches for, and this call sends text of it elsewhere"
            }
        })
    }
}

impl fmt::Display for DenyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DenyReason::Clearance { level, clearance } => write!(
                f,
                "the data are {}, and this tool is cleared for {}: its profile says so, or nobody wrote one (`clearance` in `[[tools]]` \
                 of the configuration, or in `tools.SERVER.profiles` of the agent file)",
                level.name(),
                clearance.name()
            ),
            DenyReason::Model { level, clearance } => write!(
                f,
                "the data are {}, and the model that would be given them is cleared for {}: `clearance` beside it says so, or \
                 nobody wrote one",
                level.name(),
                clearance.name()
            ),
            DenyReason::Tier { most } => write!(
                f,
                "the contract allows tools up to tier {most}, and this one is above it, or nobody wrote its tier"
            ),
        }
    }
}

/// What labels say of a call, and whether that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelFinding {
    /// The label of the arguments.
    pub label: Label,
    /// What they say.
    pub verdict: Verdict,
    /// Whether it decides. Where no policy set is loaded and no profile demands it, it is only told.
    pub decides: bool,
}

impl LabelFinding {
    /// What labels say of a call of a turn; `is_demanded` where a policy set is loaded, or the profile of the node has them decide.
    #[must_use]
    pub fn of(taint: Taint, call: &LabelledCall<'_>, is_demanded: bool) -> LabelFinding {
        let label = call.hidden.map_or(taint.label(), |hidden| taint.label().join(hidden));
        let LabelledCall { profile, tier_max, .. } = call;
        let verdict = match *tier_max {
            Some(most) if profile.is_above(Some(most)) => Verdict::Deny(DenyReason::Tier { most }),
            _ if call.has_arguments && label.level > profile.clearance => {
                Verdict::Deny(DenyReason::Clearance { level: label.level, clearance: profile.clearance })
            }
            _ if label.trusted => Verdict::Permit,
            _ if profile.effect != Effect::None => Verdict::Ask(AskReason::Effect),
            _ if profile.leaves && call.has_arguments => Verdict::Ask(AskReason::Text),
            _ => Verdict::Permit,
        };
        // A tier decides by itself, since the contract names it.
        let is_tier = matches!(verdict, Verdict::Deny(DenyReason::Tier { .. }));
        LabelFinding { label, verdict, decides: is_demanded || profile.is_stated || is_tier }
    }

    /// What they say of a request to a model, of which the profile says how far it is cleared. It changes nothing by itself, and what
    /// nobody vouches for may be asked about, but what is more confidential than that may not be sent.
    #[must_use]
    pub fn of_model(taint: Taint, model: &ToolProfile, is_demanded: bool) -> LabelFinding {
        let call = LabelledCall { profile: model, has_arguments: true, hidden: None, tier_max: None };
        let found = LabelFinding::of(taint, &call, is_demanded);
        match found.verdict {
            Verdict::Deny(DenyReason::Clearance { level, clearance }) => {
                LabelFinding { verdict: Verdict::Deny(DenyReason::Model { level, clearance }), ..found }
            }
            _ => found,
        }
    }

    /// What follows for the call.
    #[must_use]
    pub fn in_force(&self) -> Verdict {
        if self.decides { self.verdict } else { Verdict::Permit }
    }
}

#[cfg(test)]
mod tests;
