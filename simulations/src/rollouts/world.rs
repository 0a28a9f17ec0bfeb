//! Two nodes of an agent with several versions: one decides and writes that down, and ends at its writes; the other one is told.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::Digest;
use althing_store::Durability;
use althing_verification::machine::rollout::{
    Call, Change, Conversation, Outcome, Phase, Route, Side, Ticket, Versions, decode_row, encode_row,
};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::agent;
use super::disk::{Disk, Key, LifeOver};
use super::evidence::{Course, Decision, Event, Evidence, Knowledge, Place};
use super::flaw::Flaw;
use super::plan::{CALLS, LifeEnd, Order, Plan, digest_of, number_of};
use crate::NOW_MS;
use crate::sessions::plan::Loss;

/// Milliseconds from one call to the next.
const PAUSE_MS: u64 = 10;
/// Conversations of each node.
const CONVERSATIONS: u64 = 40;
/// From this number on, conversations are the follower's.
pub(super) const OF_FOLLOWER: u64 = 1_000;
/// Whatever was decided, the other node is told again after so many calls.
const TELL_EVERY: u64 = 10;
/// What is told, and what comes of a call, takes so many calls at most.
const DELAY_MAX: u64 = 8;

/// A call that has not ended.
struct OpenCall {
    due: u64,
    call: u64,
    ticket: Ticket,
    version: u8,
    is_shadow: bool,
    place: Place,
    /// How it came out, what the gate makes of that, and what its version says of it.
    truth: Course,
    verdict: Course,
    claim: Course,
}

/// Everything that happens in a run.
pub(super) struct Scene<'a> {
    flaw: &'a dyn Flaw,
    rng: StdRng,
    evidence: Evidence,
    disk: Disk,
    ends: std::vec::IntoIter<LifeEnd>,
    leader: Versions,
    /// Conversations that the leader answered a call of.
    answered: BTreeSet<u64>,
    follower: Versions,
    /// When conversations of the follower began.
    follower_began: BTreeMap<u64, u64>,
    /// What the follower will be told, and when.
    mail: Vec<(u64, Vec<u8>)>,
    open: Vec<OpenCall>,
    call: u64,
    offset_ms: i64,
}

