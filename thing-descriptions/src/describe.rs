//! From an agent file to the Thing Description that others see.

use serde_json::{Map, Value, json};

use crate::agent_file::{AgentFile, RuntimeSpec, Skill};
use crate::containment::{CONTAINMENT, ContainmentClaim};
use crate::description::{Description, PASSES_ON};
use crate::tool::{self, ExposedTool};
use crate::validate::{ALTHING, CONTEXT_1_1, LMOS};

/// The TD 1.1 that an agent file becomes. `agent_urn` is the agent's identity, `urn:althing:<key>:<name>` (a character
/// that a URI may not hold is percent-encoded).
///
/// The same file and URN give the same bytes. `callers`, `exposure` and `runtime` are local and not in it, but that the node only
/// passes messages on, and nothing in it says where the agent runs: that is what discovery answers, and it changes.
///
/// The security scheme is `auto` (TD 1.1 §5.3.3.2): "the security is negotiated by the protocols in use", which is what
/// happens, since both sides of every stream prove their keys and each call is signed. `nosec` would be false, and a
/// scheme of our own would be unreadable to others.
///
/// It has no action, property or event, since their forms need an address: each gateway serves a description of its own
/// with affordances and forms, derived from this one. The capabilities tell what the agent can do.
///
/// For a file that [`AgentFile::check`] accepts, the result is valid with no findings.
pub fn describe(file: &AgentFile, agent_urn: &str) -> Description {
    describe_with(file, agent_urn, &[])
}

/// As [`describe`], with the tools that the agent exposes: a skill that has the id of a tool is that tool, and tools without
/// one become capabilities too, as long as there are no more than an agent may have. Valid with no findings if the texts of
/// the tools hold no hidden characters.
pub fn describe_with(file: &AgentFile, agent_urn: &str, tools: &[ExposedTool]) -> Description {
    describe_here(file, agent_urn, tools, None)
}

/// As [`describe_with`], with how the agent's programs are contained where it runs (`althing:containment`), if it has any and that
/// is known.
pub fn describe_here(
    file: &AgentFile,
    agent_urn: &str,
    tools: &[ExposedTool],
    contained: Option<ContainmentClaim>,
) -> Description {
    let id = uri(agent_urn);
    let capabilities: Vec<Value> = file.skills.iter().map(|skill| capability(skill, &file.version)).collect();
    let mut td = json!({
        "@context": [CONTEXT_1_1, { "lmos": LMOS, "althing": ALTHING }],
        "id": id,
        "@type": "lmos:Agent",
        "title": file.title,
        "description": file.description,
        "version": { "instance": file.version },
        "securityDefinitions": { "auto_sc": { "scheme": "auto" } },
        "security": ["auto_sc"],
        "lmos:capabilities": capabilities,
        "althing:inputModes": file.input_modes,
        "althing:outputModes": file.output_modes,
    });
    if matches!(file.runtime, RuntimeSpec::Remote { .. }) {
        td[PASSES_ON] = json!(true);
    }
    if let Some(contained) = contained {
        td[CONTAINMENT] = json!(contained.words());
    }
    if let Value::Object(td) = &mut td
        && !tools.is_empty()
    {
        tool::write(td, tools, &file.version);
    }
    Description::made(td)
}

fn capability(skill: &Skill, agent_version: &str) -> Value {
    let mut out = Map::new();
    out.insert("id".to_owned(), json!(skill.id));
    out.insert("name".to_owned(), json!(skill.name));
    out.insert("version".to_owned(), json!(skill.version.as_deref().unwrap_or(agent_version)));
    out.insert("description".to_owned(), json!(skill.description));
    for (name, word) in [("althing:action", &skill.action), ("althing:target", &skill.target)] {
        if let Some(word) = word {
            out.insert(name.to_owned(), json!(word));
        }
    }
    for (name, list) in [("althing:tags", &skill.tags), ("examples", &skill.examples)] {
        if !list.is_empty() {
            out.insert(name.to_owned(), json!(list));
        }
    }
    Value::Object(out)
}

