//! Tables of what another agent file changes of what its agent may do.

use super::*;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP0XJDhaoMdbZPt4zWAvodmR/ev3axPFjtcC6sg16fYY";
const FINGERPRINT: &str = "handoff_signers:  > SHA256:doxiASlJnKSD9j+JpVoWpfEFHjUrsF9ZYr+cir4FYjo";

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
        (String::new(), format!("handoff_signers: ['{KEY} ada']"), FINGERPRINT),
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
        (
            tool("url: 'https://a.example/'"),
            tool("url: 'https://a.example/', effect: none"),
            "effects of tools:  > s/*: \"none\"",
        ),
        (
            tool("url: 'https://a.example/'"),
            tool("url: 'https://a.example/', profiles: { find: { trusted: true } }"),
            "profiles of tools:  > s/find: {\"trusted\":true}",
        ),
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
        ("", "contract: { class: { latency: dt } }"),
        ("", "contract: { class: { latency: srt }, observability: content }"),
    ];
    for (one, other) in cases {
        for (before, now) in [(one, other), (other, one)] {
            let changes = told(before, now);
            assert!(changes.iter().any(|change| change.starts_with('!')), "{before}\n{now}: {changes:?}");
        }
        assert!(told(one, one).is_empty() && told(other, other).is_empty(), "{one}\n{other}");
    }
}

/// What a contract with these members lets an agent do that is a program, or is none.
fn of_contract(mut members: Value, is_program: bool) -> Rights {
    if members.get("class").is_none() {
        members["class"] = json!({ "latency": "srt" });
    }
    let (mut rights, kind) = (Rights::default(), if is_program { A_PROGRAM } else { "a module" });
    rights.grant(KIND, [kind.to_owned()]);
    rights.grant_contract(&Contract::from_value(&members).unwrap_or_else(|problems| panic!("{members}: {problems:?}")));
    rights
}

/// Which changes of the contract widen it, and how many there are.
fn widened(before: &Rights, now: &Rights) -> (Vec<String>, usize) {
    let all = now.changed(&[Some(before.clone())]).changes;
    (all.iter().filter(|change| change.wider).map(|change| change.what.clone()).collect(), all.len())
}

