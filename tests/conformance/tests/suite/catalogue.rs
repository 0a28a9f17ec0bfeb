//! The catalogue against a model of it, under any order of placements, evidence, silence and farewell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use althing_conformance::mesh::{Owner, agent, file};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_discovery::machine::catalogue::{Candidate, Catalogue, Learned, Now};
use althing_discovery::machine::rank::{Bounds, Rank, Source};
use althing_discovery::{LocalAgent, Query};
use althing_protocol::object::{self, Health, Hosted, Placement};
use althing_protocol::{AgentId, Authored, PublicKey};
use proptest::prelude::*;

const NODES: u8 = 4;
const AGENTS: usize = 3;
const TTL_MS: u64 = 6_000;

/// A stranger.
fn from(node: u8) -> Source {
    Source::stranger(key(node).public())
}

/// Two versions of each agent on each node.
static EVIDENCE: LazyLock<BTreeMap<(u8, usize, u64), LocalAgent>> = LazyLock::new(|| {
    let mut all = BTreeMap::new();
    for node in 1..=NODES {
        for number in 0..AGENTS {
            for version in 1..=2 {
                let about = format!("word{number} version{version}");
                let file = file(&format!("agent{number}"), &about, &format!("skill.s{number}"), "do", "things");
                let local = agent(&Owner::new(key(100)), &key(100), key(node).public(), &file, version, NOW_MS);
                all.insert((node, number, version), local);
            }
        }
    }
    all
});

fn candidate(local: &LocalAgent) -> Candidate {
    Candidate { verified: local.verified.clone(), description: Arc::clone(&local.description) }
}

