//! Label, session and delegation of a frame: in which kinds, in which form, and how long.

use althing_protocol::contract::DataLabel;
use althing_protocol::limits::DELEGATION_BYTES_MAX;
use althing_protocol::{Attributes, Digest, Frame, FrameError, FrameKind, FrameSealer, Label};
use proptest::prelude::*;

use crate::names::reason;
use crate::support::*;
use crate::vector_cases::{Case, frame_case};

const SESSION: Digest = [0x5e; 32];
const DELEGATION: &[u8] = b"by whose authority";

/// Members of a frame: their labels and values.
type Members = Vec<(u64, Vec<u8>)>;

/// A frame of the opener, or else of the acceptor, with any members, honestly signed for its place.
fn sealed(by_opener: bool, members: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let (sender, receiver) = if by_opener { (OPENER, ACCEPTOR) } else { (ACCEPTOR, OPENER) };
    let payload = bound(&binding(), 0, public(receiver), members);
    cose(&payload, &frame_aad(&binding(), public(sender), public(receiver)), &key(sender))
}

fn seal(by_opener: bool, frame: Frame) -> Result<Vec<u8>, FrameError> {
    FrameSealer::new(&binding(), key(if by_opener { OPENER } else { ACCEPTOR })).seal(frame)
}

fn open(by_opener: bool, bytes: &[u8]) -> Result<Frame, FrameError> {
    let binding = binding();
    let (_, mut opener) = if by_opener { towards_acceptor(&binding) } else { towards_opener(&binding) };
    opener.open(bytes)
}

/// The value of member 12.
fn label(level: u64, trusted: bool) -> Vec<u8> {
    map(&[(0, uint(level)), (1, vec![if trusted { 0xf5 } else { 0xf4 }])])
}

/// A small request, with another member.
fn with(member: u64, value: Vec<u8>) -> Members {
    vec![(0, uint(1)), (4, tstr("GetTask")), (11, bstr(b"{}")), (member, value)]
}

/// A frame of another kind, with another member.
fn other(kind: u64, member: u64, value: Vec<u8>) -> Members {
    vec![(0, uint(kind)), (11, bstr(b"{}")), (member, value)]
}

fn labelled(level: DataLabel, trusted: bool) -> Attributes {
    Attributes { label: Some(Label { level, trusted }), ..Attributes::default() }
}

fn all_three(level: DataLabel, trusted: bool) -> Attributes {
    let label = Some(Label { level, trusted });
    Attributes { label, session: Some(SESSION), delegation: Some(DELEGATION.to_vec()) }
}

/// Each attribute alone: its member, the member's value, and what it is read as.
fn one_each() -> Vec<(u64, Vec<u8>, Attributes)> {
    let session = Attributes { session: Some(SESSION), ..Attributes::default() };
    let delegation = Attributes { delegation: Some(DELEGATION.to_vec()), ..Attributes::default() };
    vec![
        (12, label(0, true), labelled(DataLabel::Public, true)),
        (12, label(1, true), labelled(DataLabel::Internal, true)),
        (12, label(2, false), labelled(DataLabel::Confidential, false)),
        (12, label(3, false), labelled(DataLabel::Restricted, false)),
        (13, bstr(&SESSION), session),
        (14, bstr(DELEGATION), delegation),
    ]
}

pub fn any_attributes() -> impl Strategy<Value = Attributes> {
    let levels = vec![DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];
    let label = (prop::sample::select(levels), any::<bool>()).prop_map(|(level, trusted)| Label { level, trusted });
    let delegation = prop::collection::vec(any::<u8>(), 1..40);
    (prop::option::of(label), any::<Option<Digest>>(), prop::option::of(delegation))
        .prop_map(|(label, session, delegation)| Attributes { label, session, delegation })
}

pub fn vectors() -> Vec<Case> {
    let answer = |kind: FrameKind| Frame::new(kind, b"{}".to_vec());
    let session = Attributes { session: Some(SESSION), ..Attributes::default() };
    let longest = Attributes { delegation: Some(vec![7; DELEGATION_BYTES_MAX]), ..Attributes::default() };
    let accepted = [
        (
            "a request with every member, its label, session and delegation too",
            request().with(all_three(DataLabel::Confidential, false)),
        ),
        ("a response with a label", answer(FrameKind::Response).with(labelled(DataLabel::Public, true))),
        (
            "an event with a label, a session and a delegation",
            answer(FrameKind::Event).with(all_three(DataLabel::Restricted, true)),
        ),
        ("a request with a session alone", small_request().with(session)),
        ("a delegation of 4096 bytes", small_request().with(longest)),
    ];
    let mut cases = Vec::new();
    for (name, frame) in accepted {
        let by_opener = frame.kind == FrameKind::Request;
        cases.push(frame_case(name, by_opener, &[], &seal(by_opener, frame).expect("a good frame"), None));
    }
    for (name, by_opener, members, error) in refused() {
        cases.push(frame_case(name, by_opener, &[], &sealed(by_opener, &members), Some(error)));
    }
    cases
}

