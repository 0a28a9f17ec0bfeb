//! The opening of a stream.

use althing_protocol::object::{self, Membership};
use althing_protocol::record::RecordKey;
use althing_protocol::stream::{HelloError, OwnerProofError};
use althing_protocol::{CallerId, Hello, OwnerProof, PublisherId};
use proptest::prelude::*;

use crate::names::reason;
use crate::support::*;

fn hello() -> Hello {
    Hello { version: 1, challenge: [0xa0; 32], network: NETWORK.to_owned(), owner: Some(proof()) }
}

/// Member 3: what the owner signed, and the event that the owner's id is the digest of.
fn owner(membership: &[u8], inception: &[u8]) -> Vec<u8> {
    map(&[(0, bstr(membership)), (1, bstr(inception))])
}

fn members() -> Vec<(u64, Vec<u8>)> {
    vec![
        (0, uint(1)),
        (1, bstr(&[0xa0; 32])),
        (2, tstr(NETWORK)),
        (3, owner(&membership().bytes, &log().to_bytes()[0])),
    ]
}

#[test]
fn a_hello_is_the_map_that_the_specification_shows() {
    // P-21
    assert_eq!(hello().encode(), map(&members()));
    assert_eq!(Hello::decode(&map(&members()), NETWORK), Ok(hello()));
    let bare = Hello { owner: None, ..hello() };
    assert_eq!(bare.encode(), map(&members()[..3]));
    assert_eq!(Hello::decode(&bare.encode(), NETWORK), Ok(bare));
}

#[test]
fn another_shape_of_hello_is_refused() {
    // P-18, P-21
    let changed = |at: usize, value: Vec<u8>| {
        let mut members = members();
        members[at].1 = value;
        map(&members)
    };
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("no challenge", map(&[members()[0].clone(), members()[2].clone()]), "HelloError::Shape"),
        ("short challenge", changed(1, bstr(&[0; 31])), "HelloError::Shape"),
        ("challenge text", changed(1, tstr("x")), "HelloError::Shape"),
        ("null owner", changed(3, vec![0xf6]), "HelloError::Shape"),
        ("a membership alone, as bytes", changed(3, bstr(&membership().bytes)), "HelloError::Shape"),
        ("no inception", changed(3, map(&[(0, bstr(&membership().bytes))])), "HelloError::Shape"),
        ("null inception", changed(3, map(&[(0, bstr(&[])), (1, vec![0xf6])])), "HelloError::Shape"),
        ("more than a proof", changed(3, map(&[(0, bstr(&[])), (1, bstr(&[])), (2, uint(0))])), "HelloError::Shape"),
        ("unknown member", map(&[members(), vec![(4, uint(0))]].concat()), "HelloError::Shape"),
        ("an array", array(&[uint(1)]), "HelloError::Shape"),
        ("too long", changed(3, owner(&[0; 1_024], &[0; 1_024])), "HelloError::Cbor(CborError::Size)"),
        ("unsorted", map(&[members()[1].clone(), members()[0].clone()]), "HelloError::Cbor(CborError::Unsorted)"),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(reason(Hello::decode(&bytes, NETWORK)), expected, "{name}");
    }
}

#[test]
fn another_version_is_refused_by_its_number_even_with_members_of_its_own() {
    // P-22
    for version in [0, 2, 255] {
        let members = [vec![(0, uint(version))], members()[1..].to_vec(), vec![(9, uint(0))]].concat();
        let refused = Hello::decode(&map(&members), NETWORK);
        let expected = Err(HelloError::Version(u8::try_from(version).expect("it is below 256")));
        assert_eq!(refused, expected);
        let reshaped = map(&[(0, uint(version)), (1, tstr("another shape")), (2, array(&[uint(0)]))]);
        assert_eq!(Hello::decode(&reshaped, NETWORK), expected);
    }
}

#[test]
fn another_network_is_refused_and_both_are_named() {
    // P-23
    let refused = Hello::decode(&hello().encode(), "othernet");
    assert_eq!(refused, Err(HelloError::Network { theirs: NETWORK.to_owned(), ours: "othernet".to_owned() }));
}

/// The proof by what was signed and an inception.
fn proof_of(membership: Vec<u8>, inception: Vec<u8>) -> OwnerProof {
    OwnerProof { membership: membership.into(), inception: inception.into() }
}

