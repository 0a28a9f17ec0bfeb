use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};

use super::*;
use crate::json::JsonError;
use crate::{AgentFile, describe};

const URN: &str = "urn:althing:z6Mk:echo";

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

fn kid(key: &SigningKey) -> String {
    let mut bytes = vec![0xed, 0x01];
    bytes.extend_from_slice(key.verifying_key().as_bytes());
    let multibase = format!("z{}", bs58::encode(bytes).into_string());
    format!("did:key:{multibase}#{multibase}")
}

/// The policy that trusts one key.
fn trusting(key: &SigningKey) -> impl Fn(&str) -> Option<VerifyingKey> {
    let (known, key) = (kid(key), key.verifying_key());
    move |name| (name == known).then_some(key)
}

fn context() -> CardContext {
    CardContext {
        interfaces: vec![Interface {
            url: "http://127.0.0.1:8080/a2a/x".to_owned(),
            protocol_binding: "JSONRPC".to_owned(),
            protocol_version: "1.0".to_owned(),
            ..Interface::default()
        }],
        provider: Some(("Example".to_owned(), "https://example.com".to_owned())),
        streaming: true,
        extensions: vec![json!({ "uri": "https://althing.dev/x", "description": "", "required": false, "params": {} })],
        token_required: true,
        ..CardContext::default()
    }
}

fn echo() -> Description {
    let text = "name: echo\ndescription: Says it again.\nversion: 1.2.3\nskills:\n- { id: echo.say, name: Say, \
                description: Repeats., action: say, target: text, tags: [test], examples: [Hello] }\n\
                runtime: { native: { builtin: echo } }\ninput_modes: [text/plain, application/json]\n";
    describe(&AgentFile::parse(text).expect("is good"), URN)
}

fn foreign(rest: &Value) -> Description {
    let mut td = json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "title": "Lamp",
        "securityDefinitions": { "n": { "scheme": "nosec" } },
        "security": "n",
    });
    let members = rest.as_object().expect("an object").clone();
    td.as_object_mut().expect("an object").extend(members);
    Description::parse(td.to_string().as_bytes()).expect("is valid")
}

fn read(card: &Value) -> a2a::AgentCard {
    serde_json::from_value(card.clone()).expect("A2A's own data model reads it")
}

#[test]
fn a_card_says_what_the_description_says() {
    let made = card(&echo(), &context());
    let read = read(&made);
    assert_eq!((read.name.as_str(), read.version.as_str()), ("echo", "1.2.3"));
    assert_eq!(read.default_input_modes, ["text/plain", "application/json"]);
    assert_eq!(read.capabilities.streaming, Some(true));
    assert_eq!(read.provider.map(|p| p.organization).as_deref(), Some("Example"));
    assert_eq!(read.supported_interfaces[0].protocol_binding, "JSONRPC");
    let skill = &read.skills[0];
    assert_eq!((skill.id.as_str(), skill.name.as_str()), ("echo.say", "Say"));
    assert_eq!(skill.tags, ["test", "say", "text"]);
    assert_eq!(skill.examples.as_deref(), Some(&["Hello".to_owned()][..]));
    assert_eq!(read.security_requirements.expect("a token is required")[0].get("bearer"), Some(&Vec::new()));
    assert!(read.security_schemes.expect("a token is required").contains_key("bearer"));
}

#[test]
fn optional_members_with_their_default_value_are_left_out() {
    let made = card(&echo(), &CardContext { extensions: context().extensions, ..CardContext::default() });
    assert_eq!(made["capabilities"], json!({ "extensions": [{ "uri": "https://althing.dev/x" }] }));
    for absent in ["provider", "securitySchemes", "securityRequirements", "signatures", "documentationUrl"] {
        assert!(made.get(absent).is_none(), "{absent}");
    }
    assert_eq!(card(&echo(), &CardContext::default())["capabilities"], json!({}));
}

#[test]
fn a_poor_description_still_makes_a_whole_card() {
    for rest in [json!({}), json!({ "title": "" }), json!({ "title": " ", "id": "urn:x:y", "description": "" })] {
        let made = card(&foreign(&rest), &CardContext::default());
        let read = read(&made);
        assert!(!read.name.trim().is_empty() && !read.description.trim().is_empty());
        assert_eq!(read.version, VERSION_UNKNOWN);
        assert_eq!(read.default_input_modes, ["text/plain"]);
        assert_eq!(read.skills.len(), 1, "the agent itself");
        for member in ["name", "description", "version", "supportedInterfaces", "capabilities", "skills"] {
            assert!(made.get(member).is_some(), "{member}");
        }
    }
    let form = json!([{ "href": "https://lamp.example/dim" }]);
    let lamp = foreign(&json!({ "actions": { "dim": { "@type": "Dim", "forms": form }, "off": { "forms": form } } }));
    let skills = read(&card(&lamp, &CardContext::default())).skills;
    assert_eq!(skills.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["dim", "off"]);
    assert_eq!(skills[0].tags, ["Dim", "dim"]);
}

