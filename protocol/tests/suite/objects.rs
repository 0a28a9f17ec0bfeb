//! Authored objects: each reason to refuse.

use althing_protocol::binding::Binding;
use althing_protocol::contract::Latency;
use althing_protocol::limits::*;
use althing_protocol::object::{self, AgentLoad, Description, Grant, Hosted, Membership, Placement, TaskMove};
use althing_protocol::{AgentId, Authored, ObjectError, PublisherId};
use proptest::prelude::*;

use crate::names::reason;
use crate::support::*;

const GRANT: &str = "althing/grant/1";

fn open_grant(bytes: &[u8]) -> Result<Authored<Grant>, ObjectError> {
    object::open(bytes, NETWORK, "")
}

fn grant_members() -> Vec<(u64, Vec<u8>)> {
    vec![
        (0, uint(2)),
        (1, tstr(&agent().to_string())),
        (2, bstr(public(NODE).as_bytes())),
        (3, uint(NOW_MS - HOUR_MS)),
        (4, uint(NOW_MS + HOUR_MS)),
    ]
}

fn placement_members() -> Vec<(u64, Vec<u8>)> {
    let body = placement_body();
    let hosted =
        |it: &Hosted| map(&[(0, tstr(&it.agent.to_string())), (1, bstr(&it.description)), (2, bstr(&it.grant))]);
    vec![
        (0, uint(3)),
        (1, bstr(public(NODE).as_bytes())),
        (2, uint(42)),
        (3, uint(NOW_MS)),
        (4, uint(6_000)),
        (5, uint(250)),
        (6, uint(0)),
        (7, array(&body.agents.iter().map(hosted).collect::<Vec<_>>())),
    ]
}

