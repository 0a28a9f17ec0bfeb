mod sandbox;

use serde_json::json;

use super::*;

const DID: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
const SMALL: &str = "name: echo\ndescription: Says it again.\nruntime: { native: { builtin: echo } }\n";

fn problems(text: &str) -> Vec<FileProblem> {
    match AgentFile::parse(text) {
        Err(AgentFileError::Invalid(problems)) => problems,
        other => panic!("expected problems, got {other:?}"),
    }
}

/// The rules that are broken, each with its field and line.
fn broken(text: &str) -> Vec<(String, &'static str, Option<u64>)> {
    problems(text).into_iter().map(|p| (p.field, p.rule, p.line)).collect()
}

#[test]
fn a_small_file_gets_its_defaults() {
    let file = AgentFile::parse(SMALL).expect("is good");
    assert_eq!(file.title, "echo");
    assert_eq!(file.version, VERSION_DEFAULT);
    assert_eq!((file.callers, file.exposure), (Callers::Trusted, Exposure::Public), "finding is open, calling is not");
    assert_eq!((file.input_modes, file.output_modes), (vec!["text/plain".to_owned()], vec!["text/plain".to_owned()]));
    assert_eq!(file.runtime, RuntimeSpec::Native { builtin: "echo".to_owned(), config: Value::Null });
    assert!(file.skills.is_empty());
    assert_eq!(file.asks_as, AsksAs::Caller, "nobody gets more through an agent than by itself");
}

#[test]
fn a_large_file_is_read_in_full() {
    let text = format!(
        "name: counter\ntitle: Zähler\ndescription: |\n  Counts.\n  Twice.\nversion: 2.1.0-rc.1\nskills:\n  - id: words.count\n    \
         name: Count\n    description: Counts words.\n    action: count\n    target: words\n    tags: [a, b]\n    \
         examples: [\"one two\"]\n    version: 3.0.0\nruntime:\n  process:\n    command: [python3, agent.py, --port, \
         \"{{port}}\", -v, 2]\n    cwd: ./here\n    env: {{ DEBUG: true, N: 7, S: x }}\n    startup_timeout_ms: 500\n    port: tcp\n\
         callers: [\"{DID}\"]\nexposure: hidden\nasks_as: itself\ninput_modes: [application/json; charset=utf-8]\noutput_modes: [a/b]\n"
    );
    let file = AgentFile::parse(&text).expect("is good");
    assert_eq!(file.description, "Counts.\nTwice.\n");
    assert_eq!(file.skills[0].version.as_deref(), Some("3.0.0"));
    assert_eq!(file.callers, Callers::Listed(vec![DID.to_owned()]));
    assert_eq!((file.exposure, file.asks_as), (Exposure::Hidden, AsksAs::Itself));
    let RuntimeSpec::Process { command, cwd, env, startup_timeout_ms, port, .. } = &file.runtime else {
        panic!("a process")
    };
    assert_eq!(command.last().map(String::as_str), Some("2"));
    assert_eq!(cwd.as_deref(), Some(std::path::Path::new("./here")));
    assert_eq!(env.get("DEBUG").map(String::as_str), Some("true"));
    assert_eq!((*startup_timeout_ms, *port), (500, Some(super::ProgramPort::Tcp)));
}

#[test]
fn the_config_of_a_native_agent_may_have_any_shape() {
    let text = SMALL.replace("builtin: echo", "builtin: echo, config: { a: [1, 2.5, null, yes, true], b: { c: x } }");
    let file = AgentFile::parse(&text).expect("is good");
    let RuntimeSpec::Native { config, .. } = file.runtime else { panic!("native") };
    assert_eq!(config, json!({ "a": [1, 2.5, null, "yes", true], "b": { "c": "x" } }));
}

