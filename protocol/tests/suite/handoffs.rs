//! Handoffs (P-206) and the sign-offs of people under them (P-207).

use std::collections::BTreeSet;

use althing_protocol::contract::DataLabel;
use althing_protocol::limits::HANDOFF_SNAPSHOT_BYTES_MAX;
use althing_protocol::object::{
    self, AgentMemory, ApprovalError, AuditEntry, Authored, Handoff, HandoffArtifact, HandoffConstraints,
    HandoffContext, Regulation, SignOff, sign_off_statement,
};
use althing_protocol::sign_off::{self, SignOffError, SshSignature};
use althing_protocol::{Label, ObjectError, PublicKey};
use ed25519_dalek::Signer as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;
use crate::vector_cases::Case;
use crate::vector_objects::object_case;
use crate::vector_runner::hex;

const ID: [u8; 16] = [0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0xaa];
const DAY_MS: u64 = 24 * HOUR_MS;
/// What `ssh-keygen -Y sign -n althing-handoff` of OpenSSH 9.2 made of the statement that `approved` has it sign.
const BY_OPENSSH: &str = "-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg/RckOFqgx1tk+3jNYC+h2ZH96/
drE8WO1wLqyDXp9hgAAAAPYWx0aGluZy1oYW5kb2ZmAAAAAAAAAAZzaGE1MTIAAABTAAAA
C3NzaC1lZDI1NTE5AAAAQISRjcr0xZPCPG4ucZOUl/4bfEicfixRLPWkLYo3BXWc/VWlpC
PM6PqOQZUjASkvTNM5Og9ddlMtLOTnxvcpmQ8=
-----END SSH SIGNATURE-----
";
/// The key that made it, as a `.pub` file has it, and as `ssh-keygen -l` shows it.
const PUB: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP0XJDhaoMdbZPt4zWAvodmR/ev3axPFjtcC6sg16fYY ada@example.org";
const FINGERPRINT: &str = "SHA256:doxiASlJnKSD9j+JpVoWpfEFHjUrsF9ZYr+cir4FYjo";

