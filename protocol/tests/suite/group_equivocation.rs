//! Proofs of equivocation: what two appends of a leader prove, and what proves nothing.

use althing_protocol::group::{Equivocated, Equivocation, EquivocationError, GroupId, SignedAppend};
use althing_protocol::limits::SIGNED_APPEND_BYTES_MAX;
use althing_protocol::{Frame, FrameKind, FrameSealer, PublicKey, StreamBinding};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::names::{Name as _, reason};
use crate::support::*;
use crate::vector_cases::Case;
use crate::vector_runner::{Outcome, bytes, hex, text};

/// The leader, and the members that it sends to.
const LEADER: u8 = 21;
const MEMBERS: [u8; 2] = [22, 23];

fn stream(leader: u8, to: u8) -> StreamBinding {
    StreamBinding {
        network: NETWORK.to_owned(),
        protocol: "/althing/raft/1".to_owned(),
        opener: public(leader),
        acceptor: public(to),
        opener_challenge: [leader; 32],
        acceptor_challenge: [to; 32],
    }
}

/// An entry at an index of a term, which holds a batch.
fn entry(term: u64, index: u64, batch: &[u8]) -> Vec<u8> {
    let payload = array(&[uint(1), array(&[uint(NOW_MS), bstr(batch)])]);
    array(&[array(&[uint(term), uint(index)]), payload])
}

fn append(group: u8, leader: PublicKey, term: u64, elected: bool, entries: &[Vec<u8>]) -> Vec<u8> {
    let ballot = array(&[uint(term), bstr(leader.as_bytes()), vec![0xf4 | u8::from(elected)]]);
    let previous = array(&[uint(1), uint(6)]);
    map(&[(0, bstr(&[group; 32])), (1, ballot), (2, previous), (4, array(entries))])
}

fn signed(stream: &StreamBinding, signer: u8, frame: Frame) -> SignedAppend {
    let mut sealer = FrameSealer::new(stream, key(signer));
    SignedAppend::new(stream, &sealer.seal(frame).expect("a good frame")).expect("a short one")
}

fn request(operation: &str, body: Vec<u8>) -> Frame {
    Frame { operation: Some(operation.to_owned()), ..Frame::new(FrameKind::Request, body) }
}

/// What the leader sent the member of a number in the term 3.
fn sent(member: usize, entries: &[Vec<u8>]) -> SignedAppend {
    let body = append(3, public(LEADER), 3, true, entries);
    signed(&stream(LEADER, MEMBERS[member]), LEADER, request("append", body))
}

fn proof() -> Equivocation {
    let one = sent(0, &[entry(3, 7, b"one"), entry(3, 8, b"this")]);
    Equivocation { one, other: sent(1, &[entry(3, 8, b"that"), entry(3, 9, b"last")]) }
}

/// P-193
#[test]
fn two_entries_at_one_index_of_a_leaders_term_are_proven_by_its_key_alone() {
    let proven = proof().verify(NETWORK).expect("a proof");
    let entries = [entry(3, 8, b"this"), entry(3, 8, b"that")].map(|entry| althing_protocol::digest(&entry));
    let group = GroupId::from_digest([3; 32]);
    assert_eq!(proven, Equivocated { group, leader: public(LEADER), term: 3, index: 8, entries });
    let bytes = proof().encode();
    assert_eq!(Equivocation::decode(&bytes), Ok(proof()));
    // To one member too, and of the entries of earlier leaders: in its term a leader's log only grows.
    let same = Equivocation { one: sent(0, &[entry(2, 7, b"this")]), other: sent(0, &[entry(1, 7, b"this")]) };
    assert_eq!(same.verify(NETWORK).map(|proven| proven.index), Ok(7));
    let read = proof().one.read().expect("an append");
    assert_eq!(Ok(read), proof().one.verify(NETWORK));
}

