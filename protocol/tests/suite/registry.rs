//! What is signed for registries, by hand: releases, marks, rosters and attestations.

use althing_protocol::object::{self, Authored, Statement};
use althing_protocol::registry::{
    Attestation, Audience, Bundle, Mark, NamePattern, Release, Role, Roster, RosterMember, Standing, Version, Visit,
};
use althing_protocol::{AgentId, PublisherId, SecretKey};
use serde_json::json;

use crate::names::{Name as _, reason};
use crate::registry_vectors::vectors;
use crate::support::*;
use crate::vector_cases::Case;

pub type Members = Vec<(u64, Vec<u8>)>;

pub const DAY_MS: u64 = 24 * HOUR_MS;

pub fn version(text: &str) -> Version {
    text.parse().expect("a good version")
}

/// The bundle that the sample release names.
pub fn bundle() -> Vec<u8> {
    map(&[(0, tstr("name: echo\n")), (1, map_of_files(&[("model.bin", b"weights")]))])
}

pub fn map_of_files(files: &[(&str, &[u8])]) -> Vec<u8> {
    let items: Vec<u8> = files.iter().flat_map(|(path, bytes)| [tstr(path), bstr(bytes)].concat()).collect();
    [head(5, files.len() as u64), items].concat()
}

pub fn release_body() -> Release {
    let mut body = Release::new(agent(), version("1.2.3"), description().digest(), Audience::public(), NOW_MS);
    body.bundle = Some(Bundle { digest: althing_protocol::digest(&bundle()), bytes: bundle().len() as u64 });
    body
}

/// The same with a change.
pub fn changed<T>(mut body: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut body);
    body
}

pub fn release() -> Authored<Release> {
    signed(release_body(), &key(PUBLISHER))
}

pub fn mark(standing: Standing, made_ms: u64) -> Authored<Mark> {
    signed(Mark::new(agent(), version("1.2.3"), standing, "it leaks", made_ms), &key(PUBLISHER))
}

pub fn signed<T: Statement>(body: T, key: &SecretKey) -> Authored<T> {
    object::sign(body, NETWORK, "", key).expect("a good statement")
}

fn other(byte: u8) -> PublisherId {
    PublisherId::from_digest([byte; 32])
}

pub fn roster_body() -> Roster {
    let pattern = |text: &str| text.parse::<NamePattern>().expect("a good pattern");
    let members = vec![
        RosterMember { publisher: other(0x11), roles: vec![Role::Read], names: vec![] },
        RosterMember {
            publisher: other(0x22),
            roles: vec![Role::Stage, Role::Approve],
            names: vec![pattern("billing"), pattern("pay-*")],
        },
    ];
    Roster::new(publisher(), members, 5, NOW_MS, NOW_MS + DAY_MS)
}

pub fn attestation_body() -> Attestation {
    let value = json!({ "passed": true });
    let mut body = Attestation::new(publisher(), agent(), "audit", &value, NOW_MS, NOW_MS + DAY_MS);
    body.version = Some(version("1.2.3"));
    body.made_of(althing_protocol::digest(&bundle()))
}

/// One of each kind, signed by the opener.
pub fn one_of_each() -> Vec<Vec<u8>> {
    let key = key(OPENER);
    vec![
        signed(release_body(), &key).bytes,
        signed(Mark::new(agent(), version("1.2.3"), Standing::Yanked, "", NOW_MS), &key).bytes,
        signed(roster_body(), &key).bytes,
        signed(attestation_body(), &key).bytes,
        signed(Visit::new(publisher(), NOW_MS), &key).bytes,
    ]
}

// -- by hand

pub fn release_members() -> Members {
    let bundle = map(&[(0, bstr(&althing_protocol::digest(&bundle()))), (1, uint(bundle().len() as u64))]);
    vec![
        (0, uint(15)),
        (1, tstr(&agent().to_string())),
        (2, tstr("1.2.3")),
        (3, bstr(&description().digest())),
        (4, bundle),
        (5, map(&[(0, uint(1)), (1, array(&[]))])),
        (6, bstr(publisher().as_bytes())),
        (7, uint(NOW_MS)),
        (8, uint(NOW_MS)),
    ]
}

