//! The envelope and the strict predicate: what COSE or a lenient verifier would let through.

use std::ops::{Add, Mul};

use althing_protocol::sign1;
use althing_protocol::{FrameError, IdentityError, PublicKey, SecretKey};
use ed25519_dalek::{Signature, Signer as _, VerifyingKey};
use sha2::{Digest as _, Sha512};

use crate::names::reason;
use crate::support::*;

const MAX: usize = 1 << 16;
const AAD: &[u8] = b"\x61x";
const PAYLOAD: &[u8] = &[0xa1, 0x00, 0x01];
/// The neutral element: y = 1.
const IDENTITY: [u8; 32] = {
    let mut bytes = [0; 32];
    bytes[0] = 1;
    bytes
};

fn opened(bytes: &[u8]) -> Result<Vec<u8>, sign1::Sign1Error> {
    Ok(sign1::read(bytes, MAX)?.verify(AAD)?.to_vec())
}

#[test]
fn an_envelope_built_by_hand_is_what_the_crate_builds() {
    // P-14, P-15, P-17: COSE_Sign1 and Sig_structure by RFC 9052 without coset.
    let ours = sign1::seal(PAYLOAD.to_vec(), AAD, &key(OPENER));
    assert_eq!(ours, cose(PAYLOAD, AAD, &key(OPENER)));
    assert_eq!(opened(&ours).as_deref(), Ok(PAYLOAD));
    assert_eq!(ours.len(), 1 + 2 + 38 + 1 + 1 + PAYLOAD.len() + 2 + 64);
}

/// An envelope that is honestly signed, whatever its protected header says.
fn with_protected(protected: &[u8], unprotected: &[u8]) -> Vec<u8> {
    let signature = key(OPENER).signing_key().sign(&to_be_signed(protected, AAD, PAYLOAD)).to_bytes();
    array(&[bstr(protected), unprotected.to_vec(), bstr(PAYLOAD), bstr(&signature)])
}

#[test]
fn every_other_header_is_refused_though_its_signature_holds() {
    // P-14, P-15
    let kid = bstr(public(OPENER).as_bytes());
    let good = protected(&public(OPENER));
    assert!(opened(&with_protected(&good, &[0xa0])).is_ok());
    let header = |members: &[&[u8]]| [head(5, members.len() as u64 / 2), members.concat()].concat();
    let cases: Vec<(&str, Vec<u8>, Vec<u8>, &str)> = vec![
        ("alg ES256", header(&[&[1], &[0x26], &[4], &kid]), vec![0xa0], "Sign1Error::Algorithm"),
        ("alg RS256", header(&[&[1], &[0x39, 1, 0], &[4], &kid]), vec![0xa0], "Sign1Error::Algorithm"),
        ("alg as text", header(&[&[1], &tstr("EdDSA"), &[4], &kid]), vec![0xa0], "Sign1Error::Algorithm"),
        ("no alg", header(&[&[4], &kid]), vec![0xa0], "Sign1Error::Algorithm"),
        ("no kid", header(&[&[1], &[0x27]]), vec![0xa0], "Sign1Error::KeyId"),
        ("short kid", header(&[&[1], &[0x27], &[4], &bstr(&[1; 31])]), vec![0xa0], "Sign1Error::KeyId"),
        ("kid not a point", header(&[&[1], &[0x27], &[4], &bstr(&[2; 32])]), vec![0xa0], "Sign1Error::KeyId"),
        ("more", header(&[&[1], &[0x27], &[4], &kid, &[5], &[0x41, 0]]), vec![0xa0], "Sign1Error::Shape"),
        ("crit", header(&[&[1], &[0x27], &[2], &[0x81, 1], &[4], &kid]), vec![0xa0], "Sign1Error::Shape"),
        ("unsorted", header(&[&[4], &kid, &[1], &[0x27]]), vec![0xa0], "Sign1Error::Cbor(CborError::Unsorted)"),
        ("alg twice", header(&[&[1], &[0x27], &[1], &[0x27]]), vec![0xa0], "Sign1Error::Cbor(CborError::Duplicate)"),
        ("long", header(&[&[1], &[0x27], &[4], &bstr(&[1; 65])]), vec![0xa0], "Sign1Error::Cbor(CborError::Size)"),
        ("empty", vec![], vec![0xa0], "Sign1Error::Cbor(CborError::Truncated)"),
        ("unprotected alg", good.clone(), vec![0xa1, 1, 0x27], "Sign1Error::Shape"),
        ("unprotected text", good.clone(), vec![0xa1, 0x61, b'x', 0], "Sign1Error::Shape"),
        ("unprotected null", good, vec![0xf6], "Sign1Error::Shape"),
    ];
    for (name, protected, unprotected, expected) in cases {
        assert_eq!(reason(opened(&with_protected(&protected, &unprotected))), expected, "{name}");
    }
}

