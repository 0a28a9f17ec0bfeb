//! P-143: deployments of agents in groups, by hand and as vectors.

use althing_protocol::group::Deployment;
use althing_protocol::object;
use serde_json::{Value, json};

use crate::groups::{by_hand, group, scope};
use crate::names::Name as _;
use crate::support::*;
use crate::vector_cases::{Case, case};
use crate::vector_runner::{Outcome, bytes, hex, text};

type Members = Vec<(u64, Vec<u8>)>;

pub fn deployment() -> Deployment {
    let mut made = Deployment::new(group(), publisher(), "writer", b"{}".to_vec(), NOW_MS);
    (made.folder, made.instances, made.app) = ("/srv".to_owned(), 2, Some("shop".to_owned()));
    (made.labels, made.needs) = (vec!["gpu".to_owned()], vec!["echo".to_owned()]);
    made
}

fn members() -> Members {
    vec![
        (0, uint(14)),
        (1, bstr(group().as_bytes())),
        (2, bstr(publisher().as_bytes())),
        (3, tstr("writer")),
        (4, bstr(b"{}")),
        (5, tstr("/srv")),
        (6, uint(2)),
        (7, array(&[tstr("gpu")])),
        (8, array(&[tstr("echo")])),
        (9, tstr("shop")),
        (10, uint(NOW_MS)),
    ]
}

fn with(member: u64, value: Vec<u8>) -> Vec<u8> {
    let changed = members().into_iter().map(|(at, old)| (at, if at == member { value.clone() } else { old }));
    let changed: Members = changed.collect();
    by_hand("althing/deployment/1", &changed, &scope(), PUBLISHER)
}

/// On so many members, and at most on so many.
fn more(instances: u64, most: u64) -> Vec<u8> {
    let mut all = members();
    all[6].1 = uint(instances);
    all.push((11, uint(most)));
    by_hand("althing/deployment/1", &all, &scope(), PUBLISHER)
}

#[test]
fn a_deployment_built_by_hand_is_what_the_crate_builds() {
    let signed = object::sign(deployment(), NETWORK, &scope(), &key(PUBLISHER)).expect("it is signed");
    assert_eq!(by_hand("althing/deployment/1", &members(), &scope(), PUBLISHER), signed.bytes);
    let (mut plain, mut least) = (deployment(), members());
    plain.app = None;
    least.retain(|(at, _)| *at != 9);
    let signed = object::sign(plain, NETWORK, &scope(), &key(PUBLISHER)).expect("it is signed");
    assert_eq!(by_hand("althing/deployment/1", &least, &scope(), PUBLISHER), signed.bytes);
    let mut busy = deployment();
    busy.instances_max = Some(5);
    let signed = object::sign(busy, NETWORK, &scope(), &key(PUBLISHER)).expect("it is signed");
    assert_eq!(more(2, 5), signed.bytes);
}

/// P-143
#[test]
fn what_no_agent_can_be_is_not_signed() {
    let mut wrong = deployment();
    wrong.agent = "Writer".to_owned();
    assert!(object::sign(wrong, NETWORK, &scope(), &key(PUBLISHER)).is_err());
    let cases = vectors();
    let refused = cases.iter().filter(|case| case.error.is_some()).count();
    assert!(refused >= 10, "{refused} of {} vectors are refused", cases.len());
}

fn of(name: &str, signed: &[u8], error: Option<&'static str>) -> Case {
    let input = json!({
        "kind": "deployment",
        "network": NETWORK,
        "scope": scope(),
        "signer_seed": hex(&[PUBLISHER; 32]),
        "external_aad": hex(&object_aad("althing/deployment/1", NETWORK, &scope())),
        "object": hex(signed),
    });
    case(name, input, error)
}

pub fn vectors() -> Vec<Case> {
    let shape = Some("ObjectError::Shape");
    let names = |count: usize| array(&(0..count).map(|number| tstr(&format!("n{number}"))).collect::<Vec<_>>());
    let elsewhere = by_hand("althing/deployment/1", &members(), "", PUBLISHER);
    vec![
        of("a deployment on two members", &with(6, uint(2)), None),
        of("a deployment on each member", &with(6, uint(0)), None),
        of("a deployment on 17 members", &with(6, uint(17)), shape),
        of("a deployment on two to five members", &more(2, 5), None),
        of("a deployment on two to one members", &more(2, 1), shape),
        of("a deployment on two to 17 members", &more(2, 17), shape),
        of("a deployment on each member, and on five at most", &more(0, 5), shape),
        of("a deployment of an agent whose name has a capital", &with(3, tstr("Writer")), shape),
        of("a deployment that needs an agent without a name", &with(8, array(&[tstr("")])), shape),
        of("a deployment of an application whose name ends with a hyphen", &with(9, tstr("shop-")), shape),
        of("a deployment with an empty label", &with(7, array(&[tstr("")])), shape),
        of("a deployment with 17 labels", &with(7, names(17)), shape),
        of("a deployment that needs 17 agents", &with(8, names(17)), shape),
        of("a deployment whose file has 49,153 bytes", &with(4, bstr(&vec![b' '; 49_153])), shape),
        of("a deployment whose folder has 49,153 bytes", &with(5, tstr(&"f".repeat(49_153))), shape),
        of(
            "a deployment without the scope of its group",
            &elsewhere,
            Some("ObjectError::Envelope(Sign1Error::Signature)"),
        ),
    ]
}

pub fn run(input: &Value) -> Outcome {
    let read = object::open::<Deployment>(&bytes(input, "object"), text(input, "network"), text(input, "scope"));
    let read = read.map_err(|error| error.name())?;
    let it = read.body;
    Ok(json!({ "signer": hex(read.signer.as_bytes()), "group": it.group.to_string(), "owner": it.owner.to_string(),
        "agent": it.agent, "file": hex(&it.file), "folder": it.folder, "instances": it.instances, "labels": it.labels,
        "needs": it.needs, "app": it.app, "made_ms": it.made_ms, "instances_max": it.instances_max }))
}
