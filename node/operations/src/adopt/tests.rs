use althing_td::Exposure;
use serde_json::json;

use super::*;

fn command(words: &[&str]) -> ToolServerSpec {
    let command = words.iter().map(|word| (*word).to_owned()).collect();
    let (env, env_secrets) = Default::default();
    ToolServerSpec::Command { command, cwd: None, env, env_secrets, sandbox: Default::default() }
}

fn url(url: &str) -> ToolServerSpec {
    ToolServerSpec::Url { url: url.to_owned(), secret: Some("KEY".to_owned()), leads_to: vec![Place::Internet] }
}

fn adoption(at: &ToolServerSpec, callers: Callers) -> Adoption {
    Adoption { at: at.clone(), name: None, callers, allow: Vec::new(), environment: Environment::default() }
}

fn unsigned() -> CardSignature {
    CardSignature { key: None, said: "by nobody".to_owned() }
}

fn tool(name: &str, description: &str, schema: Value) -> Definition {
    Definition::new(name, description, schema)
}

#[test]
fn an_mcp_server_becomes_an_agent_with_a_skill_for_each_tool() {
    let at = command(&["python3", "tools/weather_box.py", "--units", "metric"]);
    let schema = json!({
        "type": "object",
        "properties": { "city": { "type": "string" }, "days": { "type": "integer" }, "kind": { "enum": ["rain", "sun"] } },
        "required": ["city", "days", "kind"],
    });
    let tools = vec![
        tool("Get-Forecast", "The weather\u{200B} of a city", schema),
        tool("ping", "", json!({})),
        tool("a b", "", json!({})),
    ];
    let draft = adoption(&at, Callers::ThisNode).write(&at, Found::Tools(tools, Vec::new())).expect("a draft");
    draft.file.check().expect("an agent file");
    assert_eq!(draft.left_out.iter().map(|(tool, _)| tool.as_str()).collect::<Vec<_>>(), ["a b"]);
    let file = draft.file;
    assert_eq!((file.name.as_str(), &file.exposure), ("weather-box", &Exposure::Hidden));
    assert_eq!(file.skills[0].id, "get-forecast");
    assert_eq!(file.skills[0].description, "The weather of a city");
    let example: Value = serde_json::from_str(&file.skills[0].examples[0]).expect("JSON");
    assert_eq!(example["arguments"], json!({ "city": "text", "days": 1, "kind": "rain" }));
    assert_eq!(file.skills[1].description, "ping");
    let contract = file.contract.expect("a contract");
    assert_eq!(contract.capabilities, ["server/Get-Forecast", "server/ping"]);
    assert_eq!(file.tools[SERVER], at);
}

