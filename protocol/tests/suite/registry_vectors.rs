//! The vectors of what is signed for registries.

use althing_protocol::PublisherId;
use althing_protocol::object::{self, Statement};
use althing_protocol::registry::{Attestation, Mark, Release, Roster, Standing};
use serde_json::{Value, json};

use crate::names::Name as _;
use crate::registry::*;
use crate::support::*;
use crate::vector_cases::{Case, case};
use crate::vector_runner::{Outcome, bytes, hex, number, text};

fn of(name: &str, kind: &str, signed: &[u8], error: Option<&'static str>) -> Case {
    at(name, kind, signed, NOW_MS, error)
}

fn at(name: &str, kind: &str, signed: &[u8], now_ms: u64, error: Option<&'static str>) -> Case {
    let aad = object_aad(&format!("althing/{kind}/1"), NETWORK, "");
    let input = json!({ "document": kind, "network": NETWORK, "now_ms": now_ms, "signer_seed": hex(&[PUBLISHER; 32]),
        "external_aad": hex(&aad), "object": hex(signed) });
    case(name, input, error)
}

const SHAPE: Option<&str> = Some("ObjectError::Shape");
const LONG: Option<&str> = Some("ObjectError::LivesTooLong");

pub fn vectors() -> Vec<Case> {
    [releases(), marks(), rosters(), attestations()].into_iter().flatten().collect()
}

fn releases() -> Vec<Case> {
    let audience = |reach: u64, readers: &[u8]| {
        let readers: Vec<_> = readers.iter().map(|byte| bstr(&[*byte; 32])).collect();
        Some(map(&[(0, uint(reach)), (1, array(&readers))]))
    };
    let bundle = |bytes: u64| Some(map(&[(0, bstr(&[7; 32])), (1, uint(bytes))]));
    let relabelled = cose(&map(&release_members()), &object_aad("althing/mark/1", NETWORK, ""), &key(PUBLISHER));
    let many: Vec<u8> = (0..65).collect();
    let cases = [
        ("a release", release().bytes, None),
        ("a release that nobody can install", with("release", 4, None), None),
        ("a release for an organisation", with("release", 5, audience(2, &[])), None),
        ("a release for two readers", with("release", 5, audience(3, &[1, 2])), None),
        ("a release for its publisher alone", with("release", 5, audience(3, &[])), None),
        ("a release of a version to come", with("release", 2, Some(tstr("2.0.0-rc.1"))), None),
        ("a release with the largest bundle", with("release", 4, bundle(64 << 20)), None),
        ("a release with an empty bundle", with("release", 4, bundle(0)), SHAPE),
        ("a release with a bundle over 64 MiB", with("release", 4, bundle((64 << 20) + 1)), SHAPE),
        ("a release of a version with build metadata", with("release", 2, Some(tstr("1.2.3+7"))), SHAPE),
        ("a release of a version of two numbers", with("release", 2, Some(tstr("1.2"))), SHAPE),
        ("a release of a version with a leading zero", with("release", 2, Some(tstr("01.2.3"))), SHAPE),
        ("a public release with a reader", with("release", 5, audience(1, &[1])), SHAPE),
        ("a release for readers out of order", with("release", 5, audience(3, &[2, 1])), SHAPE),
        ("a release for a reader twice", with("release", 5, audience(3, &[1, 1])), SHAPE),
        ("a release for 65 readers", with("release", 5, audience(3, &many)), SHAPE),
        ("a release for an audience that there is not", with("release", 5, audience(4, &[])), SHAPE),
        ("a release without an audience", with("release", 5, None), SHAPE),
        ("a release with an unknown member", with("release", 9, Some(uint(0))), SHAPE),
        ("a release signed as a mark", relabelled, Some("ObjectError::Envelope(Sign1Error::Signature)")),
        ("a mark as a release", mark(Standing::Good, NOW_MS).bytes, Some("ObjectError::WrongKind")),
    ];
    let mut all: Vec<Case> = cases.iter().map(|(name, signed, error)| of(name, "release", signed, *error)).collect();
    let (early, late) = (NOW_MS - 120_001, NOW_MS + 10 * 366 * DAY_MS);
    all.push(at("a release from the future", "release", &release().bytes, early, Some("ObjectError::NotYetValid")));
    all.push(at("a release of ten years ago", "release", &release().bytes, late, None));
    all
}

