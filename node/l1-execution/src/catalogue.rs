//! The tools and models of a host, with what their owner says of them.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::AgentRef;
use althing_protocol::binding::Model;
use althing_td::{Effect, ToolTerms};

use crate::bindable::offered;
use crate::binding::OfferedModel;
use crate::definition::Unfit;
use crate::host::Host;
use crate::tiers;
use crate::tools::Tools;

/// A tool of an agent, which may call it or not.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogueTool {
    /// Whose tool it is.
    pub agent: AgentRef,
    /// `server/tool`.
    pub name: String,
    /// SHA-256 of its definition, hexadecimal, if it is known.
    pub definition: Option<String>,
    /// What its owner says of it.
    pub terms: ToolTerms,
    /// How much care it needs, 0 to 9; none of what stays within the node.
    pub tier: Option<u8>,
    /// What it does outside if it is called once more.
    pub effect: Effect,
    /// Why the agent does not call it, if it does not.
    pub why: Option<String>,
}

/// A model that agents may be bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueModel {
    /// As it is offered.
    pub model: Model,
    /// How much care it needs, 0 to 9.
    pub tier: u8,
    /// Whether somebody wrote that tier.
    pub tier_written: bool,
}

/// The tools of the agents that run on a host, as their servers listed them last, and those that they are bound to.
#[must_use]
pub fn catalogue_tools(host: &Host) -> Vec<CatalogueTool> {
    let of_agent = |agent: AgentRef| {
        let (Some(bound), Some(binding)) = (host.tools(&agent), host.binding(&agent)) else { return Vec::new() };
        of_tools(&agent, &bound.tools, binding.bound.manifest.contract.security.max_tier)
    };
    host.turns().into_keys().flat_map(of_agent).collect()
}

/// The models that the agents of a host may be bound to: those of the node, and those of agent files.
#[must_use]
pub fn catalogue_models(host: &Host) -> Vec<CatalogueModel> {
    let of_node = host.ports.models.iter().map(offered);
    let of_agents = host.turns().into_keys().filter_map(|agent| host.binding(&agent));
    of_models(of_node.chain(of_agents.flat_map(|binding| binding.offers.to_vec())))
}

/// Each of these models once, by name.
fn of_models(offers: impl Iterator<Item = OfferedModel>) -> Vec<CatalogueModel> {
    let all: BTreeMap<(String, String), OfferedModel> =
        offers.map(|offer| ((offer.model.name.clone(), offer.model.digest.clone()), offer)).collect();
    let told = |OfferedModel { model, tier }| CatalogueModel {
        model,
        tier: tiers::of_model(tier),
        tier_written: tier.is_some(),
    };
    all.into_values().map(told).collect()
}

fn of_tools(agent: &AgentRef, tools: &Tools, most: Option<u8>) -> Vec<CatalogueTool> {
    let known = tools.known();
    let suspended: BTreeMap<&String, String> = known.bound().filter_map(|(name, _, why)| Some((name, why?))).collect();
    let pinned = known.pins().into_iter().flatten().map(|(name, _)| name);
    let names: BTreeSet<&String> = pinned.chain(known.fit().keys()).chain(known.unfit().keys()).collect();
    let tool = |name: &String| {
        let terms = tools.profiles().of(name);
        let why = if tools.may(name) {
            known.unfit().get(name).map(Unfit::brief).or_else(|| suspended.get(name).cloned())
        } else {
            let above = most.and_then(|most| tiers::above(name, terms.tier, most));
            Some(above.unwrap_or_else(|| "the contract does not name it (capabilities)".to_owned()))
        };
        CatalogueTool {
            agent: agent.clone(),
            name: name.clone(),
            definition: known.expected(name),
            terms,
            tier: tiers::of(name, terms.tier),
            effect: tools.effect_of(name),
            why,
        }
    };
    names.into_iter().map(tool).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use althing_td::ModelEndpoint;
    use futures::future::BoxFuture;
    use serde_json::{Value, json};

    use super::*;
    use crate::fault::Fault;
    use crate::ports::Ports;
    use crate::profiles::Profiles;
    use crate::tools::{ContractGate, Definition, ToolServer};

    struct Shop;

    impl ToolServer for Shop {
        fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
            let tool = |name: &str| {
                let tool = json!({ "name": name, "inputSchema": { "type": "object" } });
                serde_json::from_value(tool).expect("a definition")
            };
            let all = Vec::from(["search", "order", "refund"].map(tool));
            Box::pin(async move { Ok(all) })
        }

        fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
            Box::pin(async { Ok(Value::Null) })
        }

        fn stop(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    #[test]
    fn every_model_is_told_once_with_its_tier() {
        let endpoint = |model: &str, tier| ModelEndpoint { model: model.to_owned(), tier, ..ModelEndpoint::default() };
        let offers = [endpoint("small", Some(3)), endpoint("large", None), endpoint("small", Some(3))];
        let told: Vec<(String, u8, bool)> = of_models(offers.iter().map(offered))
            .into_iter()
            .map(|told| (told.model.name, told.tier, told.tier_written))
            .collect();
        assert_eq!(told, [("large".to_owned(), 9, false), ("small".to_owned(), 3, true)]);
    }

    #[tokio::test]
    async fn every_tool_is_told_with_its_tier_and_why_it_is_not_called() {
        let agent = Ports::none().agent_ref("clerk", "1.0.0").expect("a name");
        let servers = BTreeMap::from([("shop".to_owned(), Arc::new(Shop) as Arc<dyn ToolServer>)]);
        let gate = Arc::new(ContractGate::new(vec!["shop/search".to_owned()]));
        let tier = |tier| ToolTerms { tier: Some(tier), ..ToolTerms::default() };
        let node = BTreeMap::from([("shop/search".to_owned(), tier(2)), ("shop/order".to_owned(), tier(4))]);
        let profiles = Profiles { node, file: BTreeMap::new() };
        let tools = Tools::new(agent.clone(), servers, gate).with_profiles(profiles);
        tools.listed().await;
        let all = of_tools(&agent, &tools, Some(3));
        let told: Vec<(&str, Option<u8>, Option<&str>)> =
            all.iter().map(|tool| (tool.name.as_str(), tool.tier, tool.why.as_deref())).collect();
        let above = "its tier is 4, and the contract allows 3 at most";
        let unwritten = "nobody wrote its tier, which counts as 9, and the contract allows 3 at most";
        let expected = [
            ("shop/order", Some(4), Some(above)),
            ("shop/refund", Some(9), Some(unwritten)),
            ("shop/search", Some(2), None),
        ];
        assert_eq!(told, expected);
        assert!(all.iter().all(|tool| tool.definition.is_some() && tool.effect == Effect::Final));
        let unbounded = of_tools(&agent, &tools, None);
        assert_eq!(unbounded[0].why.as_deref(), Some("the contract does not name it (capabilities)"));
    }
}