fn one(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

/// With a bit of everything, and no sign-off.
fn body() -> Handoff {
    let mut body = Handoff::new(ID, TASK, (agent(), named("echo-2")), NOW_MS, NOW_MS + HOUR_MS);
    body.sender.session = Some([0x5e; 32]);
    body.context = HandoffContext {
        task_description: "Finish the index.".to_owned(),
        workspace_path: Some("/srv/index".to_owned()),
        state_snapshot: Some(b"page 7".to_vec()),
        agent_memory: AgentMemory {
            key_decisions: one("Sort by name."),
            discovered_pitfalls: one("Page 3 is empty."),
            pending_items: one("Pages 8 to 12."),
        },
        tools_required: one("files/read"),
        constraints: HandoffConstraints {
            max_turns: Some(20),
            deadline_ms: Some(NOW_MS + 2 * HOUR_MS),
            compliance_level: Some("internal-2".to_owned()),
        },
    };
    body.assumptions = one("Names do not change.");
    body.quality_checklist = one("Every page is listed.");
    body.artifacts = vec![HandoffArtifact {
        name: "index.csv".to_owned(),
        media_type: "text/csv".to_owned(),
        size: 2_048,
        digest: althing_protocol::digest(b"index"),
    }];
    body.label = Some(Label { level: DataLabel::Internal, trusted: true });
    body.previous = Some(althing_protocol::digest(b"the one before"));
    body.regulation = Some(Regulation {
        classification: DataLabel::Confidential,
        region: Some("eu".to_owned()),
        regulation_refs: one("R-1"),
        audit: vec![AuditEntry { event: "read".to_owned(), digest: althing_protocol::digest(b"a record") }],
        sign_offs: Vec::new(),
    });
    body
}

fn changed(change: impl FnOnce(&mut Handoff)) -> Handoff {
    let mut body = body();
    change(&mut body);
    body
}

fn with_sign_offs(sign_offs: Vec<SignOff>) -> Handoff {
    changed(|it| it.regulation.as_mut().expect("it is regulated").sign_offs = sign_offs)
}

/// The one that OpenSSH made, for whatever role.
fn signed_off(role: &str) -> SignOff {
    let signature = sign_off::unarmor(BY_OPENSSH).expect("a signature");
    SignOff { role: role.to_owned(), until_ms: NOW_MS + HOUR_MS, signature }
}

fn approved() -> Handoff {
    with_sign_offs(vec![signed_off("reviewer")])
}

pub fn handoff() -> Authored<Handoff> {
    object::sign(approved(), NETWORK, "", &key(NODE)).expect("a good handoff")
}

/// An SSH signature by PROTOCOL.sshsig, sharing no code with the crate.
fn ssh_signature(seed: u8, namespace: &str, hash: &str, message: &[u8]) -> Vec<u8> {
    use sha2::Digest as _;
    let string = |bytes: &[u8]| [&u32::try_from(bytes.len()).expect("short").to_be_bytes()[..], bytes].concat();
    let digest = match hash {
        "sha256" => sha2::Sha256::digest(message).to_vec(),
        _ => sha2::Sha512::digest(message).to_vec(),
    };
    let names = [string(namespace.as_bytes()), string(b""), string(hash.as_bytes())].concat();
    let signed = [b"SSHSIG".to_vec(), names.clone(), string(&digest)].concat();
    let signature = key(seed).signing_key().sign(&signed).to_bytes();
    let public = [string(b"ssh-ed25519"), string(public(seed).as_bytes())].concat();
    let signature = [string(b"ssh-ed25519"), string(&signature)].concat();
    [b"SSHSIG".to_vec(), 1u32.to_be_bytes().to_vec(), string(&public), names, string(&signature)].concat()
}

/// A sign-off of anyone.
fn by(seed: u8, body: &Handoff, until_ms: u64) -> SignOff {
    let message = sign_off_statement(&body.document(), "owner", until_ms);
    let signature = ssh_signature(seed, "althing-handoff", "sha512", message.as_bytes());
    SignOff { role: "owner".to_owned(), until_ms, signature }
}

/// What the vectors show of a handoff. The signer of a sign-off is null where it does not count.
pub fn shown(it: &Handoff, now_ms: u64) -> Value {
    let (context, document) = (&it.context, it.document());
    let memory = &context.agent_memory;
    let artifact = |it: &HandoffArtifact| json!({ "name": it.name, "media_type": it.media_type, "size": it.size, "digest": hex(&it.digest) });
    let sign_off = |it: &SignOff| {
        let signer = it.verify(&document, now_ms).ok().map(|key| hex(key.as_bytes()));
        json!({ "role": it.role, "until_ms": it.until_ms, "signer": signer })
    };
    let regulation = it.regulation.as_ref().map(|it| {
        let audit = it.audit.iter().map(|entry| json!({ "event": entry.event, "digest": hex(&entry.digest) }));
        json!({ "classification": it.classification, "region": it.region, "regulation_refs": it.regulation_refs,
            "audit": audit.collect::<Vec<_>>(), "sign_offs": it.sign_offs.iter().map(sign_off).collect::<Vec<_>>() })
    });
    json!({
        "handoff_id": hex(&it.handoff_id),
        "task_id": it.task_id,
        "sender": it.sender.agent.to_string(),
        "session": it.sender.session.map(|session| hex(&session)),
        "recipient": it.recipient.to_string(),
        "issued_at_ms": it.issued_at_ms,
        "not_after_ms": it.not_after_ms,
        "task_description": context.task_description,
        "workspace_path": context.workspace_path,
        "state_snapshot": context.state_snapshot.as_deref().map(hex),
        "key_decisions": memory.key_decisions,
        "discovered_pitfalls": memory.discovered_pitfalls,
        "pending_items": memory.pending_items,
        "tools_required": context.tools_required,
        "max_turns": context.constraints.max_turns,
        "deadline_ms": context.constraints.deadline_ms,
        "compliance_level": context.constraints.compliance_level,
        "assumptions": it.assumptions,
        "quality_checklist": it.quality_checklist,
        "artifacts": it.artifacts.iter().map(artifact).collect::<Vec<_>>(),
        "label": it.label,
        "previous": it.previous.map(|digest| hex(&digest)),
        "regulation": regulation,
        "document": hex(&document),
    })
}

/// The payload of a handoff with nothing but what it must have; `change` replaces or adds members.
fn by_hand(change: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let none = || array(&[]);
    let context = map(&[(0, tstr("")), (3, map(&[(0, none()), (1, none()), (2, none())])), (4, none()), (5, map(&[]))]);
    let mut members = vec![
        (0, uint(21)),
        (1, bstr(&ID)),
        (2, tstr(TASK)),
        (3, map(&[(0, tstr(&agent().to_string()))])),
        (4, tstr(&named("echo-2").to_string())),
        (5, uint(NOW_MS)),
        (6, uint(NOW_MS + DAY_MS)),
        (7, context),
        (8, none()),
        (9, none()),
        (10, none()),
    ];
    for (at, value) in change {
        match members.iter_mut().find(|(member, _)| member == at) {
            Some(member) => member.1.clone_from(value),
            None => members.push((*at, value.clone())),
        }
    }
    map(&members)
}

fn sealed(payload: &[u8], network: &str) -> Vec<u8> {
    cose(payload, &object_aad("althing/handoff/1", network, ""), &key(NODE))
}

pub fn vectors() -> Vec<Case> {
    let of = |name: &str, bytes: &[u8], now_ms, error| object_case(name, "handoff", bytes, now_ms, error);
    let hand = |change: &[(u64, Vec<u8>)]| sealed(&by_hand(change), NETWORK);
    let renamed = object::sign(with_sign_offs(vec![signed_off("owner")]), NETWORK, "", &key(NODE)).expect("a shape");
    let texts = |count: usize, text: &str| array(&vec![tstr(text); count]);
    let old = [&ID[..6], &[0x40], &ID[7..]].concat();
    let sign_off = map(&[(0, tstr("reviewer\nuntil: 9")), (1, uint(NOW_MS)), (2, bstr(&[1]))]);
    let two_lines = map(&[(0, uint(0)), (2, array(&[])), (3, array(&[])), (4, array(&[sign_off]))]);
    let shape = Some("ObjectError::Shape");
    let (last, late) = (NOW_MS + DAY_MS, Some("ObjectError::Expired"));
    let signature = Some("ObjectError::Envelope(Sign1Error::Signature)");
    vec![
        of("a handoff of regulated work, signed off", &handoff().bytes, NOW_MS, None),
        of("a handoff whose sign-off was made for another role", &renamed.bytes, NOW_MS, None),
        of("a handoff with nothing but what it must have, for 24 h", &hand(&[]), last, None),
        of("a handoff that expired", &hand(&[]), last + 1, late),
        of("a handoff of a clock that is ahead", &hand(&[]), NOW_MS - 120_001, Some("ObjectError::NotYetValid")),
        of("a handoff for more than 24 h", &hand(&[(6, uint(last + 1))]), NOW_MS, Some("ObjectError::LivesTooLong")),
        of("a handoff whose id is of version 4", &hand(&[(1, bstr(&old))]), NOW_MS, shape),
        of("a handoff of no task", &hand(&[(2, tstr(""))]), NOW_MS, shape),
        of("a handoff with 64 assumptions", &hand(&[(8, texts(64, "a"))]), NOW_MS, None),
        of("a handoff with 65 assumptions", &hand(&[(8, texts(65, "a"))]), NOW_MS, shape),
        of("a handoff whose checklist has an empty line", &hand(&[(9, texts(1, ""))]), NOW_MS, shape),
        of("a handoff with a sign-off of two lines", &hand(&[(13, two_lines)]), NOW_MS, shape),
        of("a handoff in another network", &sealed(&by_hand(&[]), "othernet"), NOW_MS, signature),
        of("a move as a handoff", &task_move().bytes, NOW_MS, Some("ObjectError::WrongKind")),
    ]
}

#[test]
fn a_handoff_has_what_it_must_have_and_nothing_that_nobody_knows() {
    // P-206, P-18
    let opened = |change: &[(u64, Vec<u8>)]| {
        object::open::<Handoff>(&sealed(&by_hand(change), NETWORK), NETWORK, "").map(|it| it.body)
    };
    let minimal = opened(&[]).expect("it is one");
    assert_eq!(minimal, Handoff::new(ID, TASK, (agent(), named("echo-2")), NOW_MS, NOW_MS + DAY_MS));
    assert_eq!(minimal.missing(), ["context.task_description", "quality_checklist"]);
    assert_eq!(approved().missing(), [""; 0]);
    let regulated = Regulation {
        classification: DataLabel::Public,
        region: None,
        regulation_refs: Vec::new(),
        audit: Vec::new(),
        sign_offs: Vec::new(),
    };
    let unfilled = changed(|it| it.regulation = Some(regulated));
    assert_eq!(unfilled.missing(), ["audit", "region", "regulation_refs"]);
    for (at, value) in [
        (0, uint(20)),
        (1, bstr(&ID[..15])),
        (2, tstr(&"t".repeat(257))),
        (4, tstr("echo")),
        (6, uint(NOW_MS - 1)),
        (11, map(&[(0, uint(4)), (1, vec![0xf5])])),
        (12, bstr(&[0; 31])),
        (14, uint(0)),
    ] {
        assert!(opened(&[(at, value)]).is_err(), "member {at}");
    }
    let mut large = body();
    large.context.state_snapshot = Some(vec![0; HANDOFF_SNAPSHOT_BYTES_MAX]);
    assert!(object::sign(large.clone(), NETWORK, "", &key(NODE)).is_ok());
    large.context.state_snapshot = Some(vec![0; HANDOFF_SNAPSHOT_BYTES_MAX + 1]);
    assert!(matches!(object::sign(large, NETWORK, "", &key(NODE)), Err(ObjectError::Shape(_))));
}

#[test]
fn a_view_with_the_signature_is_the_signed_handoff_again() {
    // P-206
    let signed = handoff();
    let again =
        |body: Handoff, network: &str, signer: PublicKey| body.with_signature(network, &signer, &signed.signature());
    assert_eq!(again(signed.body.clone(), NETWORK, public(NODE)).as_ref(), Ok(&signed));
    assert!(again(signed.body.clone(), "othernet", public(NODE)).is_err(), "of another network");
    assert!(again(signed.body.clone(), NETWORK, public(STRANGER)).is_err(), "of another signer");
    let mut other = signed.body.clone();
    other.assumptions.push("All is well.".to_owned());
    assert!(again(other.clone(), NETWORK, public(NODE)).is_err(), "of other words");
    // Put together once, and verified as that.
    let envelope = signed.body.envelope(&public(NODE), &signed.signature());
    assert_eq!(envelope, signed.bytes);
    assert_eq!(signed.body.clone().verified(envelope.clone(), NETWORK).as_ref(), Ok(&signed));
    assert!(matches!(other.verified(envelope, NETWORK), Err(ObjectError::Shape(_))), "another one's envelope");
    let mut large = body();
    large.context.state_snapshot = Some(vec![7; HANDOFF_SNAPSHOT_BYTES_MAX]);
    let large = object::sign(large, NETWORK, "", &key(NODE)).expect("a shape");
    let again = large.body.clone().with_signature(NETWORK, &public(NODE), &large.signature());
    assert_eq!(again.as_ref(), Ok(&large));
    assert_eq!(object::open::<Handoff>(&large.bytes, NETWORK, ""), Ok(large), "it is the same one when it is read");
}

#[test]
fn the_document_is_the_payload_without_sign_offs_however_it_is_hashed() {
    // P-207
    for mut body in [body(), approved(), with_sign_offs(vec![signed_off("owner")])] {
        let document = body.document();
        if let Some(regulation) = &mut body.regulation {
            regulation.sign_offs.clear();
        }
        assert_eq!(document, althing_protocol::digest(&minicbor::to_vec(&body).expect("it encodes")));
    }
}

#[test]
fn what_openssh_signed_is_read_and_verified() {
    // P-207
    let blob = sign_off::unarmor(BY_OPENSSH).expect("text of OpenSSH");
    assert_eq!(sign_off::armor(&blob), BY_OPENSSH);
    let statement = sign_off_statement(&body().document(), "reviewer", NOW_MS + HOUR_MS);
    assert_eq!(ssh_signature(STRANGER, "althing-handoff", "sha512", statement.as_bytes()), blob);
    let signer = signed_off("reviewer").verify(&body().document(), NOW_MS);
    assert_eq!(signer, Ok(public(STRANGER)));
    assert_eq!(sign_off::public_key(PUB), Ok(public(STRANGER)));
    assert_eq!(sign_off::fingerprint(&public(STRANGER)), FINGERPRINT);
    for line in ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIP0XJDhaoMdbZPt4zWAvodmR"] {
        assert!(sign_off::public_key(line).is_err(), "{line:?}");
    }
    let sha256 = ssh_signature(STRANGER, "althing-handoff", "sha256", b"text");
    assert!(SshSignature::read(&sha256).expect("a signature").verifies(b"text"));
    assert!(!SshSignature::read(&sha256).expect("a signature").verifies(b"other"));
}

