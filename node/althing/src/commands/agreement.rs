//! What a person looks at before something is installed or signed, and whether they agree.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use serde_json::Value;

use crate::commands::{Out, contents, plain, rows, text};
use crate::exit::{Failure, code};

/// Shows what it is about, and asks; the digest of what was agreed to.
pub fn agree(offer: &Value, shown: &str, yes: bool, verb: &str, out: &Out) -> Result<String, Failure> {
    let digest = text(offer, "digest");
    if yes {
        return Ok(digest);
    }
    if out.json || !std::io::stdin().is_terminal() {
        let message = format!("{shown}\n\nnothing was changed: --yes agrees to this");
        let offer = Some(Box::new(offer.clone()));
        return Err(Failure { offer, ..Failure::new(code::REFUSED, message) });
    }
    asked(shown, verb, digest)
}

/// Asks whether somebody agrees to what is shown; `agreed` if they do.
pub fn asked(shown: &str, verb: &str, agreed: String) -> Result<String, Failure> {
    if agrees(shown, verb) { Ok(agreed) } else { Err(Failure::new(code::REFUSED, "nothing was changed")) }
}

/// Asks the same; whether they do.
pub fn agrees(shown: &str, verb: &str) -> bool {
    print!("{}\n\n{verb} it? [y/N] ", plain(shown, &std::io::stdout()));
    let mut answer = String::new();
    let read = std::io::stdout().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Characters that are shown of what a step hands over.
const SHOWN_CHARS: usize = 100;

/// What a release brings: how an agent runs, or what a workflow does.
pub fn of_release(offer: &Value) -> String {
    match &offer["workflow"] {
        Value::Null => of_file(offer),
        workflow => of_workflow(workflow),
    }
}

/// What an update changes of what is installed, a line for each; empty where the node does not say what is.
pub fn of_update(offer: &Value) -> String {
    let before = &offer["installed"];
    if before.is_null() {
        return String::new();
    }
    let is_step = |line: &&str| before["workflow"].is_null() || line.starts_with("step ");
    let lines = |release: &Value| {
        of_release(release).lines().filter(is_step).map(|line| format!("{line}\n")).collect::<String>()
    };
    let changed = contents::changed(&lines(before), &lines(offer));
    let from = text(offer, "before");
    match changed.as_slice() {
        [] => format!("\nchanges   nothing of the above since {from}; its program and other files may be others"),
        some => format!("\nchanges   since {from}:\n{}", some.join("\n")),
    }
}

/// The steps of a workflow, and what of them is not known here; each on one line.
fn of_workflow(workflow: &Value) -> String {
    let line = |text: String| {
        let whole = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match whole.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{} … (+{} characters: --json)", &whole[..end], whole[end..].chars().count()),
            None => whole,
        }
    };
    let words = |key: &str| {
        let words: Vec<&str> = rows(workflow, key).iter().filter_map(Value::as_str).collect();
        if words.is_empty() { "none".to_owned() } else { words.join(" ") }
    };
    let step = |step: &Value| {
        let (who, what) = match (step["capability"].as_str(), step["agent"].as_str()) {
            (Some(capability), _) => (format!("whoever can {capability}"), text(step, "input")),
            (_, Some(agent)) => (format!("the agent {agent}"), text(step, "input")),
            _ => ("asks a person".to_owned(), text(step, "approve")),
        };
        format!("step      {}{}: {who}: {}\n", text(step, "id"), conditions(step), line(what))
    };
    let steps: String = rows(workflow, "steps").iter().map(step).collect();
    format!(
        "what      {}: {}\n{steps}needs     capabilities {}; agents {}\nunknown   {}\nrights    none: a group of yours runs \
         it, with its members' agents and their contracts",
        line(text(workflow, "title")),
        line(text(workflow, "description")),
        words("capabilities"),
        words("agents"),
        words("unknown"),
    )
}

/// When a step runs, and how often.
fn conditions(step: &Value) -> String {
    let mut all = Vec::new();
    let after: Vec<&str> = rows(step, "after").iter().filter_map(Value::as_str).collect();
    if !after.is_empty() {
        all.push(format!("after {}", after.join(" and ")));
    }
    if let when @ Value::Object(_) = &step["when"] {
        all.push(format!("if {} {}", text(when, "step"), text(when, "is")));
    }
    if let Some(list) = step["forEach"].as_str() {
        all.push(format!("for each of {list}"));
    }
    if let repeat @ Value::Object(_) = &step["repeat"] {
        let (from, until) = (text(repeat, "from"), text(repeat, "until"));
        all.push(format!("again from {from} until it {until}, at most {} times", repeat["roundsMax"]));
    }
    if all.is_empty() { String::new() } else { format!(", {}", all.join(", ")) }
}

/// How an agent runs and what it may do, each on one line: a text of its publisher's cannot look like another line.
fn of_file(offer: &Value) -> String {
    let file = &offer["file"];
    if file.is_null() {
        return "its files cannot be read here: look at them elsewhere, by their digest".to_owned();
    }
    let contract = &file["contract"];
    let words = |list: &Value| {
        let words: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if words.is_empty() { "none".to_owned() } else { words.join(" ") }
    };
    let line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let reaches = rows(offer, "reaches").iter().filter_map(Value::as_str);
    let reaches: String = reaches.map(|program| format!("\nreaches   {program}")).collect();
    format!(
        "what      {}\nruns      {}\ntools     {}{reaches}\nmemory    embeddings by {}\nmay call  {}\nsecrets   {}\nclass     {}",
        line(text(file, "description")),
        line(contents::runs(&file["runtime"])),
        line(contents::tools(&file["tools"])),
        if file["embeddings"].is_null() { "this node".to_owned() } else { line(contents::model(&file["embeddings"])) },
        words(&contract["capabilities"]),
        words(&contract["security"]["secrets"]),
        text(&contract["class"], "latency"),
    )
}
