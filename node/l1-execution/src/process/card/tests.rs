use super::*;

fn card() -> Value {
    json!({
        "name": "Billing", "description": "Shows bills.", "version": "1.0.0",
        "supportedInterfaces": [
            { "url": "https://a.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }
        ],
        "capabilities": { "streaming": true }, "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": "view", "name": "View", "description": "Shows a bill.", "tags": ["bill"] }],
    })
}

fn read(card: &Value) -> Result<ShownCard, CardFault> {
    ShownCard::read(card.to_string().into_bytes())
}

/// The card, and where it was not as it should be.
fn good(card: &Value) -> (AgentCard, Vec<String>) {
    let read = read(card).unwrap_or_else(|fault| panic!("{fault}: {card}"));
    (read.card, read.notes.into_iter().map(|(at, _)| at).collect())
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut card = card();
    change(&mut card);
    card
}

fn without(pointer: &str, member: &str) -> Value {
    let remove = |card: &mut Value| {
        let of = card.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object");
        of.remove(member).expect("it is there");
    };
    changed(remove)
}

#[test]
fn a_card_that_is_as_it_should_be_is_read_as_it_is() {
    let mut whole = card();
    whole["provider"] = json!({ "organization": "A", "url": "https://a.example" });
    whole["iconUrl"] = json!("https://a.example/icon");
    whole["supportedInterfaces"][0]["tenant"] = json!("acme");
    whole["securitySchemes"] = json!({ "bearer": { "httpAuthSecurityScheme": { "scheme": "Bearer" } } });
    whole["securityRequirements"] = json!([{ "schemes": { "bearer": {} } }]);
    whole["skills"][0]["examples"] = json!(["the last bill"]);
    whole["skills"][0]["securityRequirements"] = json!([{ "schemes": { "bearer": { "list": ["read"] } } }]);
    whole["capabilities"]["extensions"] = json!([{ "uri": "https://a.example/x", "required": true }]);
    whole["signatures"] = json!([{ "protected": "e30", "signature": "AAAA" }]);
    for card in [card(), whole] {
        let (read, notes) = good(&card);
        assert_eq!(read, serde_json::from_value::<AgentCard>(card).expect("a card"));
        assert!(notes.is_empty(), "{notes:?}");
    }
}

#[test]
fn what_is_missing_or_null_has_its_default_and_is_named() {
    let interface = "/supportedInterfaces/0";
    for (of, member) in [
        ("", "name"),
        ("", "description"),
        ("", "version"),
        ("", "capabilities"),
        ("", "defaultInputModes"),
        ("", "defaultOutputModes"),
        ("", "skills"),
        ("/skills/0", "id"),
        ("/skills/0", "name"),
        ("/skills/0", "description"),
        ("/skills/0", "tags"),
        (interface, "protocolVersion"),
    ] {
        let mut null = card();
        null.pointer_mut(of).expect("it is there")[member] = Value::Null;
        for card in [without(of, member), null] {
            let (read, notes) = good(&card);
            assert_eq!(notes, [format!("{of}/{member}")], "{card}");
            assert_eq!(read.supported_interfaces[0].protocol_version, "1.0");
        }
    }
    let (read, _) = good(&without("", "defaultInputModes"));
    assert!(read.default_input_modes.is_empty());
    let (read, _) = good(&without("/skills/0", "name"));
    assert_eq!((read.skills[0].id.as_str(), read.skills[0].name.as_str()), ("view", "view"));
    let (read, notes) = good(&changed(|card| card["supportedInterfaces"][0]["protocolVersion"] = json!(1.0)));
    assert_eq!((read.supported_interfaces[0].protocol_version.as_str(), notes.len()), ("1.0", 0));
}

