//! The vectors of what a registry is sent and what it shows, and the file with all vectors of registries.

use althing_protocol::registry::{
    BundleFiles, Domain, DomainFinding, Logged, Mark, NameEvidence, Presence, Receipt, ReleaseEvidence, SignIn,
    Standing, Submission,
};
use althing_protocol::tlog::NoteKey;
use serde_json::{Value, json};

use crate::names::Name as _;
use crate::registry::*;
use crate::registry_evidence::*;
use crate::registry_log::*;
use crate::support::*;
use crate::vector_cases::{Case, case};
use crate::vector_runner::{Outcome, bytes, hex, number, text};
use crate::{registry_log_vectors, registry_vectors};

/// All vectors of the file.
pub fn all() -> Vec<Case> {
    [registry_vectors::vectors(), registry_log_vectors::vectors(), vectors()].into_iter().flatten().collect()
}

pub fn vectors() -> Vec<Case> {
    [evidence(), submissions(), receipts(), bundles(), sign_ins(), names(), findings(), presences()]
        .into_iter()
        .flatten()
        .collect()
}

fn registry_key() -> String {
    note_key(ORIGIN, 1, REGISTRY)
}

fn evidence() -> Vec<Case> {
    let of = |name: &str, bytes: Vec<u8>, error: Option<&'static str>| {
        let input = json!({ "document": "evidence", "bytes": hex(&bytes), "network": NETWORK, "key": registry_key(),
            "agent": agent().to_string(), "version": "1.2.3", "publisher_seed": hex(&[PUBLISHER; 32]),
            "registry_seed": hex(&[REGISTRY; 32]) });
        case(name, input, error)
    };
    let told = registry();
    let good = Parts::of(&told);
    let mut lifted = told.clone();
    lifted.0.push(Told(16, NOW_MS + 9, mark(Standing::Good, NOW_MS + 9).bytes));
    let mut forged = told.clone();
    let by_stranger = Mark::new(agent(), version("1.2.3"), Standing::Revoked, "", NOW_MS);
    forged.0.push(Told(16, NOW_MS + 9, signed(by_stranger, &key(STRANGER)).bytes));
    let (mismatch, first) = (Some("ReleaseError::Mismatch"), good.release.clone());
    let strangers = Parts { log: events(&approver()), ..good.clone() };
    let another = Parts { description: crate::support::placement().bytes, ..good.clone() };
    let other_description = {
        let body = althing_protocol::object::Description::new(agent(), 8, NOW_MS, b"{}".to_vec());
        Parts { description: signed(body, &key(PUBLISHER)).bytes, ..good.clone() }
    };
    let relabelled = Parts { marks: vec![first], ..good.clone() };
    let later =
        Parts { release: logged_with(&release().bytes, NOW_MS + 1, &proof_of(&told.entries(), 1)), ..good.clone() };
    let then = Parts { release: told.logged_then(1), ..Parts::marked(&told, &[2]) };
    let unapproved = Parts { approvals: vec![], ..Parts::approved(&told) };
    let many = Parts { marks: vec![told.logged(2); 33], ..good.clone() };
    let tree = Some("ReleaseError::Proof(LogProofError::Tree(TreeError::Root))");
    vec![
        of("evidence of a release", good.bytes(), None),
        of("evidence of a deprecated release", Parts::marked(&told, &[2]).bytes(), None),
        of("evidence of a revoked release", Parts::marked(&told, &[2, 3]).bytes(), None),
        of("evidence of a revocation with a mark after it", Parts::marked(&lifted, &[3, 7]).bytes(), None),
        of("evidence of a release that two approve", Parts::approved(&told).bytes(), None),
        of("evidence of a release that too few approve", unapproved.bytes(), Some("ReleaseError::NotApproved")),
        of(
            "evidence with a mark by a stranger",
            Parts::marked(&forged, &[7]).bytes(),
            Some("ReleaseError::KeyLog(KeyLogError::NotItsKey)"),
        ),
        of("evidence with another publisher's key log", strangers.bytes(), mismatch),
        of("evidence with another description", other_description.bytes(), mismatch),
        of(
            "evidence with a placement as description",
            another.bytes(),
            Some("ReleaseError::Object(ObjectError::WrongKind)"),
        ),
        of("evidence with a release as mark", relabelled.bytes(), tree),
        of("evidence with another time than the log has", later.bytes(), tree),
        of("evidence under two checkpoints", then.bytes(), Some("ReleaseError::Checkpoints")),
        of("evidence with marks out of order", Parts::marked(&told, &[3, 2]).bytes(), Some("ReleaseError::Order")),
        of("evidence with a mark twice", Parts::marked(&told, &[2, 2]).bytes(), Some("ReleaseError::Order")),
        of("evidence with 33 marks", many.bytes(), Some("ReleaseError::Shape")),
        of(
            "evidence without a key log",
            Parts { log: array(&[]), ..good.clone() }.bytes(),
            Some("ReleaseError::KeyLog(KeyLogError::Empty)"),
        ),
        of("evidence without its end", good.bytes()[..99].to_vec(), Some("ReleaseError::Cbor(CborError::Truncated)")),
    ]
}

