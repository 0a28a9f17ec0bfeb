//! A node's agents, class by class, as `ps` and `top` show them.

use serde_json::Value;

use crate::commands::{rows, short, text};

/// The agents of one class.
pub struct Pane {
    /// Names of the columns; the first one is the class.
    pub head: Vec<&'static str>,
    /// A row for each agent.
    pub rows: Vec<Vec<String>>,
}

const HARD: [&str; 14] = [
    "hard real-time",
    "runtime",
    "state",
    "core",
    "jobs",
    "missed",
    "expl.",
    "overruns",
    "failed",
    "fell back",
    "p99 µs",
    "max µs",
    "bound µs",
    "why",
];
const TURNS: [&str; 10] =
    ["runtime", "state", "sandbox", "pid", "turns", "total", "first p50 us", "p99 us", "late", "why"];

const GROUPS: [&str; 10] =
    ["group", "role", "leader", "term", "lag", "waiting", "working", "done again", "asking", "alarms"];

/// Refusals of one program that are shown in its line.
const REFUSALS_SHOWN: usize = 8;

/// The pane of the groups that this node belongs to; none if it belongs to none.
pub fn groups(list: &Value) -> Option<Pane> {
    let row = |group: &Value| {
        let work = &group["work"];
        let alarms: Vec<&str> = rows(work, "alarms").iter().filter_map(Value::as_str).collect();
        let leader = group["leader"].as_str().map_or_else(|| "none".to_owned(), short);
        let mut row = vec![text(group, "name"), text(group, "role"), leader, text(group, "term"), text(group, "lag")];
        row.extend(["waiting", "working", "redone", "asking"].map(|name| text(work, name)));
        row.push(alarms.join(" "));
        row
    };
    let rows: Vec<Vec<String>> =
        rows(list, "groups").iter().filter(|group| group["standing"] == "member").map(row).collect();
    (!rows.is_empty()).then(|| Pane { head: GROUPS.to_vec(), rows })
}

/// The panes of classes that have agents.
pub fn panes(list: &Value) -> Vec<Pane> {
    let of =
        |class: &str| rows(list, "agents").iter().filter(|agent| text(agent, "class") == class).collect::<Vec<_>>();
    let mut panes = Vec::new();
    let hard: Vec<Vec<String>> = of("hrt").into_iter().map(hard).collect();
    if !hard.is_empty() {
        panes.push(Pane { head: HARD.to_vec(), rows: hard });
    }
    for (class, title) in [("srt", "soft real-time"), ("dt", "delay-tolerant"), ("", "not running")] {
        let rows: Vec<Vec<String>> = of(class).into_iter().map(turns).collect();
        if !rows.is_empty() {
            panes.push(Pane { head: [&[title], TURNS.as_slice()].concat(), rows });
        }
    }
    panes
}

/// What programs were refused, a line for each that was: the agent, the program in it, and the block that grants it.
pub fn refusals(list: &Value) -> Vec<String> {
    let line = |agent: &Value, program: &Value| {
        let all = rows(program, "refused");
        let shown: Vec<String> = all.iter().take(REFUSALS_SHOWN).map(|refusal| text(refusal, "text")).collect();
        let rest = match (all.len() - shown.len(), program["moreRefused"] == true) {
            (0, false) => String::new(),
            (0, true) => ", and more that is not named".to_owned(),
            (hidden, true) => format!(", {hidden} others (ps --json), and more that is not named"),
            (hidden, false) => format!(", {hidden} others (ps --json)"),
        };
        let whose = format!("{} ({})", text(agent, "name"), text(program, "program"));
        let block = match program["needs"].as_str() {
            Some(block) => format!("; its file would grant it by {block}"),
            None => String::new(),
        };
        (!all.is_empty()).then(|| format!("{whose} was refused: {}{rest}{block}", shown.join(", ")))
    };
    let agents = rows(list, "agents").iter();
    agents.flat_map(|agent| rows(agent, "containment").iter().filter_map(move |program| line(agent, program))).collect()
}

/// What programs said last whose agents do not run, a line for each, unless it is in the table already.
pub fn last_words(list: &Value) -> Vec<String> {
    let line = |agent: &Value| {
        let (said, why, name) = (text(&agent["said"], "text"), text(agent, "why"), text(agent, "name"));
        let is_told = said.is_empty() || agent["state"] == "ready" || why.contains(&said);
        (!is_told).then(|| {
            format!("{name} ({}) said last: {said}; `althing logs {name}` says more", text(&agent["said"], "program"))
        })
    };
    rows(list, "agents").iter().filter_map(line).collect()
}

fn number(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, |us| format!("{us:.0}"))
}

fn base(agent: &Value) -> Vec<String> {
    ["name", "runtime", "state"].map(|name| text(agent, name)).to_vec()
}

