//! What changed of an adopted agent, for whoever is asked to accept it.

use std::collections::{BTreeMap, BTreeSet};

use althing_execution::definition::{Definition, Pins};
use althing_td::{AgentFile, Skill, visible};
use serde::Serialize;
use serde_json::Value;

use super::Draft;

/// Of a value that is shown.
const EXCERPT_CHARS_MAX: usize = 160;
/// Changes that are shown.
const CHANGES_MAX: usize = 64;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What: `skill book.seat`, `tool thing/dim: inputSchema`.
    pub what: String,
    /// What it was; empty if there was none.
    pub old: String,
    /// What it is.
    pub new: String,
}

/// What changed between an agent file with these pins and a draft.
#[must_use]
pub fn changes(before: &AgentFile, pins: Option<&Pins>, now: &Draft) -> Vec<Change> {
    let none = Pins::new();
    let (old_pins, new_pins) = (pins.unwrap_or(&none), now.pins.as_ref().unwrap_or(&none));
    // What is done comes before what is said of it.
    let tools: BTreeSet<&String> = old_pins.keys().chain(new_pins.keys()).collect();
    let tools = tools.into_iter().flat_map(|name| tool(name, old_pins.get(name), new_pins.get(name)));
    let mut all: Vec<Change> = tools.collect();
    all.extend(members(before, &now.file));
    all.extend(skills(&before.skills, &now.file.skills));
    let more = all.len().saturating_sub(CHANGES_MAX);
    all.truncate(CHANGES_MAX);
    if more > 0 {
        let what = format!("{more} changes more");
        all.push(Change { what, old: String::new(), new: "not shown".to_owned() });
    }
    all
}

fn members(before: &AgentFile, now: &AgentFile) -> Vec<Change> {
    let value = |file: &AgentFile| serde_json::to_value(file).unwrap_or_default();
    let (old, new) = (value(before), value(now));
    let names = ["title", "description", "version", "runtime", "tools", "expose", "input_modes", "output_modes"];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let changed = names.into_iter().filter(|name| old[*name] != new[*name]);
    changed.map(|name| change(name.to_owned(), &text(&old[name]), &text(&new[name]))).collect()
}

fn skills(before: &[Skill], now: &[Skill]) -> Vec<Change> {
    let by_id = |skills: &[Skill]| -> BTreeMap<String, String> {
        let said =
            |skill: &Skill| format!("{}: {} {:?} {:?}", skill.name, skill.description, skill.tags, skill.examples);
        skills.iter().map(|skill| (skill.id.clone(), said(skill))).collect()
    };
    let (old, new) = (by_id(before), by_id(now));
    let ids: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let of = |all: &BTreeMap<String, String>, id: &String| all.get(id).cloned().unwrap_or_default();
    let changed = ids.into_iter().filter(|id| old.get(*id) != new.get(*id));
    changed.map(|id| change(format!("skill {id}"), &of(&old, id), &of(&new, id))).collect()
}

fn tool(name: &str, old: Option<&Definition>, new: Option<&Definition>) -> Vec<Change> {
    match (old, new) {
        (Some(old), Some(new)) => {
            let differences = old.differences(new).into_iter();
            differences
                .map(|one| Change { what: format!("tool {name}: {}", one.field), old: one.old, new: one.new })
                .collect()
        }
        (old, new) => {
            let said = |tool: Option<&Definition>| tool.map(|tool| tool.description.clone()).unwrap_or_default();
            let said = |tool| if said(tool).is_empty() && tool.is_some() { "there".to_owned() } else { said(tool) };
            vec![change(format!("tool {name}"), &said(old), &said(new))]
        }
    }
}

fn change(what: String, old: &str, new: &str) -> Change {
    let same = old.chars().zip(new.chars()).take_while(|(one, other)| one == other).count();
    let skipped = same.saturating_sub(20);
    let excerpt = |text: &str| {
        let from = text.char_indices().nth(skipped).map_or("", |(at, _)| &text[at..]);
        let mut rest = visible(from);
        // On one line, so that no text looks like another change.
        let on_line = |c: char| if c.is_whitespace() { ' ' } else { c };
        let shown: String = rest.by_ref().take(EXCERPT_CHARS_MAX).map(on_line).collect();
        let end = if rest.next().is_some() { "…" } else { "" };
        let begin = if skipped > 0 && !text.is_empty() { "…" } else { "" };
        format!("{begin}{shown}{end}")
    };
    Change { what, old: excerpt(old), new: excerpt(new) }
}