fn marks() -> Vec<Case> {
    let standing = |standing: u64| with("mark", 3, Some(uint(standing)));
    let reason = |text: &str| with("mark", 4, Some(tstr(text)));
    let cases = [
        ("a mark that says nothing against a release", standing(1), None),
        ("a mark that deprecates", standing(2), None),
        ("a mark that yanks", standing(3), None),
        ("a mark that revokes", standing(4), None),
        ("a mark without a reason", reason(""), None),
        ("a mark whose reason has 512 bytes", reason(&"x".repeat(512)), None),
        ("a mark of a standing that there is not", standing(5), SHAPE),
        ("a mark whose reason has 513 bytes", reason(&"x".repeat(513)), SHAPE),
        ("a mark whose reason moves the cursor", reason("\u{1b}[2J"), SHAPE),
        ("a mark whose reason has a control character of two bytes", reason("\u{85}"), SHAPE),
        ("a mark whose reason is shown in another order", reason("a\u{202E}b"), SHAPE),
        ("a mark of no version", with("mark", 2, None), SHAPE),
        ("a mark of an agent without a name", with("mark", 1, Some(tstr(&publisher().to_string()))), SHAPE),
        ("a release as a mark", release().bytes, Some("ObjectError::WrongKind")),
    ];
    let mut all: Vec<Case> = cases.iter().map(|(name, signed, error)| of(name, "mark", signed, *error)).collect();
    let good = mark(Standing::Revoked, NOW_MS).bytes;
    all.push(at("a mark from the future", "mark", &good, NOW_MS - 120_001, Some("ObjectError::NotYetValid")));
    all
}

fn rosters() -> Vec<Case> {
    let members = |members: &[Vec<u8>]| with("roster", 2, Some(array(members)));
    let one = |roles: &[u64], names: &[&str]| members(&[roster_member(0x11, roles, names)]);
    let crowd = |count: u8, names: usize| {
        let all: Vec<_> = (0..count).map(|byte| roster_member(byte, &[1], &vec!["*"; names])).collect();
        members(&all)
    };
    let cases = [
        ("a roster", with("roster", 3, Some(uint(1))), None),
        ("a roster without members", members(&[]), None),
        ("a roster of a domain", with("roster", 7, Some(tstr("billing.example.org"))), None),
        ("a roster of a domain in another script", with("roster", 7, Some(tstr("xn--exmple-cua.org"))), None),
        ("a roster of a domain in capitals", with("roster", 7, Some(tstr("Example.org"))), SHAPE),
        ("a roster of a domain with a dot at its end", with("roster", 7, Some(tstr("example.org."))), SHAPE),
        ("a roster of a domain that is spelled in another script", with("roster", 7, Some(tstr("exämple.org"))), SHAPE),
        ("a roster of a host without a domain", with("roster", 7, Some(tstr("localhost"))), SHAPE),
        ("a roster of an address", with("roster", 7, Some(tstr("192.0.2.1"))), SHAPE),
        ("a roster whose organisation approves too", with("roster", 3, Some(uint(2))), None),
        ("a roster with 1,024 names", crowd(32, 32), None),
        ("a roster with 1,056 names", crowd(33, 32), SHAPE),
        ("a member with 33 names", crowd(1, 33), SHAPE),
        ("a roster that wants no approval", with("roster", 3, Some(uint(0))), SHAPE),
        ("a roster that wants more approvals than may approve", with("roster", 3, Some(uint(3))), SHAPE),
        (
            "a roster with members out of order",
            members(&[roster_member(0x22, &[1], &[]), roster_member(0x11, &[1], &[])]),
            SHAPE,
        ),
        ("a roster with a member twice", members(&vec![roster_member(0x11, &[1], &[]); 2]), SHAPE),
        ("a member without a role", one(&[], &[]), SHAPE),
        ("a member with a role twice", one(&[1, 1], &[]), SHAPE),
        ("a member with roles out of order", one(&[2, 1], &[]), SHAPE),
        ("a member with a role that there is not", one(&[4], &[]), SHAPE),
        ("a name with a star in the middle", one(&[1], &["a*b"]), SHAPE),
        ("a name in capitals", one(&[1], &["Billing"]), SHAPE),
        ("an empty name", one(&[1], &[""]), SHAPE),
        ("a roster of more than a day", with("roster", 6, Some(uint(NOW_MS + DAY_MS + 1))), LONG),
        ("a roster that ends before it begins", with("roster", 6, Some(uint(NOW_MS - 1))), SHAPE),
    ];
    let mut all: Vec<Case> = cases.iter().map(|(name, signed, error)| of(name, "roster", signed, *error)).collect();
    let (good, end) = (signed(roster_body(), &key(PUBLISHER)).bytes, NOW_MS + DAY_MS);
    all.push(at("a roster in its last millisecond", "roster", &good, end, None));
    all.push(at("a roster that is over", "roster", &good, end + 1, Some("ObjectError::Expired")));
    all
}