#[test]
fn skills_have_ids_of_their_own() {
    let same = json!({ "lmos:capabilities": [{ "id": "a" }, { "id": "a" }, {}, "a", 7, { "name": "B" }] });
    let skills = read(&card(&foreign(&same), &CardContext::default())).skills;
    let ids: Vec<&str> = skills.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["a", "a-2", "skill-3", "a-4", "B"]);
    assert!(skills.iter().all(|s| !s.name.is_empty() && !s.description.is_empty()));
}

fn signed() -> Value {
    let mut made = card(&echo(), &context());
    sign_card(&mut made, &key(1), &kid(&key(1))).expect("a card of ours can be signed");
    made
}

#[test]
fn a_signed_card_verifies_and_is_a_card_of_a2a() {
    let made = signed();
    assert_eq!(verify_card(made.to_string().as_bytes(), trusting(&key(1))), Ok(kid(&key(1))));
    assert_eq!(read(&made).signatures.map(|s| s.len()), Some(1));
    let protected = made["signatures"][0]["protected"].as_str().expect("is text");
    let header: Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(protected).expect("is base64")).expect("is JSON");
    assert_eq!(header, json!({ "alg": "EdDSA", "typ": "JOSE", "kid": kid(&key(1)) }));
}

#[test]
fn the_order_of_members_and_white_space_do_not_matter() {
    let made = signed();
    let mut turned = serde_json::Map::new();
    turned.extend(made.as_object().expect("an object").iter().rev().map(|(n, v)| (n.clone(), v.clone())));
    let text = serde_json::to_string_pretty(&turned).expect("is JSON");
    assert_eq!(verify_card(text.as_bytes(), trusting(&key(1))), Ok(kid(&key(1))));
}

#[test]
fn a_second_signature_is_appended_and_each_verifies() {
    let mut made = signed();
    sign_card(&mut made, &key(2), &kid(&key(2))).expect("a card of ours can be signed");
    let raw = made.to_string();
    for seed in [1, 2] {
        assert_eq!(verify_card(raw.as_bytes(), trusting(&key(seed))), Ok(kid(&key(seed))));
    }
}

#[test]
fn a_member_that_nobody_knows_is_covered_too() {
    let mut made = signed();
    made["x"] = json!(1);
    let refused = verify_card(made.to_string().as_bytes(), trusting(&key(1)));
    assert!(matches!(refused, Err(CardError::Mismatch { index: 0, .. })), "{refused:?}");
}

/// A2A 1.0.1 §8.4.3: what has its default value is the same as what is absent.
#[test]
fn a_card_verifies_whether_defaults_are_written_or_left_out() {
    let verified = |card: &Value| verify_card(card.to_string().as_bytes(), trusting(&key(1)));
    let with_defaults = |mut card: Value| {
        card["securityRequirements"] = json!([]);
        card["supportedInterfaces"][0]["tenant"] = json!("");
        card["capabilities"]["extensions"][0]["required"] = json!(false);
        card["capabilities"]["extensions"][0]["description"] = json!("");
        card["skills"][0]["outputModes"] = json!([]);
        card["skills"][0]["securityRequirements"] = json!([]);
        card["documentationUrl"] = json!(null);
        card
    };
    let context = CardContext { token_required: false, ..context() };
    let (mut plain, mut full) = (card(&echo(), &context), with_defaults(card(&echo(), &context)));
    assert_ne!(plain, full);
    for signed in [&mut plain, &mut full] {
        sign_card(signed, &key(1), &kid(&key(1))).expect("a card of ours can be signed");
    }
    assert_eq!(plain["signatures"], full["signatures"], "both are one card");
    assert_eq!(verified(&with_defaults(plain.clone())), Ok(kid(&key(1))), "written by somebody on the way");
    assert_eq!(verified(&full), Ok(kid(&key(1))));
    full["skills"][0].as_object_mut().expect("an object").remove("outputModes");
    assert_eq!(verified(&full), Ok(kid(&key(1))), "left out by somebody on the way");

    // What is REQUIRED or `optional` says something by being there, whatever its value.
    for (pointer, name, value) in [
        ("", "iconUrl", json!("")),
        ("/capabilities", "pushNotifications", json!(false)),
        ("/skills/0", "tags", json!([])),
        ("", "unknown", json!([])),
    ] {
        let mut changed = plain.clone();
        let owner = changed.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object");
        let before = owner.insert(name.to_owned(), value.clone());
        assert_ne!(before, Some(value));
        assert!(matches!(verified(&changed), Err(CardError::Mismatch { .. })), "{name}");
    }
}

