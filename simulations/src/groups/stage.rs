//! A run: a group is formed, clients work while faults happen, everything heals, and what was seen is judged.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_protocol::PublicKey;
use althing_protocol::group::{GroupId, Policy};
use althing_simnet::SimNet;
use tokio::time::{Instant, sleep, sleep_until};

use super::adversary::{self, Adversary, Target};
use super::clients::{Client, KEYS, Office, task_number};
use super::evidence::{Books, Phase};
use super::faults::Faults;
use super::flaw::Flaw;
use super::member::{Ground, Member, Running};
use super::plan::Plan;
use crate::{NETWORK, NOW_MS};

/// Between two looks at the states of all members.
const SAMPLE: Duration = Duration::from_millis(200);
/// Between two looks at whether something has come.
const POLL: Duration = Duration::from_millis(20);
/// How long the group may take to form.
const FORMING: Duration = Duration::from_secs(60);
/// For how long it is tried to write after everything healed.
const SERVING: Duration = Duration::from_secs(15);
/// After everything healed: from when on nothing disturbs the members any more.
const CALM: Duration = Duration::from_secs(5);
/// For how long they are watched then.
const CALM_FOR: Duration = Duration::from_millis(1_200);
/// After everything healed: how long tasks may take to end.
const ENDING: Duration = Duration::from_secs(20);
/// The client that writes and reads at last.
const LAST_CLIENT: u32 = 1_000;

/// A run while it goes on.
pub(super) struct Stage {
    plan: Plan,
    seed: u64,
    ground: Ground,
    members: Vec<Member>,
    group: GroupId,
    office: Arc<Office>,
    adversary: Option<Adversary>,
}

impl Stage {
    /// Forms the group.
    pub async fn form(plan: Plan, seed: u64, flaw: Arc<dyn Flaw>, books: &Books) -> Stage {
        let net = SimNet::new(seed, plan.link.clone()).named(NETWORK, NOW_MS);
        let ground = Ground {
            net,
            books: books.clone(),
            flaw: flaw.clone(),
            replica: plan.replica.clone(),
            sync: plan.sync,
            seed,
        };
        let count = plan.honest + u8::from(plan.adversary.is_some());
        books.open().honest = (1..=plan.honest).map(|number| crate::key(u32::from(number)).public()).collect();
        let mut members = Vec::new();
        for number in 1..=count {
            members.push(Member::start(&ground, number).await);
        }
        let policy = Policy { voters_max: 7, ..Policy::default() };
        let founder = members[0].running().expect("it runs").groups.clone();
        let group = founder.create("team", policy).await.expect("a group");
        books.open().group = Some(group);
        for member in &members[1..] {
            let ticket = founder.invite(group, member.id(), 600_000).expect("an invitation");
            let joins = member.running().expect("it runs").groups.clone();
            joins.join(&ticket).await.expect("it joins");
        }
        let office = Office {
            group,
            books: books.clone(),
            running: Mutex::default(),
            is_closing: AtomicBool::new(false),
            reads_wait: flaw.reads_wait(),
            values: AtomicU32::new(0),
            tasks: AtomicU32::new(0),
        };
        let stage = Stage { plan, seed, ground, members, group, office: Arc::new(office), adversary: None };
        let all_vote = || stage.members.iter().all(|member| member.votes(group));
        let leads = || stage.members.iter().any(|member| member.leads(group));
        assert!(wait(FORMING, || all_vote() && leads()).await, "the group of seed {seed} did not form");
        books.note(format_args!("the group has formed"));
        stage
    }

    /// Members that keep to the rules.
    fn honest(&self) -> &[Member] {
        &self.members[..usize::from(self.plan.honest)]
    }

    fn publish(&self) {
        let running = self.honest().iter().map(|member| member.running().cloned()).collect();
        *self.office.running.lock().expect("nobody panics with it") = running;
    }

