//! `althing find`.

use std::collections::BTreeMap;

use althing_discovery::Query;
use serde_json::Value;

use crate::args::Find;
use crate::commands::{Out, attesting, rows, short, table, text};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// What is shown of an agent.
const HEAD: [&str; 11] = [
    "name",
    "can",
    "node",
    "class",
    "turns",
    "its node's load",
    "grade",
    "its programs",
    "its node is",
    "learned",
    "score",
];
/// Characters of what a tool does that are shown.
const ABOUT_CHARS_MAX: usize = 80;
/// Tools that are shown to people.
const TOOLS_SHOWN: usize = 20;

/// Finds agents; exits with 4 when there are none.
pub async fn run(at: &Paths, find: &Find, out: &Out) -> Result<(), Failure> {
    let query = Query {
        capability: find.capability.clone(),
        action: find.action.clone(),
        target: find.target.clone(),
        text: (!find.text.is_empty()).then(|| find.text.join(" ")),
        max_load: find.max_load,
        min_grade: find.min_grade.map(Into::into),
        limit: Some(find.limit),
    };
    let path = if find.signed_in { "/find?signed_in=true" } else { "/find" };
    let mut found = at.connect().await?.post(path, &query).await?;
    if !find.explain
        && let Some(found) = found.as_object_mut()
    {
        found.remove("explain");
    }
    out.show(&found, people);
    if rows(&found, "agents").is_empty() && rows(&found, "things").is_empty() {
        let asks_nothing = query == Query { limit: query.limit, ..Query::default() };
        let message = match (out.json, asks_nothing, find.explain) {
            (true, ..) => String::new(),
            (_, true, _) => {
                "no agent is known; `althing agent add FILE` adds one, `althing doctor` tells why others are not seen"
                    .to_owned()
            }
            (.., true) => format!("no agent matches{}", meant(&found)),
            _ => {
                let (meant, gap) = match meant(&found) {
                    meant if meant.is_empty() => (meant, ";"),
                    meant => (meant, ""),
                };
                format!(
                    "no agent matches{meant}{gap} `althing find` lists all that are known, `--explain` shows where this search looked"
                )
            }
        };
        return Err(Failure::new(code::NOT_FOUND, message));
    }
    Ok(())
}

/// Which capabilities may be meant.
fn meant(found: &Value) -> String {
    let all: Vec<&str> = rows(found, "meant").iter().filter_map(Value::as_str).collect();
    match all.as_slice() {
        [] => String::new(),
        [only] => format!("; did you mean {only}?"),
        [first @ .., last] => format!("; did you mean {}, or {last}?", first.join(", ")),
    }
}

/// How long ago a node was heard.
fn ago(ms: u64) -> String {
    if ms < 1_000 { "just now".to_owned() } else { format!("{} s ago", ms / 1_000) }
}

fn people(found: &Value) -> String {
    let cells = |agent: &Value| {
        let capabilities = rows(agent, "capabilities").iter().map(|capability| text(capability, "id"));
        vec![
            text(agent, "name"),
            capabilities.collect::<Vec<_>>().join(" "),
            short(&text(agent, "node")),
            text(agent, "class"),
            agent["turns"].as_u64().map_or_else(String::new, |turns| turns.to_string()),
            format!("{:.2}", agent["load"].as_f64().unwrap_or(0.0)),
            text(&agent["machine"], "grade"),
            text(agent, "containment"),
            text(agent, "status"),
            format!("{}, {}", text(agent, "learned"), ago(agent["heardMsAgo"].as_u64().unwrap_or(0))),
            agent["score"].as_f64().map_or_else(String::new, |score| format!("{score:.2}")),
        ]
    };
    let all: Vec<Vec<String>> = rows(found, "agents").iter().map(cells).collect();
    let mut shown = if all.is_empty() { String::new() } else { table(&HEAD, &all) };
    shown.push_str(&of_tools(found));
    let cells = |thing: &Value| {
        let can: Vec<&str> = rows(thing, "can").iter().filter_map(Value::as_str).collect();
        vec![text(thing, "title"), can.join(" "), text(thing, "from")]
    };
    let things: Vec<Vec<String>> = rows(found, "things").iter().map(cells).collect();
    if !things.is_empty() {
        let gap = if shown.is_empty() { "" } else { "\n" };
        shown.push_str(&format!("{gap}{}", table(&["thing", "can", "read at"], &things)));
    }
    for thing in rows(found, "things") {
        let careful = attesting::careful(thing);
        if !careful.is_empty() {
            shown.push_str(&format!("\n{} ({})\n{careful}", text(thing, "title"), text(thing, "id")));
        }
    }
    if let Some(explain) = found.get("explain") {
        shown.push_str(&explained(explain));
    }
    shown
}