/// What is refused: by its name, whether the opener sends it, its members, and why.
fn refused() -> Vec<(&'static str, bool, Members, &'static str)> {
    let shape = "FrameError::Shape";
    let too_long = with(14, bstr(&[7; DELEGATION_BYTES_MAX + 1]));
    let without_trust = map(&[(0, uint(1))]);
    let with_more = map(&[(0, uint(1)), (1, vec![0xf5]), (2, uint(0))]);
    let not_minimal = vec![0xa2, 0x00, 0x18, 0x02, 0x01, 0xf5];
    vec![
        ("a delegation of 4097 bytes", true, too_long, "FrameError::TooLong"),
        ("a delegation of no bytes", true, with(14, bstr(&[])), shape),
        ("a session of 31 bytes", true, with(13, bstr(&SESSION[1..])), shape),
        ("a label of a fifth level", true, with(12, label(4, true)), shape),
        ("a label that does not say whether it is trusted", true, with(12, without_trust), shape),
        ("a label with an unknown member", true, with(12, with_more), shape),
        ("a label as null", true, with(12, vec![0xf6]), shape),
        (
            "a label whose level is not minimal",
            true,
            with(12, not_minimal),
            "FrameError::Envelope(Sign1Error::Cbor(CborError::NonMinimal))",
        ),
        ("a label in a cancellation", true, other(6, 12, label(0, true)), shape),
        ("a session in an error", false, other(5, 13, bstr(&SESSION)), shape),
        ("a delegation at the end", false, other(4, 14, bstr(DELEGATION)), shape),
        ("a member after the last", true, with(15, uint(0)), shape),
    ]
}

#[test]
fn requests_responses_and_events_have_attributes_and_no_other_kind_has() {
    // P-31, P-201, P-202, P-203
    let kinds = [
        (FrameKind::Request, 1),
        (FrameKind::Response, 2),
        (FrameKind::Event, 3),
        (FrameKind::End, 4),
        (FrameKind::Error, 5),
        (FrameKind::Cancel, 6),
    ];
    for (kind, number) in kinds {
        let by_opener = matches!(kind, FrameKind::Request | FrameKind::Cancel);
        let takes = matches!(kind, FrameKind::Request | FrameKind::Response | FrameKind::Event);
        for (member, value, attributes) in one_each() {
            let is_request = kind == FrameKind::Request;
            let bare = if is_request { small_request() } else { Frame::new(kind, b"{}".to_vec()) };
            let members = if is_request { with(member, value) } else { other(number, member, value) };
            let (frame, by_hand) = (bare.with(attributes.clone()), sealed(by_opener, &members));
            let (ours, opened) = (seal(by_opener, frame.clone()), open(by_opener, &by_hand));
            if takes {
                assert_eq!(ours.as_ref(), Ok(&by_hand), "member {member} of {kind:?}");
                assert_eq!(opened.as_ref().map(Frame::attributes), Ok(attributes), "member {member} of {kind:?}");
                assert_eq!(opened, Ok(frame));
            } else {
                assert_eq!(reason(ours), "FrameError::Shape", "member {member} of {kind:?}");
                assert_eq!(reason(opened), "FrameError::Shape", "member {member} of {kind:?}");
            }
        }
    }
}

#[test]
fn attributes_of_another_form_are_refused() {
    // P-18, P-201, P-202, P-203: beside those of the vectors.
    let nothing = vec![0xf6];
    let cases = [
        ("a number as a label", with(12, uint(2))),
        ("a list as a label", with(12, array(&[uint(2), vec![0xf5]]))),
        ("an empty label", with(12, map(&[]))),
        ("a label without a level", with(12, map(&[(1, vec![0xf5])]))),
        ("a level in words", with(12, map(&[(0, tstr("public")), (1, vec![0xf5])]))),
        ("a level below the lowest", with(12, map(&[(0, vec![0x20]), (1, vec![0xf5])]))),
        ("a level as null", with(12, map(&[(0, nothing.clone()), (1, vec![0xf5])]))),
        ("trusted as a number", with(12, map(&[(0, uint(0)), (1, uint(1))]))),
        ("trusted as null", with(12, map(&[(0, uint(0)), (1, nothing.clone())]))),
        ("a session of 33 bytes", with(13, bstr(&[0x5e; 33]))),
        ("a session of no bytes", with(13, bstr(&[]))),
        ("a session as text", with(13, tstr(&"s".repeat(32)))),
        ("a session as a list", with(13, array(&vec![uint(1); 32]))),
        ("a session as null", with(13, nothing.clone())),
        ("a delegation as text", with(14, tstr("by whose authority"))),
        ("a delegation as null", with(14, nothing)),
        ("a label as member 16", with(16, label(0, true))),
    ];
    for (name, members) in cases {
        assert_eq!(reason(open(true, &sealed(true, &members))), "FrameError::Shape", "{name}");
    }
}

#[test]
fn a_frame_with_attributes_that_nobody_may_read_is_not_sent() {
    // P-203, P-32: what a receiver would refuse.
    for (len, why) in [(0, "FrameError::Shape"), (DELEGATION_BYTES_MAX + 1, "FrameError::TooLong")] {
        let attributes = Attributes { delegation: Some(vec![7; len]), ..Attributes::default() };
        assert_eq!(reason(seal(true, small_request().with(attributes.clone()))), why, "{len} bytes");
        let answer = Frame::new(FrameKind::Event, Vec::new()).with(attributes);
        assert_eq!(reason(seal(false, answer)), why, "{len} bytes");
    }
}
