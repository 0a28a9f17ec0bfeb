//! Tables of what another agent file changes of what its programs may do.

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
    let all = Programs::of(before).changes_to(&Programs::of(now));
    assert_eq!(all.wider, all.changes.iter().any(|change| change.wider));
    let line = |change: &ProgramChange| {
        let mark = if change.wider { "!" } else { "" };
        format!("{mark}{}: {} > {}", change.what, change.old, change.new)
    };
    all.changes.iter().map(line).collect()
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
        ("{ read: [/srv] }", "{ read: [/srv/a, /srv/b] }", &["runtime: sandbox read: /srv > /srv/a, /srv/b"]),
        ("{ read: [/srv/a] }", "{ read: [/srv] }", &["!runtime: sandbox read: /srv/a > /srv"]),
        ("{ read: [/srv/a] }", "{ read: [/srv/ab] }", &["!runtime: sandbox read: /srv/a > /srv/ab"]),
        (
            "{ write: [~/x] }",
            "{ read: [~/x/y] }",
            &["runtime: sandbox read:  > ~/x/y", "runtime: sandbox write: ~/x > "],
        ),
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
        ("command: [a, b]", "command: [a, c]", &["runtime: command: a b > a c"]),
        ("command: [a]", "command: [a, /home/me/.ssh]", &["!runtime: command: a > a /home/me/.ssh"]),
        ("command: [a, /srv/x]", "command: [b, /srv/x]", &["runtime: command: a /srv/x > b /srv/x"]),
        ("command: [a]", "command: [a, .ssh]", &["!runtime: command: a > a .ssh"]),
        ("command: [a]", "command: [a], cwd: /srv", &["!runtime: cwd:  > /srv"]),
        ("command: [a], cwd: /srv", "command: [a], cwd: /srv/x", &["runtime: cwd: /srv > /srv/x"]),
        ("command: [a], cwd: /srv", "command: [a]", &["runtime: cwd: /srv > "]),
        (
            "command: [a], env: { X: hush }",
            "command: [a], env: { X: loud }",
            &["runtime: env X: a value > another value"],
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
    assert!(Programs::of(&without).is_empty() && !Programs::of(&with).is_empty());
}

#[test]
fn who_agrees_agrees_to_exactly_that() {
    let of = |text: &str| Programs::of(&process(text));
    let (one, two, three) = (of("command: [a]"), of("command: [b]"), of("command: [b], sandbox: none"));
    assert_eq!(one.changes_to(&two).digest, one.clone().changes_to(&two).digest);
    assert_ne!(one.changes_to(&two).digest, one.changes_to(&three).digest);
    assert_ne!(one.changes_to(&three).digest, two.changes_to(&three).digest);
    let stored = serde_json::to_vec(&three).expect("JSON");
    assert_eq!(serde_json::from_slice::<Programs>(&stored).expect("it is read again"), three);
    // What a file says stays on one line, and nothing in it is invisible.
    let hostile = of("command: [\"a\\nwider  b\", \"c\\u202ed\"]");
    let new = one.changes_to(&hostile).changes[0].new.clone();
    assert_eq!(new, "a wider  b cd");
}
