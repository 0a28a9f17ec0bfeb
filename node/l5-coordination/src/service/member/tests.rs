//! Whom a node believes that joins.

use althing_protocol::{PublisherId, SecretKey};

use super::*;

fn node(seed: u8) -> PublicKey {
    SecretKey::from_seed(&[seed; 32]).public()
}

/// P-101: the nodes of a ticket are believed for as long as nothing that is executed here says whom to believe.
#[test]
fn the_nodes_of_a_ticket_are_believed_until_the_joining_one_is_a_member_or_they_are_expelled() {
    const SINCE: u64 = 6;
    let (here, sponsor) = (node(1), node(2));
    let at = |epoch: u64| Group { epoch, ..Group::new(GroupId::from_digest([3; 32]), "test") };
    let record = Record { since_epoch: SINCE, ..Record::founder("team") };
    let believed = |group: &Group| believes(group, here, &record, sponsor);
    assert!(believed(&at(0)) && believed(&at(SINCE)) && believed(&at(SINCE + 9)), "it has not joined yet");
    for (ended, is_believed) in [(SINCE - 1, true), (SINCE, false), (SINCE + 3, false)] {
        let mut group = at(ended + 1);
        group.expelled.insert(sponsor, ended);
        assert_eq!(believed(&group), is_believed, "it was expelled in epoch {ended}");
        group.expelled = [(node(3), ended)].into();
        assert!(believed(&group), "another one was");
    }
    let joined = |epoch: u64| {
        let mut group = at(epoch);
        let owner = PublisherId::from_digest([1; 32]);
        group.members.join(here, owner, Vec::new(), None, 5).expect("there is room");
        group
    };
    assert!(believed(&joined(SINCE - 1)), "of an earlier membership");
    assert!(!believed(&joined(SINCE)) && !believed(&joined(SINCE + 1)));
    // Where it is said by which invitation it joins, no other membership counts, of whatever epoch.
    let guest = Record { nonce: Some([7; 16].into()), ..record.clone() };
    assert!(believes(&joined(SINCE + 1), here, &guest, sponsor));
}
