//! Sets, requests and verdicts, as an owner sees them.

use std::collections::BTreeSet;

use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{
    Answer, Bounds, Case, Decision, Demand, EntityName, Entry, EvaluationError, Gate, Kind, PolicySet, ReadError,
    Request, Schema, ToolInput, ToolSignature, Verdict, World, WorldError, cases, differences, explain, lint, run,
};

const FILE: &str = "policies.cedar";
const PAGE: &str = include_str!("../../../../docs/policies.md");
const EXAMPLE: &str = include_str!("../../../../docs/examples/policies.cedar");

fn schema() -> Schema {
    let search = json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"] });
    let pay = json!({
        "type": "object",
        "properties": { "to": { "type": "string" }, "amount": { "type": "number" } },
        "required": ["to", "amount"],
    });
    let odd = json!({
        "type": "object",
        "properties": { "path": { "oneOf": [{ "type": "string" }, { "type": "integer" }] } },
    });
    let [search, pay, odd] = [search, pay, odd].map(|schema| ToolInput::of_schema(&schema));
    let tool = |server, name, input| ToolSignature { server, name, input };
    let tools = [
        tool("shop", "search", &search),
        tool("bank", "pay", &pay),
        tool("bank", "recall", &pay),
        tool("disk", "read", &odd),
    ];
    Schema::new(&tools)
}

/// A tool that nobody wrote a profile for.
fn without_profile(server: &str, name: &str) -> Entry {
    Entry::Tool {
        server: server.to_owned(),
        name: name.to_owned(),
        effect: "final".to_owned(),
        trusted: false,
        label: DataLabel::Confidential,
        clearance: DataLabel::Public,
        tier: 9,
    }
}

fn world(schema: &Schema) -> World {
    let tool = |server: &str, name: &str, effect: &str, clearance| Entry::Tool {
        server: server.to_owned(),
        name: name.to_owned(),
        effect: effect.to_owned(),
        trusted: true,
        label: DataLabel::Public,
        clearance,
        tier: 1,
    };
    let entries = [
        Entry::Agent { id: "clerk".to_owned(), version: "1.2.0".to_owned(), publisher: Some("acme".to_owned()) },
        Entry::Person { id: "ada".to_owned(), roles: vec!["auditor".to_owned()] },
        tool("shop", "search", "none", DataLabel::Internal),
        tool("bank", "pay", "final", DataLabel::Restricted),
        without_profile("bank", "recall"),
        without_profile("disk", "read"),
    ];
    World::new(schema, &entries).expect("nothing is in itself")
}

fn read(text: &str) -> Result<PolicySet, ReadError> {
    PolicySet::read(FILE, text, &schema(), &Bounds::default())
}

fn set(text: &str) -> PolicySet {
    read(text).unwrap_or_else(|error| panic!("{error}"))
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().expect("arguments are an object").clone()
}

const PUBLIC: Label = Label { level: DataLabel::Public, trusted: true };

/// What a set says of the clerk's use of a tool.
fn of_tool(set: &PolicySet, tool: &str, arguments: &Value) -> Verdict {
    of_tool_with(set, tool, arguments, PUBLIC)
}

fn of_tool_with(set: &PolicySet, tool: &str, arguments: &Value, label: Label) -> Verdict {
    let (principal, resource) = (EntityName::new(Kind::Agent, "clerk"), EntityName::new(Kind::Tool, tool));
    let arguments = object(arguments);
    let (principal, resource, arguments) = (&principal, &resource, &arguments);
    let (gate, person) = (Gate::UseTool, Some("ada"));
    let request = Request { principal, gate, resource, arguments, label, person, facts: &[] };
    set.decide(&world(&schema()), &request)
}

