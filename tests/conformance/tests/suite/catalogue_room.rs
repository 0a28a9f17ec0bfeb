//! Room in the catalogue (threats 2, 14): all stored bytes are counted, more trusted nodes displace less trusted ones, and no origin
//! of strangers displaces one that has less.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use althing_communication::Origin;
use althing_conformance::mesh::{Owner, agent, file};
use althing_conformance::{NETWORK, NOW_MS};
use althing_discovery::machine::catalogue::{AdmitRefused, Candidate, Catalogue, Learned, Now, PlacementRefused};
use althing_discovery::machine::rank::{Bounds, Holder, Rank, Source};
use althing_discovery::{LocalAgent, Query};
use althing_protocol::limits::KEYLOG_EVENTS_MAX;
use althing_protocol::object::{self, Health, Hosted, Placement};
use althing_protocol::{Authored, SecretKey};
use althing_simulations::key;
use proptest::prelude::*;

const TTL_MS: u64 = 6_000;
const OWN: u32 = 100;
const STRANGER: u32 = 101;

fn now(ms: u64) -> Now {
    Now { monotonic_ms: ms, wall_ms: NOW_MS + ms }
}

fn candidate(local: &LocalAgent) -> Candidate {
    Candidate { verified: local.verified.clone(), description: Arc::clone(&local.description) }
}

fn from(rank: Rank, address: u8) -> Source {
    Source { rank, holder: Holder::Origin(Origin::of(IpAddr::from([10, 0, 0, address]))) }
}

/// Agents of one publisher on one node, with descriptions of so many letters.
fn agents(owner: &Owner, node: u32, count: usize, letters: usize, from_ms: u64) -> Vec<LocalAgent> {
    let local = |number: usize| {
        let file = file(&format!("agent{number:03}"), &"x".repeat(letters), "thing.do", "do", "things");
        agent(owner, &owner.key, key(node).public(), &file, 1, from_ms)
    };
    (0..count).map(local).collect()
}

fn placement(node: &SecretKey, sequence: u64, locals: &[LocalAgent], at_ms: u64) -> Authored<Placement> {
    let mut placed = Placement::new(node.public(), sequence, NOW_MS + at_ms, TTL_MS);
    let hosted = locals.iter().map(|local| {
        let (description, grant) = local.verified.digests();
        Hosted { agent: local.verified.agent.clone(), description, grant }
    });
    placed.agents = hosted.collect();
    placed.agents.sort_by(|a, b| a.agent.cmp(&b.agent));
    object::sign(placed, NETWORK, "", node).expect("a placement")
}

/// A node announces these agents, with evidence for all of them; gives how many are accepted.
fn fill(catalogue: &mut Catalogue, node: u32, sequence: u64, source: Source, locals: &[LocalAgent]) -> usize {
    catalogue.place(now(0), &placement(&key(node), sequence, locals, 0), Learned::Push, source).expect("taken");
    let publisher = if source.rank == Rank::Own { Rank::Own } else { Rank::Stranger };
    locals.iter().filter(|local| catalogue.admit(candidate(local), publisher).is_ok()).count()
}

/// An owner whose key log has as many events as one may have.
fn longest(owner: u32) -> Owner {
    (1..KEYLOG_EVENTS_MAX).fold(Owner::new(key(owner)), |owner, _| owner.rotated(NOW_MS - 1))
}

/// The contents, counted independently of the catalogue: bytes as signed, and each copy of a key log.
fn bytes_kept(catalogue: &Catalogue) -> (usize, usize) {
    let (found, _) = catalogue.find(&Query::default(), 0);
    let (mut bytes, mut logs) = (0, BTreeSet::new());
    for found in &found {
        let verified = &found.candidate.verified;
        bytes += verified.description.bytes.len() + verified.grant.bytes.len();
        let log: Vec<_> = verified.key_log.events().collect();
        if logs.insert(std::ptr::from_ref(log[0]) as usize) {
            bytes += verified.key_log.to_bytes().iter().map(Vec::len).sum::<usize>();
        }
    }
    (bytes, logs.len())
}