/// Pairs of contracts of which the second lets an agent do more, by that member; and back, it does no more.
#[test]
fn a_contract_is_wider_where_a_term_of_it_got_wider_and_not_where_it_got_narrower() {
    let hrt = |rest: Value| {
        let mut class = json!({ "latency": "hrt", "period_us": 10_000, "deadline_us": 9_000, "budget_us": 100 });
        rest.as_object().expect("members").iter().for_each(|(name, value)| class[name] = value.clone());
        json!({ "class": class })
    };
    let srt = |name: &str, value: Value| json!({ "class": { "latency": "srt", name: value } });
    let dt = |cost: Value| json!({ "class": { "latency": "dt", "cost": cost } });
    let compute = |name: &str, value: u64| json!({ "compute": { name: value } });
    let memory = |name: &str, value: Value| json!({ "memory": { name: value } });
    let tools = |all: &[&str], asked: &[&str]| json!({ "capabilities": all, "security": { "consent_for": asked } });
    let placed = |placement: Value| json!({ "placement": placement });
    let signals = |name: &str, all: &[&str]| json!({ "signals": { name: all } });
    let verify = |verify: Value| json!({ "verify": verify });
    let checked = |all: &[&str]| {
        let checks: Vec<Value> = all.iter().map(|by| json!({ "by": by })).collect();
        json!({ "capabilities": ["s/*"], "verify": { "checks": checks } })
    };
    let none = || json!({});
    let cases = [
        (compute("calls_per_turn", 8), compute("calls_per_turn", 9), "compute.calls_per_turn"),
        (compute("calls_per_turn", 15), none(), "compute.calls_per_turn"),
        (none(), compute("calls_per_turn", 17), "compute.calls_per_turn"),
        (compute("tokens_per_turn", 1_000_000), none(), "compute.tokens_per_turn"),
        (compute("cpu_ms_per_turn", 59_000), none(), "compute.cpu_ms_per_turn"),
        (compute("memory_bytes", 1 << 20), none(), "compute.memory_bytes"),
        (none(), compute("memory_bytes", 1 << 30), "compute.memory_bytes"),
        (none(), json!({ "model": { "context_tokens": 9_000 } }), "model.context_tokens"),
        (json!({ "model": { "output_tokens": 9 } }), none(), "model.output_tokens"),
        (hrt(json!({})), hrt(json!({ "budget_us": 200 })), "class.budget_us"),
        (hrt(json!({})), hrt(json!({ "period_us": 9_500 })), "class.period_us"),
        (hrt(json!({})), hrt(json!({ "deadline_us": 8_000 })), "class.deadline_us"),
        (hrt(json!({})), hrt(json!({ "jitter_us": 10 })), "class.jitter_us"),
        (hrt(json!({})), hrt(json!({ "section_us": 90 })), "class.section_us"),
        (hrt(json!({ "arrival": "sporadic" })), hrt(json!({})), "class.arrival"),
        (hrt(json!({ "on_overrun": "suspend" })), hrt(json!({ "on_overrun": "degrade" })), "class.on_overrun"),
        (srt("ttft_ms", json!(300)), none(), "class.ttft_ms"),
        (none(), srt("priority", json!(101)), "class.priority"),
        (dt(json!({ "tokens": 5 })), dt(json!({ "tokens": 6 })), "class.cost.tokens"),
        (dt(json!({ "tokens": 5, "spend": 5 })), dt(json!({ "tokens": 5 })), "class.cost.spend"),
        (dt(json!({ "tokens": 5 })), dt(json!({ "tokens": 5, "per_s": 60 })), "class.cost.per_s"),
        (dt(json!({ "cpu_ms": 5 })), json!({ "class": { "latency": "dt" } }), "class.cost.cpu_ms"),
        (json!({ "binding": "smooth" }), none(), "binding"),
        (none(), json!({ "data_label": "public" }), "data_label"),
        (none(), json!({ "record": "tape" }), "record"),
        (verify(json!({ "finished": true })), none(), "verify.finished"),
        (verify(json!({ "finished": true })), verify(json!({ "finished": true, "repair": 1 })), "verify.repair"),
        (
            verify(json!({ "finished": true })),
            verify(json!({ "finished": true, "deliver": "early" })),
            "verify.deliver",
        ),
        (
            checked(&["s/a"]),
            json!({ "capabilities": ["s/*"], "verify": { "checks": [{ "by": "s/a", "after": "s/b" }] } }),
            "verify.checks",
        ),
        (verify(json!({ "media": ["text/*"] })), none(), "verify.media"),
        (
            verify(json!({ "media": ["text/plain"] })),
            verify(json!({ "media": ["text/plain", "image/png"] })),
            "verify.media",
        ),
        (checked(&["s/a", "s/b"]), checked(&["s/a"]), "verify.checks"),
        (verify(json!({ "schema": { "output": { "type": "object" } } })), none(), "verify.schema.output.type"),
        (verify(json!({ "schema": { "input": {} } })), none(), "verify.schema.input"),
        (json!({ "data_label": "restricted" }), json!({ "data_label": "confidential" }), "data_label"),
        (none(), memory("recall", json!(4)), "memory.quota_bytes"),
        (memory("retention_s", json!(5)), memory("retention_s", json!(6)), "memory.retention_s"),
        (memory("retention_s", json!(5)), memory("recall", json!(4)), "memory.retention_s"),
        (memory("quota_bytes", json!(70_000)), memory("quota_bytes", json!(80_000)), "memory.quota_bytes"),
        (memory("recall", json!(1)), memory("recall", json!(2)), "memory.recall"),
        (memory("require_grounding", json!(true)), memory("recall", json!(4)), "memory.require_grounding"),
        (memory("recall", json!(4)), memory("namespace", json!("others")), "memory.namespace"),
        (placed(json!({ "labels": ["a", "b"] })), placed(json!({ "labels": ["a"] })), "placement.labels"),
        (placed(json!({ "min_grade": "A" })), none(), "placement.min_grade"),
        (signals("inputs", &["a"]), signals("inputs", &["a", "b"]), "signals.inputs"),
        (none(), signals("outputs", &["a"]), "signals.outputs"),
        (tools(&["s/a", "s/b"], &["s/a"]), tools(&["s/a", "s/b"], &[]), "security.consent_for"),
        (tools(&["s/*"], &["s/*"]), tools(&["s/*"], &["s/a"]), "security.consent_for"),
        (json!({ "security": { "max_tier": 3 } }), json!({ "security": { "max_tier": 4 } }), "security.max_tier"),
        (json!({ "security": { "max_tier": 3 } }), none(), "security.max_tier"),
        (tools(&["s/a"], &[]), tools(&["s/*"], &[]), ": capabilities"),
        (json!({ "model": { "models": ["m@^1.2"] } }), json!({ "model": { "models": ["m"] } }), ": models"),
    ];
    for (narrow, wide, member) in cases {
        let (less, more) = (of_contract(narrow.clone(), false), of_contract(wide.clone(), false));
        let (wider, _) = widened(&less, &more);
        assert!(wider.iter().any(|what| what.ends_with(member)), "{narrow}\n{wide}: {wider:?}");
        let (wider, count) = widened(&more, &less);
        assert!(wider.is_empty() && count > 0, "{wide}\n{narrow}: {wider:?}");
    }
}