fn mark_members() -> Members {
    vec![
        (0, uint(16)),
        (1, tstr(&agent().to_string())),
        (2, tstr("1.2.3")),
        (3, uint(4)),
        (4, tstr("it leaks")),
        (5, bstr(publisher().as_bytes())),
        (6, uint(NOW_MS)),
        (7, uint(NOW_MS)),
    ]
}

pub fn roster_member(byte: u8, roles: &[u64], names: &[&str]) -> Vec<u8> {
    let roles: Vec<_> = roles.iter().map(|role| uint(*role)).collect();
    let names: Vec<_> = names.iter().map(|name| tstr(name)).collect();
    map(&[(0, bstr(&[byte; 32])), (1, array(&roles)), (2, array(&names))])
}

fn roster_members() -> Members {
    vec![
        (0, uint(17)),
        (1, bstr(publisher().as_bytes())),
        (2, array(&[roster_member(0x11, &[1], &[]), roster_member(0x22, &[2, 3], &["billing", "pay-*"])])),
        (3, uint(1)),
        (4, uint(5)),
        (5, uint(NOW_MS)),
        (6, uint(NOW_MS + DAY_MS)),
    ]
}

pub fn attestation_members() -> Members {
    vec![
        (0, uint(18)),
        (1, bstr(publisher().as_bytes())),
        (2, tstr(&agent().to_string())),
        (3, tstr("1.2.3")),
        (4, tstr("audit")),
        (5, tstr("{\"passed\":true}")),
        (6, uint(NOW_MS)),
        (7, uint(NOW_MS)),
        (8, uint(NOW_MS + DAY_MS)),
        (10, bstr(&althing_protocol::digest(&bundle()))),
    ]
}

pub fn blueprint(model: &str, machine: &str) -> Vec<u8> {
    map(&[(0, tstr(model)), (1, tstr(machine))])
}

/// An attestation of all versions of an agent, honestly signed by the publisher.
pub fn of_all_versions() -> Vec<u8> {
    let mut members = attestation_members();
    members.retain(|(at, _)| !matches!(at, 3 | 10));
    cose(&map(&members), &object_aad("althing/attestation/1", NETWORK, ""), &key(PUBLISHER))
}

/// An attestation of a model on a machine, honestly signed by the publisher.
pub fn of_blueprint(blueprint: Vec<u8>, version: Option<Vec<u8>>) -> Vec<u8> {
    let mut members = attestation_members();
    members.retain(|(at, _)| !matches!(at, 2 | 3 | 10));
    members.extend(version.map(|version| (3, version)));
    members.push((9, blueprint));
    members.sort_by_key(|(at, _)| *at);
    cose(&map(&members), &object_aad("althing/attestation/1", NETWORK, ""), &key(PUBLISHER))
}

/// A statement with one member changed, added or, without a value, left out; honestly signed by the publisher.
pub fn with(kind: &str, member: u64, value: Option<Vec<u8>>) -> Vec<u8> {
    let mut members = match kind {
        "release" => release_members(),
        "mark" => mark_members(),
        "roster" => roster_members(),
        _ => attestation_members(),
    };
    members.retain(|(at, _)| *at != member);
    members.extend(value.map(|value| (member, value)));
    members.sort_by_key(|(at, _)| *at);
    let domain = format!("althing/{kind}/1");
    cose(&map(&members), &object_aad(&domain, NETWORK, ""), &key(PUBLISHER))
}

#[test]
fn statements_built_by_hand_are_what_the_crate_builds() {
    // P-160, P-161, P-162, P-163, P-164
    let whole = |kind: &str| {
        let members =
            [("release", release_members()), ("mark", mark_members()), ("roster", roster_members())].into_iter();
        let members = members.chain([("attestation", attestation_members())]).find(|(of, _)| *of == kind);
        let domain = format!("althing/{kind}/1");
        cose(&map(&members.expect("a kind").1), &object_aad(&domain, NETWORK, ""), &key(PUBLISHER))
    };
    assert_eq!(whole("release"), release().bytes);
    assert_eq!(whole("mark"), mark(Standing::Revoked, NOW_MS).bytes);
    assert_eq!(whole("roster"), signed(roster_body(), &key(PUBLISHER)).bytes);
    assert_eq!(whole("attestation"), signed(attestation_body(), &key(PUBLISHER)).bytes);
}

