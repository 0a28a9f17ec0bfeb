//! The agent file of a Thing.

use std::collections::BTreeSet;

use althing_execution::definition::Definition;
use althing_execution::{Lacks, http};
use althing_td::{Place, RuntimeSpec, ToolServerSpec};
use althing_things::{Affordance, Plan};
use serde_json::Value;

use super::{AdoptError, Adoption, Draft, contract, of_tool, pins, unique};

/// The server of tools in the agent file of a Thing.
pub(super) const SERVER: &str = "thing";

impl Adoption {
    /// These places, and those to which the names in the origins lead that the forms of a Thing may lead to.
    pub(super) async fn and_allowed(&self, places: &[Place]) -> Result<Vec<Place>, AdoptError> {
        let mut all: BTreeSet<Place> = places.iter().copied().collect();
        for origin in &self.allow {
            match http::places(origin).await {
                Ok(places) => all.extend(places),
                // Nobody else has its certificate.
                Err(_) if origin.starts_with("https://") => {}
                Err(why) => return Err(AdoptError::Nowhere { url: origin.clone(), why }),
            }
        }
        Ok(all.into_iter().collect())
    }

    pub(super) fn of_thing(&self, at: &ToolServerSpec, url: String, plan: Plan) -> Result<Draft, AdoptError> {
        let mut left_out = plan.left_out;
        let asks = |one: &Affordance| format!("{}: {}", one.definition.name, one.request());
        let requests = plan.tools.iter().map(asks).collect();
        let mut tools: Vec<Definition> = Vec::new();
        for tool in plan.tools.into_iter().map(|one| one.definition) {
            match tool.check() {
                Ok(()) => tools.push(tool),
                Err(why) => left_out.push((tool.name, why.brief())),
            }
        }
        if tools.is_empty() {
            let why: Vec<String> = left_out.iter().take(4).map(|(what, why)| format!("{what}: {why}")).collect();
            return Err(AdoptError::Unfit(format!(
                "nothing can be done with this Thing from here. {}",
                why.join("; ")
            )));
        }
        let skills = unique(tools.iter().map(|tool| of_tool(tool, "wot")), &mut left_out);
        let capabilities: Vec<String> = tools.iter().map(|tool| format!("{SERVER}/{}", tool.name)).collect();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).take(8).collect();
        let description = match plan.description.trim() {
            "" => format!("A Thing: {}", names.join(", ")),
            said => said.to_owned(),
        };
        let secret = at.secret();
        let runtime = RuntimeSpec::Native { builtin: "tools".to_owned(), config: Value::Null };
        let mut file =
            self.file(&plan.title, &description, skills, runtime, contract(secret.as_slice(), &capabilities)?);
        if let Some(version) = plan.version.filter(|version| semver::Version::parse(version).is_ok()) {
            file.version = version;
        }
        let server = ToolServerSpec::Thing {
            thing: url,
            secret: secret.map(str::to_owned),
            allow: self.allow.clone(),
            td: Some(plan.digest),
            leads_to: at.leads_to().to_vec(),
        };
        file.tools.insert(SERVER.to_owned(), server);
        file.input_modes = vec!["application/json".to_owned(), "text/plain".to_owned()];
        file.output_modes.clone_from(&file.input_modes);
        Ok(Draft {
            kind: "Thing",
            file,
            pins: Some(pins(SERVER, tools)),
            signature: None,
            requests,
            left_out,
            lacks: Lacks::default(),
        })
    }
}
