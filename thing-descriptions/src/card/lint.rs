//! Checks an agent card that somebody wrote: what A2A 1.0.1 requires of one (§4.4.1 and §8), and what a reader would stumble
//! over.

use serde_json::{Map, Value};

use super::signature::{self, CARD_BYTES_MAX, CardError, verify_card};
use crate::json::{excerpt, join, scan};
use crate::validate::{Finding, Findings, Report};

/// The bindings that A2A names; others must be URIs.
const BINDINGS: [&str; 3] = ["JSONRPC", "HTTP+JSON", "GRPC"];

/// Checks a card, as its raw JSON. Its signatures are verified where they can be: those of an ed25519 key that `kid` names as
/// a `did:key`. Reads any bytes without panicking.
#[must_use]
pub fn lint_card(raw: &[u8]) -> Report {
    let mut out = Findings::default();
    match scan(raw, CARD_BYTES_MAX) {
        Err(error) => out
            .error(|| Finding::error("", "json", format!("the text cannot be read: {error}"), "Send one JSON object.")),
        Ok(scanned) => {
            for pointer in &scanned.duplicates {
                out.error(|| {
                    let twice = "the member appears twice, and readers may see different cards".to_owned();
                    Finding::error(pointer, "duplicate", twice, "Keep one of them.")
                });
            }
            match &scanned.value {
                Value::Object(card) => check(card, raw, &mut out),
                _ => out.error(|| {
                    Finding::error("", "json", "a card is a JSON object".to_owned(), "Send one JSON object.")
                }),
            }
        }
    }
    out.report()
}

fn check(card: &Map<String, Value>, raw: &[u8], out: &mut Findings) {
    for member in ["name", "description", "version"] {
        text(card, "", member, out);
    }
    object(card, "", "capabilities", out);
    for member in ["defaultInputModes", "defaultOutputModes"] {
        modes(card, member, out);
    }
    interfaces(card, out);
    skills(card, out);
    security(card, out);
    signatures(card, raw, out);
}

/// A member that must be text, and not blank.
fn text<'a>(of: &'a Map<String, Value>, at: &str, member: &str, out: &mut Findings) -> Option<&'a str> {
    let found = of.get(member).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    if found.is_none() {
        required(at, member, "text that is not blank", out);
    }
    found
}

fn object(of: &Map<String, Value>, at: &str, member: &str, out: &mut Findings) {
    if !of.get(member).is_some_and(Value::is_object) {
        required(at, member, "an object", out);
    }
}

fn required(at: &str, member: &str, what: &str, out: &mut Findings) {
    out.error(|| {
        let missing = format!("{member:?} is required (A2A 1.0.1 §4.4), as {what}");
        Finding::error(join(at, member), "required", missing, format!("Add {member:?}."))
    });
}

/// A list of that member that has at least one item.
fn list<'a>(of: &'a Map<String, Value>, at: &str, member: &str, out: &mut Findings) -> &'a [Value] {
    match of.get(member) {
        Some(Value::Array(items)) if !items.is_empty() => items,
        _ => {
            required(at, member, "a list that is not empty", out);
            &[]
        }
    }
}

fn modes(card: &Map<String, Value>, member: &str, out: &mut Findings) {
    for (number, mode) in list(card, "", member, out).iter().enumerate() {
        if !mode.as_str().is_some_and(|mode| mode.split_once('/').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty()))
        {
            out.error(|| {
                let found = format!("{} is no media type", excerpt(&mode.to_string(), 80));
                Finding::error(
                    join(&join("", member), number.to_string()),
                    "media-type",
                    found,
                    "Write a type such as \"text/plain\".",
                )
            });
        }
    }
}