#[test]
fn the_key_logs_of_500_agents_are_counted_and_kept_once() {
    let bounds = Bounds { bytes: 1 << 20, node_bytes: 1 << 20, ..Bounds::for_nodes(8) };
    let mut catalogue = Catalogue::new(bounds);
    let locals = agents(&longest(STRANGER), 1, 500, 10, NOW_MS);
    let taken = fill(&mut catalogue, 1, 1, from(Rank::Stranger, 1), &locals);
    let (bytes, logs) = bytes_kept(&catalogue);
    assert_eq!((catalogue.len(), logs), (taken, 1), "one log for all of them");
    assert!(taken > 20 && bytes <= bounds.bytes, "{taken} agents of {bytes} bytes");
    assert!((bytes..=bounds.bytes).contains(&catalogue.bytes()[0]), "{:?}", catalogue.bytes());

    // Each with a publisher of its own: no log is shared.
    let mut catalogue = Catalogue::new(bounds);
    let locals: Vec<LocalAgent> = (200..216).flat_map(|owner| agents(&longest(owner), 1, 1, 10, NOW_MS)).collect();
    let taken = fill(&mut catalogue, 1, 1, from(Rank::Stranger, 1), &locals);
    let (bytes, logs) = bytes_kept(&catalogue);
    assert!(taken > 1 && taken < locals.len() && logs == taken && bytes <= bounds.bytes, "{taken} of {bytes} bytes");
}

#[test]
fn lists_of_what_is_hosted_are_counted_although_no_evidence_comes() {
    let bounds = Bounds { bytes: 1 << 20, ..Bounds::for_nodes(64) };
    let mut catalogue = Catalogue::new(bounds);
    let locals = agents(&Owner::new(key(STRANGER)), 1, 500, 1, NOW_MS);
    let outcomes = (1..=32).map(|node| {
        let placed = placement(&key(node), 1, &locals, 0);
        catalogue.place(now(0), &placed, Learned::Push, Source::stranger(key(node).public())).map(drop)
    });
    let refused: Vec<PlacementRefused> = outcomes.filter_map(Result::err).collect();
    assert!(!refused.is_empty() && refused.iter().all(|why| matches!(why, PlacementRefused::NoRoom(_))), "{refused:?}");
    assert!(catalogue.bytes()[0] <= bounds.bytes && !catalogue.nodes().is_empty());
    // A node of the same owner has room, for its list of agents, too.
    let placed = placement(&key(50), 1, &locals, 0);
    let wanted = catalogue.place(now(0), &placed, Learned::Push, from(Rank::Own, 50)).expect("it has a place");
    assert_eq!(wanted.len(), 500);
    assert!(catalogue.bytes()[0] <= bounds.bytes);
}

#[test]
fn an_own_node_and_a_trusted_publisher_have_room_when_twelve_strangers_were_there_first() {
    const EACH: usize = 256 << 10;
    let bounds = Bounds { bytes: 11 * EACH, node_bytes: EACH, ..Bounds::for_nodes(64) };
    let mut catalogue = Catalogue::new(bounds);
    let stranger = Owner::new(key(STRANGER));
    for node in 1..=12_u32 {
        let source = from(Rank::Stranger, u8::try_from(node).expect("few"));
        let locals = agents(&stranger, node, 40, 1_000, NOW_MS);
        assert!(fill(&mut catalogue, node, 1, source, &locals) < 40, "the node has no more room");
    }
    assert!(catalogue.bytes()[0] + EACH > bounds.bytes, "all is full: {:?}", catalogue.bytes());

    // An own node that comes later, and whose agents are described and granted anew then.
    let own = Owner::new(key(OWN));
    for sequence in 1..=3 {
        let renewed = |number: u32| {
            let file = file(&format!("own{number}"), &"x".repeat(1_000), "thing.do", "do", "things");
            agent(&own, &own.key, key(20).public(), &file, sequence, NOW_MS + sequence)
        };
        let locals: Vec<LocalAgent> = (0..8).map(renewed).collect();
        assert_eq!(fill(&mut catalogue, 20, sequence, from(Rank::Own, 20), &locals), 8, "round {sequence}");
        assert!(catalogue.bytes()[0] <= bounds.bytes);
    }
    // A trusted publisher's agent, on a stranger's node that has no more room of its own.
    let locals = agents(&stranger, 1, 40, 1_000, NOW_MS);
    let theirs = agents(&Owner::new(key(102)), 1, 1, 1_000, NOW_MS);
    let all: Vec<LocalAgent> = locals.iter().cloned().chain(theirs.iter().cloned()).collect();
    catalogue.place(now(0), &placement(&key(1), 2, &all, 0), Learned::Push, from(Rank::Stranger, 1)).expect("taken");
    assert!(locals.iter().any(|local| catalogue.admit(candidate(local), Rank::Stranger).is_err()), "it is full");
    assert_eq!(catalogue.admit(candidate(&theirs[0]), Rank::Trusted), Ok(()));
    // A new stranger has a share, and no more than the others.
    let late = agents(&stranger, 30, 40, 1_000, NOW_MS);
    let taken = fill(&mut catalogue, 30, 1, from(Rank::Stranger, 30), &late);
    assert!(taken > 0 && taken < 40, "{taken}");
    // None of that displaced more trusted nodes.
    let there =
        |node: u32| catalogue.find(&Query::default(), 0).0.iter().filter(|f| f.node == key(node).public()).count();
    assert_eq!(there(20), 8);
    assert!(catalogue.candidate(key(1).public(), &theirs[0].verified.agent).is_some());
    assert!(catalogue.bytes()[0] <= bounds.bytes);
}

