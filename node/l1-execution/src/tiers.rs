//! Tiers of tools and models at binding: what is above the highest tier of a contract is not bound, and where nothing else is left
//! for a capability, or as a model, the agent is refused. Pure.

use althing_protocol::Contract;
use althing_protocol::binding::{Model, Tool};
use althing_protocol::contract::covers;
use althing_td::ToolTerms;

use crate::binding::{OfferedModel, Unmet, Why, shown};
use crate::own_tools::is_within;

/// The tools that a contract allows up to its highest tier, and why the others among those listed are left out. `tier` is what the
/// owner wrote of a tool, if anything.
///
/// # Errors
/// [`Unmet`] for a capability of the contract that names only tools above that tier.
pub(crate) fn within(
    contract: &Contract,
    listed: Vec<Tool>,
    tier: impl Fn(&str) -> Option<u8>,
) -> Result<(Vec<Tool>, Vec<Why>), Unmet> {
    let Some(most) = contract.security.max_tier else { return Ok((listed, Vec::new())) };
    let above = |tool: &str| above(tool, tier(tool), most).map(|reason| left_out(tool, reason));
    for (place, capability) in contract.capabilities.iter().enumerate() {
        let named: Vec<&str> = if capability.ends_with("/*") {
            listed.iter().map(|tool| tool.name.as_str()).filter(|name| covers(capability, name)).collect()
        } else {
            // What one tool needs is known before its server lists it.
            vec![capability.as_str()]
        };
        let candidates: Vec<Why> = named.iter().filter_map(|tool| above(tool)).collect();
        if !candidates.is_empty() && candidates.len() == named.len() {
            return Err(Unmet {
                clause: format!("capabilities[{place}]"),
                reason: format!(
                    "{capability:?} is wanted, and the contract allows tools up to tier {most} (security.max_tier): \
                     leave it out, raise security.max_tier, or write a lower tier in its profile (`[[tools]]`)"
                ),
                candidates,
            });
        }
    }
    let is_named = |tool: &Tool| contract.capabilities.iter().any(|capability| covers(capability, &tool.name));
    let (mut within, mut others) = (Vec::new(), Vec::new());
    for tool in listed {
        match above(&tool.name).filter(|_| is_named(&tool)) {
            Some(why) => others.push(why),
            None => within.push(tool),
        }
    }
    Ok((within, others))
}

/// The models that a contract allows up to its highest tier, and why the others among those offered are left out.
///
/// # Errors
/// [`Unmet`] where all that are offered are above that tier.
pub(crate) fn models_within(contract: &Contract, offered: Vec<OfferedModel>) -> Result<(Vec<Model>, Vec<Why>), Unmet> {
    let most = contract.security.max_tier;
    let (mut within, mut others) = (Vec::new(), Vec::new());
    for OfferedModel { model, tier } in offered {
        match most.and_then(|most| reason(tier, most)) {
            Some(reason) => others.push(left_out(&shown(&model), reason)),
            None => within.push(model),
        }
    }
    match most {
        Some(most) if within.is_empty() && !others.is_empty() => Err(Unmet {
            clause: "model".to_owned(),
            reason: format!(
                "a model is wanted, and the contract allows models up to tier {most} (security.max_tier): raise \
                 security.max_tier, or write a lower tier beside one that is offered (`[[models]]`, or `endpoints` of the \
                 agent file)"
            ),
            candidates: others,
        }),
        _ => Ok((within, others)),
    }
}

/// The same refusal, which names among its candidates the models too that are above the highest tier, if it is about models.
pub(crate) fn told_of(mut unmet: Unmet, above: &[Why]) -> Unmet {
    if unmet.clause.starts_with("model") {
        unmet.candidates.extend_from_slice(above);
    }
    unmet
}

/// The tier of a model of which that one was written, or none.
pub(crate) fn of_model(written: Option<u8>) -> u8 {
    written.unwrap_or(ToolTerms::TIER_MAX)
}

/// The tier that a tool has where its owner wrote that one, or none; none of what stays within the node.
pub(crate) fn of(tool: &str, written: Option<u8>) -> Option<u8> {
    (!is_within(tool)).then(|| written.unwrap_or(ToolTerms::TIER_MAX))
}

/// Why a tool of that tier is above the highest that is allowed; none where it is not.
pub(crate) fn above(tool: &str, tier: Option<u8>, most: u8) -> Option<String> {
    of(tool, tier).and_then(|_| reason(tier, most))
}