fn interfaces(card: &Map<String, Value>, out: &mut Findings) {
    if card.contains_key("url") && !card.contains_key("supportedInterfaces") {
        out.error(|| {
            Finding::error(
                "/url",
                "old-version",
                "`url` at the top is that of A2A 0.3; a client of 1.0 finds no interface".to_owned(),
                "Add \"supportedInterfaces\": [{ \"url\", \"protocolBinding\", \"protocolVersion\": \"1.0\" }].",
            )
        });
        return;
    }
    for (number, interface) in list(card, "", "supportedInterfaces", out).iter().enumerate() {
        let at = join("/supportedInterfaces", number.to_string());
        let Value::Object(interface) = interface else {
            required(&at, "", "an object", out);
            continue;
        };
        if let Some(url) = text(interface, &at, "url", out) {
            address(url, &join(&at, "url"), out);
        }
        if let Some(binding) = text(interface, &at, "protocolBinding", out)
            && !BINDINGS.contains(&binding)
            && !binding.contains(':')
        {
            out.error(|| {
                Finding::error(
                    join(&at, "protocolBinding"),
                    "binding",
                    format!("{:?} is no binding of A2A, and no URI of a custom one", excerpt(binding, 80)),
                    format!("Write one of {}, in these letters.", BINDINGS.join(", ")),
                )
            });
        }
        if let Some(version) = text(interface, &at, "protocolVersion", out)
            && version.split('.').count() != 2
        {
            out.warning(|| {
                Finding::warning(
                    join(&at, "protocolVersion"),
                    "version",
                    format!("{:?}: versions are negotiated as `major.minor`", excerpt(version, 40)),
                    "Write \"1.0\".",
                )
            });
        }
    }
}

fn address(url: &str, at: &str, out: &mut Findings) {
    let secure = url.strip_prefix("https://");
    let plain = url.strip_prefix("http://");
    match (secure, plain) {
        (Some(rest), _) | (None, Some(rest)) if rest.is_empty() || rest.starts_with('/') => out.error(|| {
            Finding::error(at, "url", format!("{:?} names no host", excerpt(url, 80)), "Write the whole address.")
        }),
        (Some(_), _) => {}
        (None, Some(_)) if crate::agent_file::keeps_bearer(url) => {}
        (None, Some(_)) => out.warning(|| {
            Finding::warning(
                at,
                "no-tls",
                "calls and tokens are sent in the clear".to_owned(),
                "Serve it over https (A2A 1.0.1 §7.1).",
            )
        }),
        // gRPC's addresses may be a host and a port.
        (None, None)
            if url.split_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) => {}
        // A custom binding has a scheme of its own.
        (None, None) if url.split_once("://").is_some_and(|(name, rest)| scheme(name) && !rest.is_empty()) => {}
        (None, None) => out.error(|| {
            let found = format!("{:?} is no absolute address", excerpt(url, 80));
            Finding::error(at, "url", found, "Write an address such as \"https://agents.example.org/billing\".")
        }),
    }
}

