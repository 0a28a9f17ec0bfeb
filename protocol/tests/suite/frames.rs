//! Frames: each reason to refuse, replay, and what may stand in which kind.

use althing_protocol::contract::DataLabel;
use althing_protocol::limits::*;
use althing_protocol::{Frame, FrameError, FrameKind, FrameOpener, FrameSealer, Label, StreamBinding};
use proptest::prelude::*;

use crate::attributes::any_attributes;
use crate::names::reason;
use crate::support::*;

fn open(bytes: &[u8]) -> Result<Frame, FrameError> {
    towards_acceptor(&binding()).1.open(bytes)
}

/// The members of a small request.
fn members() -> Vec<(u64, Vec<u8>)> {
    vec![(0, uint(1)), (4, tstr("GetTask")), (11, bstr(b"{}"))]
}

fn framed(members: &[(u64, Vec<u8>)]) -> Vec<u8> {
    from_opener(&bound(&binding(), 0, public(ACCEPTOR), members))
}

#[test]
fn a_frame_built_by_hand_is_what_the_crate_builds() {
    // P-25, P-31
    let members = [
        (0, uint(1)),
        (4, tstr("SendMessage")),
        (5, tstr(&agent().to_string())),
        (6, uint(30_000)),
        (7, tstr(&request().traceparent.expect("it has one"))),
        (8, tstr("althing=1")),
        (9, array(&[tstr(&public(STRANGER).did())])),
        (10, array(&[tstr("https://althing.dev/extensions/deadline/v1")])),
        (11, bstr(&request().body)),
    ];
    assert_eq!(framed(&members), sealed_request());
    assert_eq!(binding().aad(public(OPENER)), frame_aad(&binding(), public(OPENER), public(ACCEPTOR)));
    assert_eq!(binding().aad(public(ACCEPTOR)), frame_aad(&binding(), public(ACCEPTOR), public(OPENER)));
    let id = althing_protocol::digest(&[[0xa0; 32], [0xb0; 32]].concat());
    assert_eq!(binding().id(), id[..8], "P-28");
}

#[test]
fn a_frame_is_the_same_one_behind_room_for_its_length() {
    let long = || Frame { body: vec![b'x'; 70_000], ..request() };
    for frame in [request(), long()] {
        let alone = towards_acceptor(&binding()).0.seal(frame.clone()).expect("a good frame");
        let behind = towards_acceptor(&binding()).0.seal_behind(4, frame.clone()).expect("a good frame");
        assert_eq!(behind, [&[0; 4][..], &alone].concat());
        assert_eq!(open(&behind[4..]), Ok(frame));
    }
}

#[test]
fn a_frame_by_another_key_than_the_peers_is_refused() {
    // P-26: honestly signed by a stranger, for exactly this place.
    let payload = bound(&binding(), 0, public(ACCEPTOR), &members());
    let aad = frame_aad(&binding(), public(OPENER), public(ACCEPTOR));
    let refused = open(&cose(&payload, &aad, &key(STRANGER)));
    assert_eq!(refused, Err(FrameError::WrongKey { signer: public(STRANGER), peer: public(OPENER) }));
    // And with the peer's name on the stranger's signature.
    let forged = [&cose(&payload, &aad, &key(OPENER))[..], &[]].concat();
    let split = forged.len() - 64;
    let strangers = cose(&payload, &aad, &key(STRANGER));
    let forged = [&forged[..split], &strangers[split..]].concat();
    assert_eq!(reason(open(&forged)), "FrameError::Envelope(Sign1Error::Signature)");
}

#[test]
fn a_frame_for_another_receiver_is_refused() {
    // P-27
    let refused = open(&from_opener(&bound(&binding(), 0, public(STRANGER), &members())));
    assert_eq!(refused, Err(FrameError::WrongAudience(public(STRANGER))));
}

#[test]
fn a_frame_that_names_another_stream_is_refused() {
    // P-28
    let other = StreamBinding { opener_challenge: [1; 32], ..binding() };
    assert_eq!(open(&from_opener(&bound(&other, 0, public(ACCEPTOR), &members()))), Err(FrameError::WrongStream));
}

