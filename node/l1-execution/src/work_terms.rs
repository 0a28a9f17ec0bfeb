//! On what terms an agent takes work that another agent gives away, and gives its own away.

use std::collections::BTreeSet;

use althing_protocol::contract::{Class, Contract, DataLabel};
use althing_protocol::{PublicKey, sign_off};
use althing_td::{AgentFile, RuntimeSpec};

use crate::tools::Tools;

/// What is to be known of an agent that is offered work, or gives its own away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkTerms {
    /// The tools that it may call, `server/tool`.
    pub tools: BTreeSet<String>,
    /// The strictest data that it may be given, as its contract says.
    pub clearance: DataLabel,
    /// Tokens that its model reads at most; none where no model does.
    pub tokens_max: Option<u64>,
    /// Whether it does work that has no fixed time.
    pub is_capable: bool,
    /// Whose sign-offs count, as its file says.
    pub signers: BTreeSet<PublicKey>,
}

impl WorkTerms {
    /// Those of an agent file with that contract, without tools.
    pub(crate) fn of(file: &AgentFile, contract: &Contract) -> WorkTerms {
        let is_model = matches!(file.runtime, RuntimeSpec::Model { .. });
        // The reader of the file has refused what is no key.
        let signers = file.handoff_signers.iter().filter_map(|line| sign_off::public_key(line).ok());
        WorkTerms {
            tools: BTreeSet::new(),
            clearance: contract.data_label,
            tokens_max: is_model.then_some(contract.model.context_tokens),
            is_capable: !matches!(contract.class, Class::Hrt(_)),
            signers: signers.collect(),
        }
    }

    /// The same, with the tools that the agent may call by now.
    pub(crate) fn with_tools(&self, tools: &Tools) -> WorkTerms {
        let names = tools.definitions().into_iter().map(|tool| tool.name).filter(|name| tools.may(name));
        WorkTerms { tools: names.collect(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::process::ProcessConfig;
    use crate::{Builtins, Echo, Host, work_terms};

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP0XJDhaoMdbZPt4zWAvodmR/ev3axPFjtcC6sg16fYY ada";

    #[test]
    fn the_terms_of_an_agent_are_those_of_its_file() {
        let mut builtins = Builtins::new();
        builtins.insert("echo", Echo::build);
        let host = Host::new(builtins, ProcessConfig::default());
        let file = format!(
            "name: clerk\ndescription: Keeps books.\nruntime: {{ native: {{ builtin: echo }} }}\n\
             contract: {{ class: {{ latency: srt }}, data_label: confidential }}\nhandoff_signers: ['{KEY}']\n"
        );
        let file = AgentFile::parse(&file).expect("an agent file");
        host.start(&file, Path::new("/")).expect("it starts");
        let terms = work_terms(&host, "clerk").expect("it runs");
        assert_eq!(terms.signers, BTreeSet::from([sign_off::public_key(KEY).expect("a key")]));
        assert_eq!((terms.clearance, terms.tokens_max, terms.is_capable), (DataLabel::Confidential, None, true));
        assert_eq!(work_terms(&host, "other"), None);
    }
}