#[test]
fn a_sign_off_is_for_one_document_role_and_end() {
    // P-207
    let document = body().document();
    let good = signed_off("reviewer");
    let refused = |sign_off: &SignOff| sign_off.verify(&document, NOW_MS);
    assert_eq!(refused(&signed_off("owner")), Err(SignOffError::Signature));
    assert_eq!(refused(&SignOff { until_ms: NOW_MS + HOUR_MS + 1, ..good.clone() }), Err(SignOffError::Signature));
    assert_eq!(good.verify(&[0; 32], NOW_MS), Err(SignOffError::Signature));
    assert_eq!(good.verify(&document, NOW_MS + HOUR_MS), Ok(public(STRANGER)), "in its last millisecond");
    assert_eq!(good.verify(&document, NOW_MS + HOUR_MS + 7), Err(SignOffError::Expired { ago_ms: 7 }));
    // Sign-offs are no part of what is signed off; all the rest is.
    assert_eq!(approved().document(), document);
    assert_ne!(changed(|it| it.task_id = "t".to_owned()).document(), document);

    let with = |signature: Vec<u8>| SignOff { signature, ..good.clone() }.verify(&document, NOW_MS);
    let message = sign_off_statement(&document, "reviewer", NOW_MS + HOUR_MS);
    let other_use = ssh_signature(STRANGER, "file", "sha512", message.as_bytes());
    assert_eq!(with(other_use), Err(SignOffError::Namespace("file".to_owned())));
    let other_hash = ssh_signature(STRANGER, "althing-handoff", "md5", message.as_bytes());
    assert_eq!(with(other_hash), Err(SignOffError::Hash("md5".to_owned())));
    let at = good.signature.windows(11).position(|name| name == b"ssh-ed25519").expect("it is named");
    let mut other_kind = good.signature.clone();
    other_kind[at + 10] = b'8';
    assert_eq!(with(other_kind), Err(SignOffError::Algorithm("ssh-ed25518".to_owned())));
    assert_eq!(with([good.signature.clone(), vec![0]].concat()), Err(SignOffError::Shape), "something comes after it");
    assert_eq!(sign_off::unarmor("no signature"), Err(SignOffError::Armor));
    assert_eq!(sign_off::unarmor(&BY_OPENSSH.replace("U1NI", "U1N!")), Err(SignOffError::Armor));
    assert_eq!(sign_off::unarmor(&"x".repeat(1 << 20)), Err(SignOffError::Armor));
}

