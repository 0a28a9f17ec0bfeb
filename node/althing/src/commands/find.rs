//! `althing find`.

use std::collections::BTreeMap;

use althing_api::{
    AgentMatch, FindQuery, SearchExplanation, SearchOmission, SearchPlace, SearchReply, SearchSteps, SuccessShare,
    TableSearch, ThingMatch, ToolMatch,
};

use crate::args::Find;
use crate::commands::{Out, attesting, one_line, short, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// What is shown of an agent.
const HEAD: [&str; 12] = [
    "name",
    "can",
    "node",
    "class",
    "turns now",
    "success",
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
    let query = FindQuery {
        capability: find.capability.clone(),
        action: find.action.clone(),
        target: find.target.clone(),
        text: (!find.text.is_empty()).then(|| find.text.join(" ")),
        max_load: find.max_load,
        min_grade: find.min_grade.map(Into::into),
        limit: Some(find.limit),
        signed_in: find.signed_in,
    };
    let mut found: SearchReply = at.connect().await?.query("/find", &query).await?;
    if !find.explain {
        found.explain = None;
    }
    out.show(&found, people);
    if found.agents.is_empty() && found.things.is_empty() {
        let asks_nothing = is_open(&query);
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

/// Whether everything is looked for.
fn is_open(query: &FindQuery) -> bool {
    let FindQuery { capability, action, target, text, max_load, min_grade, limit: _, signed_in: _ } = query;
    capability.is_none()
        && action.is_none()
        && target.is_none()
        && text.is_none()
        && max_load.is_none()
        && min_grade.is_none()
}

/// Which capabilities may be meant.
fn meant(found: &SearchReply) -> String {
    match found.meant.as_deref().unwrap_or_default() {
        [] => String::new(),
        [only] => format!("; did you mean {only}?"),
        [first @ .., last] => format!("; did you mean {}, or {last}?", first.join(", ")),
    }
}

/// How long ago a node was heard.
fn ago(ms: u64) -> String {
    if ms < 1_000 { "just now".to_owned() } else { format!("{} s ago", ms / 1_000) }
}

fn people(found: &SearchReply) -> String {
    let all: Vec<Vec<String>> = found.agents.iter().map(cells).collect();
    let mut shown = if all.is_empty() { String::new() } else { table(&HEAD, &all) };
    shown.push_str(&of_tools(&found.agents));
    let cells = |thing: &ThingMatch| vec![thing.title.clone(), thing.can.join(" "), thing.from.clone()];
    let things: Vec<Vec<String>> = found.things.iter().map(cells).collect();
    if !things.is_empty() {
        let gap = if shown.is_empty() { "" } else { "\n" };
        shown.push_str(&format!("{gap}{}", table(&["thing", "can", "read at"], &things)));
    }
    for thing in &found.things {
        let twins = thing.release.iter().flat_map(|release| release.twins.iter().map(String::as_str));
        let careful = attesting::resemblance(&twins.collect::<Vec<_>>());
        if !careful.is_empty() {
            shown.push_str(&format!("\n{} ({})\n{careful}", one_line(&thing.title), one_line(&thing.id)));
        }
    }
    if let Some(explain) = &found.explain {
        shown.push_str(&explained(explain));
    }
    shown
}

/// An agent, in the columns of [`HEAD`].
fn cells(agent: &AgentMatch) -> Vec<String> {
    let capabilities: Vec<&str> = agent.capabilities.iter().map(|capability| capability.id.as_str()).collect();
    vec![
        agent.name.clone(),
        capabilities.join(" "),
        short(&agent.node),
        agent.class.clone().unwrap_or_default(),
        agent.turns.map(|turns| turns.to_string()).unwrap_or_default(),
        agent.success.as_ref().map(success).unwrap_or_default(),
        format!("{:.2}", agent.load),
        agent.machine.map(|machine| machine.grade.to_string()).unwrap_or_default(),
        agent.containment.clone().unwrap_or_default(),
        agent.status.clone(),
        format!("{}, {}", agent.learned, ago(agent.heard_ms_ago)),
        agent.score.map(|score| format!("{score:.2}")).unwrap_or_default(),
    ]
}

/// How an agent's turns went, and how that is known.
fn success(known: &SuccessShare) -> String {
    format!("{:.2} {}", known.share, known.basis)
}

/// The tools that the agents expose, each once.
fn of_tools(agents: &[AgentMatch]) -> String {
    let row = |tool: &ToolMatch| {
        let first = tool.description.lines().next().unwrap_or_default();
        (tool.id.clone(), vec![tool.name.clone(), first.chars().take(ABOUT_CHARS_MAX).collect()])
    };
    let rows: BTreeMap<String, Vec<String>> = agents.iter().flat_map(|agent| &agent.tools).map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let more = rows.len().saturating_sub(TOOLS_SHOWN);
    let more = if more > 0 { format!("and {more} more tools; --json shows all\n") } else { String::new() };
    let shown: Vec<Vec<String>> = rows.into_values().take(TOOLS_SHOWN).collect();
    format!("\n{}{more}", table(&["tool", "does"], &shown))
}

/// How the results were found.
fn explained(explain: &SearchExplanation) -> String {
    let SearchExplanation { took_microseconds, steps, sought, things, skipped } = explain;
    let SearchSteps { known, text, capability, action_target, load, grade, limit, order } = steps;
    let mut shown = format!(
        "\nknown {known}; left out: {text} by text, {capability} by capability, {action_target} by action or target, {load} \
         by load, {grade} by grade, {limit} by the limit\n\
         ordered by {order}; took {took_microseconds} µs; {things} Things are known\n",
    );
    if let Some(sought) = sought {
        let TableSearch { requests, answered, registries_named, asked, confirmed, without, silent, refused, .. } =
            sought;
        shown.push_str(&format!(
            "searched the table: {requests} nodes asked, {answered} answered, {} ms; registries named {registries_named} \
             nodes; {asked} candidates asked: {confirmed} have it, {without} do not, {silent} did not answer, {refused} were \
             refused; {} ms in all\n",
            sought.lookup_microseconds / 1_000,
            sought.took_microseconds / 1_000,
        ));
    }
    for SearchOmission { step, why } in skipped {
        let what = match step {
            SearchPlace::Table => "the table was not searched",
            SearchPlace::Registries => "registries were not asked",
        };
        shown.push_str(&format!("{what}: {}\n", one_line(why)));
    }
    shown
}

#[cfg(test)]
mod tests {
    use althing_api::ThingRelease;

    use super::*;

    fn nothing(meant: Option<&[&str]>) -> SearchReply {
        let meant = meant.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        SearchReply { agents: Vec::new(), things: Vec::new(), explain: None, meant }
    }

    fn explanation(sought: Option<TableSearch>, skipped: Vec<SearchOmission>) -> SearchExplanation {
        let steps = SearchSteps {
            known: 9,
            text: 1,
            capability: 2,
            action_target: 3,
            load: 4,
            grade: 5,
            limit: 6,
            order: "load".to_owned(),
        };
        SearchExplanation { took_microseconds: 7, steps, sought, things: 1, skipped }
    }

    #[test]
    fn what_may_be_meant_and_what_was_not_asked_is_said() {
        assert_eq!(meant(&nothing(None)), "");
        assert_eq!(meant(&nothing(Some(&["weather.say"]))), "; did you mean weather.say?");
        let some = nothing(Some(&["weather.say", "weather.*"]));
        assert_eq!(meant(&some), "; did you mean weather.say, or weather.*?");
        let omission = |step, why: &str| SearchOmission { step, why: why.to_owned() };
        let skipped = vec![omission(SearchPlace::Table, "all are heard of"), omission(SearchPlace::Registries, "none")];
        let said = explained(&explanation(None, skipped));
        let begins = "\nknown 9; left out: 1 by text, 2 by capability, 3 by action or target, 4 by load, 5 by grade, 6 by the \
                      limit\nordered by load; took 7 µs; 1 Things are known\n";
        assert!(said.starts_with(begins), "{said}");
        assert!(
            said.ends_with("the table was not searched: all are heard of\nregistries were not asked: none\n"),
            "{said}"
        );
    }

    #[test]
    fn how_other_nodes_were_asked_is_said() {
        let sought = TableSearch {
            requests: 1,
            answered: 2,
            lookup_microseconds: 3_000,
            registries_named: 4,
            asked: 5,
            confirmed: 6,
            without: 7,
            silent: 8,
            refused: 9,
            took_microseconds: 10_999,
        };
        let said = explained(&explanation(Some(sought), Vec::new()));
        let ends = "searched the table: 1 nodes asked, 2 answered, 3 ms; registries named 4 nodes; 5 candidates asked: 6 have \
                    it, 7 do not, 8 did not answer, 9 were refused; 10 ms in all\n";
        assert!(said.ends_with(ends), "{said}");
    }

    #[test]
    fn agents_are_shown_with_their_tools_and_things_with_those_that_resemble_them() {
        let tool = ToolMatch {
            id: "urn:x/pay".to_owned(),
            name: "bill/pay".to_owned(),
            title: "Pay".to_owned(),
            description: "Pays a bill.\nNot twice.".to_owned(),
        };
        let agent = AgentMatch {
            id: "urn:x".to_owned(),
            name: "bill".to_owned(),
            title: "Bills".to_owned(),
            description: None,
            containment: None,
            node: "did:key:z6Mk".to_owned(),
            capabilities: Vec::new(),
            load: 0.256,
            machine: None,
            class: None,
            turns: None,
            success: Some(SuccessShare { share: 0.97, basis: "measured here".to_owned() }),
            status: "healthy".to_owned(),
            learned: "hosted here".to_owned(),
            heard_ms_ago: 2_500,
            score: None,
            tools: vec![tool],
        };
        let release = ThingRelease {
            version: "1.0.0".to_owned(),
            publisher: "urn:p".to_owned(),
            twins: vec!["urn:t".to_owned()],
            forms: Vec::new(),
        };
        let lamp = ThingMatch {
            id: "urn:lamp".to_owned(),
            title: "Lamp\nCAREFUL   not so".to_owned(),
            description: None,
            can: vec!["light.on".to_owned(), "light.off".to_owned()],
            from: "main".to_owned(),
            release: Some(release),
        };
        let shown = people(&SearchReply { agents: vec![agent], things: vec![lamp], explain: None, meant: None });
        for part in [
            "0.26",
            "0.97 measured here",
            "hosted here, 2 s ago",
            "bill/pay  Pays a bill.\n",
            "light.on light.off",
            "Lamp\\u{a}CAREFUL   not so (urn:lamp)\nCAREFUL",
        ] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert_eq!(shown.lines().filter(|line| line.starts_with("CAREFUL")).count(), 1, "no title is a line: {shown}");
    }
}
