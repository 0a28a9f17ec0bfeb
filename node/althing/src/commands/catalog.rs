//! `althing catalog`: the tools and models of this node.

use althing_api::{CatalogList, CatalogModel, CatalogQuery, CatalogTool};

use crate::args::Catalog;
use crate::commands::{Out, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Lists tools and models.
pub async fn run(at: &Paths, Catalog::Ls { tier }: &Catalog, out: &Out) -> Result<(), Failure> {
    let list: CatalogList = at.connect().await?.query("/catalog", &CatalogQuery { tier: *tier }).await?;
    out.show(&list, |list| shown(list, *tier));
    Ok(())
}

fn shown(list: &CatalogList, tier: Option<u8>) -> String {
    let tools: Vec<Vec<String>> = list.tools.iter().map(cells).collect();
    let models: Vec<Vec<String>> = list.models.iter().map(model_cells).collect();
    let mut parts = Vec::new();
    if !tools.is_empty() {
        parts.push(table(&["tool", "agent", "tier", "effect", "label", "called"], &tools));
    }
    if !models.is_empty() {
        parts.push(table(&["model", "version", "tier", "clearance", "prompt", "cost"], &models));
    }
    match (parts.is_empty(), tier) {
        (true, Some(tier)) => {
            format!("no agent that runs here has a tool of tier {tier}, and this node has no model of it")
        }
        (true, None) => "no agent that runs here has tools, and this node has no models".to_owned(),
        (false, _) => parts.join("\n"),
    }
}

fn cells(tool: &CatalogTool) -> Vec<String> {
    let tier = tool.tier.map_or_else(String::new, |tier| tier_cell(tier, tool.tier_written));
    let trusted = if tool.trusted { ", trusted" } else { "" };
    let label = format!("{}{trusted}", tool.label.as_deref().unwrap_or("as its call"));
    let called = tool.why.as_ref().map_or_else(|| "yes".to_owned(), |why| format!("no: {why}"));
    vec![tool.tool.clone(), format!("{} {}", tool.agent, tool.version), tier, tool.effect.clone(), label, called]
}

fn tier_cell(tier: u8, is_written: bool) -> String {
    if is_written { tier.to_string() } else { format!("{tier} (not written)") }
}

fn model_cells(model: &CatalogModel) -> Vec<String> {
    let number = |of: Option<u64>| of.map_or_else(String::new, |number| number.to_string());
    vec![
        model.name.clone(),
        model.version.clone().unwrap_or_default(),
        tier_cell(model.tier, model.tier_written),
        model.clearance.clone(),
        number(model.context_tokens),
        number(model.cost),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(tier: Option<u8>, tier_written: bool, why: Option<&str>) -> CatalogTool {
        CatalogTool {
            tool: "shop/order".to_owned(),
            agent: "clerk".to_owned(),
            version: "1.0.0".to_owned(),
            tier,
            tier_written,
            effect: "final".to_owned(),
            trusted: false,
            label: None,
            definition: None,
            why: why.map(str::to_owned),
        }
    }

    #[test]
    fn a_tool_is_shown_with_its_tier_whether_anybody_wrote_it_and_why_it_is_not_called() {
        let row = |tool: &CatalogTool| cells(tool).join("|");
        assert_eq!(row(&tool(Some(4), true, None)), "shop/order|clerk 1.0.0|4|final|as its call|yes");
        let why = Some("its tier is above");
        assert_eq!(
            row(&tool(Some(9), false, why)),
            "shop/order|clerk 1.0.0|9 (not written)|final|as its call|no: its tier is above"
        );
        assert_eq!(cells(&tool(None, false, None))[2], "");
        let model = CatalogModel {
            name: "small".to_owned(),
            version: None,
            tier: 3,
            tier_written: true,
            clearance: "internal".to_owned(),
            context_tokens: Some(8_192),
            cost: None,
        };
        assert_eq!(model_cells(&model).join("|"), "small||3|internal|8192|");
        assert_eq!(model_cells(&CatalogModel { tier: 9, tier_written: false, ..model })[2], "9 (not written)");
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let none = CatalogList { tools: Vec::new(), models: Vec::new() };
        let told = "no agent that runs here has a tool of tier 4, and this node has no model of it";
        assert_eq!(shown(&none, Some(4)), told);
        assert!(shown(&none, None).contains("no models"));
        let some = CatalogList { tools: vec![tool(Some(4), true, None)], ..none };
        let told = shown(&some, Some(4));
        assert!(told.contains("TIER") && told.contains("shop/order"), "{told}");
    }
}
