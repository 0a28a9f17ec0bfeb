//! What the vectors are made of: CBOR, identities, openings and frames. Only fixed seeds, the same bytes on every
//! machine.

use althing_protocol::{Frame, FrameKind, FrameSealer, Hello, StreamBinding};
use serde_json::{Value, json};

use crate::envelopes::{small_order_r, unreduced};
use crate::support::*;
use crate::vector_objects;
use crate::vector_runner::hex;

pub struct Case {
    pub name: String,
    pub input: Value,
    /// `None` accepts.
    pub error: Option<&'static str>,
}

pub fn case(name: &str, input: Value, error: impl Into<Option<&'static str>>) -> Case {
    Case { name: name.to_owned(), input, error: error.into() }
}

pub fn all() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("cbor", cbor()),
        ("identity", identity()),
        ("hello", hello()),
        ("frames", frames()),
        ("objects", vector_objects::objects()),
        ("keylogs", vector_objects::keylogs()),
        ("evidence", vector_objects::evidence()),
        ("records", crate::records::vectors()),
        ("keyring", crate::keyring::vectors()),
        ("groups", crate::groups::vectors()),
        ("equivocation", crate::group_equivocation::cases()),
        ("registry", crate::registry_evidence_vectors::all()),
        ("audit", crate::audit::vectors()),
    ]
}

fn cbor() -> Vec<Case> {
    let of = |name: &str, bytes: &[u8], error: Option<&'static str>| {
        case(name, json!({ "bytes": hex(bytes), "max_bytes": 65_536 }), error)
    };
    let nested = |depth: usize| [vec![0x81; depth - 1], vec![0x80]].concat();
    let mut cases = vec![
        of("the largest unsigned integer", &uint(u64::MAX), None),
        of("the smallest negative integer", &head(1, u64::MAX), None),
        of("an empty map", &[0xa0], None),
        of("a map with sorted keys of several types", &[0xa3, 0x00, 0xf4, 0x20, 0xf5, 0x61, 0x78, 0xf6], None),
        of("a map whose keys sort by bytes, the shorter text first", &[0xa2, 0x61, 0x62, 0, 0x62, 0x61, 0x61, 0], None),
        of("32 nested arrays", &nested(32), None),
        of("text of several bytes a character", &tstr("þing"), None),
        of("4096 items", &array(&vec![uint(0); 4_095]), None),
        of("4097 items", &array(&vec![uint(0); 4_096]), Some("CborError::Items")),
        of("33 nested arrays", &nested(33), Some("CborError::Depth")),
    ];
    for (name, bytes, error) in [
        ("no bytes", &[][..], "CborError::Truncated"),
        ("a head cut short", &[0x19, 0x01], "CborError::Truncated"),
        ("a string longer than the input", &[0x42, 0x00], "CborError::Truncated"),
        ("a count beyond the input", &[0x9b, 255, 255, 255, 255, 255, 255, 255, 255], "CborError::Truncated"),
        ("two items", &[0x00, 0x00], "CborError::TrailingBytes"),
        ("an array of indefinite length", &[0x9f, 0xff], "CborError::Indefinite"),
        ("a byte string of indefinite length", &[0x5f, 0x41, 0x00, 0xff], "CborError::Indefinite"),
        ("23 in two bytes", &[0x18, 0x17], "CborError::NonMinimal"),
        ("255 in three bytes", &[0x19, 0x00, 0xff], "CborError::NonMinimal"),
        ("a length in two bytes that fits into one", &[0x58, 0x01, 0x00], "CborError::NonMinimal"),
        ("keys out of order", &[0xa2, 0x01, 0x00, 0x00, 0x00], "CborError::Unsorted"),
        ("keys sorted by length first", &[0xa2, 0x61, 0x7a, 0, 0x18, 0x64, 0], "CborError::Unsorted"),
        ("a key twice", &[0xa2, 0x01, 0x00, 0x01, 0x00], "CborError::Duplicate"),
        ("half a float", &[0xf9, 0x00, 0x00], "CborError::Float"),
        ("a tag", &[0xc0, 0x00], "CborError::Tag"),
        ("undefined", &[0xf7], "CborError::Simple"),
        ("simple value 255", &[0xf8, 0xff], "CborError::Simple"),
        ("a reserved head", &[0x1c], "CborError::Simple"),
        ("text that is not UTF-8", &[0x61, 0xff], "CborError::Utf8"),
    ] {
        cases.push(of(name, bytes, Some(error)));
    }
    cases.push(case("longer than allowed", json!({ "bytes": "4100", "max_bytes": 1 }), "CborError::Size"));
    cases
}

