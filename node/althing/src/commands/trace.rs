//! `althing trace`.

use std::collections::{BTreeMap, BTreeSet};

use althing_api::{TraceDetails, TraceList, TraceSpan, TraceSummary};

use crate::args::Trace;
use crate::commands::agent::escape;
use crate::commands::{Out, one_line, short, table};
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
            let list: TraceList = client.read(&format!("/traces?limit={}", trace.limit)).await?;
            out.show(&list, listed);
        }
        Some(id) => {
            let found: TraceDetails = client.read(&format!("/traces/{}", escape(id))).await?;
            out.show(&found, |found| shown(found, trace.all));
        }
    }
    Ok(())
}

fn listed(list: &TraceList) -> String {
    let cells = |trace: &TraceSummary| {
        let ago_s = list.now_us.saturating_sub(trace.began_us) / 1_000_000;
        let agent = trace.agent.as_deref().unwrap_or_default();
        vec![
            trace.trace.chars().take(ID_SHOWN).collect(),
            format!("{ago_s} s ago"),
            took(trace.took_us),
            trace.operation.as_ref().unwrap_or(&trace.name).clone(),
            agent.rsplit(':').next().unwrap_or_default().to_owned(),
            trace.spans.to_string(),
            trace.nodes.to_string(),
            if trace.failed { "failed".to_owned() } else { String::new() },
        ]
    };
    let all: Vec<Vec<String>> = list.traces.iter().map(cells).collect();
    if all.is_empty() {
        return "no trace is kept here: nothing was called since the node started".to_owned();
    }
    table(&["trace", "began", "took", "operation", "agent", "spans", "other nodes", ""], &all)
}

fn took(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1e3)
}

/// The spans of a trace, by which is part of which.
struct Tree<'a> {
    children: BTreeMap<&'a str, Vec<&'a TraceSpan>>,
    all: bool,
    lines: Vec<String>,
}

fn shown(found: &TraceDetails, all: bool) -> String {
    let spans = &found.spans;
    let known: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
    let mut tree = Tree { children: BTreeMap::new(), all, lines: Vec::new() };
    let mut roots = Vec::new();
    for span in spans {
        match span.parent.as_deref() {
            Some(parent) if known.contains(parent) && parent != span.id => {
                tree.children.entry(parent).or_default().push(span);
            }
            // A parent that nobody told of, such as the client's own span, or none.
            _ => roots.push(span),
        }
    }
    let nodes: BTreeSet<&str> = spans.iter().map(|span| span.node.as_str()).collect();
    tree.lines.push(format!("trace {}: {} spans on {} nodes", found.trace, spans.len(), nodes.len()));
    tree.level(roots, "");
    // Other nodes named their spans, and said what these are about.
    let mut lines: Vec<String> = tree.lines.iter().map(|line| one_line(line)).collect();
    for untold in &found.untold {
        lines.push(format!("{} told nothing: {}", short(&untold.node), one_line(&untold.why)));
    }
    if found.more {
        lines.push("there is more: a node left spans out, or more nodes were passed than are asked".to_owned());
    }
    lines.join("\n")
}

impl<'a> Tree<'a> {
    /// Adds these spans, each with what is part of it. Every span is taken out once, so that circles end.
    fn level(&mut self, mut spans: Vec<&'a TraceSpan>, indent: &str) {
        if indent.chars().count() > 3 * DEPTH_MAX {
            return;
        }
        spans.sort_by_key(|span| span.began_us);
        let last = spans.len().saturating_sub(1);
        for (place, span) in spans.into_iter().enumerate() {
            let (branch, below) = if place == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.lines.push(format!("{indent}{branch}{}", line(span)));
            let indent = format!("{indent}{below}");
            if self.all {
                let attributes = span.attributes.iter();
                self.lines.extend(attributes.map(|(name, value)| format!("{indent}   {name}: {value}")));
            }
            let children = self.children.remove(span.id.as_str()).unwrap_or_default();
            self.level(children, &indent);
        }
    }
}

fn line(span: &TraceSpan) -> String {
    let about = ABOUT.iter().find_map(|name| span.attributes.get(*name)).map_or("", String::as_str);
    let failed = span.failed.as_ref().map_or_else(String::new, |why| format!("  failed: {why}"));
    let name = format!("{} {about}", span.name);
    format!("{}  {}  on {}{failed}", name.trim_end(), took(span.took_us), short(&span.node))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: &str, parent: Option<&str>, began_us: u64) -> TraceSpan {
        TraceSpan {
            trace: "0af7".to_owned(),
            id: id.to_owned(),
            parent: parent.map(str::to_owned),
            name: id.to_owned(),
            kind: "internal".to_owned(),
            began_us,
            took_us: 1_500,
            failed: None,
            attributes: BTreeMap::new(),
            node: "did:key:zA".to_owned(),
        }
    }

    fn found(spans: Vec<TraceSpan>, more: bool) -> TraceDetails {
        let (trace, here) = ("0af7".to_owned(), "did:key:zA".to_owned());
        TraceDetails { trace, here, spans, untold: Vec::new(), more }
    }

    #[test]
    fn spans_are_a_tree_in_the_order_of_time_and_circles_end() {
        let spans = vec![
            span("c", Some("a"), 3),
            span("b", Some("a"), 2),
            span("a", Some("client"), 1),
            span("x", Some("x"), 4),
        ];
        let shown = shown(&found(spans, true), false);
        let names: Vec<&str> = shown.lines().skip(1).filter_map(|line| line.split("  1.5 ms").next()).collect();
        assert_eq!(names[..4], ["├─ a", "│  ├─ b", "│  └─ c", "└─ x"], "{shown}");
        assert!(shown.ends_with("than are asked"), "{shown}");
        let circle = found(vec![span("p", Some("q"), 1), span("q", Some("p"), 2)], false);
        assert_eq!(super::shown(&circle, true).lines().count(), 1, "nothing is the root of a circle");
    }

    #[test]
    fn a_span_is_told_with_what_it_is_about_and_why_it_failed() {
        let mut of = span("execute_tool", None, 1);
        assert_eq!(line(&of), "execute_tool  1.5 ms  on zA");
        of.attributes.insert("gen_ai.tool.name".to_owned(), "maps/find".to_owned());
        let mut forged = of.clone();
        forged.attributes.insert("note".to_owned(), "x\n└─ pay  1.0 ms".to_owned());
        assert_eq!(shown(&found(vec![forged], false), true).lines().count(), 4, "no attribute is a span");
        of.failed = Some("no map".to_owned());
        assert_eq!(line(&of), "execute_tool maps/find  1.5 ms  on zA  failed: no map");
        assert!(shown(&found(vec![of], false), true).ends_with("gen_ai.tool.name: maps/find"));
    }

    #[test]
    fn a_trace_without_an_operation_is_listed_by_its_first_span() {
        let trace = TraceSummary {
            trace: "0af7651916cd43dd".to_owned(),
            began_us: 1_000_000,
            took_us: 1_500,
            name: "turn".to_owned(),
            operation: None,
            agent: Some("urn:althing:zQm:echo".to_owned()),
            spans: 2,
            nodes: 0,
            failed: true,
        };
        let told = listed(&TraceList { traces: vec![trace], now_us: 4_000_000 });
        let row: Vec<&str> = told.lines().nth(1).expect("a row").split_whitespace().collect();
        assert_eq!(row.join(" "), "0af7651916cd 3 s ago 1.5 ms turn echo 2 0 failed");
    }
}