#[test]
fn an_unknown_key_is_refused_with_what_was_meant() {
    let text = format!("{SMALL}expsure: public\n");
    let found = &problems(&text)[0];
    assert_eq!((found.field.as_str(), found.rule, found.line), ("expsure", "unknown-key", Some(4)));
    assert!(found.fix.starts_with("Did you mean \"exposure\"?"), "{}", found.fix);
    let text = SMALL.replace("builtin: echo", "buildin: echo");
    let found = problems(&text);
    assert!(found.iter().any(|p| p.field == "runtime.native.buildin" && p.fix.contains("\"builtin\"")), "{found:?}");
    let far = problems(&format!("{SMALL}zzzz: 1\n"));
    assert!(far[0].fix.starts_with("Known: "), "{}", far[0].fix);
}

#[test]
fn every_problem_is_told_at_once_with_its_line() {
    let text =
        "name: Echo Agent\nversion: 1.0\nskills:\n  - id: A B\n    name: x\n  - 7\nruntime: {}\ncallers: trustd\n";
    let found = broken(text);
    let expected = [
        ("description", "missing", Some(1)),
        ("version", "wrong-type", Some(2)),
        ("skills[0].description", "missing", Some(4)),
        ("skills[1]", "wrong-type", Some(6)),
        ("runtime", "runtime-choice", Some(7)),
        ("callers", "unknown-word", Some(8)),
    ];
    assert_eq!(found, expected.map(|(field, rule, line)| (field.to_owned(), rule, line)));
    let text = AgentFile::parse(text).expect_err("has problems").to_string();
    assert!(text.starts_with("the agent file needs 6 change(s):\nline 1: description: this is missing"), "{text}");
    assert!(text.contains("Put it in quotes: \"1.0\""), "{text}");
    assert!(text.contains("Did you mean \"trusted\"?"), "{text}");
}