#[test]
fn own_nodes_have_places_when_4096_strangers_were_there_first() {
    const PLACES: u32 = 4_096;
    let mut catalogue = Catalogue::new(Bounds::for_nodes(PLACES as usize));
    let mut come = |node: u32, source: Source| {
        catalogue.place(now(0), &placement(&key(node), 1, &[], 0), Learned::Push, source).map(drop)
    };
    for node in 0..PLACES {
        assert_eq!(come(10_000 + node, from(Rank::Stranger, 1)), Ok(()));
    }
    assert_eq!(come(20_000, from(Rank::Stranger, 1)), Err(PlacementRefused::Full(PLACES as usize)));
    assert_eq!(come(1, from(Rank::Own, 2)), Ok(()), "an own node");
    assert_eq!(come(2, from(Rank::Trusted, 3)), Ok(()), "a trusted one");
    assert_eq!(come(3, from(Rank::InUse, 4)), Ok(()), "one that was called");
    assert_eq!(come(4, from(Rank::Stranger, 5)), Ok(()), "a stranger from somewhere else");
    assert_eq!(come(20_001, from(Rank::Stranger, 1)), Err(PlacementRefused::Full(PLACES as usize)));
    let nodes = catalogue.nodes();
    assert!((1..=4).all(|node| nodes.contains(&key(node).public())) && nodes.len() == PLACES as usize);
}

#[test]
fn what_is_kept_of_silent_strangers_displaces_nobody_who_is_near() {
    let bounds = Bounds { gone_bytes: 1 << 20, ..Bounds::for_nodes(64) };
    let mut catalogue = Catalogue::new(bounds);
    let own = agents(&Owner::new(key(OWN)), 1, 4, 10, NOW_MS);
    assert_eq!(fill(&mut catalogue, 1, 1, from(Rank::Own, 1), &own), 4);
    catalogue.sweep(now(TTL_MS));
    // Logs as long as may be, which were not counted once.
    let stranger = longest(STRANGER);
    let locals: Vec<Vec<LocalAgent>> = (2..34).map(|node| agents(&stranger, node, 4, 10, NOW_MS)).collect();
    for (node, locals) in (2..).zip(&locals) {
        let placed = placement(&key(node), 1, locals, TTL_MS);
        catalogue.place(now(TTL_MS), &placed, Learned::Push, from(Rank::Stranger, 2)).expect("taken");
        locals.iter().for_each(|local| catalogue.admit(candidate(local), Rank::Stranger).expect("there is room"));
        catalogue.sweep(now(TTL_MS));
    }
    assert_eq!(catalogue.sweep(now(2 * TTL_MS)).len(), 32);
    let [here, gone] = catalogue.bytes();
    assert!(here == 0 && gone > 0 && gone <= bounds.gone_bytes, "{here} and {gone}");
    let mut back = |node: u32, locals: &[LocalAgent], source: Source| {
        let placed = placement(&key(node), 2, locals, 2 * TTL_MS);
        catalogue.place(now(2 * TTL_MS), &placed, Learned::Push, source).expect("taken").len()
    };
    assert_eq!(back(1, &own, from(Rank::Own, 1)), 0, "nothing of it is to be asked for");
    let wanted: Vec<usize> =
        (2..).zip(&locals).map(|(node, locals)| back(node, locals, from(Rank::Stranger, 2))).collect();
    assert!(wanted.contains(&0) && wanted.contains(&4), "of the strangers' some was kept: {wanted:?}");
}

#[derive(Debug, Clone)]
enum Step {
    Place { node: usize, agents: usize, rank: usize },
    Admit { node: usize, agent: usize },
    Leave { node: usize },
    Sweep { after_ms: u64 },
}

