//! What the vectors are made of: authored objects, key logs and evidence.

use althing_protocol::KeyLog;
use althing_protocol::contract::Grade;
use althing_protocol::contract::Latency;
use althing_protocol::object::{self, Grant};
use althing_protocol::object::{AgentLoad, Machine, Placement};
use serde_json::json;

use crate::keylog::{Event, committed};
use crate::support;
use crate::support::*;
use crate::vector_cases::{Case, case, flipped};
use crate::vector_runner::hex;

pub fn object_case(name: &str, kind: &str, object: &[u8], now_ms: u64, error: Option<&'static str>) -> Case {
    let network = if kind == "key event" { "" } else { NETWORK };
    let domain = format!("althing/{}/1", kind.replace(' ', "-"));
    let seed = if ["placement", "binding", "task move", "handoff", "handoff answer"].contains(&kind) {
        NODE
    } else {
        PUBLISHER
    };
    let input = json!({
        "kind": kind,
        "network": network,
        "scope": "",
        "now_ms": now_ms,
        "signer_seed": hex(&[seed; 32]),
        "external_aad": hex(&object_aad(&domain, network, "")),
        "object": hex(object),
    });
    case(name, input, error)
}

pub fn objects() -> Vec<Case> {
    let handoffs = [crate::handoffs::vectors(), crate::handoff_answers::vectors()];
    [timed_objects(), shaped_objects(), moves(), promised_bindings()].into_iter().chain(handoffs).flatten().collect()
}

/// P-58
fn promised_bindings() -> Vec<Case> {
    let signed = |binding| object::sign(binding, NETWORK, "", &key(NODE)).expect("a good binding").bytes;
    let proof = althing_protocol::digest(b"a proof");
    let promised = |proof| signed(sealed_binding().body.promised(1, proof));
    let members = |more: &[(u64, Vec<u8>)]| {
        let (node, manifest) = (public(NODE), sealed_binding().body.manifest);
        let first = [(0, uint(6)), (1, bstr(node.as_bytes())), (2, uint(NOW_MS)), (3, bstr(&manifest))];
        cose(&map(&[&first[..], more].concat()), &object_aad("althing/binding/1", NETWORK, ""), &key(NODE))
    };
    let (placed, short) = ((4, uint(1)), (5, bstr(&proof[..31])));
    let (shape, of) = (Some("ObjectError::Shape"), object_case);
    vec![
        of("a binding of an agent that is promised a core", "binding", &promised(Some(proof)), NOW_MS, None),
        of("a binding with a core, whose proof is too long to be kept", "binding", &promised(None), NOW_MS, None),
        of("a binding with a proof and no core", "binding", &members(&[(5, bstr(&proof))]), NOW_MS, shape),
        of("a binding with the core 65536", "binding", &members(&[(4, uint(65_536))]), NOW_MS, shape),
        of("a binding with a proof of 31 bytes", "binding", &members(&[placed, short]), NOW_MS, shape),
    ]
}

/// P-204
fn moves() -> Vec<Case> {
    let by_hand = |task: &str, fence: u64| {
        let members = [
            (0, uint(20)),
            (1, tstr(&agent().to_string())),
            (2, tstr(task)),
            (3, bstr(public(STRANGER).as_bytes())),
            (4, uint(fence)),
            (5, bstr(&task_move_body().contents)),
        ];
        cose(&map(&members), &object_aad("althing/task-move/1", NETWORK, ""), &key(NODE))
    };
    let elsewhere = object::sign(task_move_body(), "othernet", "", &key(NODE)).expect("a good move").bytes;
    let (shape, of) = (Some("ObjectError::Shape"), object_case);
    vec![
        of("a move of a task", "task move", &task_move().bytes, NOW_MS, None),
        of("a move whose task has the longest id", "task move", &by_hand(&"t".repeat(256), u64::MAX), NOW_MS, None),
        of("a move whose task has a longer id", "task move", &by_hand(&"t".repeat(257), 1), NOW_MS, shape),
        of("a move of no task", "task move", &by_hand("", 1), NOW_MS, shape),
        of("a move without a fence", "task move", &by_hand(TASK, 0), NOW_MS, shape),
        of(
            "a move in another network",
            "task move",
            &elsewhere,
            NOW_MS,
            Some("ObjectError::Envelope(Sign1Error::Signature)"),
        ),
        of("a grant as a move", "task move", &grant().bytes, NOW_MS, Some("ObjectError::WrongKind")),
    ]
}

