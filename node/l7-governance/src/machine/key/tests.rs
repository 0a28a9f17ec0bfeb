use althing_protocol::audit::{AnswerWord, answer_text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

// Made with `ssh-keygen -Y sign`; those of hardware keys with a program that has such a key in memory, and found good by
// `ssh-keygen -Y verify`.
const ED25519: &str = "\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgDuSPDwwjPpKzchXNIcoEMlZ3qI
ahpeZ05QLrhUtwG7QAAAAPYWx0aGluZy1jb25zZW50AAAAAAAAAAZzaGE1MTIAAABTAAAA
C3NzaC1lZDI1NTE5AAAAQGcTOJRZckn9ep9tNsYnp3baN1xgkenmYhC7Upgut2qX7Bex40
pMF4hO9Vi8V8g/qKKPF7QdoLRXD2XWwRI/7wo=
-----END SSH SIGNATURE-----";
const ED25519_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA7kjw8MIz6Ss3IVzSHKBDJWd6iGoaXmdOUC64VLcBu0";
const OTHER_USE: &str = "\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgDuSPDwwjPpKzchXNIcoEMlZ3qI
ahpeZ05QLrhUtwG7QAAAAEZmlsZQAAAAAAAAAGc2hhNTEyAAAAUwAAAAtzc2gtZWQyNTUx
OQAAAEB1WJ2DBowdchCKWQs1aQkT6fFNZ+mT2krA88jD5z05jaYHDCjfIGj/sJMPPoG4gJ
6QxoEKavsglQchx5e17LQC
-----END SSH SIGNATURE-----";
const P256: &str = "\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAAGgAAAATZWNkc2Etc2hhMi1uaXN0cDI1NgAAAAhuaXN0cDI1NgAAAE
EEARkUlLVBR1U6I41CKm2+85uOYBoRoh3VCIiQVBnuw8grI/ZGm0sCOL3fIuEZQY0d5j4J
dsd3twU8aeCYHMPcLQAAAA9hbHRoaW5nLWNvbnNlbnQAAAAAAAAABnNoYTUxMgAAAGMAAA
ATZWNkc2Etc2hhMi1uaXN0cDI1NgAAAEgAAAAgdDkW9YUdHpVe1EooEp+XtSf2Z8JENgbD
H3Arj8zBNOwAAAAgfCCQcQlvtqlXFhGQa3hqTHyE2A2AvOphLx39Xbso4sU=
-----END SSH SIGNATURE-----";
const P256_KEY: &str = "\
ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBAEZFJS1QUdVOiONQiptvvObjmAa\
EaId1QiIkFQZ7sPIKyP2RptLAji93yLhGUGNHeY+CXbHd7cFPGngmBzD3C0=";
const RSA_KEY: &str = "\
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQDNSW6JskKWIkQtA0VoynXnI3bRkixI0GAaU0HMJZdy02lG+5XqFQXpIt16js/q\
7D4qP/RM+D5Rv9TbluF5HE80s3LHvgl0CL00s/sqsGeXqcpu+E/YEtNTRW3yZaH/XQZpSozYrpAkN09jdi8PewymGB4ClbZHdBMK\
xPpnGVcFRzjYEjtC+OYHsTplaPUC1UQBErRmusr0tL/kguHeOLdizWYcAeBE+iBOIsn1A3/llpXLFWaSB3lUJt5JhWydrS2oT7hX\
FZZD9qcr6zDcpOfGMLNmt6JJLlhgbj3auGISFXAjzE+L4hL5/HsET+6jOxk3E/lnIhLyC2TZ1UoNoCsd";
const SK_ED25519: &str = "\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAAEoAAAAac2stc3NoLWVkMjU1MTlAb3BlbnNzaC5jb20AAAAg1UIH2h
lJd9z0atv+wrwudbUtWopCGE/t/cAAJPDj6NoAAAAEc3NoOgAAAA9hbHRoaW5nLWNvbnNl
bnQAAAAAAAAABnNoYTUxMgAAAGcAAAAac2stc3NoLWVkMjU1MTlAb3BlbnNzaC5jb20AAA
BA/ytW9ID2OC74EYHgfe6lSHKnxc0MP8qCZAotNXmcp7hCWQ+BXpHZY6AXdgqO9u66qfoG
vZNOlAmq+qSPPk9TAgEAAAAH
-----END SSH SIGNATURE-----";
const SK_ED25519_KEY: &str = "\
sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAINVCB9oZSXfc9Grb/sK8LnW1LVqKQ\
hhP7f3AACTw4+jaAAAABHNzaDo=";
const SK_ED25519_UNTOUCHED: &str = "\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAAEoAAAAac2stc3NoLWVkMjU1MTlAb3BlbnNzaC5jb20AAAAg1UIH2h
lJd9z0atv+wrwudbUtWopCGE/t/cAAJPDj6NoAAAAEc3NoOgAAAA9hbHRoaW5nLWNvbnNl
bnQAAAAAAAAABnNoYTUxMgAAAGcAAAAac2stc3NoLWVkMjU1MTlAb3BlbnNzaC5jb20AAA
BAd/lguuTkyzSZtcW6boazJcMYKE2KUtGtGGKi5nqIxjf3gVZC2o+tCyuE1gC1x60TITh2
V9qvr3IW8isl576+BwAAAAAH
-----END SSH SIGNATURE-----";
const SK_P256: &str = "\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAAH8AAAAic2stZWNkc2Etc2hhMi1uaXN0cDI1NkBvcGVuc3NoLmNvbQ
AAAAhuaXN0cDI1NgAAAEEECIu5/yKrKRp0yG/Gd7qJe6re43DMYSm4LRcLo/wmQVxELamn
FgZ5VtkeqgK5OtQJSQ6HzV51jqajMaHet1uoRgAAAARzc2g6AAAAD2FsdGhpbmctY29uc2
VudAAAAAAAAAAGc2hhNTEyAAAAeAAAACJzay1lY2RzYS1zaGEyLW5pc3RwMjU2QG9wZW5z
c2guY29tAAAASQAAACEAwFComAG2slDTDft0jUKVinz9J2uW7t40PJuw/1tNOdYAAAAgTi
2tWxjVtj8O269LibEBBqedebLXtdfFDmNhE/v4epUBAAAABw==
-----END SSH SIGNATURE-----";
const SK_P256_KEY: &str = "\
sk-ecdsa-sha2-nistp256@openssh.com AAAAInNrLWVjZHNhLXNoYTItbmlzdHAyNTZAb3BlbnNzaC5jb20AAAAIbmlzdHAyN\
TYAAABBBAiLuf8iqykadMhvxne6iXuq3uNwzGEpuC0XC6P8JkFcRC2ppxYGeVbZHqoCuTrUCUkOh81edY6mozGh3rdbqEYAAAAEc\
3NoOg==";
const SK_P256_UNTOUCHED: &str = "\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAAH8AAAAic2stZWNkc2Etc2hhMi1uaXN0cDI1NkBvcGVuc3NoLmNvbQ
AAAAhuaXN0cDI1NgAAAEEECIu5/yKrKRp0yG/Gd7qJe6re43DMYSm4LRcLo/wmQVxELamn
FgZ5VtkeqgK5OtQJSQ6HzV51jqajMaHet1uoRgAAAARzc2g6AAAAD2FsdGhpbmctY29uc2
VudAAAAAAAAAAGc2hhNTEyAAAAeAAAACJzay1lY2RzYS1zaGEyLW5pc3RwMjU2QG9wZW5z
c2guY29tAAAASQAAACBiEbMhyNTjzrlB8q0RRVvpBcoc4OyQyh1BC1yzfoFwdwAAACEA2s
teneHpW4KzoSkMyRqMFfAyFtUUENe1aD6tNcgKah0AAAAABw==
-----END SSH SIGNATURE-----";

fn message() -> String {
    answer_text(&[0xab; 32], AnswerWord::Approve, Some("treasurer"), 1_700_000_000_000)
}

#[test]
fn keys_of_four_kinds_sign_answers() {
    for (key, text) in [(ED25519_KEY, ED25519), (P256_KEY, P256), (SK_ED25519_KEY, SK_ED25519), (SK_P256_KEY, SK_P256)]
    {
        let key = PersonKey::read(key).expect("a good key");
        let signature = PersonSignature::read(text).expect("a good signature");
        assert_eq!(signature.signer(), key);
        assert!(signature.verifies(message().as_bytes()), "{key}");
        assert!(!signature.verifies(message().replace("approve", "deny").as_bytes()), "{key}");
        let windows = PersonSignature::read(&text.replace('\n', "\r\n")).expect("a good signature");
        assert!(windows.verifies(message().as_bytes()), "{key}");
    }
    let key = PersonKey::read(ED25519_KEY).expect("a good key");
    assert_eq!(key.fingerprint(), "SHA256:KVkuP43XeLJBg0gDHE2pBFTef6hoJDjcYJAtBj2B30g");
    assert_eq!(key, PersonKey::read(&format!("{ED25519_KEY} ada@example\n")).expect("a comment says nothing"));
}

#[test]
fn a_hardware_key_that_nobody_touched_signs_nothing() {
    for text in [SK_ED25519_UNTOUCHED, SK_P256_UNTOUCHED] {
        let signature = PersonSignature::read(text).expect("its shape is right");
        assert!(!signature.verifies(message().as_bytes()));
    }
}

#[test]
fn other_keys_and_uses_are_refused_by_their_names() {
    assert_eq!(PersonKey::read(RSA_KEY), Err(KeyError::Kind("ssh-rsa".to_owned())));
    assert_eq!(PersonSignature::read(OTHER_USE).expect_err("for files"), KeyError::Namespace("file".to_owned()));
    let long = format!("{ED25519_KEY} {}", "c".repeat(KEY_BYTES_MAX));
    let half = &ED25519_KEY[..50];
    for text in ["", "ada", "ssh-ed25519", "ssh-ed25519 !", half, &long, &ED25519_KEY.replace("ed25519", "rsa")] {
        assert_eq!(PersonKey::read(text), Err(KeyError::Key), "{text}");
    }
    for text in ["", ED25519_KEY, &ED25519[1..], &"-".repeat(10_000)] {
        assert_eq!(PersonSignature::read(text).expect_err("no signature"), KeyError::Signature);
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    for text in [ED25519, P256, SK_ED25519, SK_P256] {
        let blob = sign_off::unarmor(text).expect("a signature");
        for at in 0..blob.len() {
            let mut changed = blob.clone();
            changed[at] ^= 1;
            let verifies = PersonSignature::read(&sign_off::armor(&changed));
            let signer = PersonSignature::read(text).expect("a good signature").signer();
            let counts = verifies.is_ok_and(|it| it.verifies(message().as_bytes()) && it.signer() == signer);
            assert!(!counts, "byte {at} of\n{text}");
        }
        for length in 0..blob.len() {
            let cut = PersonSignature::read(&sign_off::armor(&blob[..length]));
            assert!(cut.is_err(), "{length} bytes of\n{text}");
        }
        let longer = STANDARD.encode([&blob[..], &[0]].concat());
        let more = format!("-----BEGIN SSH SIGNATURE-----\n{longer}\n-----END SSH SIGNATURE-----\n");
        assert!(PersonSignature::read(&more).is_err(), "a byte more after\n{text}");
    }
}