#[test]
fn what_is_agreed_to_and_what_is_shown_is_written_in_the_order_that_it_always_had() {
    let at = command(&["box"]);
    let schema = json!({
        "properties": {
            "a": { "type": "number" }, "b": { "type": "boolean" }, "c": { "type": "array" }, "d": { "type": "object" },
            "e": {}, "f": { "default": 7 },
        },
        "required": ["f", "e", "d", "c", "b", "a", "g"],
    });
    let tools = Found::Tools(vec![tool("put", "Puts", schema)], Vec::new());
    let draft = adoption(&at, Callers::Own).write(&at, tools).expect("a draft");
    let arguments = r#"{"f":7,"e":"text","d":{},"c":[],"b":true,"a":1,"g":"text"}"#;
    assert_eq!(draft.file.skills[0].examples, [format!(r#"{{"tool":"put","arguments":{arguments}}}"#)]);
    let whole = json!({ "file": draft.file, "tools": draft.pins }).to_string();
    assert!(whole.starts_with(r#"{"file":{"name":"box","#) && whole.contains(r#","tools":{"server/put":"#), "{whole}");
    assert_eq!(draft.digest(), hex(&digest(whole.as_bytes())));
    let without = Draft { pins: None, ..draft };
    let whole = json!({ "file": without.file, "tools": null }).to_string();
    assert_eq!(without.digest(), hex(&digest(whole.as_bytes())));
}

#[test]
fn a_name_that_no_contract_can_have_is_refused_by_the_rules_of_contracts() {
    let granted = contract(&["KEY", "A", "KEY"], &["server/a".to_owned()]).expect("a contract");
    assert_eq!(granted.security.secrets, ["A", "KEY"]);
    assert_eq!(granted.capabilities, ["server/a"]);
    let refused = contract(&[], &["server/a b".to_owned()]).expect_err("it has a blank");
    assert!(matches!(&refused, AdoptError::Unfit(why) if why.contains("capabilities[0]")), "{refused}");
}

#[test]
fn an_agent_is_passed_on_to_with_what_its_card_says() {
    let card = json!({
        "name": "Seat Booker 3000!",
        "description": "Books seats",
        "version": "2.1.0",
        "supportedInterfaces": [{ "url": "http://0.0.0.0:9/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        "capabilities": { "streaming": true },
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": [],
        "skills": [
            { "id": "Book.Seat", "name": "Book\na seat", "description": "Books one", "tags": ["seat", ""], "examples": ["one"] },
            { "id": "book.seat", "name": "Again", "description": "x", "tags": [] },
        ],
    });
    let card: AgentCard = serde_json::from_value(card).expect("a card");
    let at = url("https://example.org/booker");
    let notes = vec![("/iconUrl".to_owned(), "it is left out".to_owned())];
    let draft =
        adoption(&at, Callers::Anyone).write(&at, Found::Agent(Box::new(card), unsigned(), notes)).expect("a draft");
    draft.file.check().expect("an agent file");
    let left_out: Vec<&str> = draft.left_out.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(left_out, ["its card, /iconUrl", "Again"], "two ids are the same here");
    let file = draft.file;
    assert_eq!((file.name.as_str(), file.version.as_str()), ("seat-booker-3000", "2.1.0"));
    assert_eq!((file.skills[0].id.as_str(), file.skills[0].name.as_str()), ("book.seat", "Book a seat"));
    assert_eq!(file.input_modes, ["text/plain", "application/json"]);
    assert_eq!(file.output_modes, ["text/plain"]);
    assert_eq!(file.exposure, Exposure::Public);
    let RuntimeSpec::Remote { url, secret, card: Some(digest), signed_by: None, leads_to } = &file.runtime else {
        panic!("{:?}", file.runtime)
    };
    assert_eq!((url.as_str(), secret.as_deref()), ("https://example.org/booker", Some("KEY")));
    assert_eq!((digest.len(), leads_to.as_slice()), (64, &[Place::Internet][..]), "its name may lead nowhere else");
    let again = adopted(&file).expect("it was adopted");
    assert_eq!(again.at, at, "what is accepted later is bound to the same");
    assert_eq!(file.contract.expect("a contract").security.secrets, ["KEY"]);
}

/// SR-4
#[test]
fn a_thing_is_bound_to_where_its_name_led() {
    let td = json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "title": "Lamp",
        "securityDefinitions": { "none": { "scheme": "nosec" } },
        "security": "none",
        "properties": { "level": { "type": "integer", "readOnly": true, "forms": [{ "href": "/level" }] } },
    });
    let (td, from) = (td.as_object().expect("an object"), "http://lamp.example.org:8080/td");
    let plan = althing_things::plan(td, &from.parse().expect("an address"), &althing_things::Terms::default());
    let leads_to = vec![Place::PrivateNet, Place::Internet];
    let at = ToolServerSpec::Url { url: from.to_owned(), secret: None, leads_to: leads_to.clone() };
    let found = Found::Thing(from.to_owned(), Box::new(plan));
    let file = adoption(&at, Callers::Own).write(&at, found).expect("a draft").file;
    file.check().expect("an agent file");
    assert_eq!(file.tools["thing"].leads_to(), leads_to);
    let again = adopted(&file).expect("it was adopted").at;
    assert!(matches!(&again, ToolServerSpec::Thing { leads_to: kept, .. } if *kept == leads_to), "{again:?}");
    let written = serde_json::to_string(&file).expect("JSON");
    let read: AgentFile = serde_json::from_str(&written).expect("it is kept so");
    assert_eq!(read.tools["thing"], file.tools["thing"]);
}

/// SR-4
#[tokio::test]
async fn what_a_thing_may_lead_to_beside_itself_counts_too() {
    let at = url("http://lamp.example.org/td");
    let allow = |origin: &str| Adoption { allow: vec![origin.to_owned()], ..adoption(&at, Callers::Own) };
    let near = allow("http://localhost:8081").and_allowed(&[Place::Internet]).await;
    assert_eq!(near.expect("it has an address"), [Place::ThisMachine, Place::Internet]);
    let digits = allow("http://192.0.2.7:8081").and_allowed(&[Place::Internet]).await;
    assert_eq!(digits.expect("it leads nowhere else"), [Place::Internet]);
    assert!(matches!(allow("http://[").and_allowed(&[]).await, Err(AdoptError::Nowhere { .. })));
}

#[test]
fn what_has_no_usable_name_gets_one() {
    for (words, name) in [
        (&["npx", "-y", "@scope/file-box"][..], "file-box"),
        (&["/usr/bin/thing"][..], "thing"),
        (&["slack-mcp", "xoxb-secret"][..], "slack-mcp"),
        (&["env", "KEY=secret", "server"][..], "env"),
        (&["Ünïcode"][..], "n-code"),
        (&["---"][..], "adopted"),
    ] {
        let at = command(words);
        let draft = adoption(&at, Callers::Own)
            .write(&at, Found::Tools(vec![tool("a", "b", json!({}))], Vec::new()))
            .expect("a draft");
        assert_eq!((draft.file.name.as_str(), draft.file.exposure), (name, Exposure::Own), "{words:?}");
    }
    assert_eq!(source(&url("http://127.0.0.1:9000/mcp")), "127.0.0.1");
}

#[test]
fn more_skills_than_an_agent_may_have_are_named() {
    let tools: Vec<Definition> = (0..70).map(|number| tool(&format!("t{number}"), "", json!({}))).collect();
    let at = command(&["box"]);
    let draft = adoption(&at, Callers::Own).write(&at, Found::Tools(tools, Vec::new())).expect("a draft");
    assert_eq!((draft.file.skills.len(), draft.left_out.len()), (SKILLS_MAX, 70 - SKILLS_MAX));
    assert_eq!(draft.file.contract.expect("a contract").capabilities.len(), 70, "all can be called");
}

#[test]
fn a_tool_that_no_contract_can_name_is_told_by_a_short_and_visible_name() {
    let at = command(&["box"]);
    let tools = ["good".to_owned(), "x".repeat(4_096), "bad\u{1b}[2J".to_owned()];
    let tools = tools.map(|name| tool(&name, "", json!({})));
    let draft = adoption(&at, Callers::Own).write(&at, Found::Tools(tools.into(), Vec::new())).expect("a draft");
    assert_eq!(draft.pins.expect("pins").len(), 1);
    let told: Vec<&String> =
        draft.left_out.iter().filter(|(_, why)| why.contains("cannot name it")).map(|(what, _)| what).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|name| name.chars().count() <= 93 && !name.contains('\u{1b}')), "{told:?}");
}

#[test]
fn more_tools_than_a_contract_may_name_are_left_out_and_named() {
    let at = command(&["box"]);
    for (number, more) in
        [(TOOLS_MAX, None), (TOOLS_MAX + 1, Some("t256")), (TOOLS_MAX + 20, Some("t263, and 12 more"))]
    {
        let tools: Vec<Definition> = (0..number).map(|number| tool(&format!("t{number}"), "", json!({}))).collect();
        let draft = adoption(&at, Callers::Own).write(&at, Found::Tools(tools, Vec::new())).expect("a draft");
        draft.file.check().expect("an agent file");
        assert_eq!(draft.pins.expect("pins").len(), TOOLS_MAX);
        assert_eq!(draft.file.contract.expect("a contract").capabilities.len(), TOOLS_MAX);
        let told: Vec<&str> = draft
            .left_out
            .iter()
            .filter(|(_, why)| why.contains("at most 256 tools"))
            .map(|(what, _)| what.as_str())
            .collect();
        assert_eq!(told.len(), usize::from(more.is_some()), "{told:?}");
        assert!(more.is_none_or(|more| told[0].ends_with(more)), "{told:?}");
    }
}

#[test]
fn the_variables_of_a_program_are_named_by_secrets_that_the_contract_grants() {
    let given = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let environment: Environment = [given("KEY", "hush"), given("MODE", "fast")].into_iter().collect();
    let at = command(&["box-server"]);
    let adoption = Adoption { environment, name: Some("box".to_owned()), ..adoption(&at, Callers::Own) };
    let tools = || Found::Tools(vec![tool("a", "b", json!({}))], Vec::new());
    let draft = adoption.write(&at, tools()).expect("a draft");
    draft.file.check().expect("an agent file");
    let written = serde_json::to_string(&draft.file).expect("JSON");
    assert!(!written.contains("hush") && !written.contains("fast"), "{written}");
    let ToolServerSpec::Command { env, env_secrets, .. } = &draft.file.tools[SERVER] else { panic!("a program") };
    assert!(env.is_empty() && env_secrets["KEY"] == "box.KEY" && env_secrets["MODE"] == "box.MODE", "{written}");
    let contract = draft.file.contract.as_ref().expect("a contract");
    assert_eq!(contract.security.secrets, ["box.KEY", "box.MODE"]);

    // Adopted again, it is given the same.
    let again = adopted(&draft.file).expect("it was adopted");
    assert!(again.environment.is_empty());
    assert_eq!(again.write(&again.at, tools()).expect("a draft").file, draft.file);
}

#[test]
fn what_a_program_may_reach_is_the_same_when_it_is_adopted_again() {
    let mut at = command(&["box-server"]);
    let ToolServerSpec::Command { sandbox, .. } = &mut at else { panic!("a program") };
    sandbox.read.push("/srv/maps".into());
    sandbox.egress.push("api.example.org".parse().expect("a host"));
    let tools = || Found::Tools(vec![tool("a", "b", json!({}))], Vec::new());
    let file = adoption(&at, Callers::Own).write(&at, tools()).expect("a draft").file;
    file.check().expect("an agent file");
    let again = adopted(&file).expect("it was adopted");
    assert_eq!(again.at, at);
    assert_eq!(again.write(&again.at, tools()).expect("a draft").file, file);
}

#[test]
fn what_an_adopted_program_is_granted_later_is_added_to_what_it_has() {
    let sandbox = |text: Value| serde_json::from_value::<Sandbox>(text).expect("a sandbox");
    let granted = |before: Value, more: Value| {
        let mut at = command(&["box-server"]);
        let ToolServerSpec::Command { sandbox: of, .. } = &mut at else { panic!("a program") };
        *of = sandbox(before);
        let mut adoption = adoption(&at, Callers::Own);
        adoption.grant(&sandbox(more)).expect("it is a program");
        json!(adoption.sandbox().expect("it is a program"))
    };
    for (before, more, after) in [
        (json!({}), json!({ "read": ["/srv/a"] }), json!({ "read": ["/srv/a"] })),
        (
            json!({ "folder": "read", "read": ["/srv/a"], "egress": ["a.b"] }),
            json!({ "write": ["/srv"], "egress": ["a.b", "c.d"] }),
            json!({ "folder": "read", "write": ["/srv"], "egress": ["a.b", "c.d"] }),
        ),
        (json!({ "read": ["/srv/a"] }), json!("required"), json!({ "required": true, "read": ["/srv/a"] })),
        (json!("required"), json!({ "read": ["/srv/a"] }), json!({ "required": true, "read": ["/srv/a"] })),
        (json!({ "folder": "read", "read": ["/srv/a"] }), json!("none"), json!("none")),
        (json!("none"), json!({ "read": ["/srv/a"] }), json!({ "read": ["/srv/a"] })),
    ] {
        assert_eq!(granted(before.clone(), more.clone()), after, "{before} and {more}");
    }
    let mut address = adoption(&url("http://a.b"), Callers::Own);
    assert!(matches!(address.grant(&sandbox(json!("required"))), Err(AdoptError::NoProgram)));
}

#[test]
fn what_a_program_lacks_is_offered_unless_it_has_it() {
    let needs = Needs { read: vec!["/srv/a".into()], ..Needs::default() };
    let lacks = Lacks { needs, ..Lacks::default() };
    let offered = |of: Value| {
        let mut at = command(&["box-server"]);
        let ToolServerSpec::Command { sandbox, .. } = &mut at else { panic!("a program") };
        *sandbox = serde_json::from_value(of).expect("a sandbox");
        adoption(&at, Callers::Own).offer(&lacks).map(|all| json!(all))
    };
    assert_eq!(offered(json!({ "read": ["~/b"] })), Some(json!({ "read": ["~/b", "/srv/a"] })));
    assert_eq!(offered(json!({ "read": ["/srv"] })), None, "it has that");
    assert_eq!(offered(json!("none")), None, "nothing is kept from it");
    assert_eq!(adoption(&url("http://a.b"), Callers::Own).offer(&lacks), None);
}

#[test]
fn the_address_of_a_card_is_that_of_its_agent() {
    for (given, at) in [
        ("https://a.example/x/.well-known/agent-card.json", "https://a.example/x"),
        ("https://a.example/x/.well-known/agent.json", "https://a.example/x"),
        ("https://a.example/x/agent.json", "https://a.example/x/agent.json"),
        ("https://a.example/", "https://a.example/"),
    ] {
        assert_eq!(above_card(given), at);
    }
}
