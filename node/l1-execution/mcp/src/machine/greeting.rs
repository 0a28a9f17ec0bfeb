//! What a server answers the first question with, read member by member: what is odd is left out and named, and what its client
//! needs is filled in, so that no server is refused for what only describes it.

use rmcp::model::{Icon, ProtocolVersion};
use serde_json::{Map, Value, json};

use super::listing::{LEFT_OUT_MAX, shown};

/// What is said of an answer that is none.
pub const UNREADABLE: &str = "its answer cannot be read as one of MCP to what it was asked";
/// The first question to a server of an earlier version.
pub const INITIALIZE: &str = "initialize";
/// The first question to a server of the newest version.
pub const DISCOVER: &str = "server/discover";
/// Of a server that does not say who it is.
const NAME: &str = "unknown";
const VERSION: &str = "0";
/// Members whose values say nothing but whether something is there.
const FLAGS: [&str; 2] = ["listChanged", "subscribe"];
/// Capabilities of which each member is an object again.
const MAPS: [&str; 2] = ["experimental", "extensions"];
/// Members of `serverInfo` that are texts, if they are there.
const TEXTS: [&str; 3] = ["title", "description", "websiteUrl"];

/// Whether a value is of the right kind.
type Check = fn(&Value) -> bool;

/// What a server says of itself, as MCP has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Greeting {
    pub result: Value,
    /// The members that were left out or filled in since they were odd.
    pub left_out: Vec<String>,
}

impl Greeting {
    /// What was left out, for the log: 64 members at most, without hidden characters; none if nothing was.
    pub fn oddities(&self) -> Option<String> {
        let (first, rest) = self.left_out.split_at(self.left_out.len().min(LEFT_OUT_MAX));
        let named: Vec<String> = first.iter().map(|member| shown(member)).collect();
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
    }
}

/// Whether a method asks the first question.
pub fn is_asked_by(method: &str) -> bool {
    matches!(method, INITIALIZE | DISCOVER)
}

/// Reads the answer to the first question; none if that is none.
pub fn read(method: &str, answer: Value) -> Option<Greeting> {
    let Value::Object(members) = answer else { return None };
    if method == DISCOVER { discovered(members) } else { Some(initialised(members)) }
}

fn initialised(mut members: Map<String, Value>) -> Greeting {
    let mut left_out = described(&mut members);
    let info = implementation(members.remove("serverInfo").unwrap_or_default(), &mut left_out);
    members.insert("serverInfo".to_owned(), info);
    if members.get("protocolVersion").and_then(Value::as_str).is_none_or(str::is_empty) {
        note(members.get("protocolVersion"), "protocolVersion", &mut left_out);
        // The one that is asked for.
        members.insert("protocolVersion".to_owned(), json!(ProtocolVersion::V_2025_11_25.as_str()));
    }
    Greeting { result: Value::Object(members), left_out }
}

/// An answer that names no version is none.
fn discovered(mut members: Map<String, Value>) -> Option<Greeting> {
    let said = members.get("supportedVersions")?.as_array()?;
    let versions: Vec<Value> = said.iter().filter(|version| version.is_string()).cloned().collect();
    if versions.is_empty() {
        return None;
    }
    let has_odd = versions.len() < said.len();
    let mut left_out = described(&mut members);
    if has_odd {
        left_out.push("supportedVersions".to_owned());
    }
    members.insert("supportedVersions".to_owned(), Value::Array(versions));
    for (name, is_right, usual) in [
        ("resultType", Value::is_string as Check, json!("complete")),
        ("ttlMs", Value::is_u64 as Check, json!(0)),
        ("cacheScope", is_scope as Check, json!("private")),
    ] {
        if !members.get(name).is_some_and(is_right) {
            note(members.get(name), name, &mut left_out);
            members.insert(name.to_owned(), usual);
        }
    }
    Some(Greeting { result: Value::Object(members), left_out })
}

fn is_scope(said: &Value) -> bool {
    matches!(said.as_str(), Some("public" | "private"))
}