fn identity() -> Vec<Case> {
    let rfc8032 = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let key = public(PUBLISHER);
    let form = |form: &str, text: &str| json!({ "form": form, "text": text });
    let raw = |bytes: &str| json!({ "form": "public_key", "public_key": bytes });
    let (ones, zeros) = ("ff".repeat(30), "00".repeat(31));
    let urn = publisher().to_string();
    let agent = |name: &str| form("agent", &format!("{urn}:{name}"));
    let digest = |bytes: &str| json!({ "form": "digest", "digest": bytes });
    // "abc" by SHA-512, and the first 20 bytes of it by SHA-256: other codes and lengths of a multihash.
    let sha_512 =
        "urn:althing:z8VxDbq4MtJpdapHPC2SxLkUEJVMxZBxmgg176BpaBtsVFnqsQNoYyrgdJ2W7WgTfX2W8iWjjcvPd49wGeXCybtrX8z";
    let short = "urn:althing:z5udQdVVUccwPewps9veZWxXNLrnQ1p";
    vec![
        case("the key of RFC 8032, section 7.1, test 1", json!({ "form": "seed", "seed": rfc8032 }), None),
        case("the key of the seed 0303…", json!({ "form": "seed", "seed": "03".repeat(32) }), None),
        case("a did", form("did", &key.did()), None),
        case("a peer id", form("peer_id", &key.peer_id()), None),
        case("an agent", agent("echo"), None),
        case("an agent with a name of 63 characters", agent(&"9".repeat(63)), None),
        case("a did without its multibase prefix", form("did", &key.did().replace(":z", ":")), "IdentityError::Did"),
        case(
            "a did of another curve",
            form("did", "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169"),
            "IdentityError::Did",
        ),
        case(
            "a peer id of an RSA key",
            form("peer_id", "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"),
            "IdentityError::PeerId",
        ),
        case("32 bytes that are no point", raw(&"02".repeat(32)), "IdentityError::NotAPoint"),
        case("y = p + 3, a point in its second spelling", raw(&format!("f0{ones}7f")), "IdentityError::NotAPoint"),
        case("the neutral element, order 1", raw(&format!("01{zeros}")), "IdentityError::NotAPoint"),
        case("y = 0, order 4", raw(&"00".repeat(32)), "IdentityError::NotAPoint"),
        case("y = -1, order 2", raw(&format!("ec{ones}7f")), "IdentityError::NotAPoint"),
        case("an agent without a name", agent(""), "IdentityError::AgentName"),
        case("an agent's name in capitals", agent("Echo"), "IdentityError::AgentName"),
        case("an agent's name that ends with a hyphen", agent("echo-"), "IdentityError::AgentName"),
        case("an agent's name of 64 characters", agent(&"a".repeat(64)), "IdentityError::AgentName"),
        case("an agent of another scheme", form("agent", "urn:other:zQm:echo"), "IdentityError::AgentId"),
        case(
            "an agent of a key",
            form("agent", &format!("urn:althing:{}:echo", key.multibase())),
            "IdentityError::AgentId",
        ),
        case("a digest as a publisher", digest(&hex(publisher().as_bytes())), None),
        case("the digest of abc, FIPS 180-4, as a publisher", digest(&hex(&althing_protocol::digest(b"abc"))), None),
        case("a publisher", form("publisher", &urn), None),
        case("a publisher in base64", form("publisher", &urn.replace(":z", ":m")), "IdentityError::PublisherId"),
        case("a publisher without its scheme", form("publisher", &urn[12..]), "IdentityError::PublisherId"),
        case("a publisher and a name", form("publisher", &format!("{urn}:echo")), "IdentityError::PublisherId"),
        case("a key as a publisher", form("publisher", &key.did()), "IdentityError::PublisherId"),
        case("a publisher by SHA-512", form("publisher", sha_512), "IdentityError::PublisherId"),
        case("a publisher by a shorter digest", form("publisher", short), "IdentityError::PublisherId"),
        case("a caller that is a node", form("caller", &key.did()), None),
        case("a caller that is a publisher", form("caller", &urn), None),
        case("a caller that is an agent", form("caller", &format!("{urn}:echo")), "IdentityError::AgentNotCaller"),
        case("a caller that is neither", form("caller", "local"), "IdentityError::CallerId"),
    ]
}