fn attestations() -> Vec<Case> {
    let named = |name: &str| with("attestation", 4, Some(tstr(name)));
    let value = |text: &str| with("attestation", 5, Some(tstr(text)));
    let year = 366 * DAY_MS;
    let cases = [
        ("an attestation of a version", with("attestation", 6, Some(uint(NOW_MS))), None),
        ("an attestation of all versions", of_all_versions(), None),
        ("an attestation whose name has 128 bytes", named(&"n".repeat(128)), None),
        ("an attestation whose value has 4,096 bytes", value(&format!("\"{}\"", "x".repeat(4_094))), None),
        ("an attestation of 366 days", with("attestation", 8, Some(uint(NOW_MS + year))), None),
        ("an attestation without a name", named(""), SHAPE),
        ("an attestation whose name has 129 bytes", named(&"n".repeat(129)), SHAPE),
        ("an attestation whose name has two lines", named("a\nb"), SHAPE),
        ("an attestation whose name is shown in another order", named("a\u{202E}b"), SHAPE),
        ("an attestation whose value is no JSON", value("{"), SHAPE),
        ("an attestation whose value is two JSON texts", value("1 2"), SHAPE),
        ("an attestation whose value has 4,097 bytes", value(&format!("\"{}\"", "x".repeat(4_095))), SHAPE),
        ("an attestation of an agent and of a model", with("attestation", 9, Some(blueprint("m", "n"))), SHAPE),
        ("an attestation of nothing", with("attestation", 2, None), SHAPE),
        ("an attestation of a version without its content", with("attestation", 10, None), SHAPE),
        ("an attestation of all versions with a content", with("attestation", 3, None), SHAPE),
        ("an attestation whose content has 31 bytes", with("attestation", 10, Some(bstr(&[1; 31]))), SHAPE),
        ("an attestation of more than 366 days", with("attestation", 8, Some(uint(NOW_MS + year + 1))), LONG),
    ];
    let mut all: Vec<Case> =
        cases.iter().map(|(name, signed, error)| of(name, "attestation", signed, *error)).collect();
    let models = [
        ("an attestation of a model on a machine", of_blueprint(blueprint("qwen3:8b", "x86_64, 8 cores"), None), None),
        ("an attestation of a model with 256 bytes", of_blueprint(blueprint(&"m".repeat(256), "n"), None), None),
        ("an attestation of a model with 257 bytes", of_blueprint(blueprint(&"m".repeat(257), "n"), None), SHAPE),
        ("an attestation of a model without a name", of_blueprint(blueprint("", "n"), None), SHAPE),
        ("an attestation of a model on a machine of two lines", of_blueprint(blueprint("m", "a\nb"), None), SHAPE),
        ("an attestation of a version of a model", of_blueprint(blueprint("m", "n"), Some(tstr("1.2.3"))), SHAPE),
    ];
    all.extend(models.iter().map(|(name, signed, error)| of(name, "attestation", signed, *error)));
    let (good, late) = (signed(attestation_body(), &key(PUBLISHER)).bytes, NOW_MS + DAY_MS + 1);
    all.push(at("an attestation that is over", "attestation", &good, late, Some("ObjectError::Expired")));
    all
}