/// Mends the members that both answers have; gives the names of those that were odd.
fn described(members: &mut Map<String, Value>) -> Vec<String> {
    let mut left_out = Vec::new();
    let capabilities = members.remove("capabilities").unwrap_or_default();
    let capabilities = able(capabilities, &mut left_out);
    members.insert("capabilities".to_owned(), capabilities);
    keep(members, "instructions", "instructions", Value::is_string, &mut left_out);
    keep(members, "_meta", "_meta", Value::is_object, &mut left_out);
    left_out
}

/// The capabilities that are objects, with those of their members that are as MCP has them.
fn able(capabilities: Value, left_out: &mut Vec<String>) -> Value {
    let Value::Object(mut all) = capabilities else {
        note(Some(&capabilities), "capabilities", left_out);
        return json!({});
    };
    for name in all.keys().cloned().collect::<Vec<_>>() {
        let shown = format!("capabilities.{name}");
        keep(&mut all, &name, &shown, Value::is_object, left_out);
        let Some(members) = all.get_mut(&name).and_then(Value::as_object_mut) else { continue };
        if MAPS.contains(&name.as_str()) {
            for member in members.keys().cloned().collect::<Vec<_>>() {
                keep(members, &member, &format!("{shown}.{member}"), Value::is_object, left_out);
            }
        } else {
            for flag in FLAGS {
                keep(members, flag, &format!("{shown}.{flag}"), Value::is_boolean, left_out);
            }
        }
    }
    Value::Object(all)
}

/// Who a server is, with a name and a version whatever it says.
fn implementation(info: Value, left_out: &mut Vec<String>) -> Value {
    let mut info = match info {
        Value::Object(info) => info,
        other => {
            note(Some(&other), "serverInfo", left_out);
            Map::new()
        }
    };
    for (name, usual) in [("name", NAME), ("version", VERSION)] {
        let text = match info.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            said => {
                note(said, &format!("serverInfo.{name}"), left_out);
                usual.to_owned()
            }
        };
        info.insert(name.to_owned(), json!(text));
    }
    for name in TEXTS {
        keep(&mut info, name, &format!("serverInfo.{name}"), Value::is_string, left_out);
    }
    keep(&mut info, "icons", "serverInfo.icons", Value::is_array, left_out);
    if let Some(icons) = info.get_mut("icons").and_then(Value::as_array_mut) {
        let before = icons.len();
        icons.retain(|icon| serde_json::from_value::<Icon>(icon.clone()).is_ok());
        if icons.len() < before {
            left_out.push("serverInfo.icons".to_owned());
        }
    }
    Value::Object(info)
}

/// Takes a member out unless it is of the right kind.
fn keep(members: &mut Map<String, Value>, name: &str, shown: &str, is_right: Check, left_out: &mut Vec<String>) {
    if members.get(name).is_some_and(|value| !is_right(value)) {
        note(members.remove(name).as_ref(), shown, left_out);
    }
}

