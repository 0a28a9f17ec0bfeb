//! The opening of a stream.

use althing_protocol::object;
use althing_protocol::stream::HelloError;
use althing_protocol::{Authored, Hello};
use proptest::prelude::*;

use crate::names::reason;
use crate::support::*;

fn hello() -> Hello {
    Hello { version: 1, challenge: [0xa0; 32], network: NETWORK.to_owned(), membership: Some(membership().bytes) }
}

fn members() -> Vec<(u64, Vec<u8>)> {
    vec![(0, uint(1)), (1, bstr(&[0xa0; 32])), (2, tstr(NETWORK)), (3, bstr(&membership().bytes))]
}

#[test]
fn a_hello_is_the_map_that_the_specification_shows() {
    // P-21
    assert_eq!(hello().encode(), map(&members()));
    assert_eq!(Hello::decode(&map(&members()), NETWORK), Ok(hello()));
    let bare = Hello { membership: None, ..hello() };
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
        ("null membership", changed(3, vec![0xf6]), "HelloError::Shape"),
        ("unknown member", map(&[members(), vec![(4, uint(0))]].concat()), "HelloError::Shape"),
        ("an array", array(&[uint(1)]), "HelloError::Shape"),
        ("too long", changed(3, bstr(&[0; 2_048])), "HelloError::Cbor(CborError::Size)"),
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

#[test]
fn a_membership_proves_an_owner_only_with_the_owners_signature_for_this_node_in_its_time() {
    // P-24: the parts that a transport puts together.
    let read = |bytes: &[u8]| object::open::<object::Membership>(bytes, NETWORK, "");
    let shown: Authored<object::Membership> = read(&membership().bytes).expect("a good membership");
    assert_eq!((shown.signer, shown.body.owner, shown.body.node), (public(PUBLISHER), public(PUBLISHER), public(NODE)));
    assert_eq!(shown.body.in_force(NOW_MS), Ok(()));
    assert_eq!(reason(shown.body.in_force(NOW_MS + HOUR_MS + 1)), "ObjectError::Expired");
    let forged = object::sign(shown.body, NETWORK, "", &key(STRANGER)).expect("a good shape");
    let forged = read(&forged.bytes).expect("anyone can sign what it likes");
    assert_ne!(forged.signer, forged.body.owner, "and the signer tells");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn an_accepted_hello_encodes_to_the_same_bytes(
        challenge in any::<[u8; 32]>(), membership in prop::option::of(prop::collection::vec(any::<u8>(), 0..600)),
        edit in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        // P-18
        let hello = Hello { version: 1, challenge, network: NETWORK.to_owned(), membership };
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