#[test]
fn each_rule_about_values_is_reached() {
    let with = |from: &str, to: &str| SMALL.replace(from, to);
    let process = |rest: &str| SMALL.replace("native: { builtin: echo }", &format!("process: {{ {rest} }}"));
    let skill = |rest: &str| format!("{SMALL}skills:\n- {{ id: a, name: A, description: A. }}\n- {{ {rest} }}\n");
    let server = |rest: &str| format!("{SMALL}tools: {{ s: {{ command: [a], {rest} }} }}\n");
    let long = "x".repeat(5000);
    let cases = [
        (with("name: echo\n", "name: Echo\n"), "name", "name-form"),
        (with("name: echo\n", &format!("name: {}\n", "e".repeat(64))), "name", "name-form"),
        (with("name: echo\n", "name: bücher\n"), "name", "name-form"),
        (format!("{SMALL}title: \"a\\nb\"\n"), "title", "one-line"),
        (format!("{SMALL}title: \"a\\u202eb\"\n"), "title", "hidden-character"),
        (with("Says it again.", "\"  \""), "description", "empty"),
        (with("Says it again.", &long), "description", "too-many"),
        (format!("{SMALL}version: one\n"), "version", "semver"),
        (format!("{SMALL}handoff_signers: [\"ssh-ed25519 AAAA\"]\n"), "handoff_signers[0]", "key-form"),
        (with("builtin: echo", "builtin: ECHO"), "runtime.native.builtin", "name-form"),
        (
            with("builtin: echo", &format!("builtin: a, config: {:?}", long.repeat(20))),
            "runtime.native.config",
            "too-many",
        ),
        (skill("id: a, name: B, description: B."), "skills[1].id", "id-twice"),
        (skill("id: a/b, name: B, description: B."), "skills[1].id", "id-form"),
        (skill("id: b, name: B, description: B., version: v1"), "skills[1].version", "semver"),
        (skill("id: b, name: B, description: B., tags: [\"\"]"), "skills[1].tags[0]", "empty"),
        (skill(&format!("id: b, name: B, description: B., action: {long}")), "skills[1].action", "too-many"),
        (process("command: []"), "runtime.process.command", "empty"),
        (process("command: [\"a\\0b\"]"), "runtime.process.command[0]", "nul"),
        (process("command: [a], env: { PORT: 80 }"), "runtime.process.env.PORT", "env-port"),
        (process("command: [a], env: { LISTEN_FDS: 1 }"), "runtime.process.env.LISTEN_FDS", "env-socket"),
        (process("command: [a, \"{port}\"]"), "runtime.process.command", "no-port"),
        (process("command: [a], port: 80"), "runtime.process.port", "wrong-type"),
        (process("command: [a], env: { a-b: x }"), "runtime.process.env.a-b", "env-name"),
        (
            format!("{SMALL}tools: {{ s: {{ url: \"http://a/\", leads_to: [moon] }} }}\n"),
            "tools.s.leads_to",
            "unknown-word",
        ),
        (server("env_secrets: { a-b: KEY }"), "tools.s.env_secrets.a-b", "env-name"),
        (server("env_secrets: { PORT: KEY }"), "tools.s.env_secrets.PORT", "env-port"),
        (server("env_secrets: { A: \"a b\" }"), "tools.s.env_secrets.A", "name-form"),
        (server("env: { A: b }, env_secrets: { A: KEY }"), "tools.s.env_secrets.A", "env-twice"),
        (process("command: [a], startup_timeout_ms: 1"), "runtime.process.startup_timeout_ms", "out-of-range"),
        (process("command: [a, 1.50]"), "runtime.process.command[1]", "wrong-type"),
        (process("command: [a], startup_timeout_ms: soon"), "runtime.process.startup_timeout_ms", "wrong-type"),
        (format!("{SMALL}callers: []\n"), "callers", "empty"),
        (format!("{SMALL}callers: [did:web:example.com]\n"), "callers[0]", "caller-id"),
        (format!("{SMALL}callers: [\"{}x\"]\n", DID), "callers[0]", "caller-id"),
        (format!("{SMALL}exposure: secret\n"), "exposure", "unknown-word"),
        (format!("{SMALL}input_modes: []\n"), "input_modes", "empty"),
        (format!("{SMALL}output_modes: [text]\n"), "output_modes[0]", "media-type"),
    ];
    for (text, field, rule) in cases {
        let found = problems(&text);
        assert!(found.iter().any(|p| p.field == field && p.rule == rule), "{field} {rule}: {found:?}\n{text:.300}");
        assert!(found.iter().all(|p| !p.fix.is_empty() && p.line.is_some()), "{found:?}");
    }
}

#[test]
fn exactly_one_runtime_is_given() {
    let both = SMALL.replace("{ native", "{ process: { command: [a] }, native");
    assert_eq!(broken(&both), [("runtime".to_owned(), "runtime-choice", Some(3))]);
}

#[test]
fn what_is_not_yaml_says_where() {
    for text in ["name: [", "a: 1\na: 2\n", "a: &x [*x]\n", "a: !other 1\n", "%", "a: 1\n---\nb: 2\n"] {
        match AgentFile::parse(text) {
            Err(AgentFileError::Yaml { message, .. }) => assert!(!message.is_empty()),
            other => panic!("{text:?}: {other:?}"),
        }
    }
    let Err(AgentFileError::Yaml { line, .. }) = AgentFile::parse("name: a\nname: b\n") else { panic!("a duplicate") };
    assert_eq!(line, 2);
}

#[test]
fn a_text_that_grows_when_read_is_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..9 {
        bomb.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", ")));
    }
    assert!(matches!(AgentFile::parse(&bomb), Err(AgentFileError::Yaml { .. })));
    assert!(matches!(AgentFile::parse(&"[".repeat(10_000)), Err(AgentFileError::Yaml { .. })));
    let large = " ".repeat(AGENT_FILE_BYTES_MAX + 1);
    assert_eq!(
        AgentFile::parse(&large),
        Err(AgentFileError::TooLarge { len: AGENT_FILE_BYTES_MAX + 1, max: AGENT_FILE_BYTES_MAX })
    );
}