#[test]
fn a_frame_that_names_this_stream_and_was_signed_for_another_is_refused() {
    // P-25: each part of the context counts.
    let (a, b) = (public(OPENER), public(ACCEPTOR));
    let payload = bound(&binding(), 0, b, &members());
    let contexts = [
        frame_aad(&StreamBinding { network: "othernet".to_owned(), ..binding() }, a, b),
        frame_aad(&StreamBinding { protocol: "/althing/raft/1".to_owned(), ..binding() }, a, b),
        frame_aad(&binding(), public(STRANGER), b),
        frame_aad(&binding(), a, public(STRANGER)),
        frame_aad(&binding(), b, a),
        frame_aad(&StreamBinding { opener_challenge: [1; 32], ..binding() }, a, b),
        frame_aad(&StreamBinding { acceptor_challenge: [1; 32], ..binding() }, a, b),
        vec![],
    ];
    for aad in contexts {
        let refused = reason(open(&cose(&payload, &aad, &key(OPENER))));
        assert_eq!(refused, "FrameError::Envelope(Sign1Error::Signature)");
    }
}

#[test]
fn lost_repeated_and_reordered_frames_are_refused_by_their_counter() {
    // P-29
    let (mut sealer, mut opener) = towards_acceptor(&binding());
    let frames: Vec<_> = (0..3).map(|_| sealer.seal(small_request()).expect("a good frame")).collect();
    assert_eq!(opener.open(&frames[1]), Err(FrameError::WrongCounter { got: 1, expected: 0 }));
    assert!(opener.open(&frames[0]).is_ok());
    assert_eq!(opener.open(&frames[0]), Err(FrameError::WrongCounter { got: 0, expected: 1 }));
    assert_eq!(opener.open(&frames[2]), Err(FrameError::WrongCounter { got: 2, expected: 1 }));
    assert!(opener.open(&frames[1]).is_ok());
    assert!(opener.open(&frames[2]).is_ok());
}

#[test]
fn a_frame_that_cannot_be_sealed_uses_up_no_counter() {
    // P-29
    let (mut sealer, mut opener) = towards_acceptor(&binding());
    assert_eq!(reason(sealer.seal(Frame::new(FrameKind::Response, vec![]))), "FrameError::Shape");
    assert_eq!(opener.open(&sealer.seal(small_request()).expect("a good frame")), Ok(small_request()));
}

#[test]
fn the_opener_asks_and_cancels_and_the_acceptor_answers() {
    // P-30
    let kinds = [
        (FrameKind::Request, 1, true),
        (FrameKind::Response, 2, false),
        (FrameKind::Event, 3, false),
        (FrameKind::End, 4, false),
        (FrameKind::Error, 5, false),
        (FrameKind::Cancel, 6, true),
    ];
    let binding = binding();
    for (kind, number, openers) in kinds {
        let frame =
            Frame { kind, ..if kind == FrameKind::Request { small_request() } else { Frame::new(kind, vec![]) } };
        for by_opener in [true, false] {
            let (mut sealer, mut opener) =
                if by_opener { towards_acceptor(&binding) } else { towards_opener(&binding) };
            match sealer.seal(frame.clone()) {
                Ok(bytes) => assert_eq!((opener.open(&bytes).as_ref(), openers), (Ok(&frame), by_opener)),
                Err(error) => {
                    assert_eq!((reason::<(), _>(Err(error)).as_str(), openers), ("FrameError::Shape", !by_opener))
                }
            }
        }
        // The same, when the sender does not care: honestly signed bytes from the opener.
        let mut members = vec![(0, uint(number)), (11, bstr(&[]))];
        if kind == FrameKind::Request {
            members.insert(1, (4, tstr("GetTask")));
        }
        assert_eq!(open(&framed(&members)).is_ok(), openers, "{kind:?}");
    }
    assert_eq!(reason(open(&framed(&[(0, uint(0)), (11, bstr(&[]))]))), "FrameError::Shape");
    assert_eq!(reason(open(&framed(&[(0, uint(7)), (11, bstr(&[]))]))), "FrameError::Shape");
}

