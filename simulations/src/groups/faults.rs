//! The faults of a run: each begins, and ends by itself.

use std::collections::BTreeMap;

use althing_protocol::PublicKey;
use althing_protocol::group::GroupId;
use althing_simnet::LinkConfig;

use super::member::{Ground, Member};
use super::plan::{Fault, Who};

/// Faults that go on.
pub(super) struct Faults {
    ground: Ground,
    group: GroupId,
    link: Option<LinkConfig>,
    /// What each has cut: from whom to whom.
    cuts: BTreeMap<usize, Vec<(PublicKey, PublicKey)>>,
    /// Whom each has hit.
    hit: BTreeMap<usize, Vec<usize>>,
    /// Which of them change all links.
    lossy: BTreeMap<usize, f64>,
}

impl Faults {
    pub fn new(ground: Ground, group: GroupId) -> Faults {
        Faults { ground, group, link: None, cuts: BTreeMap::new(), hit: BTreeMap::new(), lossy: BTreeMap::new() }
    }

    /// A fault begins. Only the first `honest` members crash: the others are the adversary's.
    pub async fn begin(&mut self, number: usize, fault: &Fault, members: &mut [Member], honest: usize) {
        let group = self.group;
        let leader = || members.iter().position(|member| member.leads(group)).unwrap_or(0);
        let who = |who: Who| match who {
            Who::Leader => leader(),
            Who::Number(number) => usize::from(number) % members.len(),
        };
        self.ground.books.note(format_args!("fault {number}: {fault:?}"));
        let ids: Vec<PublicKey> = members.iter().map(Member::id).collect();
        let side = |sides: u8, at: usize| sides & (1 << at) != 0;
        let cuts = match fault {
            Fault::Isolate(at) => {
                let at = who(*at);
                between(&ids, |from, to| from == at || to == at)
            }
            Fault::Deaf(at) => {
                let at = who(*at);
                between(&ids, |_, to| to == at)
            }
            Fault::Mute(at) => {
                let at = who(*at);
                between(&ids, |from, _| from == at)
            }
            Fault::Split(sides) => between(&ids, |from, to| side(*sides, from) != side(*sides, to)),
            Fault::Bridge(at, sides) => {
                let bridge = who(*at);
                between(&ids, |from, to| from != bridge && to != bridge && side(*sides, from) != side(*sides, to))
            }
            _ => Vec::new(),
        };
        match fault {
            Fault::Crash(at) => {
                let at = who(*at) % honest;
                self.hit.insert(number, vec![at]);
                members[at].crash().await;
            }
            Fault::Blackout => {
                self.hit.insert(number, (0..honest).collect());
                for member in &mut members[..honest] {
                    member.crash().await;
                }
            }
            Fault::Stopped(at) => {
                let at = who(*at);
                self.hit.insert(number, vec![at]);
                members[at].clock.stop();
            }
            Fault::Ahead(at, ms) => {
                let at = who(*at);
                self.hit.insert(number, vec![at]);
                members[at].clock.jump(*ms);
            }
            Fault::HandOver(at) => {
                let (from, to) = (leader(), who(*at));
                if let Some(running) = members[from].running() {
                    // Refused where it does not lead; the invariants judge what follows.
                    let _ = running.groups.transfer(group, ids[to]).await;
                }
            }
            Fault::Lossy(permille) => {
                self.lossy.insert(number, f64::from(*permille) / 1_000.0);
                self.link.get_or_insert_with(|| self.ground.net.link());
                self.apply_loss();
            }
            _ => {
                self.cuts.insert(number, cuts);
                self.apply_cuts();
            }
        }
    }

    pub async fn end(&mut self, number: usize, members: &mut [Member]) {
        self.ground.books.note(format_args!("fault {number} ends"));
        if self.cuts.remove(&number).is_some() {
            self.apply_cuts();
        }
        if self.lossy.remove(&number).is_some() {
            self.apply_loss();
        }
        for at in self.hit.remove(&number).unwrap_or_default() {
            members[at].clock.go();
            // Unless another fault hit it, too.
            if !self.hit.values().flatten().any(|other| *other == at) {
                members[at].restart().await;
            }
        }
    }

    fn apply_cuts(&self) {
        self.ground.net.heal_all();
        for (from, to) in self.cuts.values().flatten() {
            self.ground.net.cut_one_way(*from, *to);
        }
    }

    fn apply_loss(&self) {
        let Some(link) = self.link.clone() else { return };
        let loss = self.lossy.values().copied().fold(link.loss, f64::max);
        self.ground.net.set_link(LinkConfig { loss, ..link });
    }
}

/// The pairs, from whom to whom, that are cut.
fn between(ids: &[PublicKey], is_cut: impl Fn(usize, usize) -> bool) -> Vec<(PublicKey, PublicKey)> {
    let pairs = (0..ids.len()).flat_map(|a| (0..ids.len()).map(move |b| (a, b)));
    pairs.filter(|(a, b)| a != b && is_cut(*a, *b)).map(|(a, b)| (ids[a], ids[b])).collect()
}