#[test]
fn a_file_with_no_map_or_nothing_in_it_is_refused() {
    assert_eq!(broken("7"), [(String::new(), "wrong-type", Some(1))]);
    assert!(AgentFile::parse("").is_err());
}

#[test]
fn callers_are_stored_as_they_are_written() {
    for (callers, stored) in [
        (Callers::ThisNode, json!("this-node")),
        (Callers::Own, json!("own")),
        (Callers::Trusted, json!("trusted")),
        (Callers::Anyone, json!("anyone")),
        (Callers::Listed(vec![DID.to_owned()]), json!([DID])),
    ] {
        assert_eq!(serde_json::to_value(&callers).expect("is JSON"), stored);
        assert_eq!(serde_json::from_value::<Callers>(stored).expect("was stored"), callers);
    }
    assert!(serde_json::from_value::<Callers>(json!("everyone")).is_err());
}

#[test]
fn a_file_from_disk_can_be_checked_again() {
    let mut file = AgentFile::parse(SMALL).expect("is good");
    assert_eq!(file.check(), Ok(()));
    file.name = "../etc".to_owned();
    assert!(matches!(file.check(), Err(AgentFileError::Invalid(problems)) if problems[0].rule == "name-form"));
}

#[test]
fn what_a_contract_names_is_there_and_held() {
    let with = |contract: &str, runtime: &str| {
        format!(
            "name: a\ndescription: A\nruntime: {{ {runtime} }}\ncontract: {{ class: {{ latency: dt }}, {contract} }}\n"
        )
    };
    let (native, program, model) = (
        "native: { builtin: echo, config: {} }",
        "process: { command: [a] }",
        "model: { prompt: a, endpoints: [{ url: \"http://127.0.0.1/v1\", model: m }] }",
    );
    let capability = |name: &str| with(&format!("capabilities: [\"{name}\"]"), native);
    for good in ["agents/echo", "agents/*", "memory/recall", "mesh/find_agents", "mesh/*", "session/note"] {
        assert!(AgentFile::parse(&capability(good)).is_ok(), "{good}");
    }
    for (bad, rule) in [
        ("agent/echo", "no-server"),
        ("files/read", "no-server"),
        ("agents/Echo", "name-form"),
        ("mesh/find_agent", "no-tool"),
        ("session/noted", "no-tool"),
    ] {
        let found = broken(&capability(bad));
        assert_eq!((found[0].0.as_str(), found[0].1), ("contract.capabilities[0]", rule), "{bad}");
    }
    let cost = |field: &str, runtime: &str| {
        let contract = format!("class: {{ latency: dt, cost: {{ {field}: 5 }} }}");
        let text = with("", runtime).replace("class: { latency: dt }, ", &contract);
        AgentFile::parse(&text).err().map(|_| broken(&text)[0].1)
    };
    assert_eq!((cost("cpu_ms", native), cost("cpu_ms", model), cost("tokens", model)), (None, None, None));
    for (field, runtime) in [("cpu_ms", program), ("tokens", native), ("spend", program)] {
        assert_eq!(cost(field, runtime), Some("not-held"), "{field} of {runtime}");
    }
}

#[test]
fn names_that_no_agent_can_have_are_refused_here_and_not_only_when_it_is_added() {
    for name in ["-echo", "echo-", "-", "--"] {
        let text = SMALL.replace("name: echo", &format!("name: {name:?}"));
        assert_eq!(broken(&text), [("name".to_owned(), "name-form", Some(1))], "{name}");
        let asks = format!("{SMALL}contract: {{ class: {{ latency: srt }}, capabilities: [\"agents/{name}\"] }}\n");
        assert_eq!(broken(&asks)[0].1, "name-form", "{name}");
    }
    assert!(AgentFile::parse(&SMALL.replace("name: echo", "name: e-c-h-0")).is_ok());
}