fn errors(text: &str) -> Vec<String> {
    read(text).expect_err("it is wrong").findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_policy_reads_the_real_arguments_by_the_convention_of_other_gateways() {
    let set = set(r#"permit(principal, action == Action::"search", resource) when { context.input.q like "shoes*" };"#);
    assert_eq!(of_tool(&set, "shop/search", &json!({ "q": "shoes, red" })).answer, Answer::Permit);
    assert_eq!(of_tool(&set, "shop/search", &json!({ "q": "guns" })).answer, Answer::Deny);
    assert_eq!(of_tool(&set, "bank/pay", &json!({ "to": "x", "amount": 1 })).answer, Answer::Deny);
    assert!(set.warnings().is_empty(), "{:?}", set.warnings());
}

#[test]
fn every_tool_is_in_use_tool_and_one_named_as_a_gate_has_no_other_action() {
    let all = set(r#"permit(principal, action in Action::"useTool", resource);"#);
    let payment = json!({ "to": "x", "amount": 1 });
    for (tool, arguments) in
        [("shop/search", json!({ "q": "" })), ("bank/pay", payment.clone()), ("bank/recall", payment.clone())]
    {
        assert_eq!(of_tool(&all, tool, &arguments).answer, Answer::Permit, "{tool}");
    }
    let recalls = set(r#"permit(principal, action == Action::"recall", resource);"#);
    assert_eq!(of_tool(&recalls, "bank/recall", &payment).answer, Answer::Deny);
}

#[test]
fn a_forbid_wins_a_plain_permit_permits_and_permits_that_all_ask_ask_for_all() {
    let payment = json!({ "to": "x", "amount": 20.5 });
    let asking = r#"
        @id("yes") @ask("it costs money") permit(principal, action == Action::"pay", resource);
        @id("two") @sign_off("2:auditor") permit(principal, action == Action::"pay", resource) when {
            context.input.amount.greaterThan(decimal("10.0"))
        };"#;
    let consent = Demand::Consent { why: "it costs money".to_owned() };
    let sign_off = Demand::SignOff { count: 2, role: "auditor".to_owned() };
    let verdict = of_tool(&set(asking), "bank/pay", &payment);
    assert_eq!(verdict.answer, Answer::Ask(BTreeSet::from([consent.clone(), sign_off])));
    assert_eq!(verdict.policies, BTreeSet::from(["yes".to_owned(), "two".to_owned()]));
    let small = of_tool(&set(asking), "bank/pay", &json!({ "to": "x", "amount": 2 }));
    assert_eq!(small.answer, Answer::Ask(BTreeSet::from([consent])));

    let plain = format!("{asking} @id(\"free\") permit(principal, action, resource);");
    assert_eq!(of_tool(&set(&plain), "bank/pay", &payment).answer, Answer::Permit);
    let forbidden = format!("{plain} @id(\"no\") forbid(principal, action, resource == Tool::\"bank/pay\");");
    let verdict = of_tool(&set(&forbidden), "bank/pay", &payment);
    assert_eq!((verdict.answer, verdict.policies), (Answer::Deny, BTreeSet::from(["no".to_owned()])));
}

#[test]
fn an_id_with_quotes_still_asks() {
    // The display form of such an id is another text: what is asked for must be found by the id itself.
    let asking = set(r#"@id("a \"b\" \n c") @consent permit(principal, action, resource);"#);
    assert!(matches!(of_tool(&asking, "shop/search", &json!({ "q": "" })).answer, Answer::Ask(_)));
}

#[test]
fn any_error_denies_whatever_permits() {
    let text = r#"
        @id("all") permit(principal, action, resource);
        @id("odd") forbid(principal, action == Action::"read", resource) when { context.input.path == "/etc" };"#;
    let set = set(text);
    let verdict = of_tool(&set, "disk/read", &json!({}));
    assert_eq!(verdict.answer, Answer::Deny);
    assert!(matches!(&verdict.errors[..], [EvaluationError::Policy { policy, .. }] if policy == "odd"), "{verdict:?}");
    assert_eq!(of_tool(&set, "disk/read", &json!({ "path": "/home" })).answer, Answer::Permit);
}

#[test]
fn what_does_not_fit_or_is_not_known_is_denied_by_type() {
    let set = set("permit(principal, action, resource);");
    let error = |tool: &str, arguments: Value| of_tool(&set, tool, &arguments).errors;
    assert!(matches!(&error("shop/search", json!({}))[..], [EvaluationError::Arguments { .. }]));
    assert!(matches!(&error("shop/search", json!({ "q": ["a"] }))[..], [EvaluationError::Arguments { .. }]));
    assert!(matches!(&error("shop/other", json!({}))[..], [EvaluationError::Entity { .. }]));

    let (agent, nobody, memory) = (
        EntityName::new(Kind::Agent, "clerk"),
        EntityName::new(Kind::Agent, "nobody"),
        EntityName::new(Kind::Memory, "x"),
    );
    let (world, arguments) = (world(&schema()), Map::new());
    let decide = |principal, gate, resource| {
        let request =
            Request { principal, gate, resource, arguments: &arguments, label: PUBLIC, person: None, facts: &[] };
        set.decide(&world, &request)
    };
    assert_eq!(decide(&agent, Gate::Recall, &memory).answer, Answer::Permit);
    assert!(matches!(&decide(&nobody, Gate::Recall, &memory).errors[..], [EvaluationError::Entity { .. }]));
    assert!(matches!(&decide(&agent, Gate::Call, &memory).errors[..], [EvaluationError::Gate { .. }]));
    assert!(matches!(&decide(&memory, Gate::Recall, &memory).errors[..], [EvaluationError::Gate { .. }]));
}

#[test]
fn a_tool_that_was_bound_after_the_set_was_read_is_denied() {
    let set = set("permit(principal, action, resource);");
    let (principal, resource) = (EntityName::new(Kind::Agent, "clerk"), EntityName::tool("new", "tool"));
    let request = Request {
        principal: &principal,
        gate: Gate::UseTool,
        resource: &resource,
        arguments: &Map::new(),
        label: PUBLIC,
        person: None,
        facts: &[without_profile("new", "tool")],
    };
    assert!(matches!(&set.decide(&world(&schema()), &request).errors[..], [EvaluationError::Tool { .. }]));
}

#[test]
fn labels_are_compared_by_rank() {
    let set = set(r#"
        permit(principal, action, resource is Tool) when { context.level <= resource.clearance.rank };
        forbid(principal, action, resource is Tool) when { !context.trusted && resource.effect != "none" };"#);
    let search = json!({ "q": "" });
    for (level, answer) in [(DataLabel::Internal, Answer::Permit), (DataLabel::Confidential, Answer::Deny)] {
        assert_eq!(of_tool_with(&set, "shop/search", &search, Label { level, trusted: false }).answer, answer);
    }
    let payment = json!({ "to": "x", "amount": 1 });
    let tainted = Label { level: DataLabel::Public, trusted: false };
    assert_eq!(of_tool_with(&set, "bank/pay", &payment, tainted).answer, Answer::Deny);
}

#[test]
fn roles_publishers_and_servers_are_what_entities_are_in() {
    let set = set(r#"
        permit(principal in Publisher::"acme", action, resource in Server::"shop")
        when { context has person && context.person in Role::"auditor" };"#);
    assert_eq!(of_tool(&set, "shop/search", &json!({ "q": "" })).answer, Answer::Permit);
    assert_eq!(of_tool(&set, "bank/pay", &json!({ "to": "", "amount": 1 })).answer, Answer::Deny);
}

#[test]
fn errors_say_the_file_the_place_and_what_to_do() {
    let found = errors("permit(principal, action, resource);\npermit(principal, action resource);");
    assert!(found[0].starts_with("policies.cedar, line 2, column "), "{found:?}");
    let found = errors(
        "// x\n@id(\"a\") permit(principal, action == Action::\"search\", resource) when { context.input.nope == 1 };",
    );
    assert!(
        found[0].contains("line 2, column ") && found[0].contains("policy `a`") && found[0].contains("is not known"),
        "{found:?}"
    );
    let found =
        errors("@id(\"a\") permit(principal, action, resource);\n@id(\"a\") permit(principal, action, resource);");
    assert!(found[0].contains("line 2, column 1") && found[0].contains("the same id"), "{found:?}");
    let found = errors("@ask forbid(principal, action, resource);");
    assert!(found[0].contains("a forbid asks"), "{found:?}");
    let found = errors("@sign_off(\"many\") permit(principal, action, resource);");
    assert!(found[0].contains("how many persons"), "{found:?}");
    let found = errors("permit(principal is Robot, action, resource);");
    assert!(found[0].contains("a type that there is not"), "{found:?}");
}

#[test]
fn a_policy_for_a_tool_that_is_not_bound_here_is_a_warning() {
    let set = set("permit(principal, action == Action::\"fly\", resource);");
    let is_said = set.warnings().iter().any(|warning| warning.what.contains("no tool that is bound here"));
    assert!(is_said, "{:?}", set.warnings());
}

#[test]
fn a_policy_for_a_tool_without_types_is_a_warning() {
    let set =
        set("permit(principal, action == Action::\"read\", resource) when { context.input.path like \"/home/*\" };");
    let is_said = set.warnings().iter().any(|warning| warning.remedy.contains("policy test"));
    assert!(is_said, "{:?}", set.warnings());
    assert_eq!(of_tool(&set, "disk/read", &json!({ "path": "/home/x" })).answer, Answer::Permit);
}

#[test]
fn a_digest_is_of_the_text() {
    let (one, other) = (set("permit(principal, action, resource);"), set("permit(principal, action, resource); "));
    assert_ne!(one.digest(), other.digest());
    assert_eq!(one.digest().to_string().len(), 64);
    assert!(set("").is_empty());
}

#[test]
fn lint_names_what_can_never_apply_and_what_is_not_known() {
    let set = set(r#"
        @id("free") permit(principal, action, resource);
        @id("typo") @aks permit(principal == Agent::"klerk", action, resource == Tool::"shop/serach");
        @id("never") permit(principal, action == Action::"recall", resource is Tool);
        @id("false") permit(principal, action, resource) when { false };"#);
    let found: Vec<String> = lint(FILE, &set, &world(&schema())).iter().map(ToString::to_string).collect();
    for (policy, words) in [
        ("free", "permits everything"),
        ("typo", "`@aks` means nothing"),
        ("typo", "klerk"),
        ("typo", "shop/serach"),
        ("never", "can never apply"),
        ("false", "can never apply"),
    ] {
        let policy = format!("policy `{policy}`");
        assert!(
            found.iter().any(|line| line.contains(&policy) && line.contains(words)),
            "{policy} {words}: {found:#?}"
        );
    }
}

#[test]
fn lint_names_what_a_node_needs_and_no_permit_reaches() {
    let found =
        |text: &str| lint(FILE, &set(text), &world(&schema())).iter().map(ToString::to_string).collect::<Vec<String>>();
    let tools = found(r#"permit(principal, action in Action::"useTool", resource) when { resource.tier < 3 };"#);
    assert!(tools.len() == 1 && tools[0].contains("reaches call, model, bindAgent, addAgent:"), "{tools:?}");
    let some = found(r#"permit(principal, action in [Action::"call", Action::"addAgent"], resource);"#);
    assert!(some.len() == 1 && some[0].contains("reaches model, bindAgent:"), "{some:?}");
    let none = found("forbid(principal, action, resource) when { context.level > 1 };");
    assert!(none.len() == 1 && none[0].contains("no policy permits anything"), "{none:?}");
}

#[test]
fn the_example_permits_the_owner_and_the_owners_agents_their_work() {
    let (set, world) = (set(EXAMPLE), world(&schema()));
    let found = lint(FILE, &set, &world);
    assert!(found.is_empty(), "{found:?}");
    let (owner, clerk) = (EntityName::new(Kind::Person, "ada"), EntityName::new(Kind::Agent, "clerk"));
    let memory = EntityName::new(Kind::Memory, "clerk");
    let arguments = Map::new();
    for (principal, gate, resource) in [
        (&owner, Gate::Call, &clerk),
        (&clerk, Gate::Call, &clerk),
        (&clerk, Gate::Remember, &memory),
        (&clerk, Gate::Recall, &memory),
        (&owner, Gate::AddAgent, &clerk),
    ] {
        let (arguments, label, person) = (&arguments, PUBLIC, Some("ada"));
        let request = Request { principal, gate, resource, arguments, label, person, facts: &[] };
        assert_eq!(set.decide(&world, &request).answer, Answer::Permit, "{principal} {gate:?} {resource}");
    }
    assert_eq!(of_tool(&set, "shop/search", &json!({ "q": "shoes" })).answer, Answer::Permit);
}

fn file_of_cases() -> Value {
    let of = |name: &str, expect: &str, q: Value| {
        json!({
            "name": name,
            "principal": "Agent::\"clerk\"",
            "action": "search",
            "resource": "Tool::\"shop/search\"",
            "context": { "input": { "q": q } },
            "expect": expect,
        })
    };
    let cases =
        [of("shoes", "permit", json!("shoes")), of("guns", "deny", json!("guns")), of("list", "error", json!([]))];
    json!({ "cases": cases })
}

#[test]
fn cases_hold_or_show_what_was_decided_instead() {
    let set = set(r#"permit(principal, action == Action::"search", resource) unless { context.input.q == "guns" };"#);
    let world = world(&schema());
    let mut read: Vec<Case> = cases(&file_of_cases()).expect("they are cases");
    assert!(run(&set, &world, &read).iter().all(|outcome| outcome.holds()));
    read[0].expect = read[1].expect;
    let outcomes = run(&set, &world, &read);
    assert!(!outcomes[0].holds());
    assert_eq!((outcomes[0].name.as_str(), &outcomes[0].verdict.answer), ("shoes", &Answer::Permit));
}

#[test]
fn a_case_that_is_none_is_named_with_its_member() {
    let with = |member: &str, value: Value| {
        let mut file = file_of_cases();
        file["cases"][1][member] = value;
        cases(&file).expect_err("it is wrong").to_string()
    };
    assert!(with("principal", json!("clerk")).starts_with("case 2, principal: \"clerk\" names nothing"));
    assert!(with("action", json!("pay")).contains("case 2, action: \"pay\" is no action for Tool"));
    assert!(with("expect", json!("perhaps")).contains("permit, ask, deny or error"));
    assert!(with("expectt", json!("deny")).contains("there is no member \"expectt\""));
    assert!(with("context", json!({ "label": "secret" })).contains("is no label"));
    assert!(with("context", json!([])).contains("case 2, context: it is no object"));
    for file in [json!(null), json!([]), json!({}), json!({ "cases": 3 }), json!({ "cases": [1] })] {
        assert!(cases(&file).is_err(), "{file}");
    }
}

#[test]
fn an_explanation_has_the_policies_with_their_text_and_place() {
    let set = set("\n@id(\"shop\") @consent\npermit(principal, action == Action::\"search\", resource);");
    let (principal, resource) = (EntityName::new(Kind::Agent, "clerk"), EntityName::tool("shop", "search"));
    let arguments = object(&json!({ "q": "" }));
    let request = Request {
        principal: &principal,
        gate: Gate::UseTool,
        resource: &resource,
        arguments: &arguments,
        label: PUBLIC,
        person: None,
        facts: &[],
    };
    let explanation = explain(&set, &world(&schema()), &request);
    let [reason] = &explanation.reasons[..] else { panic!("{explanation:?}") };
    assert!(reason.text.contains("Action::\"search\""));
    assert_eq!(reason.place.map(|place| place.line), Some(2));
    assert_eq!(reason.demands, [Demand::Consent { why: String::new() }]);
    assert!(explanation.rule.contains("ask"));
}

#[test]
fn another_set_turns_the_decisions_that_it_decides_otherwise() {
    let stricter = set(r#"@consent permit(principal, action == Action::"search", resource);"#);
    let (principal, resource) = (EntityName::new(Kind::Agent, "clerk"), EntityName::tool("shop", "search"));
    let arguments = object(&json!({ "q": "" }));
    let request = Request {
        principal: &principal,
        gate: Gate::UseTool,
        resource: &resource,
        arguments: &arguments,
        label: PUBLIC,
        person: None,
        facts: &[],
    };
    let asked = Answer::Ask(BTreeSet::from([Demand::Consent { why: String::new() }]));
    let decisions =
        [Decision { id: "1", request, answer: Answer::Permit }, Decision { id: "2", request, answer: asked.clone() }];
    let turned = differences(&stricter, &world(&schema()), &decisions);
    let [one] = &turned[..] else { panic!("{turned:?}") };
    assert_eq!((one.id, &one.was, &one.becomes.answer), ("1", &Answer::Permit, &asked));
}

#[test]
fn a_world_is_bounded() {
    let schema = schema();
    let many: Vec<Entry> =
        (0..crate::ENTITIES_MAX).map(|at| Entry::Person { id: at.to_string(), roles: Vec::new() }).collect();
    assert_eq!(World::new(&schema, &many).map(|_| ()), Err(WorldError::Size { most: crate::ENTITIES_MAX }));
}

#[test]
fn each_gate_is_asked_with_its_own_members_and_no_others() {
    let set = set(r#"
        permit(principal, action, resource);
        @id("far") forbid(principal, action == Action::"egress", resource is Host)
            when { context.input has host && context.input.host like "*.example" };
        @id("loose") forbid(principal, action == Action::"addAgent", resource)
            when { context.input has sandbox && context.input.sandbox == "none" };"#);
    assert!(set.warnings().is_empty(), "{:?}", set.warnings());
    let decide = |gate, resource: EntityName, input: Value| {
        let (principal, arguments) = (EntityName::new(Kind::Agent, "clerk"), object(&input));
        let (principal, resource, arguments) = (&principal, &resource, &arguments);
        let (label, person) = (PUBLIC, Some("ada"));
        let request = Request { principal, gate, resource, arguments, label, person, facts: &[] };
        set.decide(&world(&schema()), &request)
    };
    let host =
        |host: &str| decide(Gate::Egress, EntityName::new(Kind::Host, host), json!({ "host": host, "port": 443 }));
    assert_eq!(host("shop.example").policies, BTreeSet::from(["far".to_owned()]));
    assert_eq!(host("shop.test").answer, Answer::Permit);
    let clerk = || EntityName::new(Kind::Agent, "clerk");
    assert_eq!(decide(Gate::AddAgent, clerk(), json!({ "sandbox": "none" })).answer, Answer::Deny);
    assert_eq!(decide(Gate::AddAgent, clerk(), json!({ "sandbox": "best" })).answer, Answer::Permit);
    assert_eq!(decide(Gate::AddAgent, clerk(), json!({})).answer, Answer::Permit);
    let wrong = decide(Gate::Egress, EntityName::new(Kind::Host, "shop.test"), json!({ "port": "443" }));
    assert!(matches!(&wrong.errors[..], [EvaluationError::Arguments { .. }]), "{wrong:?}");
    for secret in [clerk(), EntityName::new(Kind::Host, "KEY")] {
        assert!(matches!(&decide(Gate::UseSecret, secret, json!({})).errors[..], [EvaluationError::Gate { .. }]));
    }
}

/// The blocks of a language in the page about policies.
fn documented(language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let blocks = PAGE.split(&begin).skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.map(|(block, _)| block.to_owned()).collect()
}

#[test]
fn what_is_documented_holds() {
    let [policies] = &documented("cedar")[..] else { panic!("the page has one set") };
    let [file] = &documented("json")[..] else { panic!("the page has one file of cases") };
    let set = set(policies);
    assert!(set.warnings().is_empty(), "{:?}", set.warnings());
    let file = file.replace("urn:althing:zQm…:clerk", "clerk");
    let cases = cases(&serde_json::from_str(&file).expect("JSON")).expect("cases");
    let outcomes = run(&set, &world(&schema()), &cases);
    assert!(outcomes.iter().all(crate::Outcome::holds), "{outcomes:?}");
    let small = of_tool(&set, "bank/pay", &json!({ "to": "x", "amount": 5 }));
    assert_eq!(small.policies, BTreeSet::from(["small-payments".to_owned()]));
    for word in Gate::ALL.iter().map(|gate| gate.word()).chain(Kind::ALL.iter().map(|kind| kind.word())) {
        let is_shown = PAGE.contains(&format!("`{word}")) || ["Action", "Number", "Null"].contains(&word);
        assert!(is_shown, "{word} is not in docs/policies.md");
    }
}

/// What policies are made of, in any order, with any other character between.
const PARTS: &str = "(permit|forbid|@id|\\(|\\)|principal|action|resource|when|\\{|\\}|\"|;|,| |\n|==|.){0,40}";

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_read_as_a_panic(text in PARTS) {
        if let Err(error) = read(&text) {
            prop_assert!(!error.findings.is_empty());
        }
    }

    #[test]
    fn no_text_of_a_model_changes_a_decision_that_does_not_read_it(text in "(?s).{0,200}", name in "(?s).{0,20}") {
        let set = set(r#"
            forbid(principal, action, resource == Tool::"disk/read");
            permit(principal, action, resource);"#);
        let arguments = Value::Object(Map::from_iter([(name, json!({ "__entity": { "type": "Tool", "id": text } }))]));
        prop_assert_eq!(of_tool(&set, "disk/read", &arguments).answer, Answer::Deny);
    }

    #[test]
    fn a_forbid_is_never_outvoted(permits in 0_usize..6, asks in 0_usize..6) {
        let mut text = "forbid(principal, action, resource) when { context.level >= 0 };".to_owned();
        text.push_str(&"permit(principal, action, resource);".repeat(permits));
        text.push_str(&"@consent permit(principal, action, resource);".repeat(asks));
        prop_assert_eq!(of_tool(&set(&text), "shop/search", &json!({ "q": "" })).answer, Answer::Deny);
    }
}