#[test]
fn what_cannot_be_read_is_left_out_and_named_and_the_rest_is_kept() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 12] = [
        ("/securitySchemes/new", |card| {
            card["securitySchemes"] = json!({
                "new": { "passkeySecurityScheme": {} },
                "old": { "httpAuthSecurityScheme": { "scheme": "Bearer" } },
            });
        }),
        ("/securitySchemes", |card| card["securitySchemes"] = json!([])),
        ("/securityRequirements/0", |card| card["securityRequirements"] = json!([{ "schemes": 7 }])),
        ("/supportedInterfaces/1", |card| {
            let first = card["supportedInterfaces"][0].clone();
            card["supportedInterfaces"] = json!([first, { "address": "amqp://a.example", "protocolBinding": "AMQP" }]);
        }),
        ("/supportedInterfaces/0/tenant", |card| card["supportedInterfaces"][0]["tenant"] = json!(7)),
        ("/skills/1", |card| card["skills"] = json!([card["skills"][0].clone(), "view"])),
        ("/skills/0/tags/0", |card| card["skills"][0]["tags"] = json!([7, "bill"])),
        ("/skills/0/examples", |card| card["skills"][0]["examples"] = json!("one")),
        ("/capabilities/streaming", |card| card["capabilities"]["streaming"] = json!("yes")),
        ("/capabilities/extensions/0", |card| card["capabilities"]["extensions"] = json!([{ "url": "x" }])),
        ("/provider", |card| card["provider"] = json!("somebody")),
        ("/iconUrl", |card| card["iconUrl"] = json!({})),
    ];
    for (at, change) in cases {
        let (read, notes) = good(&changed(change));
        assert_eq!(notes, [at]);
        assert_eq!((read.skills.len(), read.supported_interfaces.len()), (1, 1), "{at}");
        assert!(read.security_schemes.is_none_or(|schemes| schemes.contains_key("old")), "{at}");
    }
}

#[test]
fn a_mark_of_the_byte_order_is_no_part_of_a_card() {
    let text = format!("\u{feff}{}", card());
    let shown = ShownCard::read(text.into_bytes()).expect("a card");
    assert_eq!((shown.card.name.as_str(), shown.notes.len()), ("Billing", 0));
    assert_eq!(shown.raw, card().to_string().into_bytes(), "whoever verifies it reads it too");
}

#[test]
fn an_address_is_read_below_that_of_the_card_or_its_interface_is_left_out() {
    let with = |url: &str| changed(|card| card["supportedInterfaces"][0]["url"] = json!(url));
    let (read, notes) = good(&with("/a2a"));
    assert_eq!(
        (read.supported_interfaces[0].url.as_str(), notes.as_slice()),
        ("/a2a", &["/supportedInterfaces/0/url".to_owned()][..])
    );
    let (read, notes) = good(&with("localhost:9000/a2a"));
    assert!(read.supported_interfaces.is_empty() && notes == ["/supportedInterfaces/0"], "{notes:?}");
}

#[test]
fn a_signature_that_cannot_be_read_is_none_and_costs_no_other() {
    let whole = json!({ "protected": "e30", "signature": "AAAA" });
    let wrong = [
        json!(7),
        json!({}),
        json!({ "protected": "e30" }),
        json!({ "protected": 7, "signature": "AAAA" }),
        json!({ "protected": "!", "signature": "AAAA" }),
        json!({ "protected": "e30", "signature": "!" }),
        json!({ "protected": "W10", "signature": "AAAA" }),
        json!({ "protected": "e30", "signature": "AAAA", "header": [] }),
    ];
    for one in wrong {
        let (read, notes) = good(&changed(|card| card["signatures"] = json!([one, whole])));
        assert_eq!(
            (read.signatures.map(|all| all.len()), notes.as_slice()),
            (Some(1), &["/signatures/0".to_owned()][..]),
            "{one}"
        );
    }
    let (read, notes) = good(&changed(|card| card["signatures"] = json!("signed")));
    assert!(read.signatures.is_none() && notes == ["/signatures"], "{notes:?}");
}

#[test]
fn what_is_named_is_bounded() {
    let skills: Vec<Value> = (0..1_000).map(|number| json!(number)).collect();
    let (read, notes) = good(&changed(|card| card["skills"] = json!(skills)));
    assert_eq!((read.skills.len(), notes.len()), (0, NOTES_MAX + 1));
}

