//! Reads one vector's input and says what this implementation makes of it. It knows the JSON alone: what another
//! implementation writes to run the vectors.

use althing_protocol::binding::Binding;
use althing_protocol::keylog::{KeyEvent, Relation};
use althing_protocol::object::{
    self, Description, Grant, Handoff, HandoffAnswer, Membership, Placement, Statement, TaskMove,
};
use althing_protocol::stream::Challenge;
use althing_protocol::{
    AgentId, Authored, CallerId, Evidence, Frame, FrameKind, FrameOpener, Hello, IdentityError, KeyLog, ObjectError,
    PublicKey, PublisherId, SecretKey, StreamBinding, cbor,
};
use serde_json::{Value, json};

use crate::names::Name;

/// What was decoded, or the name of the reason to refuse.
pub type Outcome = Result<Value, String>;

pub fn run(what: &str, input: &Value) -> Outcome {
    match what {
        "cbor" => cbor(input),
        "identity" => identity(input).map_err(|error| error.name()),
        "hello" => hello(input),
        "frames" => frames(input),
        "objects" => objects(input),
        "keylogs" => keylogs(input),
        "evidence" => evidence(input),
        "records" => crate::records::run(input),
        "keyring" => crate::keyring::run(input),
        "groups" => crate::groups::run(input),
        "equivocation" => crate::group_equivocation::run(input),
        "registry" => crate::registry_evidence_vectors::run(input),
        "audit" => crate::audit::run(input),
        other => panic!("no vectors are called {other}"),
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "hex has two digits a byte");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits")).collect()
}

pub fn text<'a>(input: &'a Value, member: &str) -> &'a str {
    input[member].as_str().unwrap_or_else(|| panic!("text in {member}: {input}"))
}

pub fn bytes(input: &Value, member: &str) -> Vec<u8> {
    unhex(text(input, member))
}

pub fn list(input: &Value, member: &str) -> Vec<Vec<u8>> {
    let list = input[member].as_array().unwrap_or_else(|| panic!("a list in {member}: {input}"));
    list.iter().map(|item| unhex(item.as_str().expect("hex"))).collect()
}

pub fn number(input: &Value, member: &str) -> u64 {
    input[member].as_u64().unwrap_or_else(|| panic!("a number in {member}: {input}"))
}

fn thirty_two(input: &Value, member: &str) -> [u8; 32] {
    bytes(input, member).try_into().expect("32 bytes")
}

fn key(input: &Value, member: &str) -> PublicKey {
    PublicKey::from_bytes(thirty_two(input, member)).expect("a vector's context holds good keys")
}

fn cbor(input: &Value) -> Outcome {
    let max = usize::try_from(number(input, "max_bytes")).expect("a small number");
    cbor::check(&bytes(input, "bytes"), max).map(|()| json!({})).map_err(|error| error.name())
}

fn identity(input: &Value) -> Result<Value, IdentityError> {
    let key = match text(input, "form") {
        "seed" => SecretKey::from_seed(&thirty_two(input, "seed")).public(),
        "public_key" => PublicKey::from_bytes(thirty_two(input, "public_key"))?,
        "did" => PublicKey::from_did(text(input, "text"))?,
        "peer_id" => PublicKey::from_peer_id(text(input, "text"))?,
        "agent" => {
            let agent: AgentId = text(input, "text").parse()?;
            let (publisher, digest) = (agent.publisher(), hex(agent.publisher().as_bytes()));
            return Ok(json!({ "publisher": publisher.to_string(), "digest": digest, "name": agent.name() }));
        }
        "publisher" => {
            let publisher: PublisherId = text(input, "text").parse()?;
            return Ok(json!({ "digest": hex(publisher.as_bytes()) }));
        }
        "digest" => {
            let publisher = PublisherId::from_digest(thirty_two(input, "digest"));
            return Ok(json!({ "publisher": publisher.to_string() }));
        }
        "caller" => {
            return Ok(match text(input, "text").parse()? {
                CallerId::Node(node) => json!({ "node": hex(node.as_bytes()) }),
                CallerId::Publisher(publisher) => json!({ "publisher": hex(publisher.as_bytes()) }),
            });
        }
        other => panic!("no identity is called {other}"),
    };
    Ok(json!({ "public_key": hex(key.as_bytes()), "did": key.did(), "peer_id": key.peer_id() }))
}

