//! Tables of what another agent file changes of its programs.

use super::*;

/// What was, what is, and the changes.
type Case = (&'static str, &'static str, &'static [&'static str]);

fn file(parts: &str) -> AgentFile {
    let text = format!("name: a\ndescription: b\ncontract: {{ class: {{ latency: srt }} }}\n{parts}\n");
    AgentFile::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn process(rest: &str) -> AgentFile {
    file(&format!("runtime: {{ process: {{ {rest} }} }}"))
}

/// The changes from one process to another, each as `what: old > new`, with `!` where it widens.
fn changes(before: &str, now: &str) -> Vec<String> {
    told(&process(before), &process(now))
}

fn told(before: &AgentFile, now: &AgentFile) -> Vec<String> {
    let mut all = Programs::of(before).changes_to(&Programs::of(now));
    all.sort_by_key(|change| !change.wider);
    let line = |change: &RightsChange| {
        let mark = if change.wider { "!" } else { "" };
        format!("{mark}{}: {} > {}", change.what, change.old, change.new)
    };
    all.iter().map(line).collect()
}

#[test]
fn a_sandbox_is_wider_where_a_program_reaches_more() {
    let with = |sandbox: &str| format!("command: [a], sandbox: {sandbox}");
    let cases: &[Case] = &[
        ("required", "required", &[]),
        ("required", "{}", &["!runtime: sandbox required: true > false"]),
        ("{}", "required", &["runtime: sandbox required: false > true"]),
        (
            "{}",
            "none",
            &["!runtime: sandbox: as well as this machine can > none: it reaches whatever your account does"],
        ),
        ("none", "required", &["runtime: sandbox: none: it reaches whatever your account does > required"]),
        ("{ folder: read }", "{}", &["!runtime: sandbox folder: read > write"]),
        ("{}", "{ folder: read }", &["runtime: sandbox folder: write > read"]),
        ("{ read: [maps] }", "{ read: [maps, maps/more] }", &["!runtime: sandbox read: maps > maps, maps/more"]),
        ("{ write: [/srv] }", "{ write: [/srv/a] }", &["!runtime: sandbox write: /srv > /srv/a"]),
        ("{ read: [/srv, /var/x] }", "{ read: [/var/x] }", &["runtime: sandbox read: /srv, /var/x > /var/x"]),
        (
            "none",
            "{ egress: [{ host: a.b, variable: URL, headers: { Authorization: '{KEY}' } }] }",
            &["!runtime: sandbox: none: it reaches whatever your account does > as well as this machine can"],
        ),
        ("{ read: [/srv/a] }", "{ read: [/srv] }", &["!runtime: sandbox read: /srv/a > /srv"]),
        ("{ read: [/srv/a] }", "{ read: [/srv/ab] }", &["!runtime: sandbox read: /srv/a > /srv/ab"]),
        ("{ write: [~/x] }", "{ read: [~/x] }", &["runtime: sandbox read:  > ~/x", "runtime: sandbox write: ~/x > "]),
        ("{ read: [~/x] }", "{ write: [~/x] }", &["!runtime: sandbox write:  > ~/x", "runtime: sandbox read: ~/x > "]),
        ("{ egress: [a.b, c.d] }", "{ egress: [c.d] }", &["runtime: sandbox egress: a.b, c.d > c.d"]),
        ("{ egress: ['*.c.d'] }", "{ egress: [x.c.d] }", &["runtime: sandbox egress: *.c.d > x.c.d"]),
        ("{ egress: ['*.c.d'] }", "{ egress: [xc.d] }", &["!runtime: sandbox egress: *.c.d > xc.d"]),
        ("{ egress: [a.b] }", "{ egress: ['a.b:8443'] }", &["!runtime: sandbox egress: a.b > a.b:8443"]),
    ];
    for (before, now, expected) in cases {
        assert_eq!(changes(&with(before), &with(now)), *expected, "{before} {now}");
    }
}

#[test]
fn a_command_a_folder_and_variables_are_shown_and_widen_by_what_they_name() {
    let cases: &[Case] = &[
        ("command: [a, b]", "command: [a, c]", &["!runtime: command: a b > a c"]),
        ("command: [a, b, c]", "command: [a, c, b]", &["!runtime: command: a b c > a c b"]),
        ("command: [hold, a]", "command: [a]", &["!runtime: command: hold a > a"]),
        ("command: [a]", "command: [a, /home/me/.ssh]", &["!runtime: command: a > a /home/me/.ssh"]),
        ("command: [a]", "command: [a, .ssh]", &["!runtime: command: a > a .ssh"]),
        ("command: [a]", "command: [a], cwd: /srv", &["!runtime: cwd:  > /srv"]),
        ("command: [a], cwd: /srv", "command: [a], cwd: /srv/x", &["!runtime: cwd: /srv > /srv/x"]),
        ("command: [a], cwd: /srv", "command: [a]", &["runtime: cwd: /srv > "]),
        (
            "command: [a], env: { X: hush }",
            "command: [a], env: { X: loud }",
            &["runtime: env X: a value > another value"],
        ),
        ("command: [a]", "command: [a], env: { X: hush }", &["!runtime: env X:  > a value"]),
        (
            "command: [a], sandbox: none, env: { X: hush }",
            "command: [a], sandbox: none, env: { X: loud }",
            &["!runtime: env X: a value > another value"],
        ),
        ("command: [a]", "command: [a], env: { PYTHONPATH: /x }", &["!runtime: env PYTHONPATH:  > a value"]),
        ("command: [a], env: { PATH: /x }", "command: [a]", &["runtime: env PATH: a value > "]),
        ("command: [a]", "command: [a], port: tcp", &["!runtime: port:  > tcp, for every account of the machine"]),
    ];
    for (before, now, expected) in cases {
        assert_eq!(changes(before, now), *expected, "{before} {now}");
    }
    let kept = serde_json::to_string(&Programs::of(&process("command: [a], env: { X: hush }"))).expect("JSON");
    assert!(!kept.contains("hush"), "no value is kept: {kept}");
}

#[test]
fn a_program_where_there_was_none_widens_and_one_that_is_gone_does_not() {
    let without = file("runtime: { native: { builtin: echo } }");
    let with = file("runtime: { native: { builtin: tools } }\ntools: { x: { command: [a, b], sandbox: none } }");
    let none = "as well as this machine can > none: it reaches whatever your account does";
    let expected = ["!tools.x: program:  > a b".to_owned(), format!("!tools.x: sandbox: {none}")];
    assert_eq!(told(&without, &with), expected);
    assert_eq!(told(&with, &without), ["tools.x: program: a b > "]);
    let unbounded =
        |file: &AgentFile| Programs::of(file).unbounded().into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((unbounded(&without), unbounded(&with)), (Vec::new(), vec!["tools.x".to_owned()]));
}