fn timed_objects() -> Vec<Case> {
    let life = |from, until| {
        let payload = map(&[
            (0, uint(2)),
            (1, tstr(&agent().to_string())),
            (2, bstr(public(NODE).as_bytes())),
            (3, uint(from)),
            (4, uint(until)),
        ]);
        cose(&payload, &object_aad("althing/grant/1", NETWORK, ""), &key(PUBLISHER))
    };
    let strangers = object::sign(placement_body(), NETWORK, "", &key(STRANGER)).expect("a good shape").bytes;
    // P-58
    let strangers_binding =
        object::sign(sealed_binding().body, NETWORK, "", &key(STRANGER)).expect("a good shape").bytes;
    let spaced = {
        let text = String::from_utf8(sealed_binding().body.manifest).expect("JSON").replacen(':', ": ", 1);
        let members = [(0, uint(6)), (1, bstr(public(NODE).as_bytes())), (2, uint(NOW_MS)), (3, bstr(text.as_bytes()))];
        cose(&map(&members), &object_aad("althing/binding/1", NETWORK, ""), &key(NODE))
    };
    let elsewhere = object::sign(grant().body, "othernet", "", &key(PUBLISHER)).expect("a good grant").bytes;
    let scoped = object::sign(grant().body, NETWORK, "group-1", &key(PUBLISHER)).expect("a good grant").bytes;
    let (inception, rotation) = (rotated().to_bytes().remove(0), rotated().to_bytes().remove(1));
    let signature = Some("ObjectError::Envelope(Sign1Error::Signature)");
    let day = 24 * HOUR_MS;
    let of = object_case;
    vec![
        of("a description", "description", &description().bytes, NOW_MS, None),
        of("a grant", "grant", &grant().bytes, NOW_MS, None),
        of("a membership", "membership", &membership().bytes, NOW_MS, None),
        of("a placement", "placement", &placement().bytes, NOW_MS, None),
        of("an inception", "key event", &inception, NOW_MS, None),
        of("a rotation", "key event", &rotation, NOW_MS, None),
        of("a grant in its last millisecond", "grant", &grant().bytes, NOW_MS + HOUR_MS, None),
        of("a grant that expired", "grant", &grant().bytes, NOW_MS + HOUR_MS + 1, Some("ObjectError::Expired")),
        of("a grant at the edge of the skew", "grant", &grant().bytes, NOW_MS - HOUR_MS - 120_000, None),
        of(
            "a grant not yet valid",
            "grant",
            &grant().bytes,
            NOW_MS - HOUR_MS - 120_001,
            Some("ObjectError::NotYetValid"),
        ),
        of("a grant of exactly 24 h", "grant", &life(NOW_MS, NOW_MS + day), NOW_MS, None),
        of(
            "a grant of more than 24 h",
            "grant",
            &life(NOW_MS, NOW_MS + day + 1),
            NOW_MS,
            Some("ObjectError::LivesTooLong"),
        ),
        of(
            "a grant that ends before it begins",
            "grant",
            &life(NOW_MS, NOW_MS - 1),
            NOW_MS,
            Some("ObjectError::Shape"),
        ),
        of(
            "a membership that expired",
            "membership",
            &membership().bytes,
            NOW_MS + 2 * HOUR_MS,
            Some("ObjectError::Expired"),
        ),
        of("a binding", "binding", &sealed_binding().bytes, NOW_MS, None),
        of("a binding by another node", "binding", &strangers_binding, NOW_MS, Some("ObjectError::WrongKey")),
        of("a manifest that is not canonical", "binding", &spaced, NOW_MS, Some("ObjectError::Shape")),
        of("a placement by another node", "placement", &strangers, NOW_MS, Some("ObjectError::WrongKey")),
        of("an old placement", "placement", &placement().bytes, NOW_MS + 126_001, Some("ObjectError::Expired")),
        of("a grant of another network", "grant", &elsewhere, NOW_MS, signature),
        of("a grant of a scope", "grant", &scoped, NOW_MS, signature),
        of("one bit of the signature changed", "grant", &flipped(&grant().bytes), NOW_MS, signature),
        of("a membership as a grant", "grant", &membership().bytes, NOW_MS, Some("ObjectError::WrongKind")),
        of("a grant as a description", "description", &grant().bytes, NOW_MS, Some("ObjectError::WrongKind")),
        of("a frame as a grant", "grant", &sealed_request(), NOW_MS, Some("ObjectError::Shape")),
    ]
}