#[test]
fn members_of_a_request_are_refused_in_every_other_kind() {
    // P-31
    let values = [
        (4, tstr("GetTask")),
        (5, tstr(&agent().to_string())),
        (6, uint(1)),
        (7, tstr("00-1-1-00")),
        (8, tstr("a=b")),
        (9, array(&[])),
    ];
    for member in values {
        let cancel = [(0, uint(6)), member.clone(), (11, bstr(&[]))];
        assert_eq!(reason(open(&framed(&cancel))), "FrameError::Shape", "member {}", member.0);
        if member.0 != 4 {
            let request = [(0, uint(1)), (4, tstr("GetTask")), member, (11, bstr(&[]))];
            assert!(open(&framed(&request)).is_ok());
        }
    }
    assert_eq!(reason(open(&framed(&[(0, uint(1)), (11, bstr(&[]))]))), "FrameError::Shape", "no operation");
}

#[test]
fn unknown_null_missing_and_misshapen_members_are_refused() {
    // P-18, P-31
    let with = |label: u64, value: Vec<u8>| {
        let mut all: Vec<_> = members().into_iter().filter(|(have, _)| *have != label).collect();
        all.push((label, value));
        all.sort_by_key(|(label, _)| *label);
        all
    };
    let cases = [
        ("unknown member 1", with(1, uint(0))),
        ("unknown member 12", with(12, uint(0))),
        ("unknown member 15", with(15, uint(0))),
        ("null agent", with(5, vec![0xf6])),
        ("null deadline", with(6, vec![0xf6])),
        ("agent that is no id", with(5, tstr("urn:althing:echo"))),
        ("negative deadline", with(6, vec![0x20])),
        ("body as text", with(11, tstr("{}"))),
        ("no body", members()[..2].to_vec()),
        ("no kind", members()[1..].to_vec()),
    ];
    for (name, members) in cases {
        assert_eq!(reason(open(&framed(&members))), "FrameError::Shape", "{name}");
    }
    let outside = map(&[
        (0, uint(0)),
        (1, bstr(public(ACCEPTOR).as_bytes())),
        (2, bstr(&binding().id())),
        (3, map(&members())),
        (4, uint(0)),
    ]);
    assert_eq!(reason(open(&from_opener(&outside))), "FrameError::Shape", "unknown member beside the frame");
}

#[test]
fn members_at_their_limit_are_accepted_and_one_byte_more_is_refused_on_both_sides() {
    // P-32
    type Grow = fn(&mut Frame, usize);
    let text = |len: usize| "x".repeat(len);
    assert_eq!(text(2), "xx");
    let cases: [(&str, usize, Grow); 9] = [
        ("body", BODY_BYTES_MAX, |frame, len| frame.body = vec![b' '; len]),
        ("operation", OPERATION_BYTES_MAX, |frame, len| frame.operation = Some("x".repeat(len))),
        ("traceparent", TRACE_BYTES_MAX, |frame, len| frame.traceparent = Some("x".repeat(len))),
        ("tracestate", TRACE_BYTES_MAX, |frame, len| frame.tracestate = Some("x".repeat(len))),
        ("principals", PRINCIPALS_MAX, |frame, len| frame.principals = Some(vec!["x".repeat(256); len])),
        ("principal", PRINCIPAL_BYTES_MAX, |frame, len| frame.principals = Some(vec!["x".repeat(len)])),
        ("extensions", EXTENSIONS_MAX, |frame, len| frame.extensions = Some(vec!["x".repeat(256); len])),
        ("extension", PRINCIPAL_BYTES_MAX, |frame, len| frame.extensions = Some(vec!["x".repeat(len)])),
        ("delegation", DELEGATION_BYTES_MAX, |frame, len| frame.delegation = Some(vec![7; len])),
    ];
    for (name, max, grow) in cases {
        let (mut sealer, mut opener) = towards_acceptor(&binding());
        let mut frame = small_request();
        grow(&mut frame, max + 1);
        assert_eq!(reason(sealer.seal(frame.clone())), "FrameError::TooLong", "{name}");
        let members = raw_members(&frame);
        assert_eq!(reason(opener.open(&framed(&members))), "FrameError::TooLong", "{name}");
        grow(&mut frame, max);
        let sealed = sealer.seal(frame.clone()).expect("at its limit");
        assert_eq!(opener.open(&sealed), Ok(frame), "{name}");
    }
}

