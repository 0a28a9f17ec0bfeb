//! Checkpoints beside another implementation of C2SP's signed-note (crate `signed_note`): what one signs the other opens. It
//! takes more than we do, so that it decides only what must be accepted.

use althing_protocol::tlog::{Checkpoint, Head, NoteKey, NoteKeyKind};
use althing_protocol::{PublicKey, SecretKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use signed_note::{Note, StandardSigner, StandardVerifier, Verifier, VerifierList};

const ORIGIN: &str = "registry.example.org/log";
const WITNESS: &str = "witness.example.net";
const TIME: u64 = 1_700_000_000;

fn log_key() -> SecretKey {
    SecretKey::from_seed(&[9; 32])
}

fn head() -> Head {
    Head { size: 7, root: [5; 32] }
}

/// The cosignature of a witness, as C2SP's tlog-cosignature says: `signed_note` leaves it to whoever uses it.
struct Cosigner {
    key: NoteKey,
    public: PublicKey,
}

impl Verifier for Cosigner {
    fn name(&self) -> &str {
        self.key.name()
    }

    fn key_id(&self) -> u32 {
        u32::from_be_bytes(self.key.id())
    }

    fn verify(&self, text: &[u8], signature: &[u8]) -> bool {
        let Some((time, signature)) = signature.split_first_chunk::<8>() else { return false };
        let signed = [format!("cosignature/v1\ntime {}\n", u64::from_be_bytes(*time)).as_bytes(), text].concat();
        signature.try_into().is_ok_and(|signature| self.public.verifies(&signed, signature))
    }
}

fn verifier(key: &NoteKey) -> Box<dyn Verifier> {
    Box::new(StandardVerifier::new(&key.to_string()).expect("it reads our keys"))
}

#[test]
fn what_we_sign_another_implementation_opens() {
    // P-172, P-173: a checkpoint is a signed note of C2SP, and may be cosigned.
    let log = NoteKey::new(ORIGIN, NoteKeyKind::Note, log_key().public()).expect("a good name");
    let secret = SecretKey::from_seed(&[7; 32]);
    let witness = NoteKey::new(WITNESS, NoteKeyKind::Cosignature, secret.public()).expect("a good name");
    let checkpoint = Checkpoint::sign(ORIGIN, head(), &log_key()).expect("a good name");
    let line = checkpoint.cosign(WITNESS, TIME, &secret).expect("a good name");
    let checkpoint = checkpoint.with_cosignature(&line, &witness).expect("it is by the witness");
    let note = Note::from_bytes(checkpoint.note().as_bytes()).expect("it reads our notes");
    let cosigner = || Box::new(Cosigner { key: witness.clone(), public: secret.public() });
    let (signed, unknown) = note.verify(&VerifierList::new(vec![verifier(&log), cosigner()])).expect("both hold");
    assert_eq!((signed.len(), unknown.len()), (2, 0));
    let expected = format!("{ORIGIN}\n7\n{}\n", STANDARD.encode([5; 32]));
    assert_eq!(note.text(), expected.as_bytes());
    assert_eq!(note.to_bytes(), checkpoint.note().as_bytes(), "nothing is written in another way");

    let other = NoteKey::new(ORIGIN, NoteKeyKind::Note, secret.public()).expect("a good name");
    assert!(note.verify(&VerifierList::new(vec![verifier(&other)])).is_err(), "it is by nobody else");
}

#[test]
fn what_another_implementation_signs_we_open() {
    let log = NoteKey::new(ORIGIN, NoteKeyKind::Note, log_key().public()).expect("a good name");
    let secret = STANDARD.encode([&[1][..], &[9; 32]].concat());
    let id = u32::from_be_bytes(log.id());
    let signer = StandardSigner::new(&format!("PRIVATE+KEY+{ORIGIN}+{id:08x}+{secret}")).expect("a key");
    let text = format!("{ORIGIN}\n7\n{}\n", STANDARD.encode([5; 32]));
    let mut note = Note::new(text.as_bytes(), &[]).expect("a text");
    note.add_sigs(&[&signer]).expect("it signs");
    let note = String::from_utf8(note.to_bytes()).expect("text");
    let opened = Checkpoint::open(&note, &log).expect("we open it");
    assert_eq!((opened.head.size, opened.head.root), (7, [5; 32]));
    let forged = note.replacen("\n7\n", "\n8\n", 1);
    assert!(Checkpoint::open(&forged, &log).is_err());
}