fn shaped_objects() -> Vec<Case> {
    let hosted =
        |name: &str| map(&[(0, tstr(&format!("{}{name}", agent()))), (1, bstr(&[0; 32])), (2, bstr(&[0; 32]))]);
    let placed = |load: u64, agents: Vec<Vec<u8>>| {
        let payload = map(&[
            (0, uint(3)),
            (1, bstr(public(NODE).as_bytes())),
            (2, uint(1)),
            (3, uint(NOW_MS)),
            (4, uint(6_000)),
            (5, uint(load)),
            (6, uint(0)),
            (7, array(&agents)),
        ]);
        cose(&payload, &object_aad("althing/placement/1", NETWORK, ""), &key(NODE))
    };
    let shape = Some("ObjectError::Shape");
    let relabelled = map(&[
        (0, uint(2)),
        (1, bstr(publisher().as_bytes())),
        (2, bstr(public(NODE).as_bytes())),
        (3, uint(NOW_MS)),
        (4, uint(NOW_MS)),
    ]);
    let relabelled = cose(&relabelled, &object_aad("althing/membership/1", NETWORK, ""), &key(PUBLISHER));
    let unknown = cose(&map(&[(0, uint(99))]), &object_aad("althing/grant/1", NETWORK, ""), &key(PUBLISHER));
    let of = object_case;
    let changed = |change: &dyn Fn(&mut Placement)| {
        let mut body = placement_body();
        change(&mut body);
        cose(&minicbor::to_vec(&body).expect("it encodes"), &object_aad("althing/placement/1", NETWORK, ""), &key(NODE))
    };
    let on = |cores, promised_permille| {
        let machine = Machine { grade: Grade::B, cores, memory_mib: 24_020, promised_permille };
        changed(&|body| body.machine = Some(machine))
    };
    let load = AgentLoad { latency: Latency::Srt, turns: 3 };
    let loaded = |loads: usize| changed(&|body| body.loads = Some(vec![load; loads]));
    let told = |successes: &[Option<u8>]| changed(&|body| body.successes = Some(successes.to_vec()));
    vec![
        of("a placement that tells how turns of an agent went", "placement", &told(&[Some(97), None]), NOW_MS, None),
        of("a placement that tells so of one agent alone", "placement", &told(&[Some(97)]), NOW_MS, shape),
        of("a placement with 101 percent", "placement", &told(&[Some(101), None]), NOW_MS, shape),
        of("a placement that tells what its agents do", "placement", &loaded(2), NOW_MS, None),
        of("a placement that tells so of some of its agents", "placement", &loaded(1), NOW_MS, shape),
        of("a placement that tells of its machine", "placement", &on(2, 590), NOW_MS, None),
        of("a placement on a machine without a core", "placement", &on(0, 0), NOW_MS, shape),
        of("a placement that promises more than a core", "placement", &on(2, 1_001), NOW_MS, shape),
        of("a placement with sorted agents", "placement", &placed(1_000, vec![hosted(""), hosted("-2")]), NOW_MS, None),
        of("a placement with unsorted agents", "placement", &placed(0, vec![hosted("-2"), hosted("")]), NOW_MS, shape),
        of(
            "a placement that names an agent twice",
            "placement",
            &placed(0, vec![hosted(""), hosted("")]),
            NOW_MS,
            shape,
        ),
        of("a placement with a load of 1001", "placement", &placed(1_001, vec![]), NOW_MS, shape),
        of(
            "a membership whose kind was rewritten",
            "grant",
            &relabelled,
            NOW_MS,
            Some("ObjectError::Envelope(Sign1Error::Signature)"),
        ),
        of("an unknown kind", "grant", &unknown, NOW_MS, shape),
    ]
}