#[derive(Debug, Clone)]
enum Step {
    /// A node announces its agents: a version of each, or 0.
    Place { node: u8, sequence: u64, hosts: [u64; AGENTS], leaving: bool },
    /// Evidence for an agent arrives.
    Admit { node: u8, number: usize, version: u64 },
    /// A node says that its last placement holds, which announced that; another node with its key may have said otherwise.
    Renew { node: u8, hosts: [u64; AGENTS] },
    /// Time passes, and silent nodes expire.
    Sweep { after_ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let node = 1..=NODES;
    prop_oneof![
        4 => (node.clone(), 0u64..12, prop::array::uniform3(0u64..=2), prop::bool::weighted(0.1))
            .prop_map(|(node, sequence, hosts, leaving)| Step::Place { node, sequence, hosts, leaving }),
        2 => (node.clone(), prop::array::uniform3(0u64..=2)).prop_map(|(node, hosts)| Step::Renew { node, hosts }),
        4 => (node, 0..AGENTS, 1u64..=2).prop_map(|(node, number, version)| Step::Admit { node, number, version }),
        1 => (0u64..4_000).prop_map(|after_ms| Step::Sweep { after_ms }),
    ]
}

/// What the catalogue must contain.
#[derive(Default)]
struct Model {
    now_ms: u64,
    seen: BTreeMap<u8, u64>,
    nodes: BTreeMap<u8, ModelNode>,
    /// The agents of expired nodes, which are known again when those return unchanged.
    gone: BTreeMap<u8, ModelNode>,
    /// The newest version of each agent that was ever admitted, on each node.
    newest: BTreeMap<(u8, usize), u64>,
}

#[derive(Default, Clone)]
struct ModelNode {
    hosts: [u64; AGENTS],
    admitted: BTreeSet<usize>,
    expires_ms: u64,
}

fn placement(node: u8, sequence: u64, hosts: [u64; AGENTS], leaving: bool, now_ms: u64) -> Authored<Placement> {
    let mut placement = Placement::new(key(node).public(), sequence, NOW_MS + now_ms, TTL_MS);
    placement.health = if leaving { Health::Leaving } else { Health::Healthy };
    let hosted = (0..AGENTS).zip(hosts).filter(|(_, version)| *version > 0).map(|(number, version)| {
        let verified = &EVIDENCE[&(node, number, version)].verified;
        let (description, grant) = verified.digests();
        Hosted { agent: verified.agent.clone(), description, grant }
    });
    placement.agents = hosted.collect();
    placement.agents.sort_by(|a, b| a.agent.cmp(&b.agent));
    object::sign(placement, NETWORK, "", &key(node)).expect("a placement")
}

impl Model {
    fn take(&mut self, catalogue: &mut Catalogue, step: &Step) -> Result<(), TestCaseError> {
        let now = Now { monotonic_ms: self.now_ms, wall_ms: NOW_MS + self.now_ms };
        match *step {
            Step::Place { node, sequence, hosts, leaving } => {
                let placed = catalogue.place(
                    now,
                    &placement(node, sequence, hosts, leaving, self.now_ms),
                    Learned::Push,
                    from(node),
                );
                let newer = self.seen.get(&node).is_none_or(|seen| sequence > *seen);
                prop_assert_eq!(placed.is_ok(), newer, "newer always wins, and nothing else does");
                if !newer {
                    return Ok(());
                }
                self.seen.insert(node, sequence);
                if leaving {
                    self.nodes.remove(&node);
                    self.gone.remove(&node);
                    return Ok(());
                }
                let before = self.gone.remove(&node).unwrap_or_default();
                let entry = self.nodes.entry(node).or_insert(before);
                entry.admitted.retain(|number| entry.hosts[*number] == hosts[*number]);
                entry.hosts = hosts;
                entry.expires_ms = self.now_ms + TTL_MS;
                let wanted =
                    (0..AGENTS).filter(|number| hosts[*number] > 0 && !entry.admitted.contains(number)).count();
                prop_assert_eq!(placed.expect("taken").len(), wanted);
            }
            Step::Admit { node, number, version } => {
                let admitted = catalogue.admit(candidate(&EVIDENCE[&(node, number, version)]), Rank::Stranger);
                let hosted = self.nodes.get(&node).is_some_and(|entry| entry.hosts[number] == version);
                // P-42: an older description does not come back.
                prop_assert_eq!(
                    admitted.is_ok(),
                    hosted && version >= self.newest.get(&(node, number)).copied().unwrap_or(0),
                    "{:?}",
                    admitted
                );
                if admitted.is_err() {
                    return Ok(());
                }
                self.newest.insert((node, number), version);
                self.nodes.entry(node).or_default().admitted.insert(number);
            }
            Step::Renew { node, hosts } => {
                let said = placement(node, 0, hosts, false, self.now_ms).body.agents;
                let renewed = catalogue.renew(now, key(node).public(), Rank::Stranger, Some(&said));
                let entry = self.nodes.get_mut(&node).filter(|entry| entry.hosts == hosts);
                prop_assert_eq!(renewed.is_some(), entry.is_some(), "only what was said last is renewed");
                entry.into_iter().for_each(|entry| entry.expires_ms = self.now_ms + TTL_MS);
            }
            Step::Sweep { after_ms } => {
                self.now_ms += after_ms;
                catalogue.sweep(Now { monotonic_ms: self.now_ms, wall_ms: NOW_MS + self.now_ms });
                let silent = self.nodes.extract_if(.., |_, entry| entry.expires_ms <= self.now_ms);
                self.gone.extend(silent.filter(|(_, entry)| !entry.admitted.is_empty()));
            }
        }
        Ok(())
    }

    /// Node, agent and version of all that must be found.
    fn known(&self) -> BTreeSet<(PublicKey, AgentId, u64)> {
        let all = self.nodes.iter().flat_map(|(node, entry)| {
            let version = |number: &usize| (*node, *number, entry.hosts[*number]);
            entry.admitted.iter().map(version).collect::<Vec<_>>()
        });
        all.map(|known| (key(known.0).public(), EVIDENCE[&known].verified.agent.clone(), known.2)).collect()
    }