fn raw_members(frame: &Frame) -> Vec<(u64, Vec<u8>)> {
    let texts = |list: &[String]| array(&list.iter().map(|text| tstr(text)).collect::<Vec<_>>());
    let mut members = vec![(0, uint(1))];
    members.extend(frame.operation.iter().map(|it| (4, tstr(it))));
    members.extend(frame.traceparent.iter().map(|it| (7, tstr(it))));
    members.extend(frame.tracestate.iter().map(|it| (8, tstr(it))));
    members.extend(frame.principals.iter().map(|it| (9, texts(it))));
    members.extend(frame.extensions.iter().map(|it| (10, texts(it))));
    members.push((11, bstr(&frame.body)));
    members.extend(frame.delegation.iter().map(|it| (14, bstr(it))));
    members
}

#[test]
fn the_largest_frame_fits_and_a_longer_one_is_refused_unread() {
    // P-32
    let mut frame = Frame { body: vec![b' '; BODY_BYTES_MAX], ..request() };
    frame.principals = Some(vec!["x".repeat(PRINCIPAL_BYTES_MAX); PRINCIPALS_MAX]);
    frame.extensions = Some(vec!["x".repeat(PRINCIPAL_BYTES_MAX); EXTENSIONS_MAX]);
    frame.tracestate = Some("x".repeat(TRACE_BYTES_MAX));
    frame.label = Some(Label { level: DataLabel::Restricted, trusted: false });
    frame.session = Some([7; 32]);
    frame.delegation = Some(vec![7; DELEGATION_BYTES_MAX]);
    let (mut sealer, mut opener) = towards_acceptor(&binding());
    let sealed = sealer.seal(frame.clone()).expect("a good frame");
    assert!(sealed.len() <= FRAME_BYTES_MAX);
    assert_eq!(opener.open(&sealed), Ok(frame));
    let refused = opener.open(&vec![0; FRAME_BYTES_MAX + 1]);
    assert_eq!(reason(refused), "FrameError::Envelope(Sign1Error::Cbor(CborError::Size))");
}