fn hello(input: &Value) -> Outcome {
    let hello = Hello::decode(&bytes(input, "bytes"), text(input, "network")).map_err(|error| error.name())?;
    Ok(json!({
        "version": hello.version,
        "challenge": hex(&hello.challenge),
        "network": hello.network,
        "owner": hello.owner.map(|owner| json!({ "membership": hex(&owner.membership), "inception": hex(&owner.inception) })),
    }))
}

pub fn binding(stream: &Value) -> StreamBinding {
    StreamBinding {
        network: text(stream, "network").to_owned(),
        protocol: text(stream, "protocol").to_owned(),
        opener: key(stream, "opener"),
        acceptor: key(stream, "acceptor"),
        opener_challenge: Challenge::from(thirty_two(stream, "opener_challenge")),
        acceptor_challenge: Challenge::from(thirty_two(stream, "acceptor_challenge")),
    }
}

fn frames(input: &Value) -> Outcome {
    let binding = binding(&input["stream"]);
    let (sender, receiver) = match text(input, "receiver") {
        "acceptor" => (binding.opener, binding.acceptor),
        "opener" => (binding.acceptor, binding.opener),
        other => panic!("no side is called {other}"),
    };
    assert_eq!(hex(&binding.aad(sender)), text(input, "external_aad"), "the context is derived, not given");
    assert_eq!(hex(&binding.id()), text(input, "stream_id"));
    let mut opener = FrameOpener::new(&binding, receiver);
    for earlier in list(input, "accepted_before") {
        opener.open(&earlier).expect("the frames before are good");
    }
    opener.open(&bytes(input, "frame")).map(|frame| shown(&frame)).map_err(|error| error.name())
}

fn shown(frame: &Frame) -> Value {
    let kind = match frame.kind {
        FrameKind::Request => "request",
        FrameKind::Response => "response",
        FrameKind::Event => "event",
        FrameKind::End => "end",
        FrameKind::Error => "error",
        FrameKind::Cancel => "cancel",
    };
    let mut shown = json!({
        "kind": kind,
        "operation": frame.operation,
        "agent": frame.agent.as_ref().map(ToString::to_string),
        "deadline_ms": frame.deadline_ms,
        "traceparent": frame.traceparent,
        "tracestate": frame.tracestate,
        "principals": frame.principals,
        "extensions": frame.extensions,
        "body": hex(&frame.body),
    });
    // Only those that are there, as the vectors of before they were have none.
    let hexed = |bytes: &[u8]| json!(hex(bytes));
    let attributes = [
        ("label", frame.label.map(|label| json!(label))),
        ("session", frame.session.map(|session| hexed(&session))),
        ("delegation", frame.delegation.as_deref().map(hexed)),
    ];
    for (name, value) in attributes {
        if let Some(value) = value {
            shown[name] = value;
        }
    }
    shown
}

fn objects(input: &Value) -> Outcome {
    let now_ms = number(input, "now_ms");
    match text(input, "kind") {
        "description" => object::<Description>(
            input,
            |_| Ok(()),
            |it| {
                json!({ "agent": it.agent.to_string(), "sequence": it.sequence, "issued_at_ms": it.issued_at_ms,
                "td": hex(&it.td) })
            },
        ),
        "grant" => object::<Grant>(
            input,
            |it| it.body.in_force(now_ms),
            |it| {
                json!({ "agent": it.agent.to_string(), "node": hex(it.node.as_bytes()),
                "not_before_ms": it.not_before_ms, "not_after_ms": it.not_after_ms })
            },
        ),
        "membership" => object::<Membership>(
            input,
            |it| it.body.in_force(now_ms),
            |it| {
                json!({ "owner": it.owner.to_string(), "node": hex(it.node.as_bytes()),
                "not_before_ms": it.not_before_ms, "not_after_ms": it.not_after_ms })
            },
        ),
        "binding" => object::<Binding>(
            input,
            |it| it.sealed().map(drop),
            |it| {
                let manifest: Value = serde_json::from_slice(&it.manifest).expect("it was read");
                json!({ "node": hex(it.node.as_bytes()), "bound_at_ms": it.bound_at_ms, "manifest": manifest,
                    "hash": hex(&althing_protocol::digest(&it.manifest)), "core": it.core,
                    "proof": it.proof.map(|proof| hex(&proof)) })
            },
        ),
        "placement" => object::<Placement>(input, |it| it.believable(now_ms), placement),
        "task move" => object::<TaskMove>(
            input,
            |_| Ok(()),
            |it| {
                json!({ "agent": it.agent.to_string(), "task": it.task, "to": hex(it.to.as_bytes()),
                "fence": it.fence, "contents": hex(&it.contents) })
            },
        ),
        "handoff" => object::<Handoff>(input, |it| it.body.in_force(now_ms), |it| crate::handoffs::shown(it, now_ms)),
        "handoff answer" => object::<HandoffAnswer>(input, |_| Ok(()), crate::handoff_answers::shown),
        "key event" => object::<KeyEvent>(
            input,
            |_| Ok(()),
            |it| {
                json!({ "change": it.change as u8 + 1, "sequence": it.sequence, "previous": it.previous.map(|it| hex(&it)),
                "key": hex(it.key.as_bytes()), "next": it.next.map(|it| [hex(&it.first), hex(&it.second)]),
                "issued_at_ms": it.issued_at_ms,
                "previous_until_ms": it.previous_until_ms })
            },
        ),
        other => panic!("no object is called {other}"),
    }
}