/// A signer that does not know of that rule covers what it wrote.
#[test]
fn a_signature_over_the_card_as_it_was_sent_counts_too() {
    let mut card = card(&echo(), &context());
    card["skills"][0]["outputModes"] = json!([]);
    let protected = URL_SAFE_NO_PAD.encode(json!({ "alg": "EdDSA", "kid": kid(&key(1)) }).to_string());
    let payload = serde_json_canonicalizer::to_vec(&card).expect("it has a canonical form");
    let signature = key(1).sign(format!("{protected}.{}", URL_SAFE_NO_PAD.encode(payload)).as_bytes());
    card["signatures"] = json!([{ "protected": protected, "signature": URL_SAFE_NO_PAD.encode(signature.to_bytes()) }]);
    assert_eq!(verify_card(card.to_string().as_bytes(), trusting(&key(1))), Ok(kid(&key(1))));
}

#[test]
fn what_cannot_be_signed_safely_is_refused() {
    let kid1 = kid(&key(1));
    let try_with = |params: Value| {
        let extension = json!({ "uri": "https://althing.dev/x", "params": params });
        let mut made = card(&echo(), &CardContext { extensions: vec![extension], ..context() });
        sign_card(&mut made, &key(1), &kid1)
    };
    assert_eq!(try_with(json!({ "n": 9_007_199_254_740_991_i64, "m": -9_007_199_254_740_991_i64 })), Ok(()));
    let at = "/capabilities/extensions/0/params/";
    for params in [
        json!({ "n": 1.5 }),
        json!({ "n": 1_u64 << 53 }),
        json!({ "n": -(1_i64 << 53) }),
        json!({ "n": u64::MAX }),
        json!({ "ü": 1 }),
    ] {
        let refused = try_with(params.clone());
        assert!(
            matches!(&refused, Err(CardError::Unsignable { pointer, .. }) if pointer.starts_with(at)),
            "{params}: {refused:?}"
        );
    }
    let mut made = card(&echo(), &context());
    assert!(matches!(sign_card(&mut made, &key(1), &kid(&key(2))), Err(CardError::KidOfAnotherKey(_))));
    assert_eq!(sign_card(&mut json!([]), &key(1), &kid1), Err(CardError::NotAnObject));
    made["signatures"] = json!("none");
    assert_eq!(sign_card(&mut made, &key(1), &kid1), Err(CardError::SignaturesForm));
    made["signatures"] = json!(vec![json!({}); SIGNATURES_MAX]);
    assert_eq!(sign_card(&mut made, &key(1), &kid1), Err(CardError::SignaturesForm));
}

/// A card whose one signature has this protected header, signed as it should be by key 1.
fn with_header(header: &str) -> Result<String, CardError> {
    let mut made = card(&echo(), &context());
    let protected = URL_SAFE_NO_PAD.encode(header);
    let canonical = serde_json_canonicalizer::to_vec(&made).expect("a card has a canonical form");
    let signature = key(1).sign(format!("{protected}.{}", URL_SAFE_NO_PAD.encode(canonical)).as_bytes());
    made["signatures"] = json!([{ "protected": protected, "signature": URL_SAFE_NO_PAD.encode(signature.to_bytes()) }]);
    verify_card(made.to_string().as_bytes(), trusting(&key(1)))
}

#[test]
fn the_protected_header_is_read_strictly() {
    let kid = kid(&key(1));
    let good = format!("{{\"kid\":\"{kid}\",\"alg\":\"EdDSA\",\"jku\":\"https://evil.example/keys\",\"jwk\":{{}}}}");
    assert_eq!(with_header(&good), Ok(kid.clone()), "typ is optional, jku and jwk are ignored");
    let header = |rest: &str| format!("{{{rest}\"kid\":\"{kid}\"}}");
    /// A card, and whether an error is the one that it must get.
    type Case = (String, fn(&CardError) -> bool);
    let cases: [Case; 13] = [
        (header("\"alg\":\"none\","), |e| matches!(e, CardError::Algorithm { found, .. } if found == "\"none\"")),
        (header("\"alg\":\"HS256\","), |e| matches!(e, CardError::Algorithm { .. })),
        (header("\"alg\":[\"EdDSA\"],"), |e| matches!(e, CardError::Algorithm { .. })),
        (header(""), |e| matches!(e, CardError::Algorithm { found, .. } if found == "absent")),
        (header("\"alg\":\"EdDSA\",\"typ\":\"JWT\","), |e| matches!(e, CardError::Type { .. })),
        (header("\"alg\":\"EdDSA\",\"typ\":7,"), |e| matches!(e, CardError::Type { .. })),
        (header("\"alg\":\"EdDSA\",\"typ\":null,"), |e| matches!(e, CardError::Type { .. })),
        (header("\"alg\":\"EdDSA\",\"crit\":[\"b64\"],\"b64\":false,"), |e| matches!(e, CardError::Critical { .. })),
        (header("\"alg\":\"EdDSA\",\"alg\":\"EdDSA\","), |e| matches!(e, CardError::Header { .. })),
        ("{\"alg\":\"EdDSA\"}".to_owned(), |e| matches!(e, CardError::Kid { .. })),
        ("{\"alg\":\"EdDSA\",\"kid\":1}".to_owned(), |e| matches!(e, CardError::Kid { .. })),
        ("[]".to_owned(), |e| matches!(e, CardError::Header { .. })),
        ("{\"alg\":\"EdDSA\",\"kid\":\"did:key:zX#zX\"}".to_owned(), |e| matches!(e, CardError::KeyUnknown { .. })),
    ];
    for (header, expected) in cases {
        let refused = with_header(&header).expect_err("must be refused");
        assert!(expected(&refused), "{header}: {refused:?}");
        assert!(!refused.to_string().is_empty());
    }
}