#[test]
fn what_a_contract_does_not_say_is_what_holds_without_it() {
    let memory = |bytes: u64| json!({ "compute": { "memory_bytes": bytes } });
    let is_wider = |before: Value, now: Value, is_program: bool| {
        !widened(&of_contract(before, is_program), &of_contract(now, is_program)).0.is_empty()
    };
    // A program has any memory where nothing is written.
    assert!(!is_wider(json!({}), memory(1 << 32), true) && is_wider(memory(1 << 32), json!({}), true));
    let hrt = json!({ "latency": "hrt", "period_us": 10_000, "deadline_us": 9_000, "budget_us": 100 });
    let graded = |grade: &str| json!({ "class": hrt, "placement": { "min_grade": grade } });
    assert!(!is_wider(graded("B"), json!({ "class": hrt }), false));
    assert!(is_wider(json!({ "class": hrt }), graded("C"), false));
    // A memory that is gone keeps nothing for ever, and is sealed by nothing.
    let with = |memory: Value| json!({ "security": { "secrets": ["KEY"] }, "memory": memory });
    let sealed = with(json!({ "encryption_secret": "KEY", "retention_s": 5 }));
    let open = with(json!({ "retention_s": 5 }));
    assert!(!is_wider(sealed.clone(), json!({}), false) && is_wider(sealed, open, false));
}

#[test]
fn another_schema_of_answers_may_permit_more_and_a_first_one_does_not() {
    let with = |schema: Value| of_contract(json!({ "verify": { "schema": { "output": schema } } }), false);
    let (one, other) = (with(json!({ "type": "object" })), with(json!({ "type": "object", "minProperties": 1 })));
    for (before, now) in [(&one, &other), (&other, &one)] {
        let (wider, count) = widened(before, now);
        assert_eq!((wider, count), (vec!["contract.verify.schema.output.minProperties".to_owned()], 1));
    }
    let (wider, count) = widened(&of_contract(json!({}), false), &one);
    assert!(wider.is_empty() && count > 0, "{wider:?}");
    // Its input is another matter.
    let both = json!({ "verify": { "schema": { "output": { "type": "object" }, "input": { "type": "object" } } } });
    assert!(widened(&one, &of_contract(both, false)).0.is_empty());
    // A check may take longer, since a late one refuses.
    let within =
        |ms: u64| json!({ "capabilities": ["s/a"], "verify": { "checks": [{ "by": "s/a", "within_ms": ms }] } });
    assert_eq!(widened(&of_contract(within(5), false), &of_contract(within(9), false)), (Vec::new(), 1));
}

#[test]
fn a_consent_for_what_it_may_call_no_more_is_none_less() {
    let tools = |all: &[&str], asked: &[&str]| json!({ "capabilities": all, "security": { "consent_for": asked } });
    let before = of_contract(tools(&["s/a", "s/b", "t/c"], &["s/a", "t/c"]), false);
    let cases: [(&[&str], &[&str], bool); 4] = [
        (&["s/b", "t/c"], &["t/c"], false),
        (&["s/b"], &[], false),
        (&["s/a", "t/c"], &["s/a"], true),
        (&["s/a", "s/b", "t/c"], &["s/a", "s/b", "t/c"], false),
    ];
    for (all, asked, is_wider) in cases {
        let (wider, _) = widened(&before, &of_contract(tools(all, asked), false));
        assert_eq!(!wider.is_empty(), is_wider, "{all:?} {asked:?}: {wider:?}");
    }
    // Of all tools of a server a person was asked for, also for this one.
    let before = of_contract(tools(&["s/*"], &["s/*"]), false);
    assert!(widened(&before, &of_contract(tools(&["s/a"], &["s/a"]), false)).0.is_empty());
    assert!(!widened(&before, &of_contract(tools(&["s/a"], &[]), false)).0.is_empty());
}

#[test]
fn what_is_no_right_is_shown_and_asks_nobody_and_what_may_be_one_either_way_asks() {
    let srt = |rest: Value| json!({ "class": { "latency": "srt", "barge_in": rest } });
    let (one, other) = (of_contract(srt(json!(true)), false), of_contract(srt(json!(false)), false));
    for (before, now) in [(&one, &other), (&other, &one)] {
        assert_eq!(widened(before, now), (Vec::new(), 1));
    }
    let inputs = |all: &[&str], after_us: u64| {
        let fallback = json!({ "a": { "after_us": after_us } });
        of_contract(json!({ "signals": { "inputs": all, "fallback": fallback } }), false)
    };
    // Jobs know signals by their places, and act on what is in place of a lost one.
    let all = [inputs(&["a", "b"], 2_000), inputs(&["b", "a"], 2_000), inputs(&["a", "b"], 3_000)];
    for now in &all[1..] {
        assert!(!widened(&all[0], now).0.is_empty() && !widened(now, &all[0]).0.is_empty());
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
