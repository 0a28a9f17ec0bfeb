//! Tables of what another agent file changes of what its agent may do.

use super::*;

/// A file with these parts, beside a name, a description and, unless they have one, a contract and a runtime.
fn rights(parts: &str) -> Rights {
    let contract = if parts.contains("contract:") { "" } else { "contract: { class: { latency: srt } }\n" };
    let runtime = if parts.contains("runtime:") { "" } else { "runtime: { native: { builtin: echo } }\n" };
    let text = format!("name: a\ndescription: b\n{contract}{runtime}{parts}\n");
    Rights::of(&AgentFile::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// The changes, each as `what: old > new`, with `!` where it widens.
fn told(before: &str, now: &str) -> Vec<String> {
    let all = rights(now).changed(&[Some(rights(before))]);
    assert_eq!(all.wider, all.changes.iter().any(|change| change.wider));
    let line = |change: &RightsChange| {
        let mark = if change.wider { "!" } else { "" };
        format!("{mark}{}: {} > {}", change.what, change.old, change.new)
    };
    all.changes.iter().map(line).collect()
}

#[test]
fn what_is_added_widens_and_what_is_taken_away_does_not() {
    let contract = |rest: &str| format!("contract: {{ class: {{ latency: srt }}, {rest} }}");
    let tool = |rest: &str| format!("tools: {{ s: {{ {rest} }} }}");
    let remote = |rest: &str| format!("runtime: {{ remote: {{ url: 'https://a.example', {rest} }} }}");
    let card = "1".repeat(64);
    let cases = [
        (
            contract("capabilities: [agents/a]"),
            contract("capabilities: [agents/a, agents/b]"),
            "contract: capabilities: agents/a > agents/a, agents/b",
        ),
        (
            contract("security: { secrets: [KEY] }"),
            contract("security: { secrets: [KEY, MORE] }"),
            "contract: secrets: KEY > KEY, MORE",
        ),
        (contract("model: { models: [m] }"), contract("capabilities: []"), "contract: models: m > (any)"),
        ("callers: own".to_owned(), "callers: trusted".to_owned(), "callers: own, this-node > own, this-node, trusted"),
        ("callers: trusted".to_owned(), "callers: anyone".to_owned(), "callers: own, this-node, trusted > (any)"),
        ("exposure: hidden".to_owned(), "exposure: own".to_owned(), "exposure:  > own"),
        (String::new(), "asks_as: itself".to_owned(), "asks_as:  > itself, not its caller"),
        (
            tool("url: 'https://a.example/', leads_to: [internet]"),
            tool("url: 'https://a.example/'"),
            "tools.s: leads_to: internet > (any)",
        ),
        (
            tool("thing: 'https://a.example/'"),
            tool("thing: 'https://a.example/', allow: ['https://b.example']"),
            "tools.s: allow:  > https://b.example",
        ),
        (
            remote("leads_to: [this-machine]"),
            remote("leads_to: [this-machine, internet]"),
            "runtime: leads_to: this-machine > internet, this-machine",
        ),
        (remote(&format!("card: '{card}'")), remote("leads_to: []"), ""),
    ];
    for (narrow, wide, line) in cases {
        let wider = told(&narrow, &wide);
        assert!(wider.iter().any(|change| change.starts_with('!')), "{narrow}\n{wide}: {wider:?}");
        assert!(line.is_empty() || wider.contains(&format!("!{line}")), "{narrow}\n{wide}: {wider:?}");
        let less = told(&wide, &narrow);
        assert!(!less.is_empty() && less.iter().all(|change| !change.starts_with('!')), "{wide}\n{narrow}: {less:?}");
    }
}

#[test]
fn another_kind_of_what_runs_or_serves_widens_whichever_way() {
    let url = "tools: { s: { url: 'https://a.example/' } }";
    let cases = [
        ("runtime: { native: { builtin: echo } }", "runtime: { native: { builtin: tools } }"),
        ("runtime: { native: { builtin: echo } }", "runtime: { wasm: { module: a.wasm } }"),
        ("runtime: { process: { command: [a] } }", "runtime: { remote: { url: 'https://a.example' } }"),
        ("runtime: { native: { builtin: echo } }", "runtime: { native: { builtin: echo, config: { at: [1, 2] } } }"),
        (
            "runtime: { native: { builtin: echo, config: { at: [2, 1] } } }",
            "runtime: { native: { builtin: echo, config: { at: [1, 2] } } }",
        ),
        ("runtime: { model: { prompt: Help. } }", "runtime: { model: { prompt: Tell. } }"),
        (url, "tools: { s: { url: 'https://b.example/' } }"),
        (url, "tools: { s: { thing: 'https://a.example/' } }"),
        (url, "tools: { s: { command: [a] } }"),
        ("", "contract: { class: { latency: srt }, compute: { calls_per_turn: 99 } }"),
    ];
    for (one, other) in cases {
        for (before, now) in [(one, other), (other, one)] {
            let changes = told(before, now);
            assert!(changes.iter().any(|change| change.starts_with('!')), "{before}\n{now}: {changes:?}");
        }
        assert!(told(one, one).is_empty() && told(other, other).is_empty(), "{one}\n{other}");
    }
}

#[test]
fn a_secret_of_a_server_of_tools_is_one_more() {
    let with = |secret: &str| {
        let tool = format!("tools: {{ s: {{ url: 'https://a.example/'{secret} }} }}");
        format!("contract: {{ class: {{ latency: srt }}, security: {{ secrets: [KEY] }} }}\n{tool}")
    };
    assert_eq!(told(&with(""), &with(", secret: KEY")), ["!tools.s: secret:  > KEY"]);
    assert_eq!(told(&with(", secret: KEY"), &with("")), ["tools.s: secret: KEY > "]);
}

#[test]
fn who_agrees_agrees_to_exactly_that() {
    let process = |rest: &str| rights(&format!("runtime: {{ process: {{ {rest} }} }}"));
    let (one, two, three) = (process("command: [a]"), process("command: [b]"), process("command: [b], sandbox: none"));
    let digest = |before: &Rights, now: &Rights| now.changed(&[Some(before.clone())]).digest;
    assert_eq!(digest(&one, &two), digest(&one.clone(), &two));
    assert_ne!(digest(&one, &two), digest(&one, &three));
    assert_ne!(digest(&one, &three), digest(&two, &three));
    let stored = serde_json::to_vec(&three).expect("JSON");
    assert_eq!(serde_json::from_slice::<Rights>(&stored).expect("it is read again"), three);
    // What a file says stays on one line, and nothing in it is invisible.
    let hostile = process("command: [\"a\\nwider  b\", \"c\\u202ed\"]");
    assert_eq!(hostile.changed(&[Some(one)]).changes[0].new, "a wider  b cd");
}

#[test]
fn of_what_nobody_agreed_to_only_programs_without_a_sandbox_are_told() {
    let process = |rest: &str| rights(&format!("runtime: {{ process: {{ {rest} }} }}"));
    let (held, open) = (process("command: [a]"), process("command: [a], sandbox: none"));
    assert!(held.changed(&[None, None]).changes.is_empty());
    for before in [vec![None], vec![None, None], vec![Some(open.clone()), None], vec![None, Some(open.clone())]] {
        let changes = open.changed(&before).changes;
        let [one] = changes.as_slice() else { panic!("{changes:?}") };
        assert!(one.wider && one.what == "runtime: sandbox" && one.new == UNBOUNDED, "{one:?}");
    }
    assert!(open.changed(&[Some(open.clone()), Some(open.clone())]).changes.is_empty());
    // Of the two that may be known, the narrower holds.
    let changes = open.changed(&[Some(open.clone()), Some(held)]).changes;
    assert_eq!(changes.iter().filter(|change| change.wider).count(), 1, "{changes:?}");
}