pub fn keylogs() -> Vec<Case> {
    let of = |name: &str, events: Vec<Vec<u8>>, by: u8, now_ms: u64, error: Option<&'static str>| {
        let events: Vec<_> = events.iter().map(|event| hex(event)).collect();
        let seeds: Vec<_> = [PUBLISHER, NEXT, AFTER_NEXT, FOURTH, FIFTH].iter().map(|seed| hex(&[*seed; 32])).collect();
        let input = json!({ "events": events, "seeds": seeds, "key": hex(public(by).as_bytes()), "now_ms": now_ms });
        case(name, input, error)
    };
    let seen = |mut case: Case, seen: &KeyLog| {
        case.input["seen"] = seen.to_bytes().iter().map(|event| hex(event)).collect();
        case
    };
    let (short, long) = (log().to_bytes(), rotated().to_bytes());
    let revoked = rotated().revoke(&key(AFTER_NEXT), NOW_MS).expect("a good revocation").to_bytes();
    let fork = log().rotate(&key(NEXT), public(STRANGER), NOW_MS, 0).expect("a good rotation");
    let twice = rotated_twice().to_bytes();
    let stolen = log().revoke(&key(NEXT), NOW_MS).expect("it holds by itself");
    let mixed = vec![short[0].clone(), fork.to_bytes().remove(1), revoked[2].clone()];
    let event = |change: &dyn Fn(&mut Event), signer: u8| {
        let mut event = Event::rotation(&log());
        change(&mut event);
        vec![short[0].clone(), event.signed(&key(signer))]
    };
    let overlong = event(&|it| it.previous_until_ms = Some(it.issued_at_ms + 24 * HOUR_MS + 1), NEXT);
    let backdated = event(&|it| it.issued_at_ms = NOW_MS - 2 * HOUR_MS - 1, NEXT);
    let uncommitted = event(&|it| it.key = public(STRANGER), STRANGER);
    let unrepeated = event(&|it| it.next = Some([STRANGER, FOURTH]), NEXT);
    let one_digest = Event::rotation(&log()).with_next(array(&[committed(AFTER_NEXT)]), &key(NEXT));
    let chain = Some("KeyLogError::Chain");
    let swapped = vec![long[1].clone(), long[0].clone()];
    vec![
        of("an inception", short.clone(), PUBLISHER, NOW_MS, None),
        of("a rotation, asked about the new key", long.clone(), NEXT, NOW_MS, None),
        of("a rotation, asked about the old key within its overlap", long.clone(), PUBLISHER, NOW_MS + HOUR_MS, None),
        of(
            "a rotation, asked about the old key after its overlap",
            long.clone(),
            PUBLISHER,
            NOW_MS + HOUR_MS + 1,
            Some("KeyLogError::NotItsKey"),
        ),
        of(
            "a rotation, asked about a key only committed to",
            long.clone(),
            AFTER_NEXT,
            NOW_MS,
            Some("KeyLogError::NotItsKey"),
        ),
        of("a revocation", revoked.clone(), AFTER_NEXT, NOW_MS, Some("KeyLogError::Revoked")),
        seen(of("a log that continues what was seen", long.clone(), NEXT, NOW_MS, None), &log()),
        seen(of("a log that parts from what was seen, each with one event", long.clone(), NEXT, NOW_MS, None), &fork),
        seen(of("a log that displaces a rotation", twice.clone(), AFTER_NEXT, NOW_MS, None), &fork),
        seen(of("a log that displaces a revocation", twice.clone(), AFTER_NEXT, NOW_MS, None), &stolen),
        seen(of("a log that is displaced", fork.to_bytes(), NEXT, NOW_MS, None), &rotated_twice()),
        seen(of("the log that was seen", long.clone(), NEXT, NOW_MS, None), &rotated()),
        seen(of("a log older than what was seen", short.clone(), PUBLISHER, NOW_MS, None), &rotated()),
        of("no event", vec![], PUBLISHER, NOW_MS, Some("KeyLogError::Empty")),
        of("events exchanged", swapped, NEXT, NOW_MS, chain),
        of("an event left out", vec![revoked[0].clone(), revoked[2].clone()], NEXT, NOW_MS, chain),
        of("an event of a fork between", mixed, NEXT, NOW_MS, chain),
        of("a second event that was not committed to", uncommitted, STRANGER, NOW_MS, chain),
        of("a second event that does not repeat a key that the first committed to", unrepeated, NEXT, NOW_MS, chain),
        of(
            "an event that commits to one key",
            vec![short[0].clone(), one_digest],
            NEXT,
            NOW_MS,
            Some("KeyLogError::Event(ObjectError::Shape)"),
        ),
        of("a rotation older than the inception", backdated, NEXT, NOW_MS, chain),
        of("an overlap of more than 24 h", overlong, NEXT, NOW_MS, chain),
        of(
            "one bit changed",
            vec![flipped(&short[0])],
            PUBLISHER,
            NOW_MS,
            Some("KeyLogError::Event(ObjectError::Envelope(Sign1Error::Signature))"),
        ),
        of(
            "a grant as an event",
            vec![grant().bytes],
            PUBLISHER,
            NOW_MS,
            Some("KeyLogError::Event(ObjectError::WrongKind)"),
        ),
    ]
}

