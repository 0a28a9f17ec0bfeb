//! What a file says of tools beside their effects.

use std::collections::BTreeMap;

use althing_protocol::contract::DataLabel;

use crate::agent_file::terms::ToolTerms;
use crate::json::excerpt;
use crate::reader::yaml::{At, Node};
use crate::reader::{Fields, Reader};

const KEYS: [&str; 6] = ["trusted", "label", "clearance", "tier", "hide", "leaves"];
const LABELS: [DataLabel; 4] = [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];

/// `profiles` beside the servers: a map of the tools of each, `*` for all of them.
pub(super) fn terms(reader: &mut Reader, fields: &Fields<'_>) -> Option<BTreeMap<String, ToolTerms>> {
    let mut all = BTreeMap::new();
    let Some(Node::Map(servers)) = fields.value("tools").map(|at| &at.node) else { return Some(all) };
    for server in servers {
        // What is no map was refused with the server itself.
        let Node::Map(members) = &server.value.node else { continue };
        let said = members.iter().find(|member| member.key == "profiles" && member.value.node != Node::Null);
        let Some(said) = said else { continue };
        let path = format!("tools.{}.profiles", excerpt(&server.key, 80));
        let Node::Map(tools) = &said.value.node else {
            reader.wrong_type(path, &said.value, "a map of the server's tools, or of \"*\" for all of them");
            return None;
        };
        for tool in tools {
            let path = format!("{path}.{}", excerpt(&tool.key, 80));
            all.insert(format!("{}/{}", server.key, tool.key), of_tool(reader, &tool.value, &path)?);
        }
    }
    Some(all)
}

fn of_tool(reader: &mut Reader, at: &At, path: &str) -> Option<ToolTerms> {
    let fields = reader.fields(at, path, &KEYS)?;
    let mut flag = |key: &str| match fields.value(key) {
        Some(At { node: Node::Bool(flag), .. }) => Some(*flag),
        Some(at) => {
            reader.wrong_type(fields.path_of(key), at, "true or false");
            None
        }
        None => None,
    };
    let (trusted, hide, leaves) = (flag("trusted"), flag("hide"), flag("leaves"));
    let words = LABELS.map(DataLabel::name);
    let mut label = |key: &str| {
        let from_word = |word: &str| LABELS.into_iter().find(|label| label.name() == word);
        reader.word(&fields, key, (&words[..], ""), from_word)
    };
    let (label, clearance) = (label("label"), label("clearance"));
    let tier = reader.number(&fields, "tier", 0..=ToolTerms::TIER_MAX);
    let terms = ToolTerms { trusted, label, clearance, tier, hide, leaves };
    if !terms.is_said() && !KEYS.into_iter().any(|key| fields.has(key)) {
        let message = "this says nothing of the tool".to_owned();
        let fix = format!("Leave it out, or write one of {}", KEYS.join(", "));
        reader.problem(path.to_owned(), at.line, "missing", message, fix);
    }
    Some(terms)
}
