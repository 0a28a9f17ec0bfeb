use std::path::PathBuf;

use super::*;

/// A process agent with this sandbox, and further keys of the process.
fn process(sandbox: &str, more: &str) -> String {
    SMALL.replace("native: { builtin: echo }", &format!("process: {{ command: [a], {more}sandbox: {sandbox} }}"))
}

fn read(sandbox: &str) -> Sandbox {
    let file = AgentFile::parse(&process(sandbox, "")).unwrap_or_else(|error| panic!("{sandbox}: {error}"));
    let stored = serde_json::to_string(&file).expect("is JSON");
    assert_eq!(serde_json::from_str::<AgentFile>(&stored).expect("was stored"), file, "{stored}");
    let RuntimeSpec::Process { sandbox, .. } = file.runtime else { panic!("a process") };
    sandbox
}

#[test]
fn a_sandbox_is_a_word_or_a_map() {
    let of = |demand| Sandbox { demand, ..Sandbox::default() };
    for (written, sandbox) in [
        ("none", of(Demand::None)),
        ("required", of(Demand::Required)),
        ("null", of(Demand::Best)),
        ("{}", of(Demand::Best)),
        ("{ required: false }", of(Demand::Best)),
        ("{ required: true }", of(Demand::Required)),
        ("{ folder: write }", of(Demand::Best)),
        ("{ folder: read }", Sandbox { folder: OwnFolder::Read, ..of(Demand::Best) }),
    ] {
        assert_eq!(read(written), sandbox, "{written}");
    }
    let text = SMALL.replace("native: { builtin: echo }", "process: { command: [a] }");
    let stored = serde_json::to_value(AgentFile::parse(&text).expect("is good")).expect("is JSON");
    assert!(stored["runtime"]["process"].get("sandbox").is_none(), "{stored}");
}

#[test]
fn a_sandbox_names_paths_and_hosts() {
    let text = format!(
        "{SMALL}tools:\n  s:\n    command: [a]\n    sandbox:\n      required: true\n      read: [~/models, /srv/maps, data]\n      \
         write: ~/.cache/uv\n      egress:\n        - api.example.org\n        - \"*.example.org\"\n        \
         - host: api.openai.com:8443\n          variable: OPENAI_BASE_URL\n          path: /v1\n          \
         headers: {{ Authorization: \"Bearer {{OPENAI_KEY}}\", X-Retries: 3 }}\n"
    );
    let file = AgentFile::parse(&text).expect("is good");
    assert_eq!(file.tools["s"].secrets(), ["OPENAI_KEY"]);
    let ToolServerSpec::Command { sandbox, .. } = &file.tools["s"] else { panic!("a program") };
    assert_eq!(sandbox.demand, Demand::Required);
    assert_eq!(sandbox.read, ["~/models", "/srv/maps", "data"].map(PathBuf::from));
    assert_eq!(sandbox.write, [PathBuf::from("~/.cache/uv")]);
    let hosts: Vec<&str> = sandbox.egress.iter().map(|egress| egress.host.as_str()).collect();
    assert_eq!(hosts, ["api.example.org", "*.example.org", "api.openai.com:8443"]);
    let told = &sandbox.egress[2];
    assert_eq!((told.variable.as_deref(), told.path.as_deref()), (Some("OPENAI_BASE_URL"), Some("/v1")));
    assert_eq!(told.headers["X-Retries"], "3");
    assert_eq!(sandbox.secrets().into_iter().collect::<Vec<_>>(), ["OPENAI_KEY"]);
}

#[test]
fn what_is_written_wrong_is_told_with_what_was_meant() {
    let told = |sandbox: &str| {
        let found = problems(&process(sandbox, ""));
        let one = found.into_iter().next().expect("a problem");
        (one.field.replace("runtime.process.", ""), one.rule, one.fix)
    };
    for (sandbox, field, rule, fix) in [
        ("reqired", "sandbox", "unknown-word", "\"required\""),
        ("true", "sandbox", "wrong-type", "none, required or a map"),
        ("[none]", "sandbox", "wrong-type", "none, required or a map"),
        ("{ raed: [a] }", "sandbox.raed", "unknown-key", "\"read\""),
        ("{ required: yes }", "sandbox.required", "wrong-type", "true or false"),
        ("{ folder: reed }", "sandbox.folder", "unknown-word", "\"read\""),
        ("{ folder: 1 }", "sandbox.folder", "wrong-type", "in quotes"),
        ("{ read: { a: b } }", "sandbox.read", "wrong-type", "a list"),
        ("{ read: [1] }", "sandbox.read[0]", "wrong-type", "in quotes"),
        ("{ read: [a, a] }", "sandbox.read", "twice", "Keep one"),
        ("{ egress: a.b }", "sandbox.egress", "wrong-type", "a list"),
        ("{ egress: [7] }", "sandbox.egress[0]", "wrong-type", "a host"),
        ("{ egress: [{ variable: A }] }", "sandbox.egress[0].host", "missing", "\"host\""),
        ("{ egress: [{ host: a.b, header: {} }] }", "sandbox.egress[0].header", "unknown-key", "\"headers\""),
        ("{ egress: [{ host: a.b, headers: [] }] }", "sandbox.egress[0].headers", "wrong-type", "a map"),
    ] {
        let found = told(sandbox);
        assert_eq!((found.0.as_str(), found.1), (field, rule), "{sandbox}: {}", found.2);
        assert!(found.2.contains(fix), "{sandbox}: {}", found.2);
    }
    let text = format!("{SMALL}tools: {{ s: {{ url: \"http://a/\", sandbox: none }} }}\n");
    assert_eq!(broken(&text), [("tools.s.sandbox".to_owned(), "no-program", Some(4))]);
}