/// Why what has that tier, as far as somebody wrote it, is above the highest that is allowed; none where it is not.
fn reason(written: Option<u8>, most: u8) -> Option<String> {
    let counts = written.unwrap_or(ToolTerms::TIER_MAX);
    (counts > most).then(|| match written {
        Some(tier) => format!("its tier is {tier}, and the contract allows {most} at most"),
        None => format!("nobody wrote its tier, which counts as {counts}, and the contract allows {most} at most"),
    })
}

fn left_out(tool: &str, reason: String) -> Why {
    Why { candidate: tool.to_owned(), rank: None, reason }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn contract(capabilities: &[&str], max_tier: Option<u8>) -> Contract {
        let mut value = json!({ "class": { "latency": "srt" }, "capabilities": capabilities });
        if let Some(most) = max_tier {
            value["security"] = json!({ "max_tier": most });
        }
        Contract::from_value(&value).expect("a contract")
    }

    fn listed(names: &[&str]) -> Vec<Tool> {
        let tool = |name: &&str| Tool { name: (*name).to_owned(), definition: "ff".to_owned() };
        names.iter().map(tool).collect()
    }

    fn tier(tool: &str) -> Option<u8> {
        match tool {
            "shop/search" => Some(3),
            "shop/order" => Some(4),
            _ => None,
        }
    }

    fn names(tools: &[Tool]) -> Vec<&str> {
        tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn a_capability_that_names_only_tools_above_the_tier_is_refused_with_the_tool_and_both_tiers() {
        let order = contract(&["shop/search", "shop/order"], Some(3));
        let unmet = within(&order, listed(&["shop/search"]), tier).expect_err("its tier is 4");
        assert_eq!(unmet.clause, "capabilities[1]");
        let told = unmet.to_string();
        assert!(told.contains("up to tier 3") && told.contains("shop/order: its tier is 4"), "{told}");
        let unwritten = within(&contract(&["bank/*"], Some(8)), listed(&["bank/pay"]), tier);
        let unwritten = unwritten.expect_err("nobody wrote its tier");
        assert!(unwritten.to_string().contains("bank/pay: nobody wrote its tier, which counts as 9"), "{unwritten}");
        assert!(within(&contract(&["mesh/find_agents"], Some(3)), Vec::new(), tier).is_err());
    }

    #[test]
    fn of_all_tools_of_a_server_those_above_are_left_out_with_the_reason() {
        let all = listed(&["shop/order", "shop/search", "bank/pay"]);
        let (bound, others) = within(&contract(&["shop/*"], Some(3)), all.clone(), tier).expect("one is left");
        assert_eq!(names(&bound), ["shop/search", "bank/pay"], "the contract does not name the last one at all");
        let reason = "its tier is 4, and the contract allows 3 at most".to_owned();
        assert_eq!(others, [left_out("shop/order", reason)]);
        for most in [None, Some(9)] {
            let (bound, others) = within(&contract(&["shop/*", "bank/pay"], most), all.clone(), tier).expect("all");
            assert_eq!((bound, others), (all.clone(), Vec::new()), "{most:?}");
        }
    }

    #[test]
    fn what_stays_within_the_node_has_no_tier_and_a_server_that_lists_nothing_breaks_nothing() {
        let own = contract(&["memory/*", "session/note", "shop/*", "agents/*"], Some(0));
        let all = listed(&["memory/recall"]);
        assert_eq!(within(&own, all.clone(), tier), Ok((all, Vec::new())));
    }

    #[test]
    fn handing_work_over_has_a_tier_as_calling_the_other_agent_has() {
        let all = listed(&["session/note", "session/handoff"]);
        let (bound, others) = within(&contract(&["session/*"], Some(3)), all.clone(), tier).expect("notes are left");
        assert_eq!(names(&bound), ["session/note"]);
        assert_eq!(others.iter().map(|why| why.candidate.as_str()).collect::<Vec<_>>(), ["session/handoff"]);
        assert!(within(&contract(&["session/handoff"], Some(3)), all.clone(), tier).is_err());
        let written = |tool: &str| (tool == "session/handoff").then_some(3);
        assert_eq!(within(&contract(&["session/*"], Some(3)), all.clone(), written), Ok((all, Vec::new())));
    }
}