fn submissions() -> Vec<Case> {
    let of = |name: &str, bytes: &[u8], error: Option<&'static str>| {
        case(name, json!({ "document": "submission", "bytes": hex(bytes) }), error)
    };
    let shape = Some("SubmissionError::Shape");
    let one = submission(1, 1);
    let more = map(&[(0, array(&[])), (1, array(&[])), (2, array(&[])), (3, uint(0))]);
    vec![
        of("a submission", &one, None),
        of("a submission of 16 statements", &submission(16, 16), None),
        of("a submission of 17 statements", &submission(17, 1), shape),
        of("a submission with 17 descriptions", &submission(1, 17), shape),
        of("a submission with an unknown member", &more, shape),
        of(
            "a submission and a byte",
            &[&one[..], &[0]].concat(),
            Some("SubmissionError::Cbor(CborError::TrailingBytes)"),
        ),
    ]
}

fn receipts() -> Vec<Case> {
    let of = |name: &str, bytes: &[u8], error: Option<&'static str>| {
        case(name, json!({ "document": "receipt", "bytes": hex(bytes) }), error)
    };
    let shape = Some("SubmissionError::Shape");
    let logged = registry().logged(1);
    let receipt = |count: usize| map(&[(0, array(&vec![logged.clone(); count]))]);
    let small = logged_with(b"s", 1, "p");
    let with_more = map(&[(0, array(&[[&[0xa4], &small[1..], &[0x03, 0x00]].concat()]))]);
    vec![
        of("a receipt", &receipt(1), None),
        of("a receipt of nothing", &receipt(0), None),
        of("a receipt of 16 statements and a key event", &receipt(17), None),
        of("a receipt of 18 statements", &receipt(18), shape),
        of("a receipt with an unknown member", &map(&[(0, array(&[])), (1, uint(0))]), shape),
        of("a receipt of a statement with an unknown member", &with_more, shape),
    ]
}

fn bundles() -> Vec<Case> {
    let of = |name: &str, bytes: &[u8], error: Option<&'static str>| {
        case(name, json!({ "document": "bundle", "bytes": hex(bytes) }), error)
    };
    let with = |paths: &[&str]| {
        let files: Vec<(&str, &[u8])> = paths.iter().map(|path| (*path, &b"x"[..])).collect();
        map(&[(0, tstr("name: echo\n")), (1, map_of_files(&files))])
    };
    let path = Some("BundleError::Path");
    let many: Vec<String> = (0..257).map(|index| format!("{index:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut cases = vec![
        of("a bundle", &bundle(), None),
        of("a bundle without files", &with(&[]), None),
        of("a bundle with a file in a folder", &with(&["models/small/weights.bin"]), None),
        of("a bundle with a name of another script", &with(&["modèle"]), None),
        of("a bundle of 256 files", &with(&many[..256]), None),
        of("a bundle of 257 files", &with(&many), Some("BundleError::TooMany")),
        of("a bundle with a path of 256 bytes", &with(&[&"p".repeat(256)]), None),
        of("a bundle with a path of 257 bytes", &with(&[&"p".repeat(257)]), path),
        of(
            "a bundle with an unknown member",
            &map(&[(0, tstr("")), (1, map(&[])), (2, uint(0))]),
            Some("BundleError::Shape"),
        ),
        of("a bundle with files out of order", &with(&["b", "a"]), Some("BundleError::Cbor(CborError::Unsorted)")),
        of("a bundle with a file twice", &with(&["a", "a"]), Some("BundleError::Cbor(CborError::Duplicate)")),
    ];
    for (name, bad) in [
        ("an absolute path", "/etc/passwd"),
        ("a path out of the folder", "../up"),
        ("a path out of a folder and back", "a/../b"),
        ("a path with an empty part", "a//b"),
        ("a path that begins here", "./a"),
        ("a path that ends with a slash", "a/"),
        ("a backslash", "a\\b"),
        ("a drive", "c:a"),
        ("a control character", "a\u{7f}"),
        ("no path", ""),
    ] {
        cases.push(of(&format!("a bundle with {name}"), &with(&[bad]), path));
    }
    cases
}

