//! What an agent file of somebody else's asks for, in words, and what changed of that. It is read as JSON, as it was received:
//! whoever agrees to it is shown also those of its members that this program has no words for.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::commands::{one_line, rows, text};

/// Characters that are shown of a prompt, or of what there are no words for.
const SHOWN_CHARS: usize = 300;

/// How an agent runs and what it may do, each on one line: a text of its publisher's cannot look like another line.
pub fn of_file(file: &Value, reaches: &[String]) -> String {
    let contract = &file["contract"];
    let words = |list: &Value| {
        let words: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if words.is_empty() { "none".to_owned() } else { one_line(&words.join(" ")) }
    };
    let line = |text: String| one_line(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    let reaches: String = reaches.iter().map(|program| format!("\nreaches   {}", one_line(program))).collect();
    format!(
        "what      {}\nruns      {}\ntools     {}{reaches}\nmemory    embeddings by {}\nmay call  {}\nsecrets   {}\nclass     {}",
        line(text(file, "description")),
        line(runs(&file["runtime"])),
        line(tools(&file["tools"])),
        if file["embeddings"].is_null() { "this node".to_owned() } else { line(model(&file["embeddings"])) },
        words(&contract["capabilities"]),
        words(&contract["security"]["secrets"]),
        text(&contract["class"], "latency"),
    )
}

/// Who may call the agent, as its file says it.
pub fn callers(file: &Value) -> String {
    text(file, "callers")
}

/// How an agent runs: of a `runtime` of an agent file.
fn runs(runtime: &Value) -> String {
    let one = runtime.as_object().and_then(|kinds| kinds.iter().next());
    let Some((kind, given)) = one else { return other(runtime) };
    match kind.as_str() {
        "native" => {
            let what = format!("{}, which is a part of the node", text(given, "builtin"));
            what + &rest(given, &["builtin"])
        }
        "process" => {
            let port = if given["port"].is_null() { "" } else { ", listening on a port of this machine" };
            // What it reaches has lines of its own.
            let told = ["command", "cwd", "env", "port", "sandbox", "startup_timeout_ms"];
            format!("{}{port}{}", program(given), rest(given, &told))
        }
        "wasm" => format!("the WebAssembly module {}{}", text(given, "module"), rest(given, &["module"])),
        "remote" => {
            let url = text(given, "url");
            format!("nothing here: messages are passed on to {url}{}{}", secret(given), rest(given, &["url", "secret"]))
        }
        "model" => {
            let endpoints: Vec<String> = rows(given, "endpoints").iter().map(model).collect();
            let whose = if endpoints.is_empty() { "a model of this node".to_owned() } else { endpoints.join(", or ") };
            format!("{whose}, told: {}{}", cut(&text(given, "prompt")), rest(given, &["prompt", "endpoints"]))
        }
        _ => other(runtime),
    }
}

/// The tool servers of an agent file.
fn tools(tools: &Value) -> String {
    let server = |(name, given): (&String, &Value)| {
        let told = ["command", "cwd", "env", "sandbox", "url", "thing", "secret"];
        let what = match (given["thing"].as_str(), given["url"].as_str()) {
            (Some(thing), _) => format!("the Thing {thing}"),
            (None, Some(url)) => format!("the server {url}"),
            (None, None) if given["command"].is_array() => program(given),
            (None, None) => return format!("{name}: {}", other(given)),
        };
        format!("{name}: {what}{}{}", secret(given), rest(given, &told))
    };
    let all: Vec<String> = tools.as_object().into_iter().flatten().map(server).collect();
    if all.is_empty() { "none".to_owned() } else { all.join("; ") }
}

/// A model, where it is asked.
fn model(endpoint: &Value) -> String {
    let told = ["model", "url", "secret", "name"];
    let named = match text(endpoint, "name") {
        name if name.is_empty() || name == text(endpoint, "model") => String::new(),
        name => format!(" (called {name})"),
    };
    let (model, url) = (text(endpoint, "model"), text(endpoint, "url"));
    format!("the model {model}{named} at {url}{}{}", secret(endpoint), rest(endpoint, &told))
}

/// A program, where it runs, and what is put into its environment.
fn program(given: &Value) -> String {
    let word = |word: &Value| match word.as_str() {
        Some(word) if !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '\'' || c == '"') => {
            word.to_owned()
        }
        Some(word) => format!("{word:?}"),
        None => word.to_string(),
    };
    let words: Vec<String> = rows(given, "command").iter().map(word).collect();
    let folder = given["cwd"].as_str().map(|cwd| format!(" in {cwd}")).unwrap_or_default();
    let variable = |(name, value): (&String, &Value)| format!("{name}={}", word(value));
    let variables: Vec<String> = given["env"].as_object().into_iter().flatten().map(variable).collect();
    let variables = if variables.is_empty() { String::new() } else { format!(", with {}", variables.join(" ")) };
    format!("the program `{}`{folder}{variables}", words.join(" "))
}