#[test]
fn a_hard_class_is_for_modules_only() {
    let class = "contract: { class: { latency: hrt, period_us: 10000, deadline_us: 10000, budget_us: 500 } }\n";
    for runtime in ["native: { builtin: echo }", "process: { command: [a] }", "model: { prompt: Answer. }"] {
        let text = format!("{}{class}", SMALL.replace("native: { builtin: echo }", runtime));
        let found = broken(&text);
        assert_eq!((found.len(), found[0].0.as_str(), found[0].1), (1, "contract.class.latency", "hrt-runtime"));
    }
    let module = SMALL.replace("native: { builtin: echo }", "wasm: { module: a.wat }");
    assert!(AgentFile::parse(&format!("{module}{class}")).is_ok());
}

/// What is no YAML is told in words for people, and nothing of the file is repeated at length.
#[test]
fn errors_of_syntax_are_in_our_words_and_short() {
    let digits = "9".repeat(20_000);
    let nested = "[".repeat(100);
    for (text, told) in [
        ("name: [".to_owned(), "close"),
        ("name: \"a".to_owned(), "close"),
        ("a: 1\na: 2\n".to_owned(), "\"a\" stands here twice"),
        (format!("{digits}: 1\n{digits}: 2\n"), "in quotes"),
        ("a: *x\n".to_owned(), "an alias"),
        ("a: !other 1\n".to_owned(), "a tag"),
        ("a: 1\n---\nb: 2\n".to_owned(), "a second document"),
        (nested, "nested deeper than 32 levels|close"),
        (format!("a: [{}]\n", "1,".repeat(30_000)), "more than 20000 values"),
        (format!("a: {digits}.5\n"), "in quotes"),
        ("a: .inf\n".to_owned(), "in quotes"),
        ("? [a]\n: 1\n".to_owned(), "in quotes"),
    ] {
        let Err(AgentFileError::Yaml { message, .. }) = AgentFile::parse(&text) else { panic!("{text:.40}") };
        assert!(told.split('|').any(|told| message.contains(told)), "{text:.40}: {message}");
        assert!(message.len() < 400, "{text:.40}: {message}");
    }
    // A number of 20,000 digits is one that is not finite, or text of that length: never repeated in full.
    let told = AgentFile::parse(&format!("{SMALL}version: {digits}\n")).expect_err("no version").to_string();
    assert!(told.len() < 600, "{} bytes: {told:.200}", told.len());
}

#[test]
fn a_secret_is_sent_over_https_or_to_this_machine_and_nowhere_else() {
    for url in [
        "https://models.example/v1",
        "http://127.0.0.1:8000/v1",
        "http://127.9.9.9",
        "http://localhost:1/x",
        "http://[::1]:9/mcp",
    ] {
        assert!(super::keeps_bearer(url), "{url}");
    }
    let leaking = [
        "http://models.example/v1",
        "http://192.168.1.7:8000/v1",
        "http://localhost.example/v1",
        "http://127.0.0.1.example/v1",
        "http://127.0.0.1@models.example/v1",
        "http://0.0.0.0:1",
        "http://[::2]:9",
        "http://[::1",
        "ftp://127.0.0.1",
        "",
    ];
    for url in leaking {
        assert!(!super::keeps_bearer(url), "{url}");
    }
    let refused = |yaml: &str| broken(yaml).iter().any(|(_, rule, _)| *rule == "bearer-in-the-clear");
    let model = "name: a\ndescription: b\ncontract: { class: { latency: srt } }\n";
    let endpoint = "{ url: \"http://models.example/v1\", model: m, secret: K }";
    assert!(refused(&format!("{model}runtime: {{ model: {{ prompt: p, endpoints: [{endpoint}] }} }}\n")));
    let open = endpoint.replace(", secret: K", "");
    assert!(AgentFile::parse(&format!("{model}runtime: {{ model: {{ prompt: p, endpoints: [{open}] }} }}\n")).is_ok());
    let native = format!("{model}runtime: {{ native: {{ builtin: echo }} }}\n");
    assert!(refused(&format!("{native}tools: {{ t: {{ url: \"http://tools.example/mcp\", secret: K }} }}\n")));
    assert!(refused(&format!("{native}embeddings: {endpoint}\n")));
}