const NODES: usize = 6;
const AGENTS: usize = 5;
const RANKS: [Rank; 4] = [Rank::Own, Rank::Trusted, Rank::InUse, Rank::Stranger];

fn step() -> impl Strategy<Value = Step> {
    let node = 0..NODES;
    prop_oneof![
        3 => (node.clone(), 0..=AGENTS, 0..RANKS.len()).prop_map(|(node, agents, rank)| Step::Place { node, agents, rank }),
        6 => (node.clone(), 0..AGENTS).prop_map(|(node, agent)| Step::Admit { node, agent }),
        1 => node.prop_map(|node| Step::Leave { node }),
        1 => (0u64..4_000).prop_map(|after_ms| Step::Sweep { after_ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// The bounds always hold; no step displaces a node that is more trusted than the one that caused it; and when all have left
    /// the catalogue is empty.
    #[test]
    fn room_is_never_passed_and_never_taken_from_the_nearer(steps in prop::collection::vec(step(), 1..80)) {
        static ALL: std::sync::LazyLock<Vec<Vec<LocalAgent>>> = std::sync::LazyLock::new(|| {
            (1..).take(NODES).map(|node| agents(&Owner::new(key(300 + node)), node, AGENTS, 300, NOW_MS)).collect()
        });
        let bounds = Bounds { nodes: 4, bytes: 40 << 10, node_bytes: 16 << 10, gone_bytes: 16 << 10 };
        let (mut catalogue, mut ms, mut sequence) = (Catalogue::new(bounds), 0, 0);
        let mut ranks = [Rank::Stranger; NODES];
        for step in steps {
            let there = |catalogue: &Catalogue, ranks: &[Rank; NODES], nearer: Rank, but: usize| -> Vec<_> {
                let of = |node: usize| key(u32::try_from(node).expect("few") + 1).public();
                let others = (0..NODES).filter(|node| *node != but && ranks[*node] < nearer);
                let agents = others.flat_map(|node| ALL[node].iter().map(move |local| (of(node), local.verified.agent.clone())));
                agents.filter(|(node, agent)| catalogue.candidate(*node, agent).is_some()).collect()
            };
            match step {
                Step::Place { node, agents, rank } => {
                    let by = key(u32::try_from(node).expect("few") + 1);
                    sequence += 1;
                    let before = there(&catalogue, &ranks, RANKS[rank], node);
                    let source = Source { rank: RANKS[rank], ..from(Rank::Own, u8::try_from(node % 3).expect("few")) };
                    let placed = placement(&by, sequence, &ALL[node][..agents], ms);
                    if catalogue.place(now(ms), &placed, Learned::Push, source).is_ok() {
                        ranks[node] = RANKS[rank];
                    }
                    prop_assert_eq!(there(&catalogue, &ranks, RANKS[rank], node), before);
                }
                Step::Admit { node, agent } => {
                    let before = there(&catalogue, &ranks, ranks[node], node);
                    let refused = catalogue.admit(candidate(&ALL[node][agent]), Rank::Stranger).err();
                    prop_assert_eq!(there(&catalogue, &ranks, ranks[node], node), before);
                    if ranks[node] == Rank::Own {
                        let full = AdmitRefused::NoRoom { of: "all nodes", max: bounds.bytes };
                        let alone = ranks.iter().filter(|rank| **rank == Rank::Own).count() == 1;
                        prop_assert!(!alone || refused != Some(full), "the only own one has room");
                    }
                }
                Step::Leave { node } => {
                    let by = key(u32::try_from(node).expect("few") + 1);
                    sequence += 1;
                    let mut leaving = Placement::new(by.public(), sequence, NOW_MS + ms, TTL_MS);
                    leaving.health = Health::Leaving;
                    let leaving = object::sign(leaving, NETWORK, "", &by).expect("a placement");
                    catalogue.place(now(ms), &leaving, Learned::Push, Source::stranger(by.public())).expect("taken");
                }
                Step::Sweep { after_ms } => {
                    ms += after_ms;
                    catalogue.sweep(now(ms));
                }
            }
            let [here, gone] = catalogue.bytes();
            prop_assert!(here <= bounds.bytes && gone <= bounds.gone_bytes, "{here} and {gone}");
            prop_assert!(catalogue.nodes().len() <= bounds.nodes);
        }
        catalogue.sweep(now(ms + TTL_MS));
        prop_assert_eq!(catalogue.bytes()[0], 0);
        prop_assert!(catalogue.is_empty());
    }
}