#[test]
fn malformed_cards_give_typed_errors() {
    let verify = |raw: &[u8]| verify_card(raw, trusting(&key(1))).expect_err("must be refused");
    assert!(matches!(verify(b"{"), CardError::Json(JsonError::Syntax { .. })));
    assert!(matches!(verify("[".repeat(99).as_bytes()), CardError::Json(JsonError::TooDeep { .. })));
    assert!(matches!(verify(&vec![b' '; CARD_BYTES_MAX + 1]), CardError::Json(JsonError::TooLarge { .. })));
    assert_eq!(verify(b"{\"name\":1,\"name\":2}"), CardError::Duplicate("/name".to_owned()));
    assert_eq!(verify(b"[]"), CardError::NotAnObject);
    assert_eq!(verify(b"{}"), CardError::Unsigned);
    assert_eq!(verify(b"{\"signatures\":[]}"), CardError::Unsigned);
    assert_eq!(verify(b"{\"signatures\":{}}"), CardError::SignaturesForm);
    assert_eq!(verify(b"{\"signatures\":[1]}"), CardError::SignaturesForm);
    let many = json!({ "signatures": vec![signed()["signatures"][0].clone(); SIGNATURES_MAX + 1] });
    assert_eq!(verify(many.to_string().as_bytes()), CardError::SignaturesForm);

    let damaged = |member: &str, value: Value| {
        let mut made = signed();
        made["signatures"][0][member] = value;
        verify(made.to_string().as_bytes())
    };
    for member in ["protected", "signature"] {
        assert_eq!(damaged(member, json!(null)), CardError::Member { index: 0, member });
        for bad in ["a", "ab==", "a+/b", "a b", "ä", "AB"] {
            assert_eq!(damaged(member, json!(bad)), CardError::Base64 { index: 0, member }, "{bad}");
        }
    }
    assert_eq!(damaged("protected", json!("")), CardError::Header { index: 0 });
    assert_eq!(damaged("signature", json!("")), CardError::Length { index: 0, len: 0 });
    assert_eq!(damaged("signature", json!(URL_SAFE_NO_PAD.encode([0; 63]))), CardError::Length { index: 0, len: 63 });
    assert!(matches!(damaged("signature", json!(URL_SAFE_NO_PAD.encode([0; 64]))), CardError::Mismatch { .. }));
}

#[test]
fn a_known_key_must_verify_whatever_else_is_there() {
    let mut made = signed();
    sign_card(&mut made, &key(2), &kid(&key(2))).expect("a card of ours can be signed");
    made["signatures"][1]["signature"] = made["signatures"][0]["signature"].clone();
    let both = |name: &str| trusting(&key(1))(name).or_else(|| trusting(&key(2))(name));
    let refused = verify_card(made.to_string().as_bytes(), both);
    assert!(matches!(refused, Err(CardError::Mismatch { index: 1, .. })), "{refused:?}");
}

/// With the key of small order 0…, R = 0… and s = 0, the equation of `verify` holds for every message.
#[test]
fn a_key_of_small_order_verifies_nothing() {
    let mut small = [0_u8; 32];
    small[0] = 1;
    let weak = VerifyingKey::from_bytes(&small).expect("a point on the curve");
    let mut made = card(&echo(), &context());
    let mut signature = [0_u8; 64];
    signature[0] = 1;
    let protected = URL_SAFE_NO_PAD.encode("{\"alg\":\"EdDSA\",\"kid\":\"weak\"}");
    made["signatures"] = json!([{ "protected": protected, "signature": URL_SAFE_NO_PAD.encode(signature) }]);
    let refused = verify_card(made.to_string().as_bytes(), |_| Some(weak));
    assert!(matches!(refused, Err(CardError::Mismatch { .. })), "{refused:?}");
}