impl<'a> Scene<'a> {
    /// Before the first call.
    pub fn new(seed: u64, plan: Plan, flaw: &'a dyn Flaw) -> Scene<'a> {
        let stable = Versions::new(digest_of(0));
        let mut world = Scene {
            flaw,
            // Not what the plan is drawn from.
            rng: StdRng::seed_from_u64(seed ^ 0x526f_6c6c),
            ends: plan.ends.clone().into_iter(),
            evidence: Evidence { plan, events: Vec::new() },
            disk: Disk::default(),
            leader: stable.clone(),
            answered: BTreeSet::new(),
            follower: stable,
            follower_began: BTreeMap::new(),
            mail: Vec::new(),
            open: Vec::new(),
            call: 0,
            offset_ms: 0,
        };
        let end = world.ends.next();
        world.disk.begin_life(end);
        world.tell_news(Place::Leader);
        world.tell_news(Place::Follower);
        world
    }

    /// All calls, and then everything heals.
    pub fn run(mut self) -> Evidence {
        for call in 0..CALLS {
            self.call = call;
            if let Err(LifeOver(loss)) = self.step() {
                self.begin_again(loss);
            }
        }
        self.mail.clear();
        let row = encode_row(&self.leader);
        self.hear(&row);
        self.tell_news(Place::Leader);
        self.tell_news(Place::Follower);
        self.evidence
    }

    fn step(&mut self) -> Result<(), LifeOver> {
        self.offset_ms += self.evidence.plan.clock.get(&self.call).copied().unwrap_or_default();
        let order = self.evidence.plan.orders.get(&self.call).copied();
        if let Some(order) = order {
            self.order(order)?;
        }
        if self.call.is_multiple_of(TELL_EVERY) {
            let row = encode_row(&self.leader);
            self.post(row);
        }
        self.deliver();
        self.end_calls()?;
        self.answer()
    }

    /// What the clock of the node that decides says.
    fn reading_ms(&self) -> u64 {
        (NOW_MS + self.call * PAUSE_MS).saturating_add_signed(self.offset_ms)
    }

    fn versions(&self, place: Place) -> &Versions {
        match place {
            Place::Leader => &self.leader,
            Place::Follower => &self.follower,
        }
    }

    fn is_apart(&self) -> bool {
        self.evidence.plan.apart.iter().any(|range| range.contains(&self.call))
    }

    fn see(&mut self, event: Event) {
        self.evidence.events.push(event);
    }

    fn tell_news(&mut self, place: Place) {
        let versions = self.versions(place);
        let (knowledge, at_ms) = (Knowledge::of(versions), time_of(versions));
        self.see(Event::News { place, knowledge, at_ms });
    }

    /// The node starts again on what is on its disk.
    fn begin_again(&mut self, loss: Loss) {
        let before_ms = time_of(&self.leader);
        self.see(Event::LifeEnd(loss));
        for conversation in self.disk.lose(loss) {
            self.see(Event::NoteLoss { conversation });
        }
        self.open.retain(|open| open.place == Place::Follower);
        let row = self.disk.read(Key::Versions);
        let read = row.map(|row| decode_row(row).expect("the row that was written"));
        self.leader = read.unwrap_or_else(|| Versions::new(digest_of(0)));
        // A clock that was set back is set right before the node starts again. Of the times that it saw, a node that starts knows only
        // those on its disk: with a clock that stays behind, it could take a step at a time at which a conversation began before.
        let behind_ms = before_ms.saturating_sub(self.reading_ms());
        self.offset_ms = self.offset_ms.saturating_add_unsigned(behind_ms);
        let end = self.ends.next();
        self.disk.begin_life(end);
        self.tell_news(Place::Leader);
    }

    fn order(&mut self, order: Order) -> Result<(), LifeOver> {
        let now_ms = self.reading_ms();
        let mut versions = self.leader.clone();
        let done = match order {
            Order::Begin(to) => {
                versions = self.flaw.remembered(versions);
                let plan = self.flaw.plan(self.evidence.plan.rollout(to));
                versions.begin(plan, now_ms)
            }
            Order::Promote => versions.promote(now_ms),
            Order::Abort => versions.abort(),
        };
        self.see(Event::Order { order, is_taken: done.is_ok() });
        if done.is_err() {
            return Ok(());
        }
        let change = (order == Order::Promote).then_some(Change::Promoted);
        self.settle(versions, change)
    }

    /// Writes what was decided, and goes by it then; `change` says what evidence, or the owner, decided of the version that is tried.
    fn settle(&mut self, mut versions: Versions, change: Option<Change>) -> Result<(), LifeOver> {
        let decides = change != Some(Change::Evidence);
        if decides && self.flaw.tells_first() {
            self.post(encode_row(&versions));
        }
        let durability = if decides { Durability::Synced } else { Durability::Buffered };
        if let Some(durability) = self.flaw.durability(change, durability) {
            self.disk.write(Key::Versions, encode_row(&versions), durability, decides)?;
        }
        versions.settle();
        self.leader = versions;
        if let Some(decision) = change.and_then(|change| self.decision(change))
            && let Some(rollout) = self.leader.rollout()
        {
            let version = number_of(&rollout.plan().to);
            self.see(Event::Decision { version, decision });
        }
        if decides {
            self.tell_news(Place::Leader);
            let row = encode_row(&self.leader);
            self.post(row);
        }
        Ok(())
    }

    fn decision(&self, change: Change) -> Option<Decision> {
        let rollout = self.leader.rollout()?;
        match change {
            Change::Evidence => None,
            Change::Share(_) => Some(Decision::Share),
            Change::Promoted => {
                Some(Decision::Promotion { by_owner: rollout.phase() == Phase::Promoted { by_owner: true } })
            }
            Change::WentBack(_) => Some(Decision::Reversal { alike: rollout.behaves_alike() }),
        }
    }

    fn post(&mut self, row: Vec<u8>) {
        let due = self.call + self.rng.random_range(1..=DELAY_MAX);
        self.mail.push((due, row));
    }

    /// What is due comes, as far as both nodes are connected; else it is lost.
    fn deliver(&mut self) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.mail).into_iter().partition(|(due, _)| *due <= self.call);
        self.mail = later;
        for (_, row) in due {
            if !self.is_apart() {
                self.hear(&row);
            }
        }
    }

    fn hear(&mut self, row: &[u8]) {
        let told = decode_row(row).expect("the row that was sent");
        let before = self.follower.revision();
        if self.flaw.adopts_all() {
            self.follower = told;
        } else {
            self.follower.adopt(told);
        }
        if self.follower.revision() != before {
            self.tell_news(Place::Follower);
        }
    }

    /// One call, at one of the nodes.
    fn answer(&mut self) -> Result<(), LifeOver> {
        let place = if self.rng.random_ratio(1, 5) { Place::Follower } else { Place::Leader };
        let is_in_one = self.rng.random_ratio(3, 5);
        let drawn = self.rng.random_range(0..CONVERSATIONS);
        let is_streamed = self.rng.random_ratio(1, 2);
        let number = if place == Place::Leader { drawn } else { drawn + OF_FOLLOWER };
        let conversation = is_in_one.then_some(number);
        let route = match place {
            Place::Leader => self.lead(conversation)?,
            Place::Follower => self.follow(conversation),
        };
        let (call, version, at_ms) = (self.call, number_of(&route.version), time_of(self.versions(place)));
        self.see(Event::Answer { place, call, conversation, version, at_ms });
        if let Some((shadow, ticket)) = route.shadow {
            self.turn((shadow, Some(ticket)), true, is_streamed, place);
        }
        self.turn((route.version, route.ticket), false, is_streamed, place);
        Ok(())
    }

    /// The node that decides routes a call, and notes when its conversation began.
    fn lead(&mut self, conversation: Option<u64>) -> Result<Route, LifeOver> {
        let now_ms = self.reading_ms();
        let row = conversation.and_then(|number| self.disk.read(Key::Conversation(number)));
        let noted = row.and_then(|row| row.try_into().ok()).map(u64::from_be_bytes);
        // One that is older than what is noted.
        let is_known = conversation.is_some_and(|number| self.answered.contains(&number));
        let began_ms = self.flaw.began(noted.or_else(|| is_known.then_some(0)));
        let (task, id) = (format!("task {}", self.call), conversation.map(|number| format!("talk {number}")));
        let route = self.leader.route(&asked(&task, id.as_deref(), began_ms, now_ms));
        if let Some(number) = conversation {
            if noted.is_none() && !is_known {
                let stamp = self.flaw.stamp(route.began_ms, now_ms).to_be_bytes().to_vec();
                self.disk.write(Key::Conversation(number), stamp, Durability::Buffered, false)?;
            }
            self.answered.insert(number);
        }
        Ok(route)
    }

    /// The other node routes a call by what it was told. Its own clock says nothing of what was decided when: it passes none.
    fn follow(&mut self, conversation: Option<u64>) -> Route {
        let began_ms = conversation.and_then(|number| self.follower_began.get(&number).copied());
        let (task, id) = (format!("task {}", self.call), conversation.map(|number| format!("talk {number}")));
        let route = self.follower.route(&asked(&task, id.as_deref(), began_ms, 0));
        if let Some(number) = conversation {
            self.follower_began.entry(number).or_insert(route.began_ms);
        }
        route
    }

    /// A version answers, the gate judges that, and what came of it is counted when the call ends.
    fn turn(&mut self, (version, ticket): (Digest, Option<Ticket>), is_shadow: bool, is_streamed: bool, place: Place) {
        let (call, version) = (self.call, number_of(&version));
        let behaviour = self.evidence.plan.versions[usize::from(version)];
        let course = agent::course(&behaviour, is_shadow, &mut self.rng);
        let answer = agent::answer(course, &mut self.rng);
        let passes = agent::passes(&answer);
        if course == Course::Good && (!is_shadow || self.flaw.shadow_acts()) {
            self.see(Event::Effect { call, is_shadow });
        }
        let is_let_through = passes || is_streamed && self.flaw.skips_gate_of_streams();
        if !answer.is_empty() && is_let_through && (!is_shadow || self.flaw.shows_shadow()) {
            self.see(Event::Showing { call, is_malformed: course == Course::Malformed, is_shadow });
        }
        let Some(ticket) = ticket else { return };
        // What a version says of itself is no verdict.
        let claim = if course == Course::Malformed { Course::Good } else { course };
        let verdict = match (course, passes) {
            (Course::Good, false) => Course::Malformed,
            (Course::Malformed, true) => Course::Good,
            (course, _) => course,
        };
        let due = call + self.rng.random_range(0..=DELAY_MAX);
        self.open.push(OpenCall { due, call, ticket, version, is_shadow, place, truth: course, verdict, claim });
    }

    /// What came of calls that end now is counted by the node that decides, if it hears of it.
    fn end_calls(&mut self) -> Result<(), LifeOver> {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| open.due <= self.call);
        self.open = later;
        for open in due {
            if open.place == Place::Follower && self.is_apart() {
                continue;
            }
            let counted = self.flaw.counted(open.verdict, open.claim);
            self.see(Event::End {
                call: open.call,
                version: open.version,
                is_new: open.ticket.side() == Side::New,
                is_shadow: open.is_shadow,
                truth: open.truth,
                counted,
            });
            let outcome = agent::outcome(counted);
            let outcome = Outcome { breach: self.flaw.breach(outcome.breach), ..outcome };
            for _ in 0..self.flaw.times() {
                self.count(open.ticket, &outcome)?;
            }
        }
        Ok(())
    }

    fn count(&mut self, ticket: Ticket, outcome: &Outcome) -> Result<(), LifeOver> {
        let now_ms = self.reading_ms();
        let mut versions = self.leader.clone();
        match versions.outcome(ticket, outcome, now_ms) {
            Some(change) => self.settle(versions, Some(change)),
            None => {
                self.leader = versions;
                Ok(())
            }
        }
    }
}

/// The time of a node: when a conversation would begin that begins now.
fn time_of(versions: &Versions) -> u64 {
    versions.clone().route(&asked("", None, None, 0)).began_ms
}

fn asked<'a>(task: &'a str, id: Option<&'a str>, began_ms: Option<u64>, now_ms: u64) -> Call<'a> {
    let conversation = id.map(|id| Conversation { id, began_ms });
    Call { task, conversation, caller: None, origin: None, channel: None, group: None, now_ms }
}
