//! Who agreed that bodies of the audit log end before their time.

use std::collections::BTreeSet;

use althing_td::SignOffSpec;

use super::key::{KeyError, PersonSignature};
use super::people::People;

/// Why bodies do not end yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PruneRefusal {
    /// A text is no signature.
    #[error("signature {place}: {error}")]
    Signature {
        /// Which of those that were given, from 1.
        place: usize,
        /// What is wrong with it.
        error: KeyError,
    },
    /// Nobody has the key.
    #[error("signature {place} is made with a key that nobody in the file of people has")]
    Nobody {
        /// As above.
        place: usize,
    },
    /// Of somebody who may not answer for this.
    #[error("{person} signed, and has not the role {role:?}")]
    Role {
        /// By name.
        person: String,
        /// The one that is wanted.
        role: String,
    },
    /// Of the one who asks for it.
    #[error("{person} is the owner, who asks for it: others must agree")]
    Owner {
        /// By name.
        person: String,
    },
    /// Of another text.
    #[error("what {person} signed is not this: another log, another time, another role, or something was changed")]
    Text {
        /// By name.
        person: String,
    },
    /// Too few agreed.
    #[error(
        "{given} signed of the {} people with the role {:?} who must agree that bodies end before their time",
        .wanted.count, .wanted.role
    )]
    Few {
        /// How many.
        given: usize,
        /// Who must.
        wanted: SignOffSpec,
    },
}

/// Those who agreed by signing this text, each once.
///
/// # Errors
/// [`PruneRefusal`]: a signature that does not count is named, whoever else signed.
pub fn signers(
    people: &People,
    wanted: &SignOffSpec,
    text: &str,
    signatures: &[String],
) -> Result<BTreeSet<String>, PruneRefusal> {
    let mut agreed = BTreeSet::new();
    for (at, signature) in signatures.iter().enumerate() {
        let place = at + 1;
        let signature = PersonSignature::read(signature).map_err(|error| PruneRefusal::Signature { place, error })?;
        let person = people.person_with(&signature.signer()).ok_or(PruneRefusal::Nobody { place })?;
        let named = person.to_owned();
        if person == people.owner() {
            return Err(PruneRefusal::Owner { person: named });
        }
        if !people.has_role(person, &wanted.role) {
            return Err(PruneRefusal::Role { person: named, role: wanted.role.clone() });
        }
        if !signature.verifies(text.as_bytes()) {
            return Err(PruneRefusal::Text { person: named });
        }
        agreed.insert(named);
    }
    if agreed.len() < usize::from(wanted.count) {
        return Err(PruneRefusal::Few { given: agreed.len(), wanted: wanted.clone() });
    }
    Ok(agreed)
}
