//! What a file says of the effects of tools.

use std::collections::BTreeMap;

use althing_protocol::contract::did_you_mean;

use crate::agent_file::effect::Effect;
use crate::json::excerpt;
use crate::reader::yaml::{At, Node};
use crate::reader::{Fields, Reader};

/// What is said of the tools of the servers: one word for all of a server, or a map of its tools.
pub(super) fn effects(reader: &mut Reader, fields: &Fields<'_>) -> Option<BTreeMap<String, Effect>> {
    let mut all = BTreeMap::new();
    let Some(Node::Map(servers)) = fields.value("tools").map(|at| &at.node) else { return Some(all) };
    for server in servers {
        // What is no map was refused with the server itself.
        let Node::Map(members) = &server.value.node else { continue };
        let Some(said) = members.iter().find(|member| member.key == "effect" && member.value.node != Node::Null) else {
            continue;
        };
        let path = format!("tools.{}.effect", excerpt(&server.key, 80));
        if let Node::Map(tools) = &said.value.node {
            for tool in tools {
                let path = format!("{path}.{}", excerpt(&tool.key, 80));
                all.insert(format!("{}/{}", server.key, tool.key), effect(reader, &tool.value, path)?);
            }
        } else {
            all.insert(format!("{}/*", server.key), effect(reader, &said.value, path)?);
        }
    }
    Some(all)
}

fn effect(reader: &mut Reader, at: &At, path: String) -> Option<Effect> {
    let Node::Text(word) = &at.node else {
        reader.wrong_type(path, at, "one of the words none, repeatable, keyed and final, or a map of tools with them");
        return None;
    };
    let found = Effect::from_word(word);
    if found.is_none() {
        let message = format!("{:?} is not one of the words it may be", excerpt(word, 80));
        reader.problem(path, at.line, "unknown-word", message, did_you_mean(word, &Effect::WORDS));
    }
    found
}