fn object<T: Statement>(
    input: &Value,
    in_time: impl Fn(&Authored<T>) -> Result<(), ObjectError>,
    show: impl Fn(&T) -> Value,
) -> Outcome {
    let read = || {
        let object = object::open::<T>(&bytes(input, "object"), text(input, "network"), text(input, "scope"))?;
        in_time(&object)?;
        Ok(object)
    };
    let object = read().map_err(|error: ObjectError| error.name())?;
    let (signer, digest) = (hex(object.signer.as_bytes()), hex(&object.digest()));
    Ok(json!({ "signer": signer, "digest": digest, "body": show(&object.body) }))
}

fn placement(it: &Placement) -> Value {
    let agents = it.agents.iter().map(|hosted| {
        json!({ "agent": hosted.agent.to_string(), "description": hex(&hosted.description), "grant": hex(&hosted.grant) })
    });
    json!({ "node": hex(it.node.as_bytes()), "sequence": it.sequence, "issued_at_ms": it.issued_at_ms,
        "ttl_ms": it.ttl_ms, "load_permille": it.load_permille, "health": it.health as u8,
        "agents": agents.collect::<Vec<_>>(),
        "loads": it.loads.as_ref().map(|loads| loads.iter()
            .map(|load| json!({ "class": load.latency.name(), "turns": load.turns })).collect::<Vec<_>>()),
        "successes": it.successes,
        "machine": it.machine.map(|machine| json!({ "grade": machine.grade, "cores": machine.cores,
            "memory_mib": machine.memory_mib, "promised_permille": machine.promised_permille })) })
}

fn keylogs(input: &Value) -> Outcome {
    let verified = KeyLog::verify(&list(input, "events")).and_then(|log| {
        log.accepts(key(input, "key"), number(input, "now_ms"))?;
        Ok(log)
    });
    let log = verified.map_err(|error| error.name())?;
    let mut shown = json!({ "publisher": log.publisher().to_string(), "events": log.len() });
    if input.get("seen").is_some() {
        let seen = KeyLog::verify(&list(input, "seen")).expect("what was seen is good");
        shown["relation_to_seen"] = relation(log.relation(&seen)).into();
    }
    Ok(shown)
}

fn relation(relation: Relation) -> &'static str {
    match relation {
        Relation::Same => "same",
        Relation::Continues => "continues",
        Relation::IsContinued => "is continued",
        Relation::Displaces => "displaces",
        Relation::IsDisplaced => "is displaced",
        Relation::Contradicts => "contradicts",
    }
}

fn evidence(input: &Value) -> Outcome {
    let agent: AgentId = text(input, "agent").parse().expect("a vector's context holds a good agent");
    let verified = Evidence::decode(&bytes(input, "evidence"))
        .and_then(|it| it.verify(text(input, "network"), &agent, key(input, "node"), number(input, "now_ms")))
        .map_err(|error| error.name())?;
    let (description, grant) = verified.digests();
    Ok(json!({ "description": hex(&description), "grant": hex(&grant), "sequence": verified.description.body.sequence,
        "td": hex(&verified.description.body.td), "not_after_ms": verified.grant.body.not_after_ms }))
}