#[test]
fn objects_built_by_hand_are_what_the_crate_builds() {
    // P-35, P-36
    let by_hand = |domain: &str, members: &[(u64, Vec<u8>)], signer: u8| {
        cose(&map(members), &object_aad(domain, NETWORK, ""), &key(signer))
    };
    assert_eq!(by_hand(GRANT, &grant_members(), PUBLISHER), grant().bytes);
    assert_eq!(by_hand("althing/placement/1", &placement_members(), NODE), placement().bytes);
    let mut members = grant_members();
    members[0].1 = uint(5);
    members[1].1 = bstr(publisher().as_bytes());
    assert_eq!(by_hand("althing/membership/1", &members, PUBLISHER), membership().bytes);
    let members = [
        (0, uint(1)),
        (1, tstr(&agent().to_string())),
        (2, uint(7)),
        (3, uint(NOW_MS - HOUR_MS)),
        (4, bstr(br#"{"title":"Echo"}"#)),
    ];
    assert_eq!(by_hand("althing/description/1", &members, PUBLISHER), description().bytes);
}

#[test]
fn a_binding_is_signed_by_its_node_and_its_manifest_is_canonical() {
    // P-58
    let open =
        |bytes: &[u8]| object::open::<Binding>(bytes, NETWORK, "").and_then(|binding| binding.sealed()).map(drop);
    let sealed = sealed_binding();
    assert_eq!(open(&sealed.bytes), Ok(()));
    let strangers = object::sign(sealed.body.clone(), NETWORK, "", &key(STRANGER)).expect("a good shape");
    assert!(matches!(open(&strangers.bytes), Err(ObjectError::WrongKey { .. })));
    let spaced = String::from_utf8(sealed.body.manifest).expect("JSON").replacen(':', ": ", 1);
    let members = [(0, uint(6)), (1, bstr(public(NODE).as_bytes())), (2, uint(NOW_MS)), (3, bstr(spaced.as_bytes()))];
    let spaced = cose(&map(&members), &object_aad("althing/binding/1", NETWORK, ""), &key(NODE));
    assert!(open(&spaced).is_err());
}

#[test]
fn an_object_of_another_network_or_scope_is_refused() {
    // P-35
    let scoped = object::sign(grant().body, NETWORK, "group-1", &key(PUBLISHER)).expect("a good grant");
    assert!(object::open::<Grant>(&scoped.bytes, NETWORK, "group-1").is_ok());
    for (bytes, network, scope) in [
        (&grant().bytes, "othernet", ""),
        (&grant().bytes, "", NETWORK),
        (&grant().bytes, NETWORK, "group-1"),
        (&scoped.bytes, NETWORK, ""),
        (&scoped.bytes, NETWORK, "group-2"),
        (&scoped.bytes, "testnetgroup-1", ""),
    ] {
        let refused = reason(object::open::<Grant>(bytes, network, scope));
        assert_eq!(refused, "ObjectError::Envelope(Sign1Error::Signature)", "{network} {scope}");
    }
}

#[test]
fn an_unknown_kind_and_a_payload_without_one_are_refused() {
    // P-36
    let aad = object_aad(GRANT, NETWORK, "");
    for first in [uint(0), uint(99), tstr("grant"), vec![0xf6]] {
        let mut members = grant_members();
        members[0].1 = first;
        assert_eq!(reason(open_grant(&cose(&map(&members), &aad, &key(PUBLISHER)))), "ObjectError::Shape");
    }
    for payload in [map(&grant_members()[1..]), uint(2), array(&[uint(2)]), map(&[])] {
        assert_eq!(reason(open_grant(&cose(&payload, &aad, &key(PUBLISHER)))), "ObjectError::Shape");
    }
}

#[test]
fn unknown_null_missing_and_misshapen_members_are_refused() {
    // P-18
    let aad = object_aad(GRANT, NETWORK, "");
    let opened = |members: &[(u64, Vec<u8>)]| open_grant(&cose(&map(members), &aad, &key(PUBLISHER)));
    assert!(opened(&grant_members()).is_ok());
    let changed = |at: usize, value: Vec<u8>| {
        let mut members = grant_members();
        members[at].1 = value;
        members
    };
    let cases = [
        ("unknown", [grant_members(), vec![(5, uint(0))]].concat()),
        ("missing", grant_members()[..4].to_vec()),
        ("null", changed(4, vec![0xf6])),
        ("negative time", changed(3, vec![0x20])),
        ("node not a point", changed(2, bstr(&[2; 32]))),
        ("node too short", changed(2, bstr(&[1; 31]))),
        ("agent id", changed(1, tstr("urn:althing:x:y"))),
    ];
    for (name, members) in cases {
        assert_eq!(reason(opened(&members)), "ObjectError::Shape", "{name}");
    }
}

#[test]
fn a_life_above_a_day_or_below_nothing_is_refused_when_signing_and_when_reading() {
    // P-38
    for (life_ms, expected) in [
        (0, None),
        (GRANT_LIFE_MAX_MS, None),
        (GRANT_LIFE_MAX_MS + 1, Some("ObjectError::LivesTooLong")),
        (u64::MAX - NOW_MS, Some("ObjectError::LivesTooLong")),
    ] {
        let body = Grant::new(agent(), public(NODE), NOW_MS, NOW_MS + life_ms);
        let signed = object::sign(body, NETWORK, "", &key(PUBLISHER));
        assert_eq!(signed.err().map(|error| reason::<(), _>(Err(error))).as_deref(), expected);
        let mut members = grant_members();
        (members[3].1, members[4].1) = (uint(NOW_MS), uint(NOW_MS + life_ms));
        let opened = open_grant(&cose(&map(&members), &object_aad(GRANT, NETWORK, ""), &key(PUBLISHER)));
        assert_eq!(opened.err().map(|error| reason::<(), _>(Err(error))).as_deref(), expected);
    }
    let backwards = Membership::new(publisher(), public(NODE), NOW_MS, NOW_MS - 1);
    assert_eq!(reason(object::sign(backwards, NETWORK, "", &key(PUBLISHER))), "ObjectError::Shape");
}

#[test]
fn a_grant_is_in_force_from_its_beginning_less_the_skew_to_its_end() {
    // P-39
    let grant = Grant::new(agent(), public(NODE), NOW_MS, NOW_MS + HOUR_MS);
    let membership = Membership::new(publisher(), public(NODE), NOW_MS, NOW_MS + HOUR_MS);
    for (now_ms, expected) in [
        (NOW_MS - CLOCK_SKEW_MAX_MS - 1, Err(ObjectError::NotYetValid { in_ms: CLOCK_SKEW_MAX_MS + 1 })),
        (NOW_MS - CLOCK_SKEW_MAX_MS, Ok(())),
        (NOW_MS + HOUR_MS, Ok(())),
        (NOW_MS + HOUR_MS + 1, Err(ObjectError::Expired { ago_ms: 1 })),
        (0, Err(ObjectError::NotYetValid { in_ms: NOW_MS })),
        (u64::MAX, Err(ObjectError::Expired { ago_ms: u64::MAX - NOW_MS - HOUR_MS })),
    ] {
        assert_eq!(grant.in_force(now_ms), expected);
        assert_eq!(membership.in_force(now_ms), expected);
    }
}

#[test]
fn a_placement_is_believed_only_from_its_own_node_and_in_its_time() {
    // P-41
    let good = placement();
    assert_eq!(good.believable(NOW_MS), Ok(()));
    let forged = object::sign(good.body.clone(), NETWORK, "", &key(STRANGER)).expect("a good shape");
    let expected = ObjectError::WrongKey { signer: public(STRANGER), expected: public(NODE) };
    assert_eq!(forged.believable(NOW_MS), Err(expected));
    assert_eq!(good.believable(NOW_MS - CLOCK_SKEW_MAX_MS), Ok(()));
    assert_eq!(reason(good.believable(NOW_MS - CLOCK_SKEW_MAX_MS - 1)), "ObjectError::NotYetValid");
    assert_eq!(good.believable(NOW_MS + 6_000 + CLOCK_SKEW_MAX_MS), Ok(()));
    assert_eq!(reason(good.believable(NOW_MS + 6_001 + CLOCK_SKEW_MAX_MS)), "ObjectError::Expired");
}

fn open_placement(members: &[(u64, Vec<u8>)]) -> Result<Authored<Placement>, ObjectError> {
    object::open(&cose(&map(members), &object_aad("althing/placement/1", NETWORK, ""), &key(NODE)), NETWORK, "")
}

#[test]
fn a_placement_that_breaks_a_rule_is_refused() {
    // P-40
    let changed = |at: usize, value: Vec<u8>| {
        let mut members = placement_members();
        members[at].1 = value;
        members
    };
    let entry = |name: &str| map(&[(0, tstr(&format!("{}{name}", agent()))), (1, bstr(&[0; 32])), (2, bstr(&[0; 32]))]);
    assert!(open_placement(&changed(7, array(&[entry(""), entry("-2")]))).is_ok());
    let load = |class: u8, turns: u32| [&[class][..], &turns.to_be_bytes()].concat();
    let with_loads = |loads: &[Vec<u8>]| {
        let mut members = changed(7, array(&[entry(""), entry("-2")]));
        members.push((9, bstr(&loads.concat())));
        members
    };
    assert!(open_placement(&with_loads(&[load(0, 0), load(2, u32::MAX)])).is_ok());
    let many: Vec<_> = (0..=PLACEMENT_AGENTS_MAX).map(|at| entry(&format!("{at:03}"))).collect();
    let cases = [
        ("unsorted", changed(7, array(&[entry("-2"), entry("")])), "ObjectError::Shape"),
        ("twice", changed(7, array(&[entry(""), entry("")])), "ObjectError::Shape"),
        ("too many", changed(7, array(&many)), "ObjectError::Shape"),
        ("load 1001", changed(5, uint(1_001)), "ObjectError::Shape"),
        ("load 65536", changed(5, uint(65_536)), "ObjectError::Shape"),
        ("health 3", changed(6, uint(3)), "ObjectError::Shape"),
        ("loads of other agents", with_loads(&[load(1, 0)]), "ObjectError::Shape"),
        ("loads of more agents", with_loads(&[load(0, 0), load(1, 0), load(2, 0)]), "ObjectError::Shape"),
        ("a class of none", with_loads(&[load(1, 0), load(3, 0)]), "ObjectError::Shape"),
        ("a part of a load", with_loads(&[load(1, 0), vec![2, 0, 0, 0]]), "ObjectError::Shape"),
        ("long life", changed(4, uint(PLACEMENT_TTL_MAX_MS + 1)), "ObjectError::LivesTooLong"),
    ];
    for (name, members, expected) in cases {
        assert_eq!(reason(open_placement(&members)), expected, "{name}");
    }
    assert!(open_placement(&changed(5, uint(1_000))).is_ok());
    assert!(open_placement(&changed(4, uint(PLACEMENT_TTL_MAX_MS))).is_ok());
}

#[test]
fn the_largest_placement_stays_below_the_limits_of_cbor() {
    // P-40, P-8: 500 agents with names of 63 characters.
    let mut body = placement_body();
    let name = |at: usize| format!("{at:0>63}");
    let hosted = |at| Hosted { agent: named(&name(at)), description: [0xff; 32], grant: [0xff; 32] };
    body.agents = (0..PLACEMENT_AGENTS_MAX).map(hosted).collect();
    body.loads = Some(vec![AgentLoad { latency: Latency::Dt, turns: u32::MAX }; PLACEMENT_AGENTS_MAX]);
    body.successes = Some(vec![Some(100); PLACEMENT_AGENTS_MAX]);
    let signed = object::sign(body, NETWORK, "", &key(NODE)).expect("a good placement");
    assert!(signed.bytes.len() < 100 << 10, "{}", signed.bytes.len());
    assert_eq!(object::open::<Placement>(&signed.bytes, NETWORK, "").as_ref(), Ok(&signed));
}

#[test]
fn an_object_above_the_limit_is_neither_signed_nor_read() {
    // P-37
    let body = |len: usize| Description::new(agent(), 1, NOW_MS, vec![b' '; len]);
    let sign = |len: usize| object::sign(body(len), NETWORK, "", &key(PUBLISHER));
    let largest = sign(OBJECT_BYTES_MAX - 512).expect("below the limit");
    assert!(largest.bytes.len() <= OBJECT_BYTES_MAX);
    assert!(object::open::<Description>(&largest.bytes, NETWORK, "").is_ok());
    assert_eq!(reason(sign(OBJECT_BYTES_MAX)), "ObjectError::Shape");
    let refused = object::open::<Description>(&vec![0; OBJECT_BYTES_MAX + 1], NETWORK, "");
    assert_eq!(reason(refused), "ObjectError::Envelope(Sign1Error::Cbor(CborError::Size))");
}

/// A name that an agent may have.
fn any_name() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn agents_sort_as_the_bytes_of_their_printed_ids(
        a in (any::<[u8; 32]>(), any_name()), b in (any::<[u8; 32]>(), any_name()),
    ) {
        // P-40: another implementation sorts the text.
        let id = |(digest, name): &([u8; 32], String)| {
            AgentId::new(PublisherId::from_digest(*digest), name).expect("a good name")
        };
        let (a, b) = (id(&a), id(&b));
        prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
    }

    #[test]
    fn an_accepted_object_signs_to_the_same_bytes(
        name in any_name(), sequence in any::<u64>(), at_ms in any::<u64>(),
        td in prop::collection::vec(any::<u8>(), 0..200),
        edit in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        // P-18: the publisher signs whatever it likes.
        let body = Description::new(named(&name), sequence, at_ms, td);
        let signed = object::sign(body, NETWORK, "", &key(PUBLISHER)).expect("a good description");
        let mut bytes = signed.bytes.clone();
        if let Some((at, byte)) = edit {
            let mut payload = althing_protocol::sign1::read(&bytes, OBJECT_BYTES_MAX).expect("our own").payload().to_vec();
            let at = at.index(payload.len());
            payload[at] = byte;
            bytes = cose(&payload, &object_aad("althing/description/1", NETWORK, ""), &key(PUBLISHER));
        } else {
            let opened = object::open::<Description>(&bytes, NETWORK, "");
            prop_assert_eq!(opened.as_ref(), Ok(&signed));
        }
        if let Ok(opened) = object::open::<Description>(&bytes, NETWORK, "") {
            prop_assert_eq!(object::sign(opened.body, NETWORK, "", &key(PUBLISHER)).expect("it was accepted").bytes, bytes);
        }
    }
}

#[test]
fn a_move_of_a_task_says_which_task_where_to_and_how_often_and_nothing_else() {
    // P-204
    let open = |members: &[(u64, Vec<u8>)]| {
        let bytes = cose(&map(members), &object_aad("althing/task-move/1", NETWORK, ""), &key(NODE));
        object::open::<TaskMove>(&bytes, NETWORK, "").map(|opened| (opened.signer, opened.body))
    };
    let members = vec![
        (0, uint(20)),
        (1, tstr(&agent().to_string())),
        (2, tstr(TASK)),
        (3, bstr(public(STRANGER).as_bytes())),
        (4, uint(1)),
        (5, bstr(&task_move_body().contents)),
    ];
    assert_eq!(open(&members), Ok((public(NODE), task_move_body())));
    for at in 1..members.len() {
        let mut without = members.clone();
        without.remove(at);
        assert!(matches!(open(&without), Err(ObjectError::Shape(_))), "without member {at}");
    }
    let more = [members.clone(), vec![(6, uint(1))]].concat();
    assert!(matches!(open(&more), Err(ObjectError::Shape(_))), "a member that nobody knows");
    let with = |at: usize, value: Vec<u8>| {
        let mut changed = members.clone();
        changed[at].1 = value;
        open(&changed)
    };
    for (at, value) in [(2, tstr("")), (2, tstr(&"t".repeat(TASK_ID_BYTES_MAX + 1))), (4, uint(0)), (5, bstr(&[0; 31]))]
    {
        assert!(matches!(with(at, value), Err(ObjectError::Shape(_))), "member {at}");
    }
    assert!(matches!(with(0, uint(2)), Err(ObjectError::WrongKind { .. })));
    let refused = object::sign(TaskMove::new(agent(), TASK, public(STRANGER), 0, [0; 32]), NETWORK, "", &key(NODE));
    assert!(matches!(refused, Err(ObjectError::Shape(_))), "nor is it signed");
}
