//! When members of the log become voters.

use super::*;

/// P-106
#[test]
fn nobody_becomes_a_voter_before_each_new_voter_has_almost_the_whole_log() {
    const LAST: u64 = 1_000;
    let [leader, voter, one, other] = [1u64, 2, 3, 4].map(NodeId::from);
    let (voting, voters) = (BTreeSet::from([leader, voter]), BTreeSet::from([leader, one, other]));
    let may = |has: &[(NodeId, u64)]| {
        let has: BTreeMap<NodeId, u64> = has.iter().copied().collect();
        may_vote(&voters, &voting, |node| has.get(node).copied(), LAST)
    };
    let near = LAST - READY_BEHIND;
    assert!(may(&[(one, near), (other, LAST)]), "who leads is not asked what it has");
    assert!(!may(&[(one, near), (other, near - 1)]), "one of them lacks more");
    assert!(!may(&[(voter, LAST), (other, LAST)]), "of one of them nothing is known");
    assert!(!may(&[]));
    assert!(may_vote(&voting, &voting, |_| None, LAST), "who votes already goes on");
}