/// What is said at once of an agent that was added, on a line of its own with its end: which of its programs are contained less than
/// machines can, and why; nothing where all are contained as far as can be.
pub fn exposed(status: &Value) -> String {
    let programs = rows(status, "containment");
    let less = programs.iter().filter(|program| program["level"] != "namespaces");
    let each = less.map(|program| match text(program, "program") {
        own if own == "runtime" => format!("its program: {}", text(program, "how")),
        other => format!("its program {other}: {}", text(program, "how")),
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { String::new() } else { format!("sandbox: {}\n", each.join("; ")) }
}

/// How an agent's programs are contained: in one way, or each in its own.
fn sandbox(agent: &Value) -> String {
    let programs = rows(agent, "containment");
    let mut ways: Vec<String> = programs.iter().map(|program| text(program, "how")).collect();
    ways.dedup();
    if ways.len() < 2 {
        return ways.pop().unwrap_or_default();
    }
    let each = programs.iter().map(|program| format!("{}: {}", text(program, "program"), text(program, "how")));
    each.collect::<Vec<_>>().join(", ")
}

fn hard(agent: &Value) -> Vec<String> {
    let hard = &agent["hrt"];
    let mut row = base(agent);
    row.extend(
        ["core", "jobs", "missed", "explained", "overruns", "failures", "fallbacks"].map(|name| text(hard, name)),
    );
    row.extend(["responseP99Us", "responseMaxUs", "responseBoundUs"].map(|name| number(&hard[name])));
    row.push(text(agent, "why"));
    row
}

fn turns(agent: &Value) -> Vec<String> {
    let first = &agent["firstOutputUs"];
    let mut row = base(agent);
    row.push(sandbox(agent));
    row.extend(["pid", "turns", "turnsTotal"].map(|name| text(agent, name)));
    row.extend([number(&first["p50"]), number(&first["p99"]), text(first, "late"), text(agent, "why")]);
    row
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{exposed, last_words, refusals};

    #[test]
    fn a_program_that_was_refused_something_has_a_line() {
        let refused = |count: usize| (0..count).map(|n| json!({ "text": format!("read /{n}") })).collect::<Vec<_>>();
        let program =
            |name: &str, count, more| json!({ "program": name, "refused": refused(count), "moreRefused": more });
        let programs = [
            program("runtime", 0, false),
            program("tools.maps", 2, false),
            program("tools.x", 10, false),
            program("tools.y", 1, true),
            json!({ "program": "tools.z", "refused": refused(1), "needs": "sandbox: { read: [/0] }" }),
        ];
        let list = json!({ "agents": [{ "name": "guide", "containment": programs }, { "name": "bare" }] });
        let eight: Vec<String> = (0..8).map(|n| format!("read /{n}")).collect();
        let expected = [
            "guide (tools.maps) was refused: read /0, read /1".to_owned(),
            format!("guide (tools.x) was refused: {}, 2 others (ps --json)", eight.join(", ")),
            "guide (tools.y) was refused: read /0, and more that is not named".to_owned(),
            "guide (tools.z) was refused: read /0; its file would grant it by sandbox: { read: [/0] }".to_owned(),
        ];
        assert_eq!(refusals(&list), expected);
    }

    #[test]
    fn what_a_program_said_last_is_shown_where_its_agent_does_not_run_and_the_table_does_not_say_it() {
        let said = json!({ "program": "tools.maps", "text": "no map", "atMs": 1 });
        let agent =
            |state: &str, why: &str| json!({ "name": "guide", "state": state, "why": why, "said": said.clone() });
        let list = |agent: Value| json!({ "agents": [agent, { "name": "bare", "state": "starting" }] });
        let words = "guide (tools.maps) said last: no map; `althing logs guide` says more";
        assert_eq!(last_words(&list(agent("starting", ""))), [words]);
        assert_eq!(last_words(&list(agent("failed", "its tools are not there"))), [words]);
        assert_eq!(last_words(&list(agent("restarting", "it ended; it said: no map"))), [""; 0]);
        assert_eq!(last_words(&list(agent("ready", ""))), [""; 0]);
    }

    #[test]
    fn who_adds_an_agent_is_told_on_one_line_which_of_its_programs_are_contained_less_than_can_be() {
        let program = |name: &str, level: &str, how: &str| json!({ "program": name, "level": level, "how": how });
        let well = program("tools.well", "namespaces", "contained");
        assert_eq!(exposed(&json!({ "containment": [well] })), "");
        assert_eq!(exposed(&Value::Null), "");
        let all = [
            program("runtime", "none", "off (sandbox: none)"),
            program("tools.maps", "landlock", "contained (Landlock only: no namespaces)"),
            well,
        ];
        let said = exposed(&json!({ "containment": all }));
        let expected = "sandbox: its program: off (sandbox: none); its program tools.maps: contained (Landlock only: no namespaces)\n";
        assert_eq!(said, expected);
    }
}
