//! `althing trace`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::args::Trace;
use crate::commands::agent::escape;
use crate::commands::{Out, rows, short, table, text};
use crate::exit::Failure;
use crate::paths::Paths;

/// Characters of a trace's id in a list: enough to name it.
const ID_SHOWN: usize = 12;
/// Spans within spans that are shown.
const DEPTH_MAX: usize = 64;
/// What a span is about, by its attributes: the first one that it has.
const ABOUT: [&str; 6] =
    ["rpc.method", "gen_ai.tool.name", "gen_ai.agent.name", "gen_ai.request.model", "gen_ai.data_source.id", "agent"];

/// Lists recent traces, or shows one over all nodes that it passed.
pub async fn run(at: &Paths, trace: &Trace, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    match &trace.id {
        None => {
            let list = client.get(&format!("/traces?limit={}", trace.limit)).await?;
            out.show(&list, listed);
        }
        Some(id) => {
            let found = client.get(&format!("/traces/{}", escape(id))).await?;
            out.show(&found, |found| shown(found, trace.all));
        }
    }
    Ok(())
}

fn listed(list: &Value) -> String {
    let now_us = list["nowUs"].as_u64().unwrap_or_default();
    let cells = |trace: &Value| {
        let ago_s = now_us.saturating_sub(trace["beganUs"].as_u64().unwrap_or_default()) / 1_000_000;
        let agent = text(trace, "agent");
        let operation = if trace["operation"].is_string() { text(trace, "operation") } else { text(trace, "name") };
        vec![
            text(trace, "trace").chars().take(ID_SHOWN).collect(),
            format!("{ago_s} s ago"),
            took(trace),
            operation,
            agent.rsplit(':').next().unwrap_or_default().to_owned(),
            text(trace, "spans"),
            text(trace, "nodes"),
            if trace["failed"] == true { "failed".to_owned() } else { String::new() },
        ]
    };
    let all: Vec<Vec<String>> = rows(list, "traces").iter().map(cells).collect();
    if all.is_empty() {
        return "no trace is kept here: nothing was called since the node started".to_owned();
    }
    table(&["trace", "began", "took", "operation", "agent", "spans", "other nodes", ""], &all)
}

fn took(of: &Value) -> String {
    format!("{:.1} ms", of["tookUs"].as_u64().unwrap_or_default() as f64 / 1e3)
}

/// The spans of a trace, by which is part of which.
struct Tree<'a> {
    children: BTreeMap<String, Vec<&'a Value>>,
    all: bool,
    lines: Vec<String>,
}

fn shown(found: &Value, all: bool) -> String {
    let spans = rows(found, "spans");
    let known: BTreeSet<String> = spans.iter().map(|span| text(span, "id")).collect();
    let mut tree = Tree { children: BTreeMap::new(), all, lines: Vec::new() };
    let mut roots = Vec::new();
    for span in spans {
        let parent = text(span, "parent");
        // A parent that nobody told of, such as the client's own span.
        if known.contains(&parent) && parent != text(span, "id") {
            tree.children.entry(parent).or_default().push(span);
        } else {
            roots.push(span);
        }
    }
    let nodes: BTreeSet<String> = spans.iter().map(|span| text(span, "node")).collect();
    tree.lines.push(format!("trace {}: {} spans on {} nodes", text(found, "trace"), spans.len(), nodes.len()));
    tree.level(roots, "");
    let mut lines = tree.lines;
    for untold in rows(found, "untold") {
        lines.push(format!("{} told nothing: {}", short(&text(untold, "node")), text(untold, "why")));
    }
    if found["more"] == true {
        lines.push("there is more: a node left spans out, or more nodes were passed than are asked".to_owned());
    }
    lines.join("\n")
}

impl Tree<'_> {
    /// Adds these spans, each with what is part of it. Every span is taken out once, so that circles end.
    fn level(&mut self, mut spans: Vec<&Value>, indent: &str) {
        if indent.chars().count() > 3 * DEPTH_MAX {
            return;
        }
        spans.sort_by_key(|span| span["beganUs"].as_u64());
        let last = spans.len().saturating_sub(1);
        for (place, span) in spans.into_iter().enumerate() {
            let (branch, below) = if place == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.lines.push(format!("{indent}{branch}{}", line(span)));
            let indent = format!("{indent}{below}");
            if self.all {
                let attributes = span["attributes"].as_object();
                for (name, value) in attributes.into_iter().flatten() {
                    self.lines.push(format!("{indent}   {name}: {}", value.as_str().unwrap_or_default()));
                }
            }
            let children = self.children.remove(&text(span, "id")).unwrap_or_default();
            self.level(children, &indent);
        }
    }
}

fn line(span: &Value) -> String {
    let about = ABOUT.iter().find_map(|name| span["attributes"][name].as_str()).unwrap_or_default();
    let failed = span["failed"].as_str().map_or_else(String::new, |why| format!("  failed: {why}"));
    let name = format!("{} {about}", text(span, "name"));
    format!("{}  {}  on {}{failed}", name.trim_end(), took(span), short(&text(span, "node")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn span(id: &str, parent: Option<&str>, began: u64) -> Value {
        json!({ "id": id, "parent": parent, "name": id, "node": "did:key:zA", "beganUs": began, "tookUs": 1_500 })
    }

    #[test]
    fn spans_are_a_tree_in_the_order_of_time_and_circles_end() {
        let spans =
            [span("c", Some("a"), 3), span("b", Some("a"), 2), span("a", Some("client"), 1), span("x", Some("x"), 4)];
        let found = json!({ "trace": "0af7", "spans": spans, "untold": [], "more": true });
        let shown = shown(&found, false);
        let names: Vec<&str> = shown.lines().skip(1).filter_map(|line| line.split("  1.5 ms").next()).collect();
        assert_eq!(names[..4], ["├─ a", "│  ├─ b", "│  └─ c", "└─ x"], "{shown}");
        assert!(shown.ends_with("than are asked"), "{shown}");
        let circle = json!({ "spans": [span("p", Some("q"), 1), span("q", Some("p"), 2)] });
        assert_eq!(super::shown(&circle, true).lines().count(), 1, "nothing is the root of a circle");
    }
}