#[test]
fn only_a_program_can_be_given_a_message_again() {
    let process = SMALL.replace("native: { builtin: echo }", "process: { command: [python3, agent.py] }");
    assert_ne!(process, SMALL);
    let file = AgentFile::parse(&format!("{process}session: {{ resume: repeat }}\n")).expect("is good");
    assert!(file.session.repeats());
    let stored = serde_json::to_value(&file).expect("JSON");
    assert_eq!(stored["session"], json!({ "resume": "repeat" }));
    assert_eq!(serde_json::from_value::<AgentFile>(stored).expect("read back"), file);

    for session in ["{}", "{ resume: }"] {
        let file = AgentFile::parse(&format!("{process}session: {session}\n")).expect("is good");
        assert!(!file.session.repeats(), "{session}");
        assert_eq!(serde_json::to_value(&file).expect("JSON").get("session"), None, "as before there were any");
    }
    let rules = |yaml: &str| broken(yaml).into_iter().map(|(field, rule, _)| (field, rule)).collect::<Vec<_>>();
    for (session, field, rule) in [
        ("{ resume: again }", "session.resume", "unknown-word"),
        ("{ resume: [repeat] }", "session.resume", "wrong-type"),
        ("{ resumes: repeat }", "session.resumes", "unknown-key"),
        ("repeat", "session", "wrong-type"),
    ] {
        let found = rules(&format!("{process}session: {session}\n"));
        assert_eq!(found, [(field.to_owned(), rule)], "{session}");
    }
    let found = rules(&format!("{SMALL}session: {{ resume: repeat }}\n"));
    assert_eq!(found, [("session.resume".to_owned(), "not-repeated")]);
}

#[test]
fn the_effect_of_tools_stands_beside_their_server() {
    let with = |tools: &str| format!("{SMALL}tools:\n{tools}");
    let file = AgentFile::parse(&with(
        "  count: { command: [count], effect: keyed }\n  lamp: { thing: \"http://192.0.2.7/lamp\" }\n\
         \x20 shop: { url: \"http://127.0.0.1:9/mcp\", effect: { search: none, order: repeatable } }\n",
    ))
    .expect("is good");
    let said = |tool: &str| Effect::said(&file.effects, tool);
    let all = ["count/up", "shop/search", "shop/order", "shop/pay", "lamp/toggle", "counter/up", "count"];
    let effects = [Some(Effect::Keyed), Some(Effect::None), Some(Effect::Repeatable), None, None, None, None];
    assert_eq!(all.map(said), effects);
    let stored = serde_json::to_value(&file).expect("JSON");
    assert_eq!(stored["effects"], json!({ "count/*": "keyed", "shop/order": "repeatable", "shop/search": "none" }));
    assert_eq!(serde_json::from_value::<AgentFile>(stored).expect("read back"), file);

    let wrong = |effect: &str| broken(&with(&format!("  shop: {{ command: [a], effect: {effect} }}\n")));
    for (effect, field, rule) in [
        ("repeatabel", "tools.shop.effect", "unknown-word"),
        ("7", "tools.shop.effect", "wrong-type"),
        ("{ order: [keyed] }", "tools.shop.effect.order", "wrong-type"),
        ("{ order: twice }", "tools.shop.effect.order", "unknown-word"),
    ] {
        assert_eq!(wrong(effect), [(field.to_owned(), rule, Some(5))], "{effect}");
    }
    let rules = |effect: &str| wrong(effect).into_iter().map(|(_, rule, _)| rule).collect::<Vec<_>>();
    assert_eq!(rules("{ \"or*\": keyed }"), ["effect-unknown"]);
    let many: String = (0..300).map(|number| format!("t{number}: none, ")).collect();
    assert_eq!(rules(&format!("{{ {many} }}")), ["too-many"]);
    let mut built = file;
    built.effects.insert("gone/*".to_owned(), Effect::None);
    assert!(built.check().is_err_and(|error| error.to_string().contains("gone/*")), "no such server");
}