#[test]
fn other_shapes_of_the_envelope_are_refused() {
    // P-14, P-16
    let good = cose(PAYLOAD, AAD, &key(OPENER));
    let header = bstr(&protected(&public(OPENER)));
    let four = |payload: Vec<u8>, signature: Vec<u8>| array(&[header.clone(), vec![0xa0], payload, signature]);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("tagged", [vec![0xd2], good.clone()].concat(), "Sign1Error::Cbor(CborError::Tag)"),
        ("trailing", [good.clone(), vec![0]].concat(), "Sign1Error::Cbor(CborError::TrailingBytes)"),
        ("truncated", good[..good.len() - 1].to_vec(), "Sign1Error::Cbor(CborError::Truncated)"),
        ("detached", four(vec![0xf6], bstr(&[0; 64])), "Sign1Error::Shape"),
        ("payload text", four(tstr("x"), bstr(&[0; 64])), "Sign1Error::Shape"),
        ("payload not CBOR", four(bstr(&[0x18, 1]), bstr(&[0; 64])), "Sign1Error::Cbor(CborError::NonMinimal)"),
        ("payload empty", four(bstr(&[]), bstr(&[0; 64])), "Sign1Error::Cbor(CborError::Truncated)"),
        ("signature short", four(bstr(PAYLOAD), bstr(&[0; 63])), "Sign1Error::Shape"),
        ("signature long", four(bstr(PAYLOAD), bstr(&[0; 65])), "Sign1Error::Shape"),
        ("signature null", four(bstr(PAYLOAD), vec![0xf6]), "Sign1Error::Shape"),
        ("five members", array(&[header.clone(), vec![0xa0], vec![0x40], vec![0x40], vec![0x40]]), "Sign1Error::Shape"),
        ("a map", vec![0xa0], "Sign1Error::Shape"),
        ("header a map", array(&[vec![0xa0], vec![0xa0], vec![0x40], vec![0x40]]), "Sign1Error::Shape"),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(reason(opened(&bytes)), expected, "{name}");
    }
    assert!(opened(&good).is_ok());
    assert_eq!(reason(sign1::read(&good, MAX).and_then(|it| it.verify(b"\x61y"))), "Sign1Error::Signature");
}

#[test]
fn a_million_items_in_a_protected_header_are_refused_by_their_length() {
    // P-15: they would become a tree of Values before any signature was checked.
    let header = [vec![0xa1, 0x18, 99, 0x9a, 0x00, 0x0f, 0x42, 0x40], vec![0; 1_000_000]].concat();
    let bytes = array(&[bstr(&header), vec![0xa0], bstr(PAYLOAD), bstr(&[0; 64])]);
    let refused = sign1::read(&bytes, 2 << 20).map(|it| it.signer());
    assert_eq!(reason(refused), "Sign1Error::Cbor(CborError::Size)");
}

/// `bytes` as a number modulo the order of the group, in whatever type `like` has.
fn reduced<S: From<u64> + Add<Output = S> + Mul<Output = S>>(_like: &S, little_endian: &[u8]) -> S {
    little_endian.iter().rev().fold(S::from(0), |sum, byte| sum * S::from(256) + S::from(u64::from(*byte)))
}

/// A signature with R = the neutral element: S = H(R ‖ A ‖ M) · a. The equation holds; the strict predicate refuses R.
pub fn small_order_r(key: &SecretKey, message: &[u8]) -> [u8; 64] {
    let secret = key.signing_key().to_scalar();
    let hash = Sha512::new().chain_update(IDENTITY).chain_update(key.public().as_bytes()).chain_update(message);
    let challenge = reduced(&secret, &hash.finalize());
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&IDENTITY);
    signature[32..].copy_from_slice((challenge * secret).as_bytes());
    signature
}

#[allow(clippy::disallowed_methods, reason = "the lenient predicate is what this test compares with")]
fn leniently(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    use ed25519_dalek::Verifier as _;
    VerifyingKey::from_bytes(key).is_ok_and(|key| key.verify(message, &Signature::from_bytes(signature)).is_ok())
}

