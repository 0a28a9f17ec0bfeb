//! Each rule beyond the schema, broken once, with the place that it names.

use althing_td::{Finding, Severity, Strictness, no_duplicates, validate, validate_as};
use serde_json::{Value, json};

const FORM: &str = "https://lamp.example/x";

/// A small valid description with other members added or put in place of its own.
fn td(members: Value) -> Value {
    let mut td = json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "title": "Lamp",
        "securityDefinitions": { "n": { "scheme": "nosec" } },
        "security": "n",
    });
    td.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    td
}

fn findings(members: Value) -> Vec<Finding> {
    validate(td(members).to_string().as_bytes()).findings
}

/// The members break one rule at one place, and nothing else.
fn breaks(members: Value, rule: &str, pointer: &str, severity: Severity) {
    let found = findings(members.clone());
    let told: Vec<_> = found.iter().map(|f| (f.rule, f.pointer.as_str(), f.severity)).collect();
    assert_eq!(told, [(rule, pointer, severity)], "{members}\n{found:#?}");
}

fn refused(members: Value, rule: &str, pointer: &str) {
    breaks(members, rule, pointer, Severity::Error);
}

fn accepted(members: Value) {
    let found = findings(members.clone());
    assert!(found.is_empty(), "{members}\n{found:#?}");
}

#[test]
fn the_context_is_one_of_the_two_versions() {
    accepted(json!({ "@context": ["https://www.w3.org/2019/wot/td/v1"] }));
    accepted(json!({ "@context": ["https://www.w3.org/2019/wot/td/v1", "https://www.w3.org/2022/wot/td/v1.1"] }));
    refused(json!({ "@context": "https://www.w3.org/ns/td" }), "context-unknown", "/@context");
    refused(json!({ "@context": [] }), "context-unknown", "/@context");
}

#[test]
fn an_id_is_written_in_one_of_its_two_names() {
    accepted(json!({ "@id": "urn:example:lamp" }));
    breaks(json!({ "@id": "urn:example:lamp", "id": "urn:example:lamp" }), "id-twice", "/@id", Severity::Warning);
    // A public description has both, with two values.
    breaks(json!({ "@id": "urn:example:lamp", "id": "urn:example:light" }), "id-twice", "/@id", Severity::Warning);
    for other in [json!(7), json!(null), json!(["urn:example:lamp"])] {
        refused(json!({ "@id": other }), "id-not-text", "/@id");
    }
}

#[test]
fn the_names_in_security_exist() {
    refused(json!({ "security": "m" }), "security-undefined", "/security");
    refused(json!({ "security": ["n", "m"] }), "security-undefined", "/security/1");
    let form = json!({ "href": FORM, "security": ["n", "a/b"] });
    refused(json!({ "events": { "~": { "forms": [form] } } }), "security-undefined", "/events/~0/forms/0/security/1");
    let combo = json!({ "n": { "scheme": "nosec" }, "c": { "scheme": "combo", "allOf": ["n", "x"] } });
    refused(json!({ "securityDefinitions": combo }), "security-undefined", "/securityDefinitions/c/allOf/1");
}

#[test]
fn a_combo_is_a_choice_or_a_sum() {
    let with = |combo: Value| json!({ "securityDefinitions": { "n": { "scheme": "nosec" }, "c": combo } });
    accepted(with(json!({ "scheme": "combo", "oneOf": ["n", "n"] })));
    refused(with(json!({ "scheme": "combo" })), "combo-choice", "/securityDefinitions/c");
    let both = json!({ "scheme": "combo", "oneOf": ["n", "n"], "allOf": ["n", "n"] });
    refused(with(both), "combo-choice", "/securityDefinitions/c");
}