#[test]
fn confidential_and_restricted_work_needs_a_sign_off_that_counts() {
    // P-207
    let may: BTreeSet<PublicKey> = [public(STRANGER)].into();
    let missing = |level| Err(ApprovalError::Missing { level });
    let check = |body: &Handoff, now_ms| body.check_approval(None, &may, now_ms);
    assert_eq!(check(&approved(), NOW_MS), Ok(()));
    assert_eq!(check(&body(), NOW_MS), missing(DataLabel::Confidential));
    assert_eq!(check(&approved(), NOW_MS + 2 * HOUR_MS), missing(DataLabel::Confidential), "it is over");
    let nobody = approved().check_approval(None, &BTreeSet::new(), NOW_MS);
    assert_eq!(nobody, missing(DataLabel::Confidential), "a good signature of somebody who may not");
    let owned = with_sign_offs(vec![by(FIFTH, &body(), NOW_MS)]);
    assert_eq!(check(&owned, NOW_MS), missing(DataLabel::Confidential));
    let both = with_sign_offs(vec![by(FIFTH, &body(), NOW_MS), signed_off("reviewer")]);
    assert_eq!(check(&both, NOW_MS), Ok(()));
    let false_one = with_sign_offs(vec![signed_off("reviewer"), signed_off("owner")]);
    let refused = ApprovalError::Signature { role: "owner".to_owned(), reason: SignOffError::Signature };
    assert_eq!(check(&false_one, NOW_MS), Err(refused));

    // Label, classification and the call that carries it: the strictest counts.
    let label = |level| Some(Label { level, trusted: true });
    let mut plain = changed(|it| it.regulation = None);
    assert_eq!(plain.level(None), Some(DataLabel::Internal));
    assert_eq!(plain.check_approval(None, &may, NOW_MS), Ok(()));
    let carried = plain.check_approval(label(DataLabel::Restricted), &may, NOW_MS);
    assert_eq!(carried, missing(DataLabel::Restricted));
    plain.label = label(DataLabel::Confidential);
    assert_eq!(check(&plain, NOW_MS), missing(DataLabel::Confidential));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn no_bytes_make_the_reader_of_sign_offs_panic(
        noise in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        // P-207: what is read encodes to itself, and one changed byte never verifies.
        let _ = SshSignature::read(&noise);
        let good = signed_off("reviewer");
        let mut changed = good.clone();
        let at = at.index(changed.signature.len());
        changed.signature[at] = byte;
        let verified = changed.verify(&body().document(), NOW_MS);
        prop_assert_eq!(verified.is_ok(), changed == good, "byte {}", at);
    }
}