pub fn evidence() -> Vec<Case> {
    let of = |name: &str, bytes: Vec<u8>, error: Option<&'static str>| {
        let input = json!({ "evidence": hex(&bytes), "network": NETWORK, "agent": agent().to_string(),
            "node": hex(public(NODE).as_bytes()), "now_ms": NOW_MS, "publisher_seed": hex(&[PUBLISHER; 32]) });
        case(name, input, error)
    };
    let with = |grant: Vec<u8>| evidence_of(&log(), description().bytes, grant).encode();
    let grant_by = |signer: u8, node: u8, from, until| {
        let body = Grant::new(agent(), public(node), from, until);
        object::sign(body, NETWORK, "", &key(signer)).expect("a good grant").bytes
    };
    let (hour_ago, in_an_hour) = (NOW_MS - HOUR_MS, NOW_MS + HOUR_MS);
    let revoked = rotated().revoke(&key(AFTER_NEXT), NOW_MS).expect("a good revocation");
    let without = map(&[(0, array(&[bstr(&log().to_bytes()[0])])), (1, bstr(&description().bytes))]);
    let not_its_key = Some("EvidenceError::KeyLog(KeyLogError::NotItsKey)");
    let expired = grant_by(PUBLISHER, NODE, hour_ago, NOW_MS - 1);
    let early = grant_by(PUBLISHER, NODE, in_an_hour, in_an_hour);
    vec![
        of("key log, description and grant", support::evidence().encode(), None),
        of(
            "signed by the old key within its overlap",
            evidence_of(&rotated(), description().bytes, grant().bytes).encode(),
            None,
        ),
        of("no grant", without, Some("EvidenceError::Shape")),
        of("a grant that expired", with(expired), Some("EvidenceError::Grant(ObjectError::Expired)")),
        of("a grant not yet valid", with(early), Some("EvidenceError::Grant(ObjectError::NotYetValid)")),
        of(
            "a grant for another node",
            with(grant_by(PUBLISHER, STRANGER, hour_ago, in_an_hour)),
            Some("EvidenceError::Mismatch"),
        ),
        of("a grant by a stranger", with(grant_by(STRANGER, NODE, hour_ago, in_an_hour)), not_its_key),
        of("a grant by the node itself", with(grant_by(NODE, NODE, hour_ago, in_an_hour)), not_its_key),
        of("a membership as the grant", with(membership().bytes), Some("EvidenceError::Grant(ObjectError::WrongKind)")),
        of(
            "a revoked publisher",
            evidence_of(&revoked, description().bytes, grant().bytes).encode(),
            Some("EvidenceError::KeyLog(KeyLogError::Revoked)"),
        ),
        of(
            "a changed description",
            evidence_of(&log(), flipped(&description().bytes), grant().bytes).encode(),
            Some("EvidenceError::Description(ObjectError::Envelope(Sign1Error::Signature))"),
        ),
        of(
            "trailing bytes",
            [support::evidence().encode(), vec![0]].concat(),
            Some("EvidenceError::Cbor(CborError::TrailingBytes)"),
        ),
    ]
}
