//! Witnesses: who must have cosigned what a registry shows.

use althing_protocol::tlog::{NoteKey, NoteKeyKind};

use super::RegistriesError;
use super::rows::WitnessesRow;

/// Witnesses of one registry that a node asks for.
const WITNESSES_MAX: usize = 16;

/// The witnesses that are wanted of a registry; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Witnesses {
    /// Their keys.
    pub keys: Vec<String>,
    /// How many of them must have cosigned; all if that is not said.
    pub wanted: Option<usize>,
}

impl Witnesses {
    pub(super) fn row(&self) -> Result<Option<WitnessesRow>, RegistriesError> {
        let wrong = |why: String| Err(RegistriesError::Witnesses(why));
        if self.keys.is_empty() {
            return if self.wanted.is_none() {
                Ok(None)
            } else {
                wrong("how many witnesses must have cosigned is said, and no witness is named".to_owned())
            };
        }
        if self.keys.len() > WITNESSES_MAX {
            return wrong(format!("a node asks for at most {WITNESSES_MAX} witnesses of a registry"));
        }
        let mut seen: Vec<NoteKey> = Vec::new();
        for text in &self.keys {
            let key: NoteKey = text
                .parse()
                .map_err(|error| RegistriesError::Witnesses(format!("{text:?} is no key of a witness: {error}")))?;
            if key.kind() != NoteKeyKind::Cosignature {
                return wrong(format!(
                    "{key} is the key of a log, and none of a witness, which prints its key when it starts"
                ));
            }
            // One witness under two names would count twice.
            if seen.iter().any(|other| other.key() == key.key()) {
                return wrong(format!("{key} is named twice"));
            }
            seen.push(key);
        }
        let wanted = self.wanted.unwrap_or(seen.len());
        if wanted == 0 || wanted > seen.len() {
            return wrong(format!("{wanted} of {} witnesses cannot be wanted", seen.len()));
        }
        Ok(Some(WitnessesRow { keys: self.keys.clone(), wanted }))
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    fn key(name: &str, kind: NoteKeyKind, seed: u8) -> String {
        NoteKey::new(name, kind, SecretKey::from_seed(&[seed; 32]).public()).expect("a good name").to_string()
    }

    fn witnesses(keys: &[String], wanted: Option<usize>) -> Result<Option<WitnessesRow>, RegistriesError> {
        Witnesses { keys: keys.to_vec(), wanted }.row()
    }

    /// P-189
    #[test]
    fn as_many_are_wanted_as_there_are_witnesses_and_each_counts_once() {
        let (one, two) = (key("one", NoteKeyKind::Cosignature, 1), key("two", NoteKeyKind::Cosignature, 2));
        let wanted = |keys: &[String], wanted| witnesses(keys, wanted).ok().flatten().map(|row| row.wanted);
        assert_eq!(wanted(&[one.clone(), two.clone()], None), Some(2));
        assert_eq!(wanted(&[one.clone(), two.clone()], Some(1)), Some(1));
        assert!(matches!(witnesses(&[], None), Ok(None)));
        let same = key("other", NoteKeyKind::Cosignature, 1);
        for (keys, wanted) in [
            (vec![], Some(1)),
            (vec![one.clone(), two.clone()], Some(3)),
            (vec![one.clone()], Some(0)),
            (vec![one.clone(), one.clone()], None),
            (vec![one.clone(), same], None),
            (vec![key("log", NoteKeyKind::Note, 3)], None),
            (vec!["nothing".to_owned()], None),
        ] {
            assert!(matches!(witnesses(&keys, wanted), Err(RegistriesError::Witnesses(_))), "{keys:?}");
        }
    }
}