fn hello() -> Vec<Case> {
    let of = |name: &str, bytes: Vec<u8>, error: Option<&'static str>| {
        case(name, json!({ "bytes": hex(&bytes), "network": NETWORK }), error)
    };
    let good = Hello { version: 1, challenge: [0xa0; 32], network: NETWORK.to_owned(), owner: None };
    let owned = Hello { owner: Some(proof()), ..good.clone() };
    let inception = log().to_bytes().remove(0);
    let with = |version: u64, challenge: Vec<u8>, more: Vec<(u64, Vec<u8>)>| {
        map(&[vec![(0, uint(version)), (1, challenge), (2, tstr(NETWORK))], more].concat())
    };
    vec![
        of("without an owner", good.encode(), None),
        of("with proof of an owner", owned.encode(), None),
        of("version 2", with(2, bstr(&[0xa0; 32]), vec![(9, uint(0))]), Some("HelloError::Version")),
        of("another network", Hello { network: "othernet".to_owned(), ..good }.encode(), Some("HelloError::Network")),
        of("a challenge of 31 bytes", with(1, bstr(&[0xa0; 31]), vec![]), Some("HelloError::Shape")),
        of("an unknown member", with(1, bstr(&[0xa0; 32]), vec![(4, uint(0))]), Some("HelloError::Shape")),
        of("a null owner", with(1, bstr(&[0xa0; 32]), vec![(3, vec![0xf6])]), Some("HelloError::Shape")),
        of(
            "a membership without its owner's inception",
            with(1, bstr(&[0xa0; 32]), vec![(3, map(&[(0, bstr(&membership().bytes))]))]),
            Some("HelloError::Shape"),
        ),
        of(
            "proof of an owner with an unknown member",
            with(
                1,
                bstr(&[0xa0; 32]),
                vec![(3, map(&[(0, bstr(&membership().bytes)), (1, bstr(&inception)), (2, uint(0))]))],
            ),
            Some("HelloError::Shape"),
        ),
        of("a key that is not minimal", vec![0xa1, 0x18, 0x00, 0x01], Some("HelloError::Cbor(CborError::NonMinimal)")),
        of(
            "longer than 2048 bytes",
            with(1, bstr(&[0; 32]), vec![(3, bstr(&[0; 2_048]))]),
            Some("HelloError::Cbor(CborError::Size)"),
        ),
    ]
}

fn stream_json(binding: &StreamBinding) -> Value {
    json!({
        "network": binding.network,
        "protocol": binding.protocol,
        "opener": hex(binding.opener.as_bytes()),
        "acceptor": hex(binding.acceptor.as_bytes()),
        "opener_challenge": hex(&binding.opener_challenge),
        "acceptor_challenge": hex(&binding.acceptor_challenge),
    })
}