    /// Lets clients work while faults happen, then heals everything, and looks at what is left.
    pub async fn play(mut self) {
        self.publish();
        let clients: Vec<_> = (0..self.plan.clients)
            .map(|number| tokio::spawn(Client::new(self.office.clone(), number, self.seed).work()))
            .collect();
        self.release();
        self.disturb().await;
        self.heal().await;
        let healed = Instant::now();
        self.serve(healed).await;
        self.office.is_closing.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.expect("no client panics");
        }
        self.rest(healed).await;
        self.adversary = None;
        self.finish().await;
    }

    fn release(&mut self) {
        let Some(name) = self.plan.adversary else { return };
        let member = self.members.last().expect("it is the last one");
        let target = Target {
            group: self.group,
            key: member.key.clone(),
            running: member.running().expect("it runs").clone(),
            honest: self.honest().iter().map(Member::id).collect(),
            office: self.office.clone(),
            seed: self.seed,
            books: self.ground.books.clone(),
        };
        self.ground.books.note(format_args!("{name}: {} breaks the rules", member.id()));
        self.adversary = Some(adversary::release(name, target));
    }

    /// Faults begin and end; between them all states are looked at.
    async fn disturb(&mut self) {
        let begun = Instant::now();
        let mut steps: BTreeMap<(u64, usize), Option<usize>> = BTreeMap::new();
        for (number, (at_ms, for_ms, _)) in self.plan.faults.iter().enumerate() {
            steps.insert((*at_ms, 2 * number), Some(number));
            steps.insert((at_ms + for_ms, 2 * number + 1), None);
        }
        let mut faults = Faults::new(self.ground.clone(), self.group);
        let end = begun + Duration::from_millis(self.plan.for_ms);
        let mut next_sample = begun;
        loop {
            let next = steps.first_key_value().map_or(end, |((at_ms, _), _)| begun + Duration::from_millis(*at_ms));
            if next.min(next_sample) >= end {
                return;
            }
            if next_sample < next {
                sleep_until(next_sample).await;
                self.sample();
                next_sample += SAMPLE;
                continue;
            }
            sleep_until(next).await;
            let ((_, order), step) = steps.pop_first().expect("it was there");
            let honest = usize::from(self.plan.honest);
            let members = &mut self.members[..];
            match step {
                Some(number) => faults.begin(number, &self.plan.faults[number].2, members, honest).await,
                None => faults.end(order / 2, members).await,
            }
            self.publish();
        }
    }

    fn sample(&self) {
        self.honest().iter().for_each(|member| member.sample(self.group));
    }

    /// Ends all faults.
    async fn heal(&mut self) {
        if self.plan.adversary.is_some_and(|name| adversary::UNELECTABLE.contains(&name)) {
            self.adversary = None;
        }
        self.ground.net.set_link(self.plan.link.clone());
        self.ground.net.heal_all();
        for member in &mut self.members {
            member.clock.go();
            member.restart().await;
        }
        self.publish();
        self.ground.books.note(format_args!("everything has healed"));
    }

    /// Each member must write a value soon.
    async fn serve(&self, healed: Instant) {
        let all = self.honest().iter().zip(LAST_CLIENT..).map(|(member, client)| async move {
            let running = member.running().expect("it runs");
            let mut after_ms = None;
            while after_ms.is_none() && healed.elapsed() < SERVING {
                if self.office.write(client, running, 0).await {
                    after_ms = Some(u64::try_from(healed.elapsed().as_millis()).unwrap_or(u64::MAX));
                } else {
                    sleep(POLL).await;
                }
            }
            (member.id(), after_ms)
        });
        let after_ms: BTreeMap<PublicKey, Option<u64>> = futures::future::join_all(all).await.into_iter().collect();
        self.ground.books.open().served.after_ms = after_ms;
    }

    /// Nothing disturbs the members any more: nobody is elected, and all tasks end.
    async fn rest(&self, healed: Instant) {
        sleep_until(healed + CALM).await;
        let calm_until = Instant::now() + CALM_FOR;
        let terms = || self.honest().iter().filter_map(|member| Some(member.status(self.group)?.term));
        while Instant::now() < calm_until {
            let now: Vec<u64> = terms().collect();
            self.ground.books.open().served.calm_terms.extend(now);
            self.sample();
            sleep(SAMPLE).await;
        }
        let open = || self.open_tasks();
        wait(healed + ENDING - Instant::now(), || open().is_empty()).await;
        self.ground.books.open().served.unfinished = open();
    }

    /// The tasks that are not finished, as the members know it.
    fn open_tasks(&self) -> Vec<String> {
        let mut open: Vec<String> = Vec::new();
        for running in self.honest().iter().filter_map(Member::running) {
            let looked = running.groups.look(self.group, |state| {
                let tasks = state.work().tasks().iter().filter(|task| !task.state.is_finished());
                tasks.map(|task| format!("{} is {}: {:?}", task_number(task.id()), task.state, task.held)).collect()
            });
            open.extend::<Vec<String>>(looked.unwrap_or_default());
        }
        open
    }

    /// All members are asked for everything once more, and must have applied the same.
    async fn finish(&self) {
        for (member, client) in self.honest().iter().zip(LAST_CLIENT..) {
            let running: &Running = member.running().expect("it runs");
            for key in 0..KEYS {
                self.office.read(client, running, key).await;
            }
            self.office.look(client, running).await;
        }
        let applied = || self.honest().iter().map(|member| member.status(self.group).and_then(|status| status.applied));
        let is_even = || {
            let mut all = applied();
            let first = all.next().flatten();
            all.all(|other| other == first)
        };
        wait(Duration::from_secs(3), is_even).await;
        sleep(SAMPLE).await;
        self.sample();
        let memberships: Vec<_> = self.ground.books.open().memberships().collect();
        for (index, members) in memberships {
            self.ground.books.note(format_args!("the entry {index} makes {members:?} the members of the log"));
        }
        for member in self.honest() {
            let status = member.status(self.group);
            self.ground.books.note(format_args!("{} ends with {status:?}", member.id()));
            self.ground.books.open().follows.insert(member.id(), status.and_then(|status| status.leader));
        }
    }
}

/// Waits until something holds; whether it came.
async fn wait(at_most: Duration, holds: impl Fn() -> bool) -> bool {
    let until = Instant::now() + at_most;
    while !holds() {
        if Instant::now() >= until {
            return false;
        }
        sleep(POLL).await;
    }
    true
}

/// Whether a task has ended.
pub(super) fn is_ended(phase: Phase) -> bool {
    phase != Phase::Open
}
