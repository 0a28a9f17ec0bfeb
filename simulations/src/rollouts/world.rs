//! Two nodes of one owner that try the same versions of an agent, each for itself: the leader, at which the owner orders, writes down
//! what it decides, and ends at its writes; the follower tries what the leader tries. Both tell each other what came of it.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::{Digest, PublicKey};
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
use super::mail::{Letter, Mail};
use super::plan::{CALLS, LifeEnd, Order, Plan, digest_of, number_of};
use crate::sessions::plan::Loss;
use crate::{NOW_MS, key};

/// Milliseconds from one call to the next.
const PAUSE_MS: u64 = 10;
/// Conversations of each node.
const CONVERSATIONS: u64 = 40;
/// From this number on, conversations are the follower's.
pub(super) const OF_FOLLOWER: u64 = 1_000;
/// Whatever was decided, both nodes tell it again after so many calls.
const TELL_EVERY: u64 = 10;
/// What comes of a call takes so many calls at most.
const DELAY_MAX: u64 = 8;
/// Rounds in which the nodes tell each other all at the end: in each one the follower may try a version that it did not try before.
const ROUNDS: usize = 6;

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
    /// All that was stable at the leader.
    stables: BTreeSet<Digest>,
    /// Conversations that the leader answered a call of.
    answered: BTreeSet<u64>,
    follower: Versions,
    /// When conversations of the follower began.
    follower_began: BTreeMap<u64, u64>,
    /// The keys of both.
    keys: BTreeMap<Place, PublicKey>,
    mail: Mail,
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
            stables: BTreeSet::new(),
            answered: BTreeSet::new(),
            follower: stable,
            follower_began: BTreeMap::new(),
            keys: BTreeMap::from([(Place::Leader, key(1).public()), (Place::Follower, key(2).public())]),
            mail: Mail::new(seed),
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
        self.heal();
        self.evidence
    }

    /// Nothing fails any more: the nodes tell each other all, and the follower tries what it did not try.
    fn heal(&mut self) {
        self.disk.begin_life(None);
        for _ in 0..ROUNDS {
            self.catch_up();
            for from in [Place::Leader, Place::Follower] {
                let letter = Letter::of(self.versions(from), from.other());
                // No life ends any more.
                let _ = self.hear(letter);
            }
        }
        self.tell_news(Place::Leader);
        self.tell_news(Place::Follower);
    }

    fn step(&mut self) -> Result<(), LifeOver> {
        self.offset_ms += self.evidence.plan.clock.get(&self.call).copied().unwrap_or_default();
        let order = self.evidence.plan.orders.get(&self.call).copied();
        if let Some(order) = order {
            self.order(order)?;
        }
        self.catch_up();
        if self.call.is_multiple_of(TELL_EVERY) {
            self.post(Place::Leader);
            self.post(Place::Follower);
        }
        self.deliver()?;
        self.end_calls()?;
        self.answer()
    }

    /// What the clock of a node says: only the leader's is ever set.
    fn reading_ms(&self, place: Place) -> u64 {
        let offset_ms = if place == Place::Leader { self.offset_ms } else { 0 };
        (NOW_MS + self.call * PAUSE_MS).saturating_add_signed(offset_ms)
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
        self.stables.insert(self.leader.stable());
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
        let mut versions = read.unwrap_or_else(|| Versions::new(digest_of(0)));
        versions.pass(self.disk.conversations().max().unwrap_or_default());
        self.leader = versions;
        // A clock that was set back is set right before the node starts again. Of the times that it saw, a node that starts knows only
        // those on its disk: with a clock that stays behind, an older version whose time was over would have its conversations again.
        let behind_ms = before_ms.saturating_sub(self.reading_ms(Place::Leader));
        self.offset_ms = self.offset_ms.saturating_add_unsigned(behind_ms);
        let end = self.ends.next();
        self.disk.begin_life(end);
        self.tell_news(Place::Leader);
    }

    fn order(&mut self, order: Order) -> Result<(), LifeOver> {
        let now_ms = self.reading_ms(Place::Leader);
        let mut versions = self.leader.clone();
        let done = match order {
            Order::Begin(to) => {
                versions = self.flaw.remembered(versions);
                let plan = self.flaw.plan(self.evidence.plan.rollout(to));
                versions.begin(plan, now_ms)
            }
            Order::Promote => versions.promote(now_ms),
            // An order is of one node: the owner ends a rollout on both, and none that is over on one of them.
            Order::Abort if tried(&self.leader) != tried(&self.follower) => return Ok(()),
            Order::Abort => {
                if self.follower.abort().is_ok() {
                    self.tell_news(Place::Follower);
                }
                versions.abort()
            }
        };
        self.see(Event::Order { order, is_taken: done.is_ok() });
        if done.is_err() {
            return Ok(());
        }
        let change = (order == Order::Promote).then_some(Change::Promoted);
        self.settle(versions, change)
    }

    /// The owner wants on both nodes what it wants on one: the follower tries what the leader tries, or, where it is behind, what is
    /// stable there.
    fn catch_up(&mut self) {
        let (stable, other) = (self.leader.stable(), self.follower.stable());
        let is_behind = self.stables.contains(&other) && !self.leader.reversals().contains_key(&other);
        let wanted = if stable == other { tried(&self.leader) } else { Some(stable).filter(|_| is_behind) };
        let Some(to) = wanted.filter(|_| tried(&self.follower).is_none()) else { return };
        let (plan, now_ms) = (self.evidence.plan.rollout(number_of(&to)), self.reading_ms(Place::Follower));
        if self.follower.begin(self.flaw.plan(plan), now_ms).is_ok() {
            self.tell_news(Place::Follower);
        }
    }

    /// Writes what was decided, and goes by it then; `change` says what evidence, or the owner, decided of the version that is tried.
    fn settle(&mut self, mut versions: Versions, change: Option<Change>) -> Result<(), LifeOver> {
        let decides = change != Some(Change::Evidence);
        if decides && self.flaw.tells_first() {
            self.mail.post(self.call, Letter::of(&versions, Place::Follower));
        }
        self.write(&versions, change, decides)?;
        versions.settle();
        self.leader = versions;
        if let Some(change) = change {
            self.see_decision(Place::Leader, change);
        }
        if decides {
            self.tell_news(Place::Leader);
            self.post(Place::Leader);
        }
        Ok(())
    }

    /// Writes what the leader knows; what was decided is synced.
    fn write(&mut self, versions: &Versions, change: Option<Change>, decides: bool) -> Result<(), LifeOver> {
        let durability = if decides { Durability::Synced } else { Durability::Buffered };
        match self.flaw.durability(change, durability) {
            Some(durability) => self.disk.write(Key::Versions, encode_row(versions), durability, decides),
            None => Ok(()),
        }
    }

    /// What evidence, or the owner, decided at that node.
    fn see_decision(&mut self, place: Place, change: Change) {
        if let Some(decision) = self.decision(place, change)
            && let Some(rollout) = self.versions(place).rollout()
        {
            let version = number_of(&rollout.plan().to);
            self.see(Event::Decision { place, version, decision });
        }
    }

    fn decision(&self, place: Place, change: Change) -> Option<Decision> {
        let rollout = self.versions(place).rollout()?;
        match change {
            Change::Evidence => None,
            Change::Share(_) => Some(Decision::Share),
            Change::Promoted => {
                Some(Decision::Promotion { by_owner: rollout.phase() == Phase::Promoted { by_owner: true } })
            }
            Change::WentBack(_) => Some(Decision::Reversal { alike: rollout.behaves_alike() }),
        }
    }

    fn post(&mut self, from: Place) {
        let letter = Letter::of(self.versions(from), from.other());
        self.mail.post(self.call, letter);
    }

    /// What is due comes, as far as both nodes are connected; else it is lost.
    fn deliver(&mut self) -> Result<(), LifeOver> {
        for letter in self.mail.take(self.call) {
            if !self.is_apart() {
                self.hear(letter)?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, Letter { to, news, row }: Letter) -> Result<(), LifeOver> {
        if to == Place::Follower && self.flaw.adopts_all() {
            self.follower = decode_row(&row).expect("the row that was sent");
            self.tell_news(to);
            return Ok(());
        }
        for one in &news {
            let mut versions = self.versions(to).clone();
            let Some(change) = versions.hear(one, &news, self.keys[&to.other()], self.reading_ms(to)) else { continue };
            if to == Place::Leader {
                self.write(&versions, Some(change), true)?;
            }
            versions.settle();
            self.set(to, versions);
            self.tell_news(to);
            self.post(to);
        }
        Ok(())
    }

    fn set(&mut self, place: Place, versions: Versions) {
        match place {
            Place::Leader => self.leader = versions,
            Place::Follower => self.follower = versions,
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

    /// The leader routes a call, and notes when its conversation began.
    fn lead(&mut self, conversation: Option<u64>) -> Result<Route, LifeOver> {
        let now_ms = self.reading_ms(Place::Leader);
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

    /// The follower routes a call.
    fn follow(&mut self, conversation: Option<u64>) -> Route {
        let now_ms = self.reading_ms(Place::Follower);
        let began_ms = conversation.and_then(|number| self.follower_began.get(&number).copied());
        let (task, id) = (format!("task {}", self.call), conversation.map(|number| format!("talk {number}")));
        let route = self.follower.route(&asked(&task, id.as_deref(), began_ms, now_ms));
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

    /// What came of calls that end now is counted by the node that answered them.
    fn end_calls(&mut self) -> Result<(), LifeOver> {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| open.due <= self.call);
        self.open = later;
        for open in due {
            let counted = self.flaw.counted(open.verdict, open.claim);
            self.see(Event::End {
                place: open.place,
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
                self.count(open.place, open.ticket, &outcome)?;
            }
        }
        Ok(())
    }

    fn count(&mut self, place: Place, ticket: Ticket, outcome: &Outcome) -> Result<(), LifeOver> {
        let mut versions = self.versions(place).clone();
        let change = versions.outcome(ticket, outcome, self.reading_ms(place));
        if let Some(change) = change.filter(|_| place == Place::Leader) {
            return self.settle(versions, Some(change));
        }
        self.set(place, versions);
        // The follower's disk takes everything.
        if let Some(change) = change.filter(|change| *change != Change::Evidence) {
            self.see_decision(place, change);
            self.tell_news(place);
            self.post(place);
        }
        Ok(())
    }
}

/// The version that is tried.
fn tried(versions: &Versions) -> Option<Digest> {
    versions.rollout().filter(|rollout| rollout.phase() == Phase::Running).map(|rollout| rollout.plan().to)
}

/// The time of a node: when a conversation would begin that begins now.
fn time_of(versions: &Versions) -> u64 {
    versions.clone().route(&asked("", None, None, 0)).began_ms
}

fn asked<'a>(task: &'a str, id: Option<&'a str>, began_ms: Option<u64>, now_ms: u64) -> Call<'a> {
    let conversation = id.map(|id| Conversation { id, began_ms });
    Call { task, conversation, caller: None, origin: None, channel: None, group: None, now_ms }
}