/// Names a member that was there. One that is null is as one that is not.
fn note(said: Option<&Value>, shown: &str, left_out: &mut Vec<String>) {
    if said.is_some_and(|said| !said.is_null()) {
        left_out.push(shown.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{DiscoverResult, InitializeResult};

    use super::*;

    fn hello() -> Value {
        json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "stub", "version": "1" } })
    }

    fn made(method: &str, answer: &Value) -> Greeting {
        read(method, answer.clone()).unwrap_or_else(|| panic!("{answer} is an answer"))
    }

    #[test]
    fn no_server_is_refused_for_an_odd_member_of_its_greeting_and_that_is_named() {
        for (member, odd, named) in [
            ("capabilities", json!(null), ""),
            ("capabilities", json!([]), "capabilities"),
            ("capabilities", json!({ "tools": true }), "capabilities.tools"),
            ("capabilities", json!({ "tools": [] }), "capabilities.tools"),
            ("capabilities", json!({ "tools": { "listChanged": "true" } }), "capabilities.tools.listChanged"),
            ("capabilities", json!({ "logging": true }), "capabilities.logging"),
            ("capabilities", json!({ "tasks": 5 }), "capabilities.tasks"),
            ("capabilities", json!({ "experimental": { "x": true } }), "capabilities.experimental.x"),
            ("serverInfo", json!(null), ""),
            ("serverInfo", json!("stub 1"), "serverInfo"),
            ("serverInfo", json!({ "name": "stub" }), ""),
            ("serverInfo", json!({ "name": 7, "version": 1.5 }), ""),
            ("serverInfo", json!({ "name": "stub", "version": [] }), "serverInfo.version"),
            ("serverInfo", json!({ "name": "stub", "version": "1", "icons": "a.png" }), "serverInfo.icons"),
            ("serverInfo", json!({ "name": "stub", "version": "1", "icons": [7] }), "serverInfo.icons"),
            ("instructions", json!(7), "instructions"),
            ("instructions", json!(["a"]), "instructions"),
            ("_meta", json!([]), "_meta"),
            ("protocolVersion", json!(null), ""),
            ("protocolVersion", json!(20_250_618), "protocolVersion"),
        ] {
            let mut answer = hello();
            answer[member] = odd;
            assert!(serde_json::from_value::<InitializeResult>(hello()).is_ok());
            let Greeting { result, left_out } = made(INITIALIZE, &answer);
            let expected: Vec<&str> = Some(named).filter(|named| !named.is_empty()).into_iter().collect();
            assert_eq!(left_out, expected, "{answer}");
            let read: Result<InitializeResult, _> = serde_json::from_value(result);
            assert!(read.is_ok(), "{answer}: {read:?}");
        }
        assert_eq!(made(INITIALIZE, &hello()), Greeting { result: hello(), left_out: Vec::new() });
    }

    #[test]
    fn what_is_left_out_is_told_within_bounds() {
        let mut answer = hello();
        assert_eq!(made(INITIALIZE, &answer).oddities(), None);
        answer["instructions"] = json!(7);
        answer["serverInfo"] = json!("stub 1");
        assert_eq!(made(INITIALIZE, &answer).oddities().as_deref(), Some("instructions, serverInfo"));
        for at in 0..1_000 {
            answer["capabilities"][format!("{at}\u{1b}\u{202e}{}", "x".repeat(9_000))] = json!(true);
        }
        let told = made(INITIALIZE, &answer).oddities().expect("odd members");
        assert!(told.ends_with(" and 938 more") && told.len() < 64 * 100, "{told}");
        assert!(!told.contains(['\u{1b}', '\u{202e}']), "{told}");
    }

    #[test]
    fn what_a_server_does_not_say_is_filled_in() {
        let Greeting { result, left_out } = made(INITIALIZE, &json!({}));
        let info = json!({ "name": NAME, "version": VERSION });
        assert_eq!(result, json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info }));
        assert!(left_out.is_empty(), "{left_out:?}");
        let number = made(INITIALIZE, &json!({ "serverInfo": { "name": "a", "version": 1.5 } }));
        assert_eq!(number.result["serverInfo"]["version"], "1.5");
        for none in [json!(null), json!([]), json!("hello"), json!(7)] {
            assert_eq!(read(INITIALIZE, none.clone()), None, "{none}");
        }
    }

    #[test]
    fn what_the_newest_version_demands_beside_the_versions_is_filled_in() {
        for (more, named) in [
            (json!({}), Vec::new()),
            (json!({ "ttlMs": "0", "cacheScope": "all" }), vec!["ttlMs", "cacheScope"]),
            (json!({ "capabilities": [], "instructions": {} }), vec!["capabilities", "instructions"]),
            (json!({ "supportedVersions": ["2026-07-28", 7] }), vec!["supportedVersions"]),
        ] {
            let mut answer = json!({ "supportedVersions": ["2026-07-28"] });
            for (name, value) in more.as_object().into_iter().flatten() {
                answer[name] = value.clone();
            }
            let Greeting { result, left_out } = made(DISCOVER, &answer);
            assert_eq!(left_out, named, "{answer}");
            let read: DiscoverResult = serde_json::from_value(result).expect("the library reads it");
            assert_eq!(read.supported_versions, [ProtocolVersion::V_2026_07_28]);
        }
        for none in [json!({}), json!({ "supportedVersions": [] }), json!({ "supportedVersions": [7] }), json!(null)] {
            assert_eq!(read(DISCOVER, none.clone()), None, "{none}");
        }
    }
}