/// What is made of a signed statement, by its JSON alone; none if the document is none.
pub fn run(input: &Value) -> Option<Outcome> {
    Some(match text(input, "document") {
        "release" => opened::<Release>(input, |it, now| it.made(now), shown_release),
        "mark" => opened::<Mark>(
            input,
            |it, now| it.made(now),
            |it| {
                json!({ "agent": it.agent.to_string(), "version": it.version.to_string(), "standing": it.standing.name(),
                "reason": it.reason, "by": it.by.to_string(), "sequence": it.sequence, "made_ms": it.made_ms })
            },
        ),
        "roster" => opened::<Roster>(input, |it, now| it.in_force(now), shown_roster),
        "attestation" => opened::<Attestation>(
            input,
            |it, now| it.in_force(now),
            |it| {
                let mut shown = json!({ "by": it.by.to_string(), "agent": it.agent.as_ref().map(ToString::to_string),
                "version": it.version.as_ref().map(ToString::to_string), "name": it.name, "value": it.value,
                "sequence": it.sequence, "not_before_ms": it.not_before_ms, "not_after_ms": it.not_after_ms });
                if let Some(content) = &it.content {
                    shown["content"] = json!(hex(content));
                }
                if let Some(blueprint) = &it.blueprint {
                    shown["blueprint"] = json!({ "model": blueprint.model, "machine": blueprint.machine });
                }
                shown
            },
        ),
        _ => return None,
    })
}

fn opened<T: Statement>(
    input: &Value,
    in_time: impl Fn(&T, u64) -> Result<(), object::ObjectError>,
    show: impl Fn(&T) -> Value,
) -> Outcome {
    let read = object::open::<T>(&bytes(input, "object"), text(input, "network"), "");
    let read = read.and_then(|it| in_time(&it.body, number(input, "now_ms")).map(|()| it));
    let read = read.map_err(|error| error.name())?;
    Ok(json!({ "signer": hex(read.signer.as_bytes()), "digest": hex(&read.digest()), "body": show(&read.body) }))
}

fn shown_release(it: &Release) -> Value {
    json!({ "agent": it.agent.to_string(), "version": it.version.to_string(), "description": hex(&it.description),
        "bundle": it.bundle.map(|it| json!({ "digest": hex(&it.digest), "bytes": it.bytes })),
        "audience": { "reach": it.audience.reach as u8 + 1, "readers": listed(&it.audience.readers) },
        "by": it.by.to_string(), "sequence": it.sequence, "made_ms": it.made_ms })
}

fn listed(publishers: &[PublisherId]) -> Vec<String> {
    publishers.iter().map(PublisherId::to_string).collect()
}

fn shown_roster(it: &Roster) -> Value {
    let members = it.members.iter().map(|member| {
        json!({ "publisher": member.publisher.to_string(),
            "roles": member.roles.iter().map(|role| *role as u8 + 1).collect::<Vec<_>>(),
            "names": member.names.iter().map(ToString::to_string).collect::<Vec<_>>() })
    });
    json!({ "organisation": it.organisation.to_string(), "members": members.collect::<Vec<_>>(),
        "approvals": it.approvals, "sequence": it.sequence, "not_before_ms": it.not_before_ms,
        "not_after_ms": it.not_after_ms, "domain": it.domain.as_ref().map(ToString::to_string) })
}