#[test]
fn the_parameters_of_an_a2a_call_travel_in_members_of_the_request_and_not_in_its_body() {
    // P-54, P-52: what an A2A call and a placement look like as frames.
    let sealed = sealed_request();
    let opened = open(&sealed).expect("a good frame");
    assert_eq!(opened.operation.as_deref(), Some("SendMessage"));
    assert_eq!((opened.agent, opened.deadline_ms), (Some(agent()), Some(30_000)));
    assert!(opened.traceparent.is_some() && opened.tracestate.is_some() && opened.principals.is_some());
    assert_eq!(opened.extensions.expect("it has one").len(), 1);
    assert_eq!(opened.body, br#"{"message":{"role":"ROLE_USER"}}"#, "the operation's JSON as received");
    let pushed = StreamBinding { protocol: "/althing/placements/1".to_owned(), ..binding() };
    let (mut sealer, mut opener) = towards_acceptor(&pushed);
    let push = Frame { operation: Some("placement".to_owned()), ..Frame::new(FrameKind::Request, placement().bytes) };
    let bytes = sealer.seal(push.clone()).expect("a good frame");
    assert_eq!(opener.open(&bytes), Ok(push));
    let answer = Frame::new(FrameKind::Response, vec![]);
    let (mut sealer, mut opener) = towards_opener(&pushed);
    let bytes = sealer.seal(answer.clone()).expect("a good frame");
    assert_eq!(opener.open(&bytes), Ok(answer));
}

/// Receivers to which a captured frame may be offered again, all of which must refuse it.
fn elsewhere() -> Vec<(&'static str, FrameOpener)> {
    let acceptor = public(ACCEPTOR);
    let at = |binding: StreamBinding| FrameOpener::new(&binding, acceptor);
    let third = StreamBinding { acceptor: public(STRANGER), ..binding() };
    let turned = StreamBinding { opener: acceptor, acceptor: public(OPENER), ..binding() };
    vec![
        ("a later stream", at(StreamBinding { opener_challenge: [7; 32], acceptor_challenge: [8; 32], ..binding() })),
        (
            "a later stream with the opener's challenge again",
            at(StreamBinding { acceptor_challenge: [8; 32], ..binding() }),
        ),
        ("another protocol", at(StreamBinding { protocol: "/althing/session/1".to_owned(), ..binding() })),
        ("another network", at(StreamBinding { network: "othernet".to_owned(), ..binding() })),
        ("another receiver", FrameOpener::new(&third, public(STRANGER))),
        ("a stream opened from the other side", FrameOpener::new(&turned, acceptor)),
        ("its own sender", FrameOpener::new(&binding(), public(OPENER))),
    ]
}

#[test]
fn no_captured_frame_is_accepted_twice_anywhere() {
    // P-25 to P-29; threats row 4: 10,000 frames, each offered again to nine receivers.
    let (mut sealer, mut opener) = towards_acceptor(&binding());
    let captured: Vec<_> = (0..10_000).map(|_| sealer.seal(small_request()).expect("a good frame")).collect();
    let mut elsewhere = elsewhere();
    let mut restarted =
        FrameOpener::new(&StreamBinding { acceptor_challenge: [0xb1; 32], ..binding() }, public(ACCEPTOR));
    for (counter, bytes) in captured.iter().enumerate() {
        assert_eq!(opener.open(bytes), Ok(small_request()));
        let again = opener.open(bytes);
        assert_eq!(again, Err(FrameError::WrongCounter { got: counter as u64, expected: counter as u64 + 1 }));
        assert_eq!(restarted.open(bytes), Err(FrameError::WrongStream), "a restarted receiver");
        for (place, opener) in &mut elsewhere {
            assert!(opener.open(bytes).is_err(), "{place}");
        }
    }
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let texts = || prop::option::of(prop::collection::vec("\\PC{0,20}", 0..4));
    let body = prop::collection::vec(any::<u8>(), 0..64);
    let request = ("[A-Za-z]{0,20}", any::<bool>(), any::<Option<u64>>(), any::<Option<bool>>(), texts());
    (0..6u8, request, texts(), body, any_attributes()).prop_map(
        |(kind, (operation, to_agent, deadline_ms, trace, principals), extensions, body, attributes)| {
            let kinds = [
                FrameKind::Request,
                FrameKind::Response,
                FrameKind::Event,
                FrameKind::End,
                FrameKind::Error,
                FrameKind::Cancel,
            ];
            let frame = Frame { extensions, ..Frame::new(kinds[usize::from(kind)], body) };
            let takes = matches!(frame.kind, FrameKind::Request | FrameKind::Response | FrameKind::Event);
            let frame = if takes { frame.with(attributes) } else { frame };
            if frame.kind != FrameKind::Request {
                return frame;
            }
            let traceparent = trace.map(|sampled| format!("00-1-1-0{}", u8::from(sampled)));
            Frame {
                operation: Some(operation),
                agent: to_agent.then(agent),
                deadline_ms,
                traceparent,
                principals,
                ..frame
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn a_sealed_frame_opens_to_itself_and_seals_to_the_same_bytes(frame in any_frame()) {
        // P-18
        let binding = binding();
        let by_opener = matches!(frame.kind, FrameKind::Request | FrameKind::Cancel);
        let (mut sealer, mut opener) = if by_opener { towards_acceptor(&binding) } else { towards_opener(&binding) };
        let bytes = sealer.seal(frame.clone()).expect("a good frame");
        let opened = opener.open(&bytes).expect("our own frame");
        prop_assert_eq!(&opened, &frame);
        let key = key(if by_opener { OPENER } else { ACCEPTOR });
        prop_assert_eq!(FrameSealer::new(&binding, key).seal(opened), Ok(bytes));
    }

    #[test]
    fn a_changed_payload_that_is_accepted_seals_to_the_same_bytes(
        frame in any_frame(), at in any::<prop::sample::Index>(), byte in any::<u8>(), how in 0..3u8,
    ) {
        // P-18: the sender signs whatever it likes.
        let sealed = FrameSealer::new(&binding(), key(OPENER)).seal(frame);
        let Ok(sealed) = sealed else { return Ok(()) };
        let mut payload = althing_protocol::sign1::read(&sealed, FRAME_BYTES_MAX).expect("our own").payload().to_vec();
        let at = at.index(payload.len());
        match how {
            0 => payload[at] = byte,
            1 => payload.insert(at, byte),
            _ => drop(payload.remove(at)),
        }
        let bytes = from_opener(&payload);
        if let Ok(opened) = open(&bytes) {
            prop_assert_eq!(FrameSealer::new(&binding(), key(OPENER)).seal(opened), Ok(bytes));
        }
    }
}