#[test]
fn an_agent_of_an_older_version_is_told_in_one_sentence() {
    let old = |change: fn(&mut Value)| {
        let mut card = without("", "supportedInterfaces");
        change(&mut card);
        match read(&card) {
            Err(CardFault::Unfit(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let url = "https://a.example/";
    for why in [
        old(|card| card["url"] = json!("https://a.example/")),
        old(|card| {
            card["url"] = json!("https://a.example/");
            card["protocolVersion"] = json!("0.3.0");
        }),
        old(|card| card["protocolVersion"] = json!("0.3.0")),
        old(|card| {
            let one = json!({ "url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "0.3" });
            card["supportedInterfaces"] = json!([one]);
        }),
    ] {
        assert!(why.starts_with("this is an agent of A2A 0.3, and Althing speaks 1.0: "), "{why}");
        assert!(why.contains("supportedInterfaces") && !why.trim_end_matches('.').contains(". "), "{why}");
    }
    // One that speaks both is called by the newer.
    let both = changed(|card| {
        card["url"] = json!(url);
        card["protocolVersion"] = json!("0.3.0");
        let one = json!({ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3.0" });
        card["supportedInterfaces"] = json!([one, card["supportedInterfaces"][0].clone()]);
    });
    assert_eq!(good(&both).0.supported_interfaces.len(), 2);
}

#[test]
fn a_card_that_is_no_json_for_some_characters_or_numbers_is_read_and_that_is_named() {
    let text = changed(|card| card["description"] = json!("Shows HERE.")).to_string();
    let mut latin = text.clone().into_bytes();
    latin[text.find("HERE").expect("it is there")] = 0xe9;
    let number = text.replacen('{', "{\"score\":NaN,", 1).into_bytes();
    for (raw, description) in [
        (text.replace("HERE", r"\ud83d").into_bytes(), "Shows \u{fffd}."),
        (latin, "Shows \u{fffd}ERE."),
        (number, "Shows HERE."),
    ] {
        let read = ShownCard::read(raw).expect("a card");
        assert_eq!(read.card.description, description);
        assert_eq!(read.notes.iter().map(|(at, _)| at.as_str()).collect::<Vec<_>>(), ["/"], "{:?}", read.notes);
    }
}

#[test]
fn a_card_at_the_old_place_that_says_no_version_is_of_the_version_before() {
    let old = json!({ "name": "Old", "url": "https://a.example/", "skills": [] }).to_string().into_bytes();
    let told = ShownCard::read_old(old).expect_err("it is too old").to_string();
    assert!(told.starts_with("this is an agent of A2A 0.2, and Althing speaks 1.0: "), "{told}");
    assert!(ShownCard::read_old(card().to_string().into_bytes()).is_ok(), "it is what it says, wherever it is");
}

#[test]
fn what_is_refused_says_where_in_the_words_of_the_check_of_cards() {
    let text = card().to_string();
    let twice = format!("{}, \"name\": \"Another\" }}", text.trim_end_matches('}'));
    let told = ShownCard::read(twice.into_bytes()).expect_err("it can be read in two ways").to_string();
    assert!(told.contains("/name") && told.contains("appears twice"), "{told}");
    for (what, text) in [("a page", "<html></html>"), ("a list", "[]"), ("something else", "{\"openapi\": \"3.1.0\"}")]
    {
        let fault = ShownCard::read(text.as_bytes().to_vec()).expect_err(what);
        assert!(matches!(fault, CardFault::NoCard(_)), "{what}: {fault}");
    }
    let none = read(&changed(|card| card["supportedInterfaces"] = json!([]))).expect("a card").no_interface();
    assert!(none.to_string().contains("[required] at /supportedInterfaces"), "{none}");
    let other = changed(|card| card["supportedInterfaces"][0]["protocolBinding"] = json!("GRPC"));
    let other = read(&other).expect("a card").no_interface().to_string();
    assert!(other.contains("It has GRPC 1.0.") && other.contains("/supportedInterfaces"), "{other}");
}

/// Numbers that look random, the same for each seed.
fn dice(seed: &mut u64, sides: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).expect("31 bits") % sides
}

/// All places of a value.
fn places(value: &Value, at: &str, into: &mut Vec<String>) {
    into.push(at.to_owned());
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| places(value, &join(at, name), into)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(number, value)| places(value, &join(at, number), into));
        }
        _ => {}
    }
}

#[test]
fn whatever_is_wrong_with_one_member_costs_no_other() {
    let mut seed = 7;
    let whole = card();
    let mut all = Vec::new();
    places(&whole, "", &mut all);
    let odd = [Value::Null, json!(7), json!("x"), json!([]), json!({}), json!([[]]), json!({ "a": 1 }), json!(true)];
    for _ in 0..1_000 {
        let at = &all[dice(&mut seed, all.len())];
        let mut card = whole.clone();
        *card.pointer_mut(at).expect("it is there") = odd[dice(&mut seed, odd.len())].clone();
        match read(&card) {
            Ok(shown) => {
                let kept = [("/name", shown.card.name == "Billing"), ("/skills", shown.card.skills.len() == 1)];
                for (member, is_kept) in kept {
                    assert!(is_kept || at.starts_with(member), "{at} costs {member}: {card}");
                }
                let interfaces = shown.card.supported_interfaces.len();
                assert!(interfaces == 1 || at.starts_with("/supportedInterfaces"), "{at}: {card}");
            }
            Err(fault) => assert!(at.is_empty(), "{at}: {fault}: {card}"),
        }
    }
}