#[test]
fn a_version_has_one_spelling_and_no_build() {
    // P-160
    for good in ["0.0.0", "1.2.3", "1.0.0-rc.1", "10.20.30-alpha-beta", "18446744073709551615.0.0"] {
        assert_eq!(good.parse::<Version>().map(|it| it.to_string()).as_deref(), Ok(good));
    }
    for bad in ["1.2", "1.2.3.4", "01.2.3", "1.2.3+x", "v1.2.3", "1.2.3-01", "1.2.3-", "18446744073709551616.0.0"] {
        assert!(bad.parse::<Version>().is_err(), "{bad}");
    }
    let long = |count: usize| format!("1.2.3-{}", "a".repeat(count));
    assert!(long(58).parse::<Version>().is_ok() && long(59).parse::<Version>().is_err());
    assert!(version("1.0.0-rc.1") < version("1.0.0") && version("1.9.0") < version("1.10.0"));
}

#[test]
fn what_was_made_is_not_from_the_future_and_what_lives_ends() {
    // P-165
    assert!(release().body.made(NOW_MS - 120_000).is_ok());
    assert_eq!(reason(release().body.made(NOW_MS - 120_001)), "ObjectError::NotYetValid");
    assert_eq!(reason(mark(Standing::Good, NOW_MS).body.made(NOW_MS - 120_001)), "ObjectError::NotYetValid");
    assert!(mark(Standing::Good, NOW_MS).body.made(u64::MAX).is_ok(), "it does not end");
    for (from, now, expected) in [
        (NOW_MS, NOW_MS - 120_000, None),
        (NOW_MS, NOW_MS - 120_001, Some("ObjectError::NotYetValid")),
        (NOW_MS, NOW_MS + DAY_MS, None),
        (NOW_MS, NOW_MS + DAY_MS + 1, Some("ObjectError::Expired")),
    ] {
        let roster = Roster::new(publisher(), vec![], 1, from, from + DAY_MS);
        assert_eq!(roster.in_force(now).err().map(|it| it.name()).as_deref(), expected);
        let attestation = Attestation::new(publisher(), agent(), "audit", &json!(1), from, from + DAY_MS);
        assert_eq!(attestation.in_force(now).err().map(|it| it.name()).as_deref(), expected);
    }
}

#[test]
fn a_roster_says_who_may_do_what_under_which_names() {
    // P-163: a name, or the beginning of names; the organisation itself may do everything.
    let roster = roster_body();
    let of = |name: &str| AgentId::new(other(0x22), name).expect("a good name");
    assert!(roster.allows(other(0x22), Role::Approve, &of("billing")));
    assert!(roster.allows(other(0x22), Role::Stage, &of("pay-in")));
    assert!(
        !roster.allows(other(0x22), Role::Stage, &of("billing-2"))
            && !roster.allows(other(0x22), Role::Stage, &of("pay"))
    );
    assert!(!roster.allows(other(0x11), Role::Stage, &of("billing")) && roster.has_reader(other(0x11)));
    assert!(roster.allows(publisher(), Role::Approve, &of("anything")) && !roster.has_reader(other(0x33)));
}

#[test]
fn all_bounds_of_statements_have_a_vector_that_breaks_them() {
    // P-161, P-162, P-163, P-164
    for kind in ["release", "mark", "roster", "attestation"] {
        let cases: Vec<Case> = vectors().into_iter().filter(|case| case.input["document"] == kind).collect();
        let refused = cases.iter().filter(|case| case.error.is_some()).count();
        assert!(refused >= 5 && cases.len() > refused, "{kind}: {refused} of {}", cases.len());
    }
}