fn sign_ins() -> Vec<Case> {
    let of = |name: &str, visit: &[u8], now_ms: u64, error: Option<&'static str>| {
        let input = json!({ "document": "sign-in", "bytes": hex(&sign_in(visit)), "network": NETWORK,
            "key": registry_key(), "now_ms": now_ms });
        case(name, input, error)
    };
    let (here, elsewhere, end) = (registry_key(), note_key("other.example/log", 1, REGISTRY), NOW_MS + 300_000);
    let good = visit(&here, PUBLISHER, end);
    let signature = Some("SignInError::Visit(ObjectError::Envelope(Sign1Error::Signature))");
    vec![
        of("a visit", &good, NOW_MS, None),
        of("a visit in its last millisecond", &good, end, None),
        of("a visit that is over", &good, end + 1, Some("SignInError::Visit(ObjectError::Expired)")),
        of(
            "a visit of more than five minutes",
            &visit(&here, PUBLISHER, end + 1),
            NOW_MS,
            Some("SignInError::Visit(ObjectError::LivesTooLong)"),
        ),
        of("a visit at another registry", &visit(&elsewhere, PUBLISHER, end), NOW_MS, signature),
        of("a visit without a registry", &visit("", PUBLISHER, end), NOW_MS, signature),
        of(
            "a visit that a stranger signed",
            &visit(&here, STRANGER, end),
            NOW_MS,
            Some("SignInError::KeyLog(KeyLogError::NotItsKey)"),
        ),
        of("a release as a visit", &release().bytes, NOW_MS, Some("SignInError::Visit(ObjectError::WrongKind)")),
    ]
}

fn names() -> Vec<Case> {
    let of = |name: &str, bytes: &[u8], asked: &str, now_ms: u64, error: Option<&'static str>| {
        let input = json!({ "document": "name", "bytes": hex(bytes), "network": NETWORK, "key": registry_key(),
            "domain": "example.org", "name": asked, "now_ms": now_ms });
        case(name, input, error)
    };
    let told = registry();
    let good = name_evidence(&told, &agent());
    let mut lapsed = told.clone();
    lapsed.0[6] = Told(66, NOW_MS - 2 * DAY_MS - 1, finding(2, true));
    let strangers = {
        let mut told = told.clone();
        told.0[5].2 = signed(roster(2), &key(STRANGER)).bytes;
        told
    };
    let over = NOW_MS + HOUR_MS + 1;
    vec![
        of("the name of an agent", &good, "echo", NOW_MS, None),
        of("another name", &good, "other", NOW_MS, Some("NameEvidenceError::NotNamed")),
        of(
            "a name by a roster that is over",
            &good,
            "echo",
            over,
            Some("NameEvidenceError::Roster(ObjectError::Expired)"),
        ),
        of(
            "a name under a domain that was proven 48 h ago",
            &name_evidence(&lapsed, &agent()),
            "echo",
            NOW_MS,
            Some("NameEvidenceError::NotProven"),
        ),
        of(
            "a name by a stranger's roster",
            &name_evidence(&strangers, &agent()),
            "echo",
            NOW_MS,
            Some("NameEvidenceError::KeyLog(KeyLogError::NotItsKey)"),
        ),
    ]
}

fn findings() -> Vec<Case> {
    let of = |name: &str, bytes: &[u8], is_good: bool| {
        case(name, json!({ "document": "finding", "bytes": hex(bytes) }), (!is_good).then_some("DomainFinding"))
    };
    vec![
        of("a domain that its website proves", &finding(1, true), true),
        of("a domain that DNS proves", &finding(2, true), true),
        of("a domain on the operator's word", &finding(3, true), true),
        of("a domain whose proof is gone", &finding(1, false), true),
        of("a domain by means that there are not", &finding(4, true), false),
        of("a finding cut short", &finding(1, true)[..20], false),
    ]
}

fn presences() -> Vec<Case> {
    let of = |name: &str, contact: &[u8], grants: &[Vec<u8>], error: Option<&'static str>| {
        let grants: Vec<_> = grants.iter().map(|grant| bstr(grant)).collect();
        let bytes = map(&[(0, bstr(contact)), (1, array(&grants))]);
        case(name, json!({ "document": "presence", "bytes": hex(&bytes), "network": NETWORK, "now_ms": NOW_MS }), error)
    };
    let (contact, good) = (crate::records::contact().bytes, grant().bytes);
    let others = althing_protocol::object::Grant::new(agent(), public(STRANGER), NOW_MS, NOW_MS + HOUR_MS);
    let others = signed(others, &key(PUBLISHER)).bytes;
    let strangers = signed(crate::records::contact_body(), &key(STRANGER)).bytes;
    vec![
        of("what a node tells of itself", &contact, std::slice::from_ref(&good), None),
        of("a node without agents", &contact, &[], None),
        of("a grant for another node", &contact, &[others], Some("PresenceError::OtherNode")),
        of(
            "a contact that another node signed",
            &strangers,
            &[],
            Some("PresenceError::Contact(ObjectError::WrongKey)"),
        ),
        of("a grant as contact", &good, &[], Some("PresenceError::Contact(ObjectError::WrongKind)")),
        of("65 grants", &contact, &vec![good; 65], Some("PresenceError::Shape")),
    ]
}