/// RFC 3986 §3.1.
fn scheme(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn skills(card: &Map<String, Value>, out: &mut Findings) {
    // A card may have no skill, but must say so.
    let Some(Value::Array(skills)) = card.get("skills") else {
        return required("", "skills", "a list", out);
    };
    let mut seen = std::collections::BTreeSet::new();
    for (number, skill) in skills.iter().enumerate() {
        let at = join("/skills", number.to_string());
        let Value::Object(skill) = skill else {
            required(&at, "", "an object", out);
            continue;
        };
        for member in ["name", "description"] {
            text(skill, &at, member, out);
        }
        if let Some(id) = text(skill, &at, "id", out)
            && !seen.insert(id)
        {
            out.error(|| {
                let twice = format!("two skills have the id {:?}", excerpt(id, 80));
                Finding::error(join(&at, "id"), "duplicate-skill", twice, "Give each skill an id of its own.")
            });
        }
        if !skill.get("tags").is_some_and(Value::is_array) {
            required(&at, "tags", "a list of text", out);
        }
    }
}

/// Each scheme that is required must be defined.
fn security(card: &Map<String, Value>, out: &mut Findings) {
    let defined = card.get("securitySchemes").and_then(Value::as_object);
    let requirements =
        card.get("securityRequirements").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (number, requirement) in requirements.iter().enumerate() {
        let schemes = requirement.get("schemes").and_then(Value::as_object).into_iter().flatten();
        for (name, _) in schemes.filter(|(name, _)| !defined.is_some_and(|defined| defined.contains_key(*name))) {
            out.error(|| {
                let at = join("/securityRequirements", number.to_string());
                let undefined = format!("the scheme {:?} is required and not defined", excerpt(name, 80));
                Finding::error(at, "security-undefined", undefined, "Define it in \"securitySchemes\".")
            });
        }
    }
}

fn signatures(card: &Map<String, Value>, raw: &[u8], out: &mut Findings) {
    if !card.contains_key("signatures") {
        return;
    }
    match verify_card(raw, signature::key_of) {
        Ok(_) => {}
        // Of other algorithms, and of keys that are found elsewhere, nothing can be said here.
        Err(error @ (CardError::Algorithm { .. } | CardError::KeyUnknown { .. })) => out.warning(|| {
            let unknown = format!("no signature could be verified: {error}");
            Finding::warning("/signatures", "signature-unknown", unknown, "Verify it with the provider's key.")
        }),
        Err(error) => out.error(|| {
            Finding::error(
                "/signatures",
                "signature",
                error.to_string(),
                "Sign the card as it is now, or remove the signature.",
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({
            "name": "Billing", "description": "Shows bills.", "version": "1.0.0",
            "supportedInterfaces": [
                { "url": "https://a.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }
            ],
            "capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{ "id": "view", "name": "View", "description": "Shows a bill.", "tags": [] }],
        })
    }

    fn rules(card: &Value) -> Vec<(String, &'static str)> {
        let report = lint_card(card.to_string().as_bytes());
        assert!(report.findings.iter().all(|finding| !finding.remedy.is_empty()), "{report}");
        report.findings.into_iter().map(|finding| (finding.pointer, finding.rule)).collect()
    }

    #[test]
    fn a_card_with_all_that_is_required_has_no_finding() {
        assert_eq!(rules(&good()), []);
    }

    #[test]
    fn an_interface_of_a_custom_binding_may_have_a_scheme_of_its_own() {
        let mut card = good();
        card["supportedInterfaces"][0]["url"] = json!("althing://urn:althing:z6Mk:echo");
        assert_eq!(rules(&card), []);
        card["supportedInterfaces"][0]["url"] = json!("://echo");
        assert_eq!(rules(&card), [("/supportedInterfaces/0/url".to_owned(), "url")]);
    }

    #[test]
    fn each_fault_is_found_where_it_is() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str, &str); 13] = [
            (|card| card["name"] = json!(" "), "/name", "required"),
            (|card| drop(card.as_object_mut().map(|card| card.remove("skills"))), "/skills", "required"),
            (|card| card["capabilities"] = json!([]), "/capabilities", "required"),
            (|card| card["defaultInputModes"] = json!([]), "/defaultInputModes", "required"),
            (|card| card["defaultInputModes"] = json!(["text"]), "/defaultInputModes/0", "media-type"),
            (|card| card["supportedInterfaces"] = json!([]), "/supportedInterfaces", "required"),
            (|card| card["supportedInterfaces"][0]["url"] = json!("/a2a"), "/supportedInterfaces/0/url", "url"),
            (
                |card| card["supportedInterfaces"][0]["url"] = json!("http://a.example"),
                "/supportedInterfaces/0/url",
                "no-tls",
            ),
            (
                |card| card["supportedInterfaces"][0]["protocolBinding"] = json!("jsonrpc"),
                "/supportedInterfaces/0/protocolBinding",
                "binding",
            ),
            (
                |card| card["supportedInterfaces"][0]["protocolVersion"] = json!("1.0.1"),
                "/supportedInterfaces/0/protocolVersion",
                "version",
            ),
            (|card| card["skills"][0]["tags"] = json!("x"), "/skills/0/tags", "required"),
            (
                |card| {
                    let skill = card["skills"][0].clone();
                    card["skills"] = json!([skill, skill]);
                },
                "/skills/1/id",
                "duplicate-skill",
            ),
            (
                |card| card["securityRequirements"] = json!([{ "schemes": { "bearer": {} } }]),
                "/securityRequirements/0",
                "security-undefined",
            ),
        ];
        for (change, pointer, rule) in cases {
            let mut card = good();
            change(&mut card);
            assert_eq!(rules(&card), [(pointer.to_owned(), rule)]);
        }
        let mut old = good();
        let members = old.as_object_mut().expect("an object");
        members.remove("supportedInterfaces");
        members.insert("url".to_owned(), json!("https://a.example"));
        assert_eq!(rules(&old), [("/url".to_owned(), "old-version")]);
        assert_eq!(lint_card(b"{").findings[0].rule, "json");
        assert_eq!(lint_card(b"[]").findings[0].rule, "json");
    }

    #[test]
    fn a_signature_is_verified_by_the_key_that_it_names() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let mut card = good();
        super::super::sign_card(&mut card, &key, &signature::kid_of(&key.verifying_key())).expect("it is signed");
        assert_eq!(rules(&card), []);
        card["name"] = json!("Another");
        assert_eq!(rules(&card), [("/signatures".to_owned(), "signature")]);
    }
}
