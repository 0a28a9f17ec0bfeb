//! Binds the contract of an agent file to the models and tools of this node.

use std::path::Path;
use std::sync::Arc;

use althing_protocol::binding::{Candidates, Tool};
use althing_td::AgentFile;
use futures::FutureExt as _;

use super::start::AgentStart;
use super::{Host, StartError};
use crate::bindable::{offer, offered, offers, runtime};
use crate::binding::{Bindable, Bound, OfferedModel, bind, unchanged};
use crate::tools::Tools;
use crate::{memory, tiers};

impl Host {
    /// Binds the contract of an agent file in `folder`; starts only its tool servers. Blocks on them: not for threads of an
    /// async runtime.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn bind(&self, file: &AgentFile, folder: &Path) -> Result<Bound, StartError> {
        let contract = file.contract.as_ref().ok_or_else(|| StartError::NoContract(file.name.clone()))?;
        let start = self.start_of(file, folder, contract);
        let mut servers = start.servers()?;
        if contract.memory.is_some() {
            servers.insert(memory::SERVER.to_owned(), Arc::new(memory::Offered));
        }
        servers.extend(self.ports.own_servers(file, contract));
        let tools = Arc::new(self.ports.tools(file, contract, servers)?);
        let bound = start.bound(&tools);
        if let Some(scheduling) = &self.scheduling {
            // Programs that were started for the listing end again.
            scheduling.kernel.runtimes.soft().spawn(async move { tools.stop().await });
        }
        bound
    }
}

impl AgentStart<'_> {
    /// Binds the contract to the models and to those tools, as their servers list them now.
    pub(super) fn bound(&self, tools: &Arc<Tools>) -> Result<Bound, StartError> {
        let AgentStart { file, folder, contract, .. } = *self;
        let what = Bindable {
            agent: file.name.clone(),
            agent_version: file.version.clone(),
            runtime: runtime(file, folder)?,
            embeddings: file.embeddings.as_ref().map(offer),
        };
        let unbound = |reason| StartError::Unbound { name: file.name.clone(), reason };
        let within = tiers::within(contract, self.known(tools), |tool| tools.profiles().of(tool).tier);
        let (known, above) = within.map_err(unbound)?;
        let (models, models_above) = tiers::models_within(contract, self.offered()).map_err(unbound)?;
        let candidates = Candidates { models, tools: known, labels: self.ports.labels.clone() };
        let bound = unchanged(contract, &tools.unfit()).and_then(|()| bind(contract, what, candidates));
        let mut bound = bound.map_err(|unmet| unbound(tiers::told_of(unmet, &models_above)))?;
        bound.tools.extend(above);
        bound.models.extend(models_above);
        Ok(bound)
    }

    /// The models that are offered to an agent, with their tiers.
    pub(super) fn offered(&self) -> Vec<OfferedModel> {
        offers(self.file, &self.ports.models).map(offered).collect()
    }

    /// The current tools of the tool servers.
    fn known(&self, tools: &Arc<Tools>) -> Vec<Tool> {
        if tools.is_empty() {
            return Vec::new();
        }
        let asked = tools.clone();
        let listing = async move {
            asked.listed().await;
            asked.definitions()
        };
        // Without a scheduler the only servers are the node's own, which answer at once.
        let listed = match self.scheduling {
            Some(scheduling) => scheduling.wait(listing),
            None => listing.now_or_never(),
        };
        listed.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use althing_td::ModelEndpoint;
    use serde_json::{Value, json};

    use super::*;
    use crate::host::Builtins;
    use crate::ports::Ports;
    use crate::process::ProcessConfig;

    /// What an agent is bound to whose contract allows tier 3, and whose file offers a model of that tier, beside one of the node.
    fn bound(of_file: &Value, of_node: Option<u8>) -> Result<Bound, String> {
        let mut endpoint = json!({ "url": "http://127.0.0.1:1/v1", "model": "small" });
        if !of_file.is_null() {
            endpoint["tier"] = of_file.clone();
        }
        let file = json!({
            "name": "clerk",
            "description": "Answers",
            "contract": { "class": { "latency": "srt" }, "security": { "max_tier": 3 } },
            "runtime": { "model": { "prompt": "Be brief.", "endpoints": [endpoint] } },
        });
        let file = AgentFile::parse(&file.to_string()).expect("an agent file");
        let of_node = ModelEndpoint {
            url: "http://127.0.0.1:2/v1".to_owned(),
            model: "large".to_owned(),
            version: Some("1.0.0".to_owned()),
            tier: of_node,
            ..ModelEndpoint::default()
        };
        let host = Host::new(Builtins::new(), ProcessConfig::default());
        let host = host.with_ports(Ports { models: vec![of_node], ..Ports::none() });
        let bound = host.bind(&file, Path::new("/"));
        bound.map_err(|refused| match refused {
            StartError::Unbound { reason, .. } => reason.to_string(),
            other => panic!("{other}"),
        })
    }

    #[test]
    fn an_agent_is_bound_to_no_model_above_the_highest_tier_of_its_contract() {
        let names = |bound: Bound| bound.manifest.models.into_iter().map(|model| model.name).collect::<Vec<_>>();
        assert_eq!(bound(&json!(3), Some(3)).map(names), Ok(vec!["small".to_owned(), "large".to_owned()]));
        let one = bound(&json!(4), Some(2)).expect("one is left");
        let told: Vec<(&str, Option<usize>)> =
            one.models.iter().map(|why| (why.candidate.as_str(), why.rank)).collect();
        assert_eq!(told, [("large@1.0.0", Some(1)), ("small", None)]);
        assert_eq!(one.models[1].reason, "its tier is 4, and the contract allows 3 at most");
        assert_eq!(names(one), ["large"]);
        let refused = bound(&Value::Null, Some(4)).expect_err("none is left");
        assert!(refused.contains("up to tier 3") && refused.contains("large@1.0.0: its tier is 4"), "{refused}");
        assert!(refused.contains("small: nobody wrote its tier, which counts as 9"), "{refused}");
    }
}