pub fn frame_case(
    name: &str,
    to_acceptor: bool,
    before: &[Vec<u8>],
    frame: &[u8],
    error: Option<&'static str>,
) -> Case {
    let binding = binding();
    let sender = if to_acceptor { binding.opener } else { binding.acceptor };
    let input = json!({
        "stream": stream_json(&binding),
        "opener_seed": hex(&[OPENER; 32]),
        "acceptor_seed": hex(&[ACCEPTOR; 32]),
        "receiver": if to_acceptor { "acceptor" } else { "opener" },
        "stream_id": hex(&binding.id()),
        "external_aad": hex(&binding.aad(sender)),
        "accepted_before": before.iter().map(|bytes| hex(bytes)).collect::<Vec<_>>(),
        "frame": hex(frame),
    });
    case(name, input, error)
}

fn frames() -> Vec<Case> {
    let seal = |frame: Frame| FrameSealer::new(&binding(), key(ACCEPTOR)).seal(frame).expect("a good frame");
    let mut asking = FrameSealer::new(&binding(), key(OPENER));
    let mut ask = |frame: Frame| asking.seal(frame).expect("a good frame");
    let (first, second, cancel) = (ask(request()), ask(small_request()), ask(Frame::new(FrameKind::Cancel, vec![])));
    let activated = Frame { extensions: request().extensions, ..Frame::new(FrameKind::Response, b"{}".to_vec()) };
    let kinds = [("an event", FrameKind::Event), ("the end", FrameKind::End), ("an error", FrameKind::Error)];
    let before = [first.clone()];
    let mut cases = vec![
        frame_case("a request with every member", true, &[], &first, None),
        frame_case("a second request", true, &before, &second, None),
        frame_case("a cancellation", true, &[first.clone(), second.clone()], &cancel, None),
        frame_case("a response with extensions", false, &[], &seal(activated), None),
        frame_case("the same frame again", true, &before, &first, Some("FrameError::WrongCounter")),
        frame_case("a frame lost before", true, &[], &second, Some("FrameError::WrongCounter")),
        frame_case("a frame sent back to its sender", false, &[], &first, Some("FrameError::WrongKey")),
    ];
    for (name, kind) in kinds {
        cases.push(frame_case(name, false, &[], &seal(Frame::new(kind, b"{}".to_vec())), None));
    }
    cases.extend(refused_frames());
    cases.extend(leniently_signed_frames());
    cases.extend(crate::attributes::vectors());
    cases
}