/// Percent-encodes characters that a URI may not hold (RFC 3986 §2), including a `%` that starts no escape.
pub(crate) fn uri(urn: &str) -> String {
    let mut out = String::with_capacity(urn.len());
    let bytes = urn.as_bytes();
    for (n, byte) in bytes.iter().enumerate() {
        let escape = || bytes.get(n + 1..n + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let plain =
            byte.is_ascii_alphanumeric() || b"-._~:/?@!$&'()*+,;=".contains(byte) || (*byte == b'%' && escape());
        if plain { out.push(char::from(*byte)) } else { out.push_str(&format!("%{byte:02X}")) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Strictness, validate_as};

    const SMALL: &str = "name: echo\ndescription: Says it again.\nruntime: { native: { builtin: echo } }\n";

    #[test]
    fn the_description_names_the_agent_and_no_place() {
        let file = AgentFile::parse(SMALL).expect("is good");
        let made = describe(&file, "urn:althing:z6Mk:echo");
        let value = made.value();
        assert_eq!(value["@type"], "lmos:Agent");
        assert_eq!(value["version"]["instance"], "1.0.0");
        assert!(!made.value().to_string().contains("href"));
        assert_eq!(describe(&file, "urn:althing:z6Mk:echo"), made);
    }

    #[test]
    fn how_programs_are_contained_is_said_in_words_and_read_again() {
        let file = AgentFile::parse(SMALL).expect("is good");
        assert_eq!(describe(&file, "urn:althing:z6Mk:echo").contained(), None);
        for contained in ContainmentClaim::all() {
            let made = describe_here(&file, "urn:althing:z6Mk:echo", &[], Some(contained));
            assert_eq!(made.contained(), Some(contained));
            assert_eq!(made.value()["althing:containment"], contained.words());
            let report = validate_as(made.bytes(), Strictness::Own);
            assert!(report.findings.is_empty(), "{report}");
            let read = Description::parse(made.bytes()).expect("it is valid");
            assert_eq!(read.contained(), Some(contained));
        }
    }

    #[test]
    fn a_node_that_only_passes_messages_on_says_so() {
        let elsewhere = SMALL.replace("native: { builtin: echo }", "remote: { url: \"http://127.0.0.1:9000\" }");
        for (text, passes_on) in [(SMALL, false), (elsewhere.as_str(), true)] {
            let made = describe(&AgentFile::parse(text).expect("is good"), "urn:althing:z6Mk:echo");
            assert_eq!(made.passes_on(), passes_on);
            assert_eq!(made.value().get("althing:passesOn"), passes_on.then(|| json!(true)).as_ref());
            let report = validate_as(made.bytes(), Strictness::Own);
            assert!(report.findings.is_empty(), "{report}");
            assert!(!made.value().to_string().contains("9000"), "and not to where");
        }
        let mut td = describe(&AgentFile::parse(SMALL).expect("is good"), "urn:althing:z6Mk:echo").value();
        td["althing:passesOn"] = json!("yes");
        assert!(!Description::parse(td.to_string().as_bytes()).expect("it is no error of others").passes_on());
        assert!(Description::parse_as(td.to_string().as_bytes(), Strictness::Own).is_err(), "it is one of ours");
    }

    #[test]
    fn words_that_nobody_knows_are_a_warning_and_say_nothing() {
        let file = AgentFile::parse(SMALL).expect("is good");
        let mut td = describe(&file, "urn:althing:z6Mk:echo").value();
        td["althing:containment"] = json!("by magic");
        let read = Description::parse(td.to_string().as_bytes()).expect("it is no error of others");
        assert_eq!(read.contained(), None);
        assert!(!read.warnings().findings.is_empty(), "it is named");
        assert!(Description::parse_as(td.to_string().as_bytes(), Strictness::Own).is_err(), "it is one of ours");
    }

    #[test]
    fn a_skill_takes_the_version_of_its_agent_unless_it_has_one() {
        let text = format!(
            "{SMALL}version: 2.0.0\nskills: [{{ id: a, name: A, description: A. }}, \
             {{ id: b, name: B, description: B., version: 3.1.0 }}]\n"
        );
        let made = describe(&AgentFile::parse(&text).expect("is good"), "urn:althing:z6Mk:echo");
        let versions: Vec<_> = made.capabilities().iter().map(|c| c.version.as_deref()).collect();
        assert_eq!(versions, [Some("2.0.0"), Some("3.1.0")]);
    }

    #[test]
    fn what_a_uri_may_not_hold_is_encoded() {
        let file = AgentFile::parse(SMALL).expect("is good");
        for (urn, id) in [("urn:x:a b", "urn:x:a%20b"), ("urn:x:ä%zz%41#", "urn:x:%C3%A4%25zz%41%23")] {
            let made = describe(&file, urn);
            assert_eq!(made.id(), Some(id));
            let report = validate_as(made.bytes(), Strictness::Own);
            assert!(report.findings.is_empty(), "{report}");
        }
    }
}