#[test]
fn what_would_undo_the_sandbox_or_cannot_be_is_refused() {
    let egress = |rest: &str| format!("{{ egress: [{{ {rest} }}] }}");
    let header =
        |name: &str, value: &str| egress(&format!("host: a.b, variable: URL, headers: {{ {name}: {value:?} }}"));
    let many = |item: &str| vec![item; 65].join(", ");
    let long = format!("/{}", "x".repeat(5_000));
    let cases = [
        ("{ read: [\"\"] }".to_owned(), "read[0]", "empty"),
        ("{ read: [a/../..] }".to_owned(), "read[0]", "path-form"),
        ("{ write: [/srv, ~root/x] }".to_owned(), "write[1]", "path-form"),
        ("{ write: [\"~\"] }".to_owned(), "write[0]", "path-form"),
        ("{ read: [\"a\\0b\"] }".to_owned(), "read[0]", "nul"),
        (format!("{{ read: [{long}] }}"), "read[0]", "too-many"),
        (format!("{{ egress: [{}] }}", many("a.b")), "egress", "too-many"),
        ("{ egress: [\"*\"] }".to_owned(), "egress[0].host", "host-form"),
        ("{ egress: [\"https://a.b\"] }".to_owned(), "egress[0].host", "host-form"),
        (egress("host: a.b/v1"), "egress[0].host", "host-form"),
        (egress("host: \"*.a.b\", variable: URL"), "egress[0].host", "one-host"),
        (egress("host: a.b, path: /v1"), "egress[0].variable", "missing"),
        (egress("host: a.b, headers: { A: b }"), "egress[0].variable", "missing"),
        (egress("host: a.b, variable: a-b"), "egress[0].variable", "env-name"),
        (egress("host: a.b, variable: PORT"), "egress[0].variable", "env-port"),
        (egress("host: a.b, variable: PATH"), "egress[0].variable", "env-taken"),
        (egress("host: a.b, variable: https_proxy"), "egress[0].variable", "env-taken"),
        (egress("host: a.b, variable: ALTHING_MCP_SOCKET"), "egress[0].variable", "env-taken"),
        (egress("host: a.b, variable: GIVEN"), "egress[0].variable", "env-twice"),
        (egress("host: a.b, variable: URL }, { host: c.d, variable: URL"), "egress[1].variable", "env-twice"),
        (egress("host: a.b, variable: URL, path: v1"), "egress[0].path", "path-form"),
        (egress("host: a.b, variable: URL, path: /v1/../x"), "egress[0].path", "path-form"),
        (egress("host: a.b, variable: URL, path: /v1?a=b"), "egress[0].path", "path-form"),
        (header("\"a b\"", "x"), "egress[0].headers.a b", "header-name"),
        (header("Host", "x"), "egress[0].headers.Host", "header-name"),
        (header("transfer-encoding", "chunked"), "egress[0].headers.transfer-encoding", "header-name"),
        (header("A: x, a", "x"), "egress[0].headers.a", "header-twice"),
        (header("A", ""), "egress[0].headers.A", "header-value"),
        (header("A", "a\nB: c"), "egress[0].headers.A", "header-value"),
        (header("A", "Bearer {a b}"), "egress[0].headers.A", "header-secret"),
        (header("A", "Bearer {KEY"), "egress[0].headers.A", "header-secret"),
    ];
    for (sandbox, field, rule) in cases {
        let found = problems(&process(&sandbox, "env: { GIVEN: x }, "));
        let field = format!("runtime.process.sandbox.{field}");
        assert!(found.iter().any(|p| p.field == field && p.rule == rule), "{field} {rule}: {found:?}\n{sandbox:.300}");
        assert!(found.iter().all(|p| !p.fix.is_empty() && p.line.is_some()), "{found:?}");
    }
    for good in [header("A", "plain"), header("A", "{KEY}"), egress("host: a.b, variable: URL")] {
        read(&good);
    }
}

#[test]
fn a_program_without_a_sandbox_is_let_nothing_through() {
    let mut file = AgentFile::parse(&process("none", "")).expect("is good");
    let RuntimeSpec::Process { sandbox, .. } = &mut file.runtime else { panic!("a process") };
    sandbox.read.push(PathBuf::from("/srv"));
    assert!(matches!(file.check(), Err(AgentFileError::Invalid(problems)) if problems[0].rule == "sandbox-none"));
}
