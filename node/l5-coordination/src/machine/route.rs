//! Which member serves a call that another one cannot: a pure decision of the member that was called (SPEC P-195).

use althing_protocol::PublicKey;

use super::members::Members;

/// A node that may serve a call, as the member that was called knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its key.
    pub node: PublicKey,
    /// Whether it hosts the agent that was called.
    pub hosts_agent: bool,
    /// Whether the member that was called is connected to it: one that fails is noticed so at once.
    pub is_connected: bool,
    /// Its load, thousandths.
    pub load_permille: u16,
}

/// The member to which `here` redirects a call, of those that can do what is asked: the one with the least load, then with the
/// lowest key. None if no other member hosts the agent, or `here` is no member itself.
#[must_use]
pub fn route(here: PublicKey, members: &Members, able: &[Candidate]) -> Option<PublicKey> {
    members.get(&here)?;
    let is_other = |node: &PublicKey| *node != here && members.get(node).is_some();
    let fit = able.iter().filter(|able| able.hosts_agent && able.is_connected && is_other(&able.node));
    fit.map(|fit| (fit.load_permille, fit.node)).min().map(|(_, node)| node)
}

#[cfg(test)]
mod tests {
    use althing_protocol::{PublisherId, SecretKey};
    use proptest::prelude::*;

    use super::*;

    fn node(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    fn members(seeds: impl IntoIterator<Item = u8>) -> Members {
        let mut members = Members::default();
        for seed in seeds {
            let owner = PublisherId::from_digest([1; 32]);
            members.join(node(seed), owner, Vec::new(), None, 5).expect("a new member");
        }
        members
    }

    fn able(seed: u8, load_permille: u16) -> Candidate {
        Candidate { node: node(seed), hosts_agent: true, is_connected: true, load_permille }
    }

    /// P-195
    #[test]
    fn only_another_member_that_hosts_the_agent_and_is_there_serves_the_call() {
        let three = members([1, 2, 3]);
        let route = |able: &[Candidate]| route(node(1), &three, able);
        assert_eq!(route(&[]), None);
        assert_eq!(route(&[able(1, 0)]), None, "the member that was called");
        assert_eq!(route(&[able(4, 0)]), None, "no member");
        assert_eq!(route(&[Candidate { hosts_agent: false, ..able(2, 0) }]), None);
        assert_eq!(route(&[Candidate { is_connected: false, ..able(2, 0) }]), None);
        assert_eq!(route(&[able(4, 0), able(1, 0), able(2, 900)]), Some(node(2)));
        assert_eq!(super::route(node(4), &three, &[able(2, 0)]), None, "who was expelled speaks for nobody");
        let mut two = three.clone();
        two.remove(node(2), 5).expect("a member");
        assert_eq!(super::route(node(1), &two, &[able(2, 0)]), None, "it was expelled");
    }

    #[test]
    fn the_least_loaded_one_is_named_and_then_the_one_of_the_lowest_key() {
        let three = members([1, 2, 3]);
        assert_eq!(route(node(1), &three, &[able(2, 20), able(3, 10)]), Some(node(3)));
        assert_eq!(route(node(1), &three, &[able(2, 10), able(3, 20)]), Some(node(2)));
        let lower = node(2).min(node(3));
        assert_eq!(route(node(1), &three, &[able(2, 10), able(3, 10)]), Some(lower));
        assert_eq!(route(node(1), &three, &[able(3, 10), able(2, 10)]), Some(lower));
    }

    proptest! {
        #[test]
        fn whom_it_names_can_serve_and_does_not_depend_on_the_order(
            known in prop::collection::vec((0..8_u8, any::<bool>(), any::<bool>(), 0..4_u16), 0..12),
        ) {
            let five = members([0, 1, 2, 3, 4]);
            let able: Vec<Candidate> = known
                .into_iter()
                .map(|(seed, hosts_agent, is_connected, load_permille)| Candidate {
                    node: node(seed),
                    hosts_agent,
                    is_connected,
                    load_permille,
                })
                .collect();
            let routed = route(node(0), &five, &able);
            let reversed: Vec<Candidate> = able.iter().rev().copied().collect();
            prop_assert_eq!(route(node(0), &five, &reversed), routed);
            let can = |one: &Candidate| {
                one.hosts_agent && one.is_connected && one.node != node(0) && five.get(&one.node).is_some()
            };
            let least = able.iter().filter(|one| can(one)).map(|one| one.load_permille).min();
            let named = able.iter().filter(|one| can(one) && Some(one.node) == routed);
            prop_assert_eq!(named.map(|one| one.load_permille).min(), least);
        }
    }
}
