//! Where other nodes said that they can be dialled: what one said before is never taken for what it says now, whoever holds
//! on to it.

use std::collections::BTreeMap;

use althing_protocol::PublicKey;
use althing_protocol::record::Contact;

/// Nodes of which the newest word is remembered: of more, those are forgotten whose word is the oldest.
const KNOWN_MAX: usize = 1_024;

/// The newest sequence that was heard of each node.
#[derive(Debug, Default)]
pub struct Contacts(BTreeMap<PublicKey, u64>);

impl Contacts {
    /// The newest of what was heard of one node just now; nothing when something newer was heard before.
    pub fn newest(&mut self, heard: impl IntoIterator<Item = Contact>) -> Option<Contact> {
        let newest = heard.into_iter().max_by_key(|contact| contact.sequence)?;
        let known = self.0.entry(newest.node).or_insert(newest.sequence);
        if *known > newest.sequence {
            return None;
        }
        *known = newest.sequence;
        if self.0.len() > KNOWN_MAX {
            let oldest = self.0.iter().min_by_key(|(_, sequence)| **sequence).map(|(node, _)| *node);
            oldest.map(|node| self.0.remove(&node));
        }
        Some(newest)
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;
    use proptest::prelude::*;

    use super::*;

    fn node(number: u64) -> PublicKey {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&number.to_le_bytes());
        SecretKey::from_seed(&seed).public()
    }

    fn contact(node: PublicKey, sequence: u64) -> Contact {
        Contact::new(node, sequence, 0, 1_000, vec![format!("sim:{sequence}")])
    }

    proptest! {
        #[test]
        fn an_older_word_is_never_taken(heard in prop::collection::vec(prop::collection::vec(0_u64..20, 0..4), 0..20)) {
            let (mut contacts, one, mut highest) = (Contacts::default(), node(1), None);
            for words in heard {
                let taken = contacts.newest(words.iter().map(|sequence| contact(one, *sequence)));
                let newest = words.iter().max().copied();
                prop_assert_eq!(taken.map(|taken| taken.sequence), newest.filter(|newest| Some(*newest) >= highest));
                highest = highest.max(newest);
            }
        }
    }

    #[test]
    fn one_node_does_not_answer_for_another_and_what_is_remembered_is_bounded() {
        let mut contacts = Contacts::default();
        let all = u64::try_from(KNOWN_MAX).expect("few");
        for number in 0..2 * all {
            assert!(contacts.newest([contact(node(number), 100 + number)]).is_some());
            assert!(contacts.0.len() <= KNOWN_MAX);
        }
        assert!(contacts.newest([contact(node(2 * all - 1), 1)]).is_none(), "the newest are remembered");
    }
}