#[test]
fn oauth2_flows_have_their_endpoints() {
    let flow = |flow: &str, members: &[&str]| {
        let mut scheme = json!({ "scheme": "oauth2", "flow": flow });
        for member in members {
            scheme[*member] = json!("https://a.example/");
        }
        json!({ "securityDefinitions": { "n": scheme } })
    };
    let scheme = "/securityDefinitions/n";
    for (name, members) in [("code", &["authorization", "token"][..]), ("client", &["token"]), ("other", &[])] {
        accepted(flow(name, members));
    }
    accepted(flow("device", &["authorization", "token"]));
    refused(flow("code", &["authorization"]), "oauth2-flow", scheme);
    refused(flow("device", &["token"]), "oauth2-flow", scheme);
    refused(flow("client", &[]), "oauth2-flow", scheme);
    refused(flow("client", &["authorization", "token"]), "oauth2-flow", "/securityDefinitions/n/authorization");
}

#[test]
fn operations_belong_to_their_affordance() {
    let property = |op: Value, flags: Value| {
        let mut property = json!({ "forms": [{ "href": FORM, "op": op }] });
        property.as_object_mut().expect("an object").extend(flags.as_object().expect("an object").clone());
        json!({ "properties": { "p": property } })
    };
    accepted(property(json!(["readproperty", "unobserveproperty"]), json!({})));
    refused(property(json!("invokeaction"), json!({})), "op-not-allowed", "/properties/p/forms/0/op");
    refused(
        property(json!(["readproperty", "ReadProperty"]), json!({})),
        "op-not-allowed",
        "/properties/p/forms/0/op/1",
    );
    refused(json!({ "forms": [{ "href": FORM, "op": "readproperty" }] }), "op-not-allowed", "/forms/0/op");
    let contradiction = property(json!("writeproperty"), json!({ "readOnly": true }));
    breaks(contradiction, "op-contradicts-access", "/properties/p/forms/0/op", Severity::Warning);
}

#[test]
fn uri_security_variables_are_present_and_distinct() {
    let with = |base: &str, href: &str, variables: Value| {
        json!({
            "securityDefinitions": { "n": { "scheme": "apikey", "in": "uri", "name": "key" } },
            "base": base,
            "properties": { "p": { "uriVariables": variables, "forms": [{ "href": href }] } },
        })
    };
    accepted(with("https://l.example/", "p{?a,key*}", json!({ "a": { "type": "string" } })));
    accepted(with("https://l.example/{key}/", "p", json!({})));
    refused(with("https://l.example/", "p{?a}", json!({})), "uri-variable-missing", "/properties/p/forms/0/href");
    let taken = with("https://l.example/", "p{?key}", json!({ "key": { "type": "string" } }));
    refused(taken, "uri-variable-not-distinct", "/securityDefinitions/n/name");
}

#[test]
fn a_response_has_a_content_type_and_data_can_be_reached() {
    let form = json!({ "href": FORM, "response": { "x": 1 } });
    refused(json!({ "actions": { "a": { "forms": [form] } } }), "response-content-type", "/actions/a/forms/0/response");
    let neither = json!({ "type": "string", "readOnly": true, "writeOnly": true });
    let form = json!([{ "href": FORM }]);
    let input = json!({ "type": "array", "items": [{ "type": "object", "properties": { "x": neither } }] });
    refused(
        json!({ "actions": { "a": { "input": input, "forms": form } } }),
        "read-only-and-write-only",
        "/actions/a/input/items/0/properties/x",
    );
    refused(json!({ "schemaDefinitions": { "s": neither } }), "read-only-and-write-only", "/schemaDefinitions/s");
}

#[test]
fn a_link_to_a_thing_model_stands_alone() {
    let link = json!({ "rel": "type", "href": "https://tm.example/" });
    accepted(json!({ "links": [link, { "rel": "about", "href": FORM }] }));
    let found = findings(json!({ "links": [link, link] }));
    assert_eq!((found.len(), found[0].pointer.as_str()), (1, "/links/1"));
}