#[test]
fn an_endpoint_says_which_tier_its_model_has() {
    let model =
        "name: a\ndescription: b\ncontract: { class: { latency: srt } }\nruntime: { model: { prompt: p, endpoints: [";
    let with = |tier: &str| format!("{model}{{ url: \"http://127.0.0.1/v1\", model: m{tier} }}] }} }}\n");
    let tier = |text: &str| match AgentFile::parse(&with(text)).expect("is good").runtime {
        RuntimeSpec::Model { endpoints, .. } => endpoints[0].tier,
        other => panic!("{other:?}"),
    };
    assert_eq!((tier(", tier: 4"), tier("")), (Some(4), None));
    let rules: Vec<_> = broken(&with(", tier: 10")).into_iter().map(|(_, rule, _)| rule).collect();
    assert_eq!(rules, ["out-of-range"]);
}

#[test]
fn profiles_say_how_far_data_go_to_a_tool_and_what_it_answers() {
    let with = |profiles: &str| format!("{SMALL}tools:\n  shop: {{ command: [a], profiles: {profiles} }}\n");
    let pay = "{ clearance: confidential, trusted: false, hide: true }";
    let text = with(&format!("{{ \"*\": {{ trusted: true, tier: 2 }}, pay: {pay} }}"));
    let file = AgentFile::parse(&text).expect("is good");
    let said = |tool: &str| ToolTerms::said(&file.profiles, tool);
    let all = ToolTerms { trusted: Some(true), tier: Some(2), ..ToolTerms::default() };
    assert_eq!(said("shop/search"), all);
    let pay = ToolTerms { trusted: Some(false), clearance: Some(DataLabel::Confidential), hide: Some(true), ..all };
    assert_eq!(said("shop/pay"), pay);
    assert!(!said("other/pay").is_said() && !said("shop").is_said());
    let stored = serde_json::to_value(&file).expect("JSON");
    assert_eq!(stored["profiles"]["shop/*"], json!({ "trusted": true, "tier": 2 }));
    assert_eq!(serde_json::from_value::<AgentFile>(stored).expect("read back"), file);

    let docs = std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    let page = std::fs::read_to_string(docs.join("../docs/labels.md")).expect("the reference");
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split_once("```")).expect("an example").0;
    let shown = AgentFile::parse(&format!("{SMALL}{example}")).expect("it can be written so");
    let said = ToolTerms::said(&shown.profiles, "crm/any");
    assert_eq!((said.clearance, said.label), (Some(DataLabel::Internal), Some(DataLabel::Restricted)));

    let rules = |profiles: &str| broken(&with(profiles)).into_iter().map(|(_, rule, _)| rule).collect::<Vec<_>>();
    for (profiles, rule) in [
        ("trusted", "wrong-type"),
        ("{ pay: trusted }", "wrong-type"),
        ("{ pay: {} }", "missing"),
        ("{ pay: { trusted: maybe } }", "wrong-type"),
        ("{ pay: { hide: 1 } }", "wrong-type"),
        ("{ pay: { label: secret } }", "unknown-word"),
        ("{ pay: { tier: 10 } }", "out-of-range"),
        ("{ pay: { effect: none } }", "unknown-key"),
        ("{ \"pa*\": { tier: 1 } }", "profile-unknown"),
    ] {
        assert!(rules(profiles).contains(&rule), "{profiles}: {:?}", rules(profiles));
    }
}