fn secret(given: &Value) -> String {
    given["secret"].as_str().map(|name| format!(", which is shown the secret {name}")).unwrap_or_default()
}

/// What there are no words for: nothing that is agreed to is hidden.
fn rest(given: &Value, told: &[&str]) -> String {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let left = given
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| !told.contains(&name.as_str()) && !is_empty(value));
    let left: Map<String, Value> = left.map(|(name, value)| (name.clone(), value.clone())).collect();
    if left.is_empty() { String::new() } else { format!(", besides {}", other(&Value::Object(left))) }
}

fn other(value: &Value) -> String {
    cut(&value.to_string())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{} … (+{} characters: --json)", &text[..end], text[end..].chars().count()),
        None => text.to_owned(),
    }
}

/// What changed between two texts, each line of which begins with its name: the lines that go, and those that come, name by name.
pub fn changed(before: &str, now: &str) -> Vec<String> {
    let name = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), now.lines().collect());
    let mut lines: Vec<(String, bool, &str)> = Vec::new();
    let goes = before.lines().filter(|line| !new.contains(line)).map(|line| (name(line), false, line));
    let comes = now.lines().filter(|line| !old.contains(line)).map(|line| (name(line), true, line));
    lines.extend(goes.chain(comes));
    let order: Vec<String> = now.lines().chain(before.lines()).map(name).collect();
    let place = |line: &str| order.iter().position(|known| known == line).unwrap_or(usize::MAX);
    // Lines of one name stay in their order.
    lines.sort_by_key(|(name, comes, _)| (place(name), *comes));
    lines.into_iter().map(|(_, comes, line)| format!("{} {line}", if comes { '+' } else { '-' })).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn how_an_agent_runs_is_said_in_words_and_nothing_is_left_out() {
        let said = |runtime: Value| runs(&runtime);
        assert_eq!(
            said(json!({ "native": { "builtin": "echo", "config": null } })),
            "echo, which is a part of the node"
        );
        let with = said(json!({ "native": { "builtin": "knowledge", "config": { "files": "docs" } } }));
        assert_eq!(with, "knowledge, which is a part of the node, besides {\"config\":{\"files\":\"docs\"}}");
        let process = json!({ "command": ["python3", "my agent.py"], "cwd": ".", "env": { "A": "1" },
            "startup_timeout_ms": 9, "new_member": 7 });
        let program = "the program `python3 \"my agent.py\"` in ., with A=1, besides {\"new_member\":7}";
        assert_eq!(said(json!({ "process": process })), program);
        let remote = said(json!({ "remote": { "url": "https://a.example", "secret": "key", "leads_to": [] } }));
        assert_eq!(remote, "nothing here: messages are passed on to https://a.example, which is shown the secret key");
        let model = json!({ "prompt": "Help.", "endpoints": [{ "model": "m", "url": "http://x/v1", "name": "m" }] });
        assert_eq!(said(json!({ "model": model })), "the model m at http://x/v1, told: Help.");
        assert_eq!(said(json!({ "wasm": { "module": "a.wasm" } })), "the WebAssembly module a.wasm");
        assert_eq!(said(json!({ "magic": { "x": 1 } })), "{\"magic\":{\"x\":1}}", "of a newer node");
        assert_eq!(tools(&json!({})), "none");
        let servers = json!({ "maps": { "command": ["maps"] }, "web": { "url": "https://w.example", "allow": ["a"] } });
        let words = "maps: the program `maps`; web: the server https://w.example, besides {\"allow\":[\"a\"]}";
        assert_eq!(tools(&servers), words);
    }

    #[test]
    fn no_member_of_a_file_looks_like_another_line() {
        let file = json!({ "description": "Says it.\nruns      nothing", "contract": { "capabilities": ["a\nsecrets   none"] } });
        let told = of_file(&file, &["x\nreaches   nothing".to_owned()]);
        assert_eq!(told.lines().count(), 8, "a line for each thing: {told}");
    }

    #[test]
    fn what_changes_is_shown_line_by_line_and_what_stays_is_not() {
        let before = "what      Says it\nruns      the program `a`\nreaches   x\nmay call  none";
        let now = "what      Says it\nruns      the program `b`\nreaches   x\nreaches   y\nmay call  maps/find";
        let expected = [
            "- runs      the program `a`",
            "+ runs      the program `b`",
            "+ reaches   y",
            "- may call  none",
            "+ may call  maps/find",
        ];
        assert_eq!(changed(before, now), expected);
        assert_eq!(changed(now, now), [""; 0]);
    }
}