/// The schema of TD 1.0 is the one that judges TD 1.0, but for the OAuth 2.0 flows that descriptions in use name.
#[test]
fn td_1_0_is_judged_by_its_own_schema() {
    let old = "https://www.w3.org/2019/wot/td/v1";
    let oauth = json!({ "scheme": "oauth2", "flow": "client", "token": "https://a.example/" });
    accepted(json!({ "@context": old, "securityDefinitions": { "n": oauth } }));
    let forms = |href: &str| json!({ "@context": old, "properties": { "p": { "forms": [{ "href": href }] } } });
    accepted(forms("https://a.example/{a}{?b,c|d}"));
    for href in ["https://a.example/{open", "https://a.example/{{a}}", "https://a.example/}", "a b", "a|b", "a<b>"] {
        refused(forms(href), "schema-format", "/properties/p/forms/0/href");
    }
    let all = json!({ "forms": [{ "href": FORM, "op": "writeallproperties" }] });
    refused(json!({ "@context": old, "properties": { "p": all } }), "op-not-allowed", "/properties/p/forms/0/op");
}

#[test]
fn the_lmos_terms_are_looked_at_where_they_are_declared() {
    let context = json!(["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1#" }]);
    let capability = json!({ "id": "a", "name": "A", "description": "D", "version": "1.0" });
    let members = json!({ "@context": context, "lmos:capabilities": [capability] });
    breaks(members.clone(), "lmos-terms", "/lmos:capabilities/0/version", Severity::Warning);
    let own = validate_as(td(members).to_string().as_bytes(), Strictness::Own);
    assert_eq!(own.errors().map(|f| f.rule).collect::<Vec<_>>(), ["lmos-terms"]);
    let kind = json!({ "@context": context, "@type": ["Thing", "lmos:Agnet"] });
    assert_eq!(findings(kind).iter().map(|f| f.rule).collect::<Vec<_>>(), ["lmos-terms"]);
    breaks(json!({ "lmos:metadata": {} }), "lmos-undeclared", "/@context", Severity::Warning);
}

#[test]
fn a_member_that_appears_twice_is_told() {
    let text = |inner: &str| {
        format!(
            "{{\"@context\":\"https://www.w3.org/2022/wot/td/v1.1\",\"title\":\"L\",\"security\":\"n\",\
             \"securityDefinitions\":{{\"n\":{{\"scheme\":\"nosec\"}}}},{inner}}}"
        )
    };
    let form = "{\"forms\":[{\"href\":\"https://l.example\"}]}";
    for kind in ["properties", "actions", "events"] {
        let report = validate(text(&format!("\"{kind}\":{{\"a\":{form},\"a\":{form}}}")).as_bytes());
        assert!(!report.is_valid());
        assert_eq!(report.findings[0].pointer, format!("/{kind}/a"));
    }
    let elsewhere = text("\"x:y\":{\"a\":1,\"a\":1}");
    let report = validate(elsewhere.as_bytes());
    assert!(report.is_valid());
    assert_eq!((report.findings[0].rule, report.findings[0].pointer.as_str()), ("duplicate-member", "/x:y/a"));
    assert!(!validate_as(elsewhere.as_bytes(), Strictness::Own).is_valid());
    assert!(no_duplicates(elsewhere.as_bytes()).is_err());
    assert_eq!(no_duplicates(text("\"x:y\":{\"a\":1,\"b\":1}").as_bytes()), Ok(()));
}

