use super::*;
use crate::agent_file::Demand;

const SMALL: &str = "owner: ada
people:
  ada:
    roles: [treasurer]
    reach:
      - command: [notify-send, althing]
  grace:
    keys: [\"ssh-ed25519 AAAA grace@example\"]
    roles: [treasurer, compliance]
    users: [grace, build-token]
    reach:
      - url: https://push.example/grace
        secret: push
      - agent: pager
";

fn rules(text: &str) -> Vec<(String, &'static str)> {
    match parse_people(text) {
        Err(PeopleFileError::Invalid(problems)) => problems.into_iter().map(|it| (it.field, it.rule)).collect(),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn people_are_read_with_their_keys_roles_users_and_ways() {
    let file = parse_people(SMALL).expect("a good file");
    assert_eq!((file.owner.as_str(), file.people.len()), ("ada", 2));
    let grace = &file.people["grace"];
    assert_eq!(grace.keys[0].line, 8);
    assert_eq!(grace.keys[0].field, "people.grace.keys[0]");
    assert_eq!(grace.roles, ["treasurer", "compliance"]);
    assert_eq!(grace.users, ["grace", "build-token"]);
    let url = ReachSpec::Url { url: "https://push.example/grace".to_owned(), secret: Some("push".to_owned()) };
    assert_eq!(grace.reach, [url, ReachSpec::Agent("pager".to_owned())]);
    let command = ["notify-send", "althing"].map(str::to_owned).to_vec();
    assert_eq!(file.people["ada"].reach, [ReachSpec::Command { command, sandbox: Sandbox::default() }]);
    assert_eq!(parse_people("people: { ada: {} }").expect("a good file").owner, OWNER_DEFAULT);
}

#[test]
fn a_command_has_the_sandbox_that_is_written_beside_it() {
    let of = |sandbox: &str| format!("people:\n  ada:\n    reach: [{{ command: [mail, ada], sandbox: {sandbox} }}]\n");
    let sandbox = |written: &str| {
        let file = parse_people(&of(written)).expect("a good file");
        let [ReachSpec::Command { sandbox, .. }] = file.people["ada"].reach.as_slice() else { panic!("{file:?}") };
        sandbox.clone()
    };
    assert_eq!(sandbox("none").demand, Demand::None);
    let rules = sandbox("{ egress: [smtp.example.org], write: [/run/user/1000/bus] }");
    assert_eq!((rules.egress[0].host.as_str(), rules.write.len()), ("smtp.example.org", 1));
    for (written, field) in
        [("some", "sandbox"), ("{ folder: write }", "sandbox"), ("{ egress: [\"http://a.b\"] }", "sandbox.egress[0]")]
    {
        let told = super::tests::rules(&of(written));
        let at = format!("people.ada.reach[0].{field}");
        assert!(told.len() == 1 && told[0].0.starts_with(&at), "{written}: {told:?}");
    }
    let alone = "people: { ada: { reach: [{ agent: b, sandbox: none }] } }";
    assert_eq!(super::tests::rules(alone), [("people.ada.reach[0]".to_owned(), "one-of")]);
}

#[test]
fn those_who_sign_off_are_as_many_as_there_are() {
    let of = |prune: &str| format!("{SMALL}prune: {prune}\n");
    let file = parse_people(&of("{ role: treasurer, count: 1 }")).expect("a good file");
    assert_eq!(file.prune, Some(SignOffSpec { role: "treasurer".to_owned(), count: 1 }));
    assert_eq!(parse_people(SMALL).expect("a good file").prune, None);
    for (prune, field, rule) in [
        ("{ role: treasurer, count: 2 }", "prune.count", "too-few"),
        ("{ role: auditor, count: 1 }", "prune.count", "too-few"),
        ("{ role: treasurer, count: 0 }", "prune.count", "out-of-range"),
        ("{ role: treasurer, count: 8 }", "prune.count", "out-of-range"),
        ("{ role: treasurer }", "prune.count", "missing"),
        ("{ count: 1 }", "prune.role", "missing"),
        ("{ role: treasurer, count: 1, by: ada }", "prune.by", "unknown-key"),
        ("7", "prune", "wrong-type"),
    ] {
        assert_eq!(rules(&of(prune)), [(field.to_owned(), rule)], "{prune}");
    }
}

#[test]
fn what_is_wrong_is_told_by_field_and_rule() {
    let of_ada = |members: &str| format!("people:\n  ada: {{ {members} }}\n");
    for (text, field, rule) in [
        ("owner: eve\npeople: { ada: {} }".to_owned(), "owner", "unknown-person"),
        ("{}".to_owned(), "people", "missing"),
        ("people: [ada]".to_owned(), "people", "wrong-type"),
        ("people: { Ada: {} }".to_owned(), "people.Ada", "name-form"),
        (of_ada("key: []"), "people.ada.key", "unknown-key"),
        (of_ada("keys: [7]"), "people.ada.keys[0]", "wrong-type"),
        (of_ada("keys: [\"a\\nb\"]"), "people.ada.keys[0]", "out-of-range"),
        (of_ada("roles: [\"the boss\"]"), "people.ada.roles[0]", "name-form"),
        (of_ada("reach: [{}]"), "people.ada.reach[0]", "one-of"),
        (of_ada("reach: [{ url: \"https://a.example\", agent: b }]"), "people.ada.reach[0]", "one-of"),
        (of_ada("reach: [{ agent: b, secret: c }]"), "people.ada.reach[0]", "one-of"),
        (of_ada("reach: [{ command: [] }]"), "people.ada.reach[0].command", "out-of-range"),
        (of_ada("reach: [{ url: \"http://a.example\" }]"), "people.ada.reach[0].url", "address-form"),
        (of_ada("reach: [{ url: \"http://127.0.0.1.example\" }]"), "people.ada.reach[0].url", "address-form"),
        (of_ada("reach: [{ url: \"https://a.example\", secret: \"a b\" }]"), "people.ada.reach[0].secret", "name-form"),
    ] {
        assert_eq!(rules(&text), [(field.to_owned(), rule)], "{text}");
    }
    let twice = "people: { ada: { users: [u] }, grace: { users: [u] } }";
    assert_eq!(rules(twice), [("people.grace.users".to_owned(), "twice")]);
    assert_eq!(rules(&of_ada(&format!("roles: [{}]", ["a"; 17].join(", "))))[0].1, "out-of-range");
    let many: String = (0..257).map(|number| format!("  p{number}: {{}}\n")).collect();
    assert_eq!(rules(&format!("people:\n{many}"))[0].1, "too-many");
}

#[test]
fn what_is_huge_deep_or_refers_to_itself_is_refused_before_it_is_read() {
    let huge = "#".repeat(PEOPLE_FILE_BYTES_MAX + 1);
    assert_eq!(parse_people(&huge), Err(PeopleFileError::TooLarge(PEOPLE_FILE_BYTES_MAX + 1)));
    let deep = format!("people: {}{}", "[".repeat(100), "]".repeat(100));
    for text in [deep.as_str(), "people: &a { ada: *a }", "people: { ada: {}, ada: {} }", "people: {"] {
        assert!(matches!(parse_people(text), Err(PeopleFileError::Yaml { .. })), "{text}");
    }
}