fn refused_frames() -> Vec<Case> {
    let mut cases = Vec::new();
    let members = vec![(0, uint(1)), (4, tstr("GetTask")), (11, bstr(b"{}"))];
    let payload = bound(&binding(), 0, public(ACCEPTOR), &members);
    let aad = frame_aad(&binding(), public(OPENER), public(ACCEPTOR));
    let mut refuse = |name: &str, frame: Vec<u8>, error: &'static str| {
        cases.push(frame_case(name, true, &[], &frame, Some(error)));
    };
    let later = StreamBinding { opener_challenge: [1; 32], acceptor_challenge: [2; 32], ..binding() };
    let other = |binding: StreamBinding| frame_aad(&binding, public(OPENER), public(ACCEPTOR));
    let raft = other(StreamBinding { protocol: "/althing/raft/1".to_owned(), ..binding() });
    let elsewhere = other(StreamBinding { network: "othernet".to_owned(), ..binding() });
    let addressed = bound(&binding(), 0, public(STRANGER), &members);
    let replayed = FrameSealer::new(&later, key(OPENER)).seal(small_request()).expect("a good frame");
    let signature = "FrameError::Envelope(Sign1Error::Signature)";
    refuse("signed by a stranger", cose(&payload, &aad, &key(STRANGER)), "FrameError::WrongKey");
    refuse("addressed to another node", from_opener(&addressed), "FrameError::WrongAudience");
    refuse("captured on another stream", replayed, "FrameError::WrongStream");
    refuse("signed for another protocol", cose(&payload, &raft, &key(OPENER)), signature);
    refuse("signed for another network", cose(&payload, &elsewhere, &key(OPENER)), signature);
    refuse("signed as an object", cose(&payload, &object_aad("althing/grant/1", NETWORK, ""), &key(OPENER)), signature);
    refuse("one bit of the signature changed", flipped(&from_opener(&payload)), signature);
    refuse(
        "tagged",
        [vec![0xd2], from_opener(&payload)].concat(),
        "FrameError::Envelope(Sign1Error::Cbor(CborError::Tag))",
    );
    refuse(
        "trailing bytes",
        [from_opener(&payload), vec![0]].concat(),
        "FrameError::Envelope(Sign1Error::Cbor(CborError::TrailingBytes))",
    );
    refuse(
        "alg ES256",
        headed(&[0xa2, 0x01, 0x26, 0x04], &payload, &aad),
        "FrameError::Envelope(Sign1Error::Algorithm)",
    );
    refuse("alg missing", headed(&[0xa1, 0x04], &payload, &aad), "FrameError::Envelope(Sign1Error::Algorithm)");
    let framed = |members: &[(u64, Vec<u8>)]| from_opener(&bound(&binding(), 0, public(ACCEPTOR), members));
    // Of before member 12 was a label: neither then nor now is it this number.
    refuse("an unknown member", framed(&[members.clone(), vec![(12, uint(0))]].concat()), "FrameError::Shape");
    refuse(
        "an absent member as null",
        framed(&[members[0].clone(), members[1].clone(), (5, vec![0xf6]), members[2].clone()]),
        "FrameError::Shape",
    );
    refuse("a request without an operation", framed(&[members[0].clone(), members[2].clone()]), "FrameError::Shape");
    refuse("a response from the opener", framed(&[(0, uint(2)), members[2].clone()]), "FrameError::Shape");
    refuse(
        "a deadline in a cancellation",
        framed(&[(0, uint(6)), (6, uint(1)), members[2].clone()]),
        "FrameError::Shape",
    );
    refuse(
        "an operation of 65 bytes",
        framed(&[members[0].clone(), (4, tstr(&"x".repeat(65))), members[2].clone()]),
        "FrameError::TooLong",
    );
    cases
}

pub fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    bytes
}

/// Frames whose signatures some verifiers accept.
fn leniently_signed_frames() -> Vec<Case> {
    use ed25519_dalek::Signer as _;
    let opener = key(OPENER);
    let header = protected(&opener.public());
    let payload = bound(&binding(), 0, public(ACCEPTOR), &[(0, uint(1)), (4, tstr("GetTask")), (11, bstr(b"{}"))]);
    let message = to_be_signed(&header, &frame_aad(&binding(), opener.public(), public(ACCEPTOR)), &payload);
    let honest = opener.signing_key().sign(&message).to_bytes();
    let of = |name: &str, signature: &[u8; 64], error: Option<&'static str>| {
        frame_case(name, true, &[], &envelope(&header, &payload, signature), error)
    };
    let refused = Some("FrameError::Envelope(Sign1Error::Signature)");
    vec![
        of("a signature as it should be", &honest, None),
        of("R of small order, where the lenient equation holds", &small_order_r(&opener, &message), refused),
        of("S + L in place of S", &unreduced(honest), refused),
    ]
}

/// Signed by the opener under the protected header `start` followed by its kid.
fn headed(start: &[u8], payload: &[u8], aad: &[u8]) -> Vec<u8> {
    use ed25519_dalek::Signer as _;
    let protected = [start, &bstr(public(OPENER).as_bytes())].concat();
    let signature = key(OPENER).signing_key().sign(&to_be_signed(&protected, aad, payload)).to_bytes();
    envelope(&protected, payload, &signature)
}