    fn check(&self, catalogue: &Catalogue) -> Result<(), TestCaseError> {
        let known = self.known();
        let found = |query: Query| -> BTreeSet<(PublicKey, AgentId, u64)> {
            let (found, _) = catalogue.find(&query, self.now_ms);
            let version = |found: althing_discovery::Found| {
                let body = &found.candidate.verified.description.body;
                (found.node, body.agent.clone(), body.sequence)
            };
            found.into_iter().map(version).collect()
        };
        prop_assert_eq!(catalogue.len(), known.len());
        prop_assert_eq!(&found(Query::default()), &known);
        for number in 0..AGENTS {
            let of =
                |name: &str| -> BTreeSet<_> { known.iter().filter(|(_, id, _)| id.name() == name).cloned().collect() };
            let expected = of(&format!("agent{number}"));
            let by_skill = Query { capability: Some(format!("skill.s{number}")), ..Query::default() };
            prop_assert_eq!(&found(by_skill), &expected);
            let by_text = Query { text: Some(format!("word{number}")), ..Query::default() };
            prop_assert_eq!(&found(by_text), &expected);
            let hosts: BTreeSet<PublicKey> = EVIDENCE
                .values()
                .map(|local| &local.verified.agent)
                .find(|id| id.name() == format!("agent{number}"))
                .map(|id| catalogue.hosts(id).into_iter().collect())
                .expect("it exists");
            prop_assert_eq!(hosts, expected.iter().map(|(node, _, _)| *node).collect::<BTreeSet<_>>());
        }
        for version in 1..=2 {
            let by_text = Query { text: Some(format!("version{version}")), ..Query::default() };
            let expected: BTreeSet<_> = known.iter().filter(|(_, _, of)| *of == version).cloned().collect();
            prop_assert_eq!(found(by_text), expected);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn what_is_found_is_what_was_said_last_and_proven(steps in prop::collection::vec(step(), 1..60)) {
        let (mut model, mut catalogue) = (Model::default(), Catalogue::new(Bounds::for_nodes(100)));
        for step in &steps {
            model.take(&mut catalogue, step)?;
            model.check(&catalogue)?;
        }
    }
}

#[test]
fn an_agent_whose_grant_is_over_is_gone() {
    let mut catalogue = Catalogue::new(Bounds::for_nodes(8));
    let now = |ms: u64| Now { monotonic_ms: ms, wall_ms: NOW_MS + ms };
    catalogue.place(now(0), &placement(1, 1, [1, 0, 0], false, 0), Learned::Push, from(1)).expect("taken");
    catalogue.admit(candidate(&EVIDENCE[&(1, 0, 1)]), Rank::Stranger).expect("admitted");
    for minutes in 1..58 {
        let ms = minutes * 60_000;
        catalogue
            .place(now(ms), &placement(1, 1 + minutes, [1, 0, 0], false, ms), Learned::Push, from(1))
            .expect("taken");
        catalogue.sweep(now(ms));
        assert_eq!(catalogue.len(), 1, "after {minutes} minutes");
    }
    // Granted for an hour; clocks may differ by two minutes.
    let ms = 63 * 60_000;
    let wanted =
        catalogue.place(now(ms), &placement(1, 100, [1, 0, 0], false, ms), Learned::Push, from(1)).expect("taken");
    assert_eq!(wanted.len(), 0, "it is known");
    catalogue.sweep(now(ms));
    assert_eq!(catalogue.len(), 0);
}

#[test]
fn what_was_revoked_while_its_node_was_silent_does_not_come_back() {
    let mut catalogue = Catalogue::new(Bounds::for_nodes(8));
    let now = |ms: u64| Now { monotonic_ms: ms, wall_ms: NOW_MS + ms };
    for node in [1, 2] {
        catalogue.place(now(0), &placement(node, 1, [1, 0, 0], false, 0), Learned::Push, from(1)).expect("taken");
        catalogue.admit(candidate(&EVIDENCE[&(node, 0, 1)]), Rank::Stranger).expect("admitted");
    }
    assert_eq!(catalogue.sweep(now(10_000)).len(), 2);
    catalogue.drop_agents(|agent| agent.node == key(1).public());
    let back = |catalogue: &mut Catalogue, node: u8, ms: u64| {
        catalogue
            .place(now(ms), &placement(node, 2, [1, 0, 0], false, ms), Learned::Push, from(1))
            .expect("taken")
            .len()
    };
    assert_eq!((back(&mut catalogue, 1, 11_000), catalogue.len()), (1, 0), "it is asked for anew");
    assert_eq!((back(&mut catalogue, 2, 11_000), catalogue.len()), (0, 1), "that one was as it is");
    // Nor does what ended meanwhile.
    catalogue.sweep(now(20_000));
    let ms = 63 * 60_000;
    let again =
        catalogue.place(now(ms), &placement(2, 3, [1, 0, 0], false, ms), Learned::Push, from(1)).expect("taken");
    assert_eq!((again.len(), catalogue.len()), (1, 0));
}

#[test]
fn what_is_not_believed_is_not_asked_for_again_at_once() {
    let mut catalogue = Catalogue::new(Bounds::for_nodes(8));
    let now = |ms: u64| Now { monotonic_ms: ms, wall_ms: NOW_MS + ms };
    let place = |catalogue: &mut Catalogue, sequence: u64, version: u64, ms: u64| {
        catalogue
            .place(now(ms), &placement(1, sequence, [version, 0, 0], false, ms), Learned::Push, from(1))
            .expect("taken")
    };
    let wanted = place(&mut catalogue, 1, 1, 0);
    catalogue.back_off(key(1).public(), &wanted[0], 10_000);
    assert_eq!(place(&mut catalogue, 2, 1, 2_000), []);
    assert_eq!(place(&mut catalogue, 3, 2, 4_000).len(), 1, "it changed");
    catalogue.back_off(key(1).public(), &wanted[0], 10_000);
    assert_eq!(place(&mut catalogue, 4, 2, 5_000).len(), 1, "what was spurned is not what there is");
    let wanted = place(&mut catalogue, 5, 2, 6_000);
    catalogue.back_off(key(1).public(), &wanted[0], 10_000);
    assert_eq!(place(&mut catalogue, 6, 2, 9_999), []);
    assert_eq!(place(&mut catalogue, 7, 2, 10_000).len(), 1, "its time is over");
}

/// A node with many agents that have long descriptions.
fn laden(node: u8, agents: usize) -> Vec<LocalAgent> {
    let about = "x".repeat(4_000);
    let local = |number: usize| {
        let file = file(&format!("large{number:03}"), &about, "large.do", "do", "things");
        agent(&Owner::new(key(100)), &key(100), key(node).public(), &file, 1, NOW_MS)
    };
    (0..agents).map(local).collect()
}

fn placed(node: u8, sequence: u64, locals: &[LocalAgent], now_ms: u64) -> Authored<Placement> {
    let mut placed = Placement::new(key(node).public(), sequence, now_ms, TTL_MS);
    let hosted = locals.iter().map(|local| {
        let (description, grant) = local.verified.digests();
        Hosted { agent: local.verified.agent.clone(), description, grant }
    });
    placed.agents = hosted.collect();
    object::sign(placed, NETWORK, "", &key(node)).expect("a placement")
}

#[test]
fn of_two_descriptions_of_one_sequence_the_one_that_was_seen_stays() {
    use althing_discovery::machine::catalogue::AdmitRefused;
    // P-42: neither is newer. The publisher, or the thief of its key, signed both.
    let described = |about: &str| {
        let file = file("agent", about, "skill.s", "do", "things");
        agent(&Owner::new(key(100)), &key(100), key(1).public(), &file, 7, NOW_MS)
    };
    let (first, other) = (described("first"), described("other"));
    let mut catalogue = Catalogue::new(Bounds::for_nodes(8));
    let now = Now { monotonic_ms: 0, wall_ms: NOW_MS };
    for (sequence, local, taken) in [(1, &first, true), (2, &other, false), (3, &first, true)] {
        let placement = placed(1, sequence, std::slice::from_ref(local), NOW_MS);
        catalogue.place(now, &placement, Learned::Push, from(1)).expect("taken");
        let admitted = catalogue.admit(candidate(local), Rank::Stranger);
        assert_eq!(admitted.is_ok(), taken, "{admitted:?}");
        assert!(taken || matches!(admitted, Err(AdmitRefused::OldDescription { got: 7, seen: 7 })), "{admitted:?}");
    }
}

#[test]
fn of_nodes_with_one_load_the_one_where_the_agent_has_fewer_turns_is_called_first() {
    use althing_protocol::contract::Latency;
    use althing_protocol::object::AgentLoad;
    let mut catalogue = Catalogue::new(Bounds::for_nodes(8));
    let now = Now { monotonic_ms: 0, wall_ms: NOW_MS };
    let id = EVIDENCE[&(1, 1, 1)].verified.agent.clone();
    for (node, turns) in [(1, 5), (2, 0), (3, 2)] {
        let locals = [0, 1].map(|number| EVIDENCE[&(node, number, 1)].clone());
        let mut body = placed(node, 1, &locals, NOW_MS).body;
        let of = |turns| AgentLoad { latency: Latency::Srt, turns };
        // The other agent's are more, the other way round.
        body.loads = Some(vec![of(9 - turns), of(turns)]);
        let placement = object::sign(body, NETWORK, "", &key(node)).expect("a placement");
        catalogue.place(now, &placement, Learned::Push, from(node)).expect("taken");
        locals.iter().for_each(|local| catalogue.admit(candidate(local), Rank::Stranger).expect("there is room"));
    }
    assert_eq!(catalogue.hosts(&id), [2, 3, 1].map(|node| key(node).public()));
    let (found, _) = catalogue.find(&Query { capability: Some("skill.s1".to_owned()), ..Query::default() }, 0);
    let turns: Vec<Option<u32>> = found.iter().map(|found| found.load.map(|load| load.turns)).collect();
    assert_eq!(turns.len(), 3);
    assert!([5, 0, 2].iter().all(|of| turns.contains(&Some(*of))), "{turns:?}");
    // A node that does not say is asked like one without work.
    let silent = placed(1, 2, &[0, 1].map(|number| EVIDENCE[&(1, number, 1)].clone()), NOW_MS);
    catalogue.place(now, &silent, Learned::Push, from(1)).expect("taken");
    assert_eq!(catalogue.find(&Query::default(), 0).0.iter().filter(|found| found.load.is_none()).count(), 2);
}

// P-40
#[test]
fn success_that_was_measured_here_counts_before_load_and_what_others_say_does_not() {
    let mut catalogue = Catalogue::new(Bounds::for_nodes(8));
    let now = Now { monotonic_ms: 0, wall_ms: NOW_MS };
    let place = |catalogue: &mut Catalogue, (node, sequence): (u8, u64), learned, success, load_permille| {
        let locals = [EVIDENCE[&(node, 1, 1)].clone()];
        let mut body = placed(node, sequence, &locals, NOW_MS).body;
        (body.load_permille, body.successes) = (load_permille, Some(vec![success]));
        let placement = object::sign(body, NETWORK, "", &key(node)).expect("a placement");
        catalogue.place(now, &placement, learned, from(node)).expect("taken");
        let _ = catalogue.admit(candidate(&locals[0]), Rank::Stranger);
    };
    let order = |catalogue: &Catalogue| -> Vec<(PublicKey, Option<u8>)> {
        catalogue.find(&Query::default(), 0).0.iter().map(|found| (found.node, found.success)).collect()
    };
    let [own, other, third] = [1, 2, 3].map(|node| key(node).public());
    place(&mut catalogue, (1, 1), Learned::Local, Some(80), 0);
    place(&mut catalogue, (2, 1), Learned::Push, Some(10), 500);
    place(&mut catalogue, (3, 1), Learned::Push, None, 200);
    assert_eq!(order(&catalogue), [(third, None), (other, Some(10)), (own, Some(80))]);
    // In tenths: one failure of many is no reason to go to who has more to do.
    place(&mut catalogue, (1, 2), Learned::Local, Some(99), 0);
    assert_eq!(order(&catalogue), [(own, Some(99)), (third, None), (other, Some(10))]);
}

#[test]
fn descriptions_of_others_have_a_budget() {
    use althing_discovery::machine::catalogue::AdmitRefused;
    use althing_discovery::machine::rank::NODE_BYTES_MAX;
    let mut catalogue = Catalogue::new(Bounds::for_nodes(8));
    let now = Now { monotonic_ms: 0, wall_ms: NOW_MS };
    let locals = laden(1, 450);
    catalogue.place(now, &placed(1, 1, &locals, NOW_MS), Learned::Push, from(1)).expect("taken");
    let refused: Vec<AdmitRefused> =
        locals.iter().filter_map(|local| catalogue.admit(candidate(local), Rank::Stranger).err()).collect();
    assert!(!refused.is_empty() && catalogue.len() * 4_000 <= NODE_BYTES_MAX, "{} taken", catalogue.len());
    assert!(refused.iter().all(|reason| matches!(reason, AdmitRefused::NoRoom { of: "one node", .. })), "{refused:?}");
    // It leaves, which frees its room.
    let mut leaving = Placement::new(key(1).public(), 2, NOW_MS, TTL_MS);
    leaving.health = Health::Leaving;
    let leaving = object::sign(leaving, NETWORK, "", &key(1)).expect("a placement");
    catalogue.place(now, &leaving, Learned::Push, from(1)).expect("taken");
    assert!(catalogue.is_empty() && catalogue.bytes() == [0, 0]);
}

#[test]
fn what_is_kept_of_silent_nodes_has_a_budget() {
    const NODES: u8 = 6;
    let mut catalogue = Catalogue::new(Bounds::for_nodes(8));
    let now = |ms: u64| Now { monotonic_ms: ms, wall_ms: NOW_MS + ms };
    let all: Vec<Vec<LocalAgent>> = (1..=NODES).map(|node| laden(node, 300)).collect();
    for (node, locals) in (1..).zip(&all) {
        // Each later than the one before, so that they expire one after another.
        let ms = u64::from(node) * 1_000;
        catalogue.place(now(ms), &placed(node, 1, locals, NOW_MS + ms), Learned::Push, from(1)).expect("taken");
        locals.iter().for_each(|local| catalogue.admit(candidate(local), Rank::Stranger).expect("there is room"));
        catalogue.sweep(now(ms));
    }
    let silent: usize = (0..20).map(|second| catalogue.sweep(now(7_000 + second * 1_000)).len()).sum();
    assert_eq!(silent, usize::from(NODES));
    let wanted: Vec<usize> = (1..)
        .zip(&all)
        .map(|(node, locals)| {
            let back = placed(node, 2, locals, NOW_MS + 30_000);
            catalogue.place(now(30_000), &back, Learned::Push, from(1)).expect("taken").len()
        })
        .collect();
    // Nothing is cached of the nodes that expired first, all of the others.
    let kept = wanted.iter().position(|wanted| *wanted == 0).expect("some was kept");
    assert!(kept > 0, "there is a limit");
    assert!(
        wanted[..kept].iter().all(|wanted| *wanted == 300) && wanted[kept..].iter().all(|wanted| *wanted == 0),
        "{wanted:?}"
    );
}