#[test]
fn invisible_characters_in_texts_for_people_are_refused_wherever_they_stand() {
    let hidden = |members: Value, pointer: &str| refused(members, "hidden-character", pointer);
    for c in ['\u{200b}', '\u{202e}', '\u{2028}', '\u{2029}', '\u{fff9}', '\u{fffb}', '\u{e0100}', '\u{e01ef}'] {
        hidden(json!({ "title": format!("La{c}mp") }), "/title");
        hidden(json!({ "description": format!("{c}pmaL") }), "/description");
    }
    hidden(json!({ "titles": { "de": "La\u{200b}mpe" } }), "/titles/de");
    let form = [json!({ "href": FORM })];
    let action = |members: Value| {
        let mut action = json!({ "forms": form });
        action.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        json!({ "actions": { "dim": action } })
    };
    hidden(action(json!({ "description": "Dims.\u{e0100}\u{e0101}" })), "/actions/dim/description");
    let input = json!({ "type": "object", "properties": { "to": { "type": "number", "title": "T\u{2060}o" } } });
    hidden(action(json!({ "input": input })), "/actions/dim/input/properties/to/title");
    hidden(json!({ "actions": { "d\u{200b}im": { "forms": form } } }), "/actions/d\u{200b}im");
    let context = json!(["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1" }]);
    let capability = json!({ "id": "a", "name": "A", "version": "1.0.0", "examples": ["\u{e0041}"] });
    let found = findings(json!({ "@context": context, "lmos:capabilities": [capability] }));
    let at = "/lmos:capabilities/0/examples/0";
    assert!(found.iter().any(|f| (f.rule, f.pointer.as_str()) == ("hidden-character", at)), "{found:#?}");
    // A joiner that joins nothing: others may, and are warned; what is signed here has none.
    let joined = json!({ "title": "La\u{200d}mp" });
    breaks(joined.clone(), "hidden-character", "/title", Severity::Warning);
    assert!(!validate_as(td(joined).to_string().as_bytes(), Strictness::Own).is_valid());
    // What emoji, Persian, Hindi and flags are written with are letters.
    for title in [
        "\u{1f469}\u{200d}\u{1f52c}",
        "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
        "\u{915}\u{94d}\u{200d}\u{937}",
        "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    ] {
        accepted(json!({ "title": title }));
        let own = validate_as(td(json!({ "title": title })).to_string().as_bytes(), Strictness::Own);
        assert!(own.findings.iter().all(|found| found.rule != "hidden-character"), "{own}");
    }
    accepted(json!({ "title": "❤\u{fe0f} Lamp", "description": "a\nb" }));
}

#[test]
fn what_protects_a_thing_is_said_once_and_in_known_words() {
    let severity = |members: &str| {
        let text = format!("{{\"@context\":\"https://www.w3.org/2022/wot/td/v1.1\",\"title\":\"L\",{members}}}");
        let found = validate(text.as_bytes()).findings;
        found.into_iter().map(|f| (f.rule, f.pointer, f.severity)).collect::<Vec<_>>()
    };
    let twice = |pointer: &str| vec![("duplicate-member", pointer.to_owned(), Severity::Error)];
    let sc = r#""securityDefinitions":{"n":{"scheme":"nosec"}}"#;
    assert_eq!(severity(&format!(r#"{sc},{sc},"security":"n""#)), twice("/securityDefinitions"));
    let names = r#""securityDefinitions":{"n":{"scheme":"basic"},"n":{"scheme":"nosec"}},"security":"n""#;
    assert_eq!(severity(names), twice("/securityDefinitions/n"));

    let unknown = json!({ "securityDefinitions": { "n": { "scheme": "kerberos" } } });
    refused(unknown.clone(), "security-scheme-unknown", "/securityDefinitions/n/scheme");
    let remedy = &findings(unknown)[0].remedy;
    assert!(remedy.contains("nosec, auto, combo, basic, digest, apikey, bearer, psk, oauth2"), "{remedy}");
    // TD 1.0 has four flows; 1.1 leaves room for others.
    let with = |flow: &str| {
        let scheme = json!({ "scheme": "oauth2", "flow": flow, "token": FORM, "authorization": FORM });
        json!({ "@context": "https://www.w3.org/2019/wot/td/v1", "securityDefinitions": { "n": scheme } })
    };
    refused(with("sneaky"), "oauth2-flow", "/securityDefinitions/n/flow");
    ["code", "implicit", "password"].into_iter().for_each(|flow| accepted(with(flow)));
}

#[test]
fn what_is_no_description_at_all_is_told_as_such() {
    let rule = |bytes: &[u8]| validate(bytes).findings.iter().map(|f| f.rule).collect::<Vec<_>>();
    assert_eq!(rule(b""), ["not-json"]);
    assert_eq!(rule(b"[]"), ["not-an-object"]);
    assert_eq!(rule("[".repeat(40).as_bytes()), ["too-deep"]);
    assert_eq!(rule(&vec![b' '; althing_td::TD_BYTES_MAX + 1]), ["too-large"]);
}