/// The tools that the agents expose, each once.
fn of_tools(found: &Value) -> String {
    let all = rows(found, "agents").iter().flat_map(|agent| rows(agent, "tools"));
    let rows: BTreeMap<String, Vec<String>> = all
        .map(|tool| {
            let about = text(tool, "description");
            let about = about.lines().next().unwrap_or_default().chars().take(ABOUT_CHARS_MAX).collect();
            (text(tool, "id"), vec![text(tool, "name"), about])
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let more = rows.len().saturating_sub(TOOLS_SHOWN);
    let more = if more > 0 { format!("and {more} more tools; --json shows all\n") } else { String::new() };
    let shown: Vec<Vec<String>> = rows.into_values().take(TOOLS_SHOWN).collect();
    format!("\n{}{more}", table(&["tool", "does"], &shown))
}

/// How the results were found.
fn explained(explain: &Value) -> String {
    let steps = &explain["steps"];
    let step = |name: &str| steps[name].as_u64().unwrap_or(0);
    let mut shown = format!(
        "\nknown {}; left out: {} by text, {} by capability, {} by action or target, {} by load, {} by grade, {} by the limit\n\
         ordered by {}; took {} µs; {} Things are known\n",
        step("known"),
        step("text"),
        step("capability"),
        step("action_target"),
        step("load"),
        step("grade"),
        step("limit"),
        text(steps, "order"),
        text(explain, "tookMicroseconds"),
        text(explain, "things"),
    );
    let sought = &explain["sought"];
    let number = |name: &str| sought[name].as_u64().unwrap_or(0);
    shown.push_str(&if sought.is_null() {
        String::new()
    } else {
        format!(
            "searched the table: {} nodes asked, {} answered, {} ms; registries named {} nodes; {} candidates asked: {} have \
             it, {} do not, {} did not answer, {} were refused; {} ms in all\n",
            number("requests"),
            number("answered"),
            number("lookupMicroseconds") / 1_000,
            number("registriesNamed"),
            number("asked"),
            number("confirmed"),
            number("without"),
            number("silent"),
            number("refused"),
            number("tookMicroseconds") / 1_000,
        )
    });
    for skipped in rows(explain, "skipped") {
        let what = if skipped["step"] == "table" { "the table was not searched" } else { "registries were not asked" };
        shown.push_str(&format!("{what}: {}\n", text(skipped, "why")));
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_may_be_meant_and_what_was_not_asked_is_said() {
        assert_eq!(meant(&json!({})), "");
        assert_eq!(meant(&json!({ "meant": ["weather.say"] })), "; did you mean weather.say?");
        let some = json!({ "meant": ["weather.say", "weather.*"] });
        assert_eq!(meant(&some), "; did you mean weather.say, or weather.*?");
        let skipped = json!([{ "step": "table", "why": "all are heard of" }, { "step": "registries", "why": "none" }]);
        let said = explained(&json!({ "skipped": skipped }));
        assert!(
            said.ends_with("the table was not searched: all are heard of\nregistries were not asked: none\n"),
            "{said}"
        );
    }
}