#[test]
fn an_owner_is_proven_by_its_inception_and_a_membership_for_this_network() {
    // P-24: the parts that need no keyring; whether the signer speaks for the owner now, the keyring says.
    let inception = || log().to_bytes().remove(0);
    let shown = proof().verify(NETWORK).expect("a good proof");
    assert_eq!((shown.membership.signer, shown.membership.body.owner), (public(PUBLISHER), publisher()));
    assert_eq!((shown.inception.as_ref(), shown.inception.publisher()), (&log(), publisher()));
    assert_eq!(shown.membership.body.in_force(NOW_MS), Ok(()));
    assert_eq!(reason(shown.membership.body.in_force(NOW_MS + HOUR_MS + 1)), "ObjectError::Expired");
    assert_eq!(OwnerProof::new(membership().bytes, &rotated_twice()), proof(), "of a longer log the first event");
    let refused = |membership: Vec<u8>, inception: Vec<u8>| reason(proof_of(membership, inception).verify(NETWORK));
    let signature = "OwnerProofError::Membership(ObjectError::Envelope(Sign1Error::Signature))";
    assert_eq!(reason(proof().verify("othernet")), signature);
    assert_eq!(refused(grant().bytes, inception()), "OwnerProofError::Membership(ObjectError::WrongKind)");
    assert_eq!(
        refused(membership().bytes, grant().bytes),
        "OwnerProofError::Inception(KeyLogError::Event(ObjectError::WrongKind))"
    );
    let rotation = rotated().to_bytes().remove(1);
    assert_eq!(refused(membership().bytes, rotation), "OwnerProofError::Inception(KeyLogError::Chain)");
    for at in 0..inception().len() {
        let mut bent = inception();
        bent[at] ^= 1;
        assert!(proof_of(membership().bytes, bent).verify(NETWORK).is_err(), "byte {at} of the inception");
    }
}

#[test]
fn an_inception_of_somebody_else_proves_no_owner() {
    // P-24: neither a stranger's, nor a second one by the owner's own first key.
    for other in [begun(STRANGER, [NEXT, AFTER_NEXT], NOW_MS), begun(PUBLISHER, [STRANGER, STRANGER], NOW_MS)] {
        let refused = proof_of(membership().bytes, other.to_bytes().remove(0)).verify(NETWORK);
        let expected = OwnerProofError::Mismatch { membership: publisher(), inception: other.publisher() };
        assert_eq!(refused, Err(expected));
    }
}

#[test]
fn a_hello_with_proof_of_an_owner_has_room_to_spare() {
    // P-21: with the longest name of a network and the longest times.
    let inception = begun(PUBLISHER, [NEXT, AFTER_NEXT], u64::MAX);
    let body = Membership::new(inception.publisher(), public(NODE), u64::MAX - 1, u64::MAX);
    let network = "x".repeat(64);
    let membership = object::sign(body, &network, "", &key(PUBLISHER)).expect("a good shape");
    let owner = Some(OwnerProof::new(membership.bytes, &inception));
    let bytes = Hello { version: 1, challenge: [0xff; 32], network: network.clone(), owner }.encode();
    assert!(bytes.len() < 700, "{} of 2,048 bytes", bytes.len());
    assert!(Hello::decode(&bytes, &network).is_ok());
}

#[test]
fn a_node_key_with_the_bytes_of_a_publishers_digest_is_not_the_publisher() {
    // P-12, P-24: nothing that is signed, printed or kept of the one is read as of the other.
    let twin = PublisherId::from_digest(*public(NODE).as_bytes());
    assert_eq!(twin.as_bytes(), public(NODE).as_bytes());
    assert_ne!(CallerId::Publisher(twin), CallerId::Node(public(NODE)));
    assert_eq!(public(NODE).did().parse(), Ok(CallerId::Node(public(NODE))));
    assert_eq!(twin.to_string().parse(), Ok(CallerId::Publisher(twin)));
    assert_eq!(reason(public(NODE).did().parse::<PublisherId>()), "IdentityError::PublisherId");
    assert_ne!(RecordKey::key_log(NETWORK, twin), RecordKey::contact(NETWORK, public(NODE)));
    // The node signs that it is its own owner, and begins a log with its key: that log has another name.
    let body = Membership::new(twin, public(NODE), NOW_MS, NOW_MS + HOUR_MS);
    let membership = object::sign(body, NETWORK, "", &key(NODE)).expect("anyone can sign what it likes");
    let inception = begun(NODE, [NEXT, AFTER_NEXT], NOW_MS);
    assert_eq!(reason(OwnerProof::new(membership.bytes, &inception).verify(NETWORK)), "OwnerProofError::Mismatch");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn an_accepted_hello_encodes_to_the_same_bytes(
        challenge in any::<[u8; 32]>(),
        owner in prop::option::of(prop::array::uniform2(prop::collection::vec(any::<u8>(), 0..600))),
        edit in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        // P-18
        let owner = owner.map(|[membership, inception]| OwnerProof {
            membership: membership.into(),
            inception: inception.into(),
        });
        let hello = Hello { version: 1, challenge, network: NETWORK.to_owned(), owner };
        let mut bytes = hello.encode();
        if let Some((at, byte)) = edit {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        } else {
            let decoded = Hello::decode(&bytes, NETWORK);
            prop_assert_eq!(decoded.as_ref(), Ok(&hello));
        }
        if let Ok(accepted) = Hello::decode(&bytes, NETWORK) {
            prop_assert_eq!(accepted.encode(), bytes);
        }
    }
}
