//! What the results of an agent's tools count as: what the owner says of them, or else that nobody vouches for them.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use althing_td::ToolTerms;
use serde_json::Value;

use crate::context::{self, CallContext};
use crate::fault::Fault;
use crate::hidden::HIDDEN_BYTES_MAX;
use crate::relayed::Relayed;
use crate::tool_error::ToolError;
use crate::tool_server::ToolServer;

/// What is said of the tools of an agent's servers beside their effects, by `server/tool` or `server/*`.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    /// What the node says of tools.
    pub node: BTreeMap<String, ToolTerms>,
    /// What the agent file says of them, where the node says nothing.
    pub file: BTreeMap<String, ToolTerms>,
}

impl Profiles {
    /// What is said of a tool.
    pub fn of(&self, tool: &str) -> ToolTerms {
        ToolTerms::said(&self.node, tool).or(ToolTerms::said(&self.file, tool))
    }

    /// The label of what a tool answers to a call of data of the level `of_call`. Of what the node itself knows about a server the
    /// owner can only raise it.
    fn label(&self, tool: &str, known: Option<Label>, of_call: DataLabel) -> Label {
        let terms = self.of(tool);
        match known {
            Some(known) => {
                let level = terms.label.unwrap_or(DataLabel::Public);
                known.join(Label { level, trusted: terms.trusted.unwrap_or(true) })
            }
            None => Label { level: terms.label.unwrap_or(of_call), trusted: terms.trusted.unwrap_or(false) },
        }
    }

    /// The label of what a person tells in place of what a tool answers, in a turn that was given data of the label `given`. What a
    /// server of the node's own answers has labels of its own, and what is told in its place has none.
    pub fn told_label(&self, tool: &str, is_own: bool, given: Option<Label>) -> Label {
        let level = given.map_or(DataLabel::Public, |given| given.level);
        let known = is_own.then_some(Label { level, trusted: false });
        self.label(tool, known, level)
    }

    /// Whether the agent is given a handle in place of what a tool answers. Not where it only passes that on to its caller, who asked
    /// for it.
    pub fn hides(&self, name: &str) -> bool {
        self.of(name).hide == Some(true) && Relayed::current().is_none()
    }

    /// Whether what some tool answers is hidden.
    pub fn hide_any(&self) -> bool {
        self.node.values().chain(self.file.values()).any(|terms| terms.hide == Some(true))
    }

    /// What the agent of a turn is given in place of a tool's result.
    pub fn hidden(
        &self,
        turn: &CallContext,
        name: &str,
        served: Option<(&dyn ToolServer, &str)>,
        result: &Value,
    ) -> Result<Value, ToolError> {
        let of_call = Label::of_both(context::whole_label(), turn.attributes.sent().label);
        let of_tool = served.and_then(|served| self.result_label(name, served, of_call));
        let label = Label::of_both(of_call, of_tool);
        let label = label.unwrap_or(Label::of_trusted(DataLabel::Public));
        let mut texts = turn.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        texts.hide_result(result, label).ok_or_else(|| {
            let why = format!("its answer is not shown (`hide`), and a turn hides {HIDDEN_BYTES_MAX} bytes at most");
            ToolError::Fault { tool: name.to_owned(), fault: Fault::Failed(why) }
        })
    }

    /// The label of what a tool answers to a call of that label; none where it adds nothing to any.
    pub fn result_label(
        &self,
        name: &str,
        (server, tool): (&dyn ToolServer, &str),
        of_call: Option<Label>,
    ) -> Option<Label> {
        // What a server of the node gives further has labels of its own, which it adds itself.
        let nothing = Label::of_trusted(DataLabel::Public);
        let known = server.label(tool).or_else(|| server.is_own().then_some(nothing));
        let of_call = of_call.map_or(DataLabel::Public, |label| label.level);
        Some(self.label(name, known, of_call)).filter(|label| *label != nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiles(node: &[(&str, ToolTerms)], file: &[(&str, ToolTerms)]) -> Profiles {
        let list = |all: &[(&str, ToolTerms)]| all.iter().map(|(name, terms)| ((*name).to_owned(), *terms)).collect();
        Profiles { node: list(node), file: list(file) }
    }

    fn said(trusted: Option<bool>, label: Option<DataLabel>) -> ToolTerms {
        ToolTerms { trusted, label, ..ToolTerms::default() }
    }

    #[test]
    fn what_nobody_profiled_is_not_trusted_and_the_node_goes_before_the_file() {
        let all = profiles(
            &[("mail/*", said(Some(false), None))],
            &[("files/*", said(Some(true), Some(DataLabel::Restricted))), ("mail/read", said(Some(true), None))],
        );
        let of = |tool: &str| all.label(tool, None, DataLabel::Internal);
        assert_eq!(of("web/fetch"), Label { level: DataLabel::Internal, trusted: false }, "as its call");
        assert_eq!(of("files/read"), Label { level: DataLabel::Restricted, trusted: true });
        assert_eq!(of("mail/read"), Label { level: DataLabel::Internal, trusted: false });
    }

    #[test]
    fn what_the_node_knows_itself_is_only_raised() {
        let known = Label { level: DataLabel::Internal, trusted: false };
        let all = profiles(
            &[("mesh/*", said(Some(true), Some(DataLabel::Public)))],
            &[("agents/far", said(Some(false), Some(DataLabel::Confidential)))],
        );
        let of = |tool: &str, known| all.label(tool, Some(known), DataLabel::Restricted);
        assert_eq!(of("mesh/find_agents", known), known);
        let own = Label::of_trusted(DataLabel::Public);
        assert_eq!(of("memory/get", own), own);
        assert_eq!(of("agents/far", own), Label { level: DataLabel::Confidential, trusted: false });
    }

    #[test]
    fn what_a_person_tells_is_trusted_where_the_tool_is_and_its_level_is_that_of_the_turn_or_of_the_tool() {
        let all = profiles(
            &[("bank/pay", said(Some(true), Some(DataLabel::Restricted))), ("bank/*", said(None, None))],
            &[("agents/*", said(Some(true), Some(DataLabel::Public)))],
        );
        let given = Some(Label::of_trusted(DataLabel::Confidential));
        let untrusted = |level| Label { level, trusted: false };
        assert_eq!(all.told_label("bank/pay", false, given), Label::of_trusted(DataLabel::Restricted));
        for tool in ["bank/see", "mail/send"] {
            assert_eq!(all.told_label(tool, false, given), untrusted(DataLabel::Confidential), "{tool}");
            assert_eq!(all.told_label(tool, false, None), untrusted(DataLabel::Public), "{tool}");
        }
        assert_eq!(
            all.told_label("agents/far", true, given),
            untrusted(DataLabel::Confidential),
            "its answer is not there"
        );
    }
}