/// What is made of one of them, by its JSON alone.
pub fn run(input: &Value) -> Outcome {
    let others = registry_vectors::run(input).or_else(|| registry_log_vectors::run(input));
    others.unwrap_or_else(|| of_registry(input))
}

fn of_registry(input: &Value) -> Outcome {
    let key = || text(input, "key").parse::<NoteKey>().expect("a vector's context holds a good key");
    match text(input, "document") {
        "evidence" => shown_evidence(input, &key()),
        "submission" => Submission::decode(&bytes(input, "bytes")).map_err(|error| error.name()).map(|it| {
            json!({ "events": it.key_log.len(), "statements": digests(&it.statements),
                "descriptions": digests(&it.descriptions) })
        }),
        "receipt" => Receipt::decode(&bytes(input, "bytes"))
            .map_err(|error| error.name())
            .map(|it| json!({ "accepted": it.accepted.iter().map(shown_logged).collect::<Vec<_>>() })),
        "bundle" => BundleFiles::decode(&bytes(input, "bytes")).map_err(|error| error.name()).map(|it| {
            let files: serde_json::Map<String, Value> =
                it.files.iter().map(|(path, bytes)| (path.clone(), hex(bytes).into())).collect();
            json!({ "agent": it.agent, "files": files })
        }),
        "sign-in" => {
            let read = SignIn::decode(&bytes(input, "bytes"));
            let verified = read.and_then(|it| it.verify(text(input, "network"), &key(), number(input, "now_ms")));
            verified.map_err(|error| error.name()).map(|log| json!({ "publisher": log.publisher().to_string() }))
        }
        "name" => {
            let domain: Domain = text(input, "domain").parse().expect("a vector's context holds a good domain");
            let read = NameEvidence::decode(&bytes(input, "bytes"));
            let (network, asked) = (text(input, "network"), (&domain, text(input, "name")));
            let verified = read.and_then(|it| it.verify(network, asked, &key(), number(input, "now_ms")));
            verified.map_err(|error| error.name()).map(|it| {
                json!({ "agent": it.agent.to_string(), "organisation": it.roster.body.organisation.to_string(),
                    "means": it.finding.means.name(), "found_ms": it.found_ms, "size": it.checkpoint.head.size })
            })
        }
        "finding" => {
            DomainFinding::decode(&bytes(input, "bytes")).ok_or_else(|| "DomainFinding".to_owned()).map(|it| {
                json!({ "domain": it.domain.to_string(), "organisation": it.organisation.to_string(),
                "means": it.means.name(), "proven": it.proven })
            })
        }
        "presence" => {
            let read = Presence::decode(&bytes(input, "bytes"));
            let verified = read.and_then(|it| it.verify(text(input, "network"), number(input, "now_ms")));
            verified.map_err(|error| error.name()).map(|it| {
                let agents: Vec<String> = it.grants.iter().map(|grant| grant.body.agent.to_string()).collect();
                json!({ "node": hex(it.contact.body.node.as_bytes()), "agents": agents })
            })
        }
        other => panic!("no document is called {other}"),
    }
}

fn digests(all: &[minicbor::bytes::ByteVec]) -> Vec<String> {
    all.iter().map(|bytes| hex(&althing_protocol::digest(bytes))).collect()
}

fn shown_logged(it: &Logged) -> Value {
    json!({ "statement": hex(&althing_protocol::digest(&it.statement)), "at_ms": it.at_ms, "proof": it.proof })
}

fn shown_evidence(input: &Value, key: &NoteKey) -> Outcome {
    let agent = text(input, "agent").parse().expect("a vector's context holds a good agent");
    let version = version(text(input, "version"));
    let read = ReleaseEvidence::decode(&bytes(input, "bytes"));
    let it =
        read.and_then(|it| it.verify(text(input, "network"), &agent, &version, key)).map_err(|error| error.name())?;
    Ok(json!({ "release": hex(&it.release.digest()), "description": hex(&it.description.digest()),
        "standing": it.standing.name(), "reason": it.reason, "accepted_ms": it.accepted_ms,
        "approvers": it.approvers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "size": it.checkpoint.head.size, "root": hex(&it.checkpoint.head.root) }))
}