/// What proves nothing, by its reason.
fn nothing() -> Vec<(&'static str, &'static str, Equivocation)> {
    let eight = |batch: &[u8]| [entry(3, 8, batch)];
    let body = |term, elected, leader: u8, batch: &[u8]| append(3, public(leader), term, elected, &eight(batch));
    let with = |other: SignedAppend| Equivocation { other, ..proof() };
    let to = stream(LEADER, MEMBERS[1]);
    let by = |signer: u8, operation: &str, body: Vec<u8>| with(signed(&to, signer, request(operation, body)));
    let elsewhere = |stream: StreamBinding| {
        let mut append = signed(&stream, LEADER, request("append", body(3, true, LEADER, b"that")));
        append.to = public(MEMBERS[1]);
        with(append)
    };
    let strangers =
        signed(&stream(STRANGER, MEMBERS[1]), STRANGER, request("append", body(3, true, STRANGER, b"that")));
    let mut blamed = strangers.clone();
    blamed.leader = public(LEADER);
    let mut flipped = proof();
    let last = flipped.other.frame.len() - 1;
    flipped.other.frame[last] ^= 1;
    let invalid = "EquivocationError::Frame(FrameError::Envelope(Sign1Error::Signature))";
    let shape = "EquivocationError::Shape";
    vec![
        ("the same append twice", "EquivocationError::Consistent", Equivocation { other: proof().one, ..proof() }),
        ("other indexes", "EquivocationError::Consistent", with(sent(1, &[entry(3, 9, b"that")]))),
        ("the same entries in other pieces", "EquivocationError::Consistent", with(sent(1, &eight(b"this")))),
        ("two leaders", "EquivocationError::Unrelated", with(strangers)),
        ("two terms", "EquivocationError::Unrelated", by(LEADER, "append", body(4, true, LEADER, b"that"))),
        (
            "two groups",
            "EquivocationError::Unrelated",
            by(LEADER, "append", append(4, public(LEADER), 3, true, &eight(b"that"))),
        ),
        ("another one's frame", "EquivocationError::Frame(FrameError::WrongKey)", with(blamed)),
        ("a signature that was changed", invalid, flipped),
        ("another network", invalid, elsewhere(StreamBinding { network: "other".to_owned(), ..to.clone() })),
        (
            "another protocol",
            invalid,
            elsewhere(StreamBinding { protocol: "/althing/call/1".to_owned(), ..to.clone() }),
        ),
        ("another operation", shape, by(LEADER, "vote", body(3, true, LEADER, b"that"))),
        ("a leader that is not elected", shape, by(LEADER, "append", body(3, false, LEADER, b"that"))),
        ("a leader that speaks for another", shape, by(LEADER, "append", body(3, true, STRANGER, b"that"))),
        ("an index twice", shape, with(sent(1, &[entry(3, 8, b"that"), entry(3, 8, b"this")]))),
        ("no append", shape, by(LEADER, "append", array(&[]))),
    ]
}

/// P-193
#[test]
fn what_a_leader_did_not_sign_or_does_not_contradict_itself_proves_nothing() {
    for (name, error, equivocation) in nothing() {
        assert_eq!(reason(equivocation.verify(NETWORK)), error, "{name}");
    }
    let mut long = proof();
    long.one.frame = vec![0; SIGNED_APPEND_BYTES_MAX + 1].into();
    assert_eq!(reason(long.verify(NETWORK)), "EquivocationError::Shape");
    assert!(SignedAppend::new(&stream(LEADER, MEMBERS[0]), &long.one.frame).is_none());
}

/// The vectors of `equivocation.json`.
pub fn cases() -> Vec<Case> {
    let case = |name: &str, proof: &[u8], error| Case {
        name: name.to_owned(),
        input: json!({ "network": NETWORK, "proof": hex(proof) }),
        error,
    };
    let mut cases = vec![case("two entries at one index", &proof().encode(), None)];
    cases.extend(nothing().iter().map(|(name, error, proof)| case(name, &proof.encode(), Some(*error))));
    let mut more = proof().encode();
    more.push(0);
    cases.push(case("bytes after it", &more, Some("EquivocationError::Cbor(CborError::TrailingBytes)")));
    cases.push(case("one append", &array(&[bstr(b"one")]), Some("EquivocationError::Shape")));
    cases
}

/// Runs a vector from its JSON alone.
pub fn run(input: &Value) -> Outcome {
    let proof = Equivocation::decode(&bytes(input, "proof"));
    let proven = proof.and_then(|proof| proof.verify(text(input, "network")));
    let proven = proven.map_err(|error: EquivocationError| error.name())?;
    Ok(json!({
        "group": proven.group.to_string(), "leader": hex(proven.leader.as_bytes()), "term": proven.term,
        "index": proven.index, "entries": proven.entries.map(|digest| hex(&digest)),
    }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// P-193: whatever pieces of its log a leader sends, in whatever terms, and however its log is replaced between them: of one
    /// term it never makes a proof.
    #[test]
    fn a_leader_that_only_appends_in_its_term_is_never_proven(
        log in prop::collection::vec(any::<u8>(), 1..12),
        other in prop::collection::vec(any::<u8>(), 1..12),
        pieces in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>(), 0..2usize), 2..6),
    ) {
        let sent: Vec<SignedAppend> = pieces.iter().map(|(begins, ends, is_later, member)| {
            let (term, log) = if *is_later { (4, &other) } else { (3, &log) };
            let (one, two) = (begins.index(log.len()), ends.index(log.len()));
            let piece = one.min(two)..=one.max(two);
            let entries: Vec<Vec<u8>> = piece.map(|at| entry(term, at as u64, &[log[at]])).collect();
            let body = append(3, public(LEADER), term, true, &entries);
            signed(&stream(LEADER, MEMBERS[*member]), LEADER, request("append", body))
        }).collect();
        for one in &sent {
            for other in &sent {
                prop_assert!(Equivocation::of(one.clone(), other.clone(), NETWORK).is_err());
            }
        }
    }

    /// P-193: bytes that are not what the leader signed are no proof, and none makes the reader panic.
    #[test]
    fn a_changed_proof_is_refused(seed in any::<u64>()) {
        let bytes = proof().encode();
        let changed = Dice(seed | 1).mutate(&bytes);
        if let Ok(read) = Equivocation::decode(&changed) {
            prop_assert_eq!(read.encode(), changed.clone());
            if let Ok(proven) = read.verify(NETWORK) {
                prop_assert_eq!((proven.leader, proven.index), (public(LEADER), 8));
            }
        }
    }
}
