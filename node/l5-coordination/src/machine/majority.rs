//! Whether a majority of a group's voters is known to be out of reach.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_protocol::PublicKey;

/// Elections take a second or two: without a leader for as long, the voters that cannot be reached are the reason.
const QUIET: Duration = Duration::from_secs(5);

/// A group that decides nothing now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// Its voters.
    pub voters: usize,
    /// Those of them that cannot be reached.
    pub missing: Vec<PublicKey>,
}

/// What keeps a group from deciding anything, if it is known that its voters do: which of them are `reached`, this node among them,
/// and for how long no leader was heard; at the leader, for how long no majority acknowledged that it leads.
#[must_use]
pub fn shortage(voters: &BTreeSet<PublicKey>, reached: &BTreeSet<PublicKey>, silence: Duration) -> Option<Shortage> {
    let missing: Vec<PublicKey> = voters.difference(reached).copied().collect();
    // A node that joins knows none yet.
    let is_short = !voters.is_empty() && missing.len() * 2 >= voters.len();
    (is_short && silence >= QUIET).then_some(Shortage { voters: voters.len(), missing })
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    #[test]
    fn a_majority_is_missed_when_nobody_leads_and_too_few_voters_are_reached() {
        let nodes = |seeds: &[u8]| -> BTreeSet<PublicKey> {
            seeds.iter().map(|seed| SecretKey::from_seed(&[*seed; 32]).public()).collect()
        };
        let (three, long) = (nodes(&[1, 2, 3]), Duration::from_secs(24));
        let short = shortage(&three, &nodes(&[1]), long).expect("it decides nothing");
        assert_eq!((short.voters, short.missing.into_iter().collect()), (3, nodes(&[2, 3])));
        assert_eq!(shortage(&three, &nodes(&[1]), Duration::from_secs(2)), None, "an election may be under way");
        assert_eq!(shortage(&three, &nodes(&[1, 3, 7]), long), None, "two of three go on");
        assert_eq!(
            shortage(&nodes(&[1, 2]), &nodes(&[1]), long).map(|short| short.voters),
            Some(2),
            "half is no majority"
        );
        assert_eq!(shortage(&nodes(&[1]), &nodes(&[1]), long), None);
        assert_eq!(shortage(&nodes(&[]), &nodes(&[1]), long), None, "its voters are not known yet");
    }
}
