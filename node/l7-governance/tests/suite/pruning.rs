//! Who must sign before bodies of the audit log end, and what counts as that.

use althing_governance::machine::key::KeyError;
use althing_governance::machine::pruning::{PruneRefusal, signers};
use althing_protocol::SecretKey;
use althing_protocol::audit::prune_text;
use althing_protocol::tlog::{NoteKey, NoteKeyKind};
use althing_td::SignOffSpec;

use crate::desk::{Changes, NOW_MS, PEOPLE, signed};

fn text(log: &str, before_ms: u64) -> String {
    let log = NoteKey::new(log, NoteKeyKind::Note, SecretKey::from_seed(&[5; 32]).public()).expect("a good name");
    prune_text(&log, before_ms, "treasurer")
}

/// The signature of one of the people, in their order.
fn of(person: usize, text: &str) -> String {
    signed(PEOPLE[person].1, text)
}

fn judged(changes: &Changes, signatures: &[String]) -> Result<Vec<String>, PruneRefusal> {
    let wanted = SignOffSpec { role: "treasurer".to_owned(), count: 2 };
    let agreed = signers(&changes.people(), &wanted, &text("audit/a/b/1-c", NOW_MS), signatures)?;
    Ok(agreed.into_iter().collect())
}

#[test]
fn as_many_others_as_are_wanted_must_sign_this_text() {
    let right = text("audit/a/b/1-c", NOW_MS);
    let (grace, edsger) = (of(1, &right), of(2, &right));
    let all = Changes::default();
    assert_eq!(judged(&all, &[edsger.clone(), grace.clone()]), Ok(vec!["edsger".to_owned(), "grace".to_owned()]));
    let refused = Err::<Vec<String>, PruneRefusal>;
    for (signatures, given) in [(vec![], 0), (vec![grace.clone()], 1), (vec![grace.clone(), grace.clone()], 1)] {
        match judged(&all, &signatures) {
            Err(PruneRefusal::Few { given: found, .. }) => assert_eq!(found, given),
            other => panic!("{other:?}"),
        }
    }
    let owner = judged(&all, &[of(0, &right), grace.clone()]);
    assert_eq!(owner, refused(PruneRefusal::Owner { person: "ada".to_owned() }));
    for other in [text("audit/a/b/2-c", NOW_MS), text("audit/a/b/1-c", NOW_MS + 1)] {
        let found = judged(&all, &[of(2, &other), grace.clone()]);
        assert_eq!(found, refused(PruneRefusal::Text { person: "edsger".to_owned() }));
    }
    let stranger = judged(&all, &[signed(99, &right), grace.clone()]);
    assert_eq!(stranger, refused(PruneRefusal::Nobody { place: 1 }));
    let none = judged(&all, &[grace, "no signature".to_owned()]);
    assert_eq!(none, refused(PruneRefusal::Signature { place: 2, error: KeyError::Signature }));
}

#[test]
fn who_lost_the_role_or_the_key_since_they_signed_does_not_count() {
    let right = text("audit/a/b/1-c", NOW_MS);
    let signatures = [of(1, &right), of(2, &right)];
    let role = Changes { without_role: ["grace"].into(), ..Changes::default() };
    assert!(matches!(judged(&role, &signatures), Err(PruneRefusal::Role { person, .. }) if person == "grace"));
    let key = Changes { without_key: ["grace"].into(), ..Changes::default() };
    assert!(matches!(judged(&key, &signatures), Err(PruneRefusal::Nobody { place: 1 })));
}