#[test]
fn a_frame_whose_signature_only_the_lenient_predicate_accepts_is_refused() {
    // P-17
    let key = key(OPENER);
    let sealed = sealed_request();
    let (binding, header) = (binding(), protected(&key.public()));
    let payload = sign1::read(&sealed, MAX).expect("our own frame").payload().to_vec();
    let message = to_be_signed(&header, &frame_aad(&binding, key.public(), public(ACCEPTOR)), &payload);
    let signature = small_order_r(&key, &message);
    assert!(leniently(key.public().as_bytes(), &message, &signature), "the lenient predicate accepts it");
    assert!(!key.public().verifies(&message, &signature));
    let frame = envelope(&header, &payload, &signature);
    let refused = towards_acceptor(&binding).1.open(&frame);
    assert_eq!(refused, Err(FrameError::Envelope(sign1::Sign1Error::Signature)));
}

#[test]
fn a_key_of_small_order_is_no_key_though_lenient_signatures_by_it_verify() {
    // P-13: with A the neutral element, R = [S]B verifies over every message.
    let anyone = key(STRANGER);
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(anyone.public().as_bytes());
    signature[32..].copy_from_slice(anyone.signing_key().to_scalar().as_bytes());
    for message in [&b"one"[..], b"another"] {
        assert!(leniently(&IDENTITY, message, &signature));
    }
    assert_eq!(PublicKey::from_bytes(IDENTITY), Err(IdentityError::NotAPoint));
    let header = [&[0xa2, 0x01, 0x27, 0x04][..], &bstr(&IDENTITY)].concat();
    assert_eq!(reason(opened(&envelope(&header, PAYLOAD, &signature))), "Sign1Error::KeyId");
}

#[test]
fn second_spellings_of_a_point_and_bytes_off_the_curve_are_no_keys() {
    // P-13: y = p + n for n in 0..19, with either sign of x; the small orders with y = 0, 1 and -1.
    let mut on_curve = 0;
    for (low, high) in (0xed..=0xffu8).flat_map(|low| [(low, 0x7f), (low, 0xff)]) {
        let mut bytes = [0xff; 32];
        (bytes[0], bytes[31]) = (low, high);
        on_curve += u32::from(VerifyingKey::from_bytes(&bytes).is_ok());
        assert_eq!(PublicKey::from_bytes(bytes), Err(IdentityError::NotAPoint), "{bytes:02x?}");
    }
    assert!(on_curve > 4, "a library that only decompresses accepts {on_curve} of them");
    let mut minus_one = [0xff; 32];
    (minus_one[0], minus_one[31]) = (0xec, 0x7f);
    let sign = |mut bytes: [u8; 32]| {
        bytes[31] |= 0x80;
        bytes
    };
    for bytes in [[0; 32], sign([0; 32]), IDENTITY, sign(IDENTITY), minus_one, sign(minus_one), [2; 32]] {
        assert_eq!(PublicKey::from_bytes(bytes), Err(IdentityError::NotAPoint), "{bytes:02x?}");
    }
}

/// The same signature with S + L for S: the same number, and another signature.
pub fn unreduced(mut signature: [u8; 64]) -> [u8; 64] {
    const L: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut carry = 0u16;
    for (at, byte) in L.iter().enumerate() {
        carry += u16::from(signature[32 + at]) + u16::from(*byte);
        signature[32 + at] = carry as u8;
        carry >>= 8;
    }
    assert_eq!(carry, 0, "S + L fits into 32 bytes");
    signature
}

#[test]
fn a_scalar_beyond_the_order_of_the_group_is_refused() {
    // P-17
    let signature = key(OPENER).signing_key().sign(b"message").to_bytes();
    assert!(public(OPENER).verifies(b"message", &signature));
    assert!(!public(OPENER).verifies(b"message", &unreduced(signature)));
}

#[test]
fn every_single_bit_of_a_frame_matters() {
    // P-17, P-18
    let sealed = sealed_request();
    for at in 0..sealed.len() {
        for bit in 0..8 {
            let mut bytes = sealed.clone();
            bytes[at] ^= 1 << bit;
            assert!(towards_acceptor(&binding()).1.open(&bytes).is_err(), "bit {bit} of byte {at}");
        }
    }
    assert_eq!(towards_acceptor(&binding()).1.open(&sealed), Ok(request()));
}
