//! The agents of a node that are here in several versions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::task::Poll;
use std::time::Duration;

use althing_calls::{CountOutcomes, NewCall, TurnCourse, TurnOutcome, Versions};
use althing_communication::WallClock;
use althing_governance::Governance;
use althing_protocol::{AgentId, AgentRef, PublisherId};
use althing_store::{Batch, Durability, Store, WriteError};
use althing_verification::machine::rollout::{
    Breach, Call, Change, Conversation, OrderError, Outcome, Rollout, Ticket,
};
use althing_verification::machine::tape::turn_output;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::conversation_room::{CONVERSATIONS_MAX, ConversationRoom};
use super::divided::{AgentRollout, CallKey, FreshConversation};
use super::error::RolloutError;
use super::held_models::HeldModels;
use super::news_port::RolloutNewsPort;
use super::open_decision::OpenDecision;
use super::origin::Origin;
use super::records::RolloutRecords;
use super::rows::{self, ROLLOUTS};
use super::shadows::{ShadowTurn, Shadows, course_of};
use crate::error::NodeError;
use crate::publish::StoredAgent;

/// For how long after the start of a node a version that has not run yet counts as one that is being started.
const START_MAX: Duration = Duration::from_secs(30);

/// What came of a labelled case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaseResult {
    /// Whether its answer is what was wanted.
    pub is_right: bool,
    /// How long its first words took, milliseconds, where that was measured.
    pub first_token_ms: Option<u64>,
}

/// The agents of a node that are here in several versions.
pub struct Rollouts {
    store: Arc<dyn Store>,
    clock: WallClock,
    owner: PublisherId,
    /// The same, as callers are written.
    owner_written: String,
    /// Those whose calls are divided now. All others cost one look here.
    divided: RwLock<BTreeMap<AgentId, Arc<AgentRollout>>>,
    /// How many conversations are noted.
    pub(super) room: ConversationRoom,
    /// Turns that the new version is given too.
    shadows: Shadows,
    /// Those of which no rollout of a higher version of their model could be begun.
    held: HeldModels,
    /// Puts on record what is decided.
    records: RolloutRecords,
    /// How the owner's other nodes are told of it.
    news: RolloutNewsPort,
    /// Something was decided.
    changed: Notify,
    /// When the node started.
    opened: Instant,
}

impl Rollouts {
    /// Reads what was under way when the node ended. What cannot be read of an agent is named in the log: its stable version
    /// answers everything then.
    pub(crate) fn open(store: Arc<dyn Store>, clock: WallClock, owner: PublisherId) -> Result<Rollouts, NodeError> {
        let mut divided = BTreeMap::new();
        for (name, read) in rows::all(store.as_ref())? {
            match read.and_then(|read| Ok((AgentId::new(owner, &name)?, read))) {
                Ok((id, Some(one))) => drop(divided.insert(id, Arc::new(one.unstarted()))),
                Ok((_, None)) => {}
                Err(error) => tracing::error!(agent = name, %error, "a rollout cannot be read, and does not go on"),
            }
        }
        let room = ConversationRoom::of(rows::conversations(store.as_ref())?);
        Ok(Rollouts {
            store,
            clock,
            owner,
            owner_written: owner.to_string(),
            divided: RwLock::new(divided),
            room,
            shadows: Shadows::default(),
            held: HeldModels::default(),
            records: RolloutRecords::new(owner),
            news: RolloutNewsPort::new(owner),
            changed: Notify::new(),
            opened: Instant::now(),
        })
    }

    /// From now on it is on record there what is decided.
    pub(crate) fn record_to(&self, governance: Governance) {
        self.records.record_to(governance);
    }

    /// What puts it on record.
    pub(super) fn records(&self) -> &RolloutRecords {
        &self.records
    }

    /// By what the owner's other nodes are told of it.
    pub(super) fn news(&self) -> &RolloutNewsPort {
        &self.news
    }

    /// The time of day, Unix milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Something was decided of an agent: what follows of it is done, and the owner's other nodes are told.
    pub(super) fn announce(&self, agent: &str) {
        self.changed.notify_one();
        self.news.tell(agent);
    }

    fn lock(&self) -> RwLockReadGuard<'_, BTreeMap<AgentId, Arc<AgentRollout>>> {
        self.divided.read().expect("no holder of the rollouts panics")
    }

    fn get(&self, agent: &AgentId) -> Option<Arc<AgentRollout>> {
        self.lock().get(agent).cloned()
    }

    /// The one of that name.
    pub(super) fn named(&self, name: &str) -> Option<Arc<AgentRollout>> {
        self.get(&AgentId::new(self.owner, name).ok()?)
    }

    pub(super) fn all(&self) -> Vec<Arc<AgentRollout>> {
        self.lock().values().cloned().collect()
    }

    /// The calls of an agent are divided from now on.
    pub(super) fn insert(&self, id: AgentId, one: AgentRollout) {
        self.divided.write().expect("no holder of the rollouts panics").insert(id, Arc::new(one));
        self.news.ask();
    }

    /// Whether the calls of an agent are divided still, and by this.
    pub(super) fn is_current(&self, divided: &AgentRollout) -> bool {
        self.named(&divided.name).is_some_and(|current| std::ptr::eq(Arc::as_ptr(&current), divided))
    }

    /// Done when something was decided since it was asked last.
    pub(super) async fn decided(&self) {
        self.changed.notified().await;
    }

    /// The agents with a higher version of their model in their range of which no rollout could be begun by now.
    pub(super) fn held(&self) -> &HeldModels {
        &self.held
    }

    /// The turns that wait for their shadow.
    pub(super) fn shadows(&self) -> &Shadows {
        &self.shadows
    }

    /// Where it is kept.
    pub(super) fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// The files of an agent in all its versions, which no program writes.
    pub(crate) fn sources(&self, stable: &StoredAgent) -> Vec<PathBuf> {
        let others = rows::others(self.store(), &stable.file.name).unwrap_or_else(|error| {
            tracing::error!(agent = stable.file.name, %error, "the files of a new version cannot be read");
            BTreeMap::new()
        });
        stable.sources.iter().chain(others.values().flat_map(|other| &other.sources)).cloned().collect()
    }

    /// The calls of an agent are divided no more.
    fn remove(&self, name: &str) -> Option<Arc<AgentRollout>> {
        let id = AgentId::new(self.owner, name).ok()?;
        self.divided.write().expect("no holder of the rollouts panics").remove(&id)
    }

    /// Refuses to put another file in the place of an agent's while a rollout of it is under way; else its older versions end.
    pub(crate) async fn release(&self, name: &str) -> Result<(), NodeError> {
        if self.named(name).is_some_and(|divided| divided.is_running()) {
            return Err(RolloutError::from(OrderError::UnderWay).into());
        }
        self.end(name, false).await
    }

    /// An agent is removed: nothing is known of its versions any more.
    pub(crate) async fn forget(&self, name: &str) -> Result<(), NodeError> {
        self.held.release(name);
        self.end(name, true).await
    }

    /// Only the stable version is left: what was decided stays known.
    pub(super) async fn finish(&self, name: &str) -> Result<(), NodeError> {
        self.end(name, false).await
    }

    /// Ends what divides the calls of an agent, and deletes what is kept for that; with `whole` all that is known of its versions.
    async fn end(&self, name: &str, whole: bool) -> Result<(), NodeError> {
        if let Some(divided) = self.remove(name) {
            // What is being decided is written before its rows are deleted.
            drop(divided.deciding.lock().await);
        }
        let mut batch = Batch::new();
        rows::delete_others(self.store.as_ref(), name, &mut batch)?;
        if whole {
            batch.delete(ROLLOUTS, name.as_bytes());
        }
        if !batch.is_empty() {
            self.store.write(batch, Durability::Synced).await?;
        }
        self.forget_conversations(name).await
    }

    /// Forgets when conversations began.
    async fn forget_conversations(&self, name: &str) -> Result<(), NodeError> {
        let deleted = rows::delete_conversations(self.store.as_ref(), name, CONVERSATIONS_MAX).await?;
        self.room.remove(name, deleted);
        Ok(())
    }

    /// How a conversation began, if that is noted.
    fn origin(&self, name: &str, conversation: &[u8]) -> Option<Origin> {
        rows::origin(self.store.as_ref(), conversation).unwrap_or_else(|error| {
            tracing::error!(agent = name, %error, "when a conversation began cannot be read: its version may change");
            None
        })
    }

    async fn choose(&self, divided: &Arc<AgentRollout>, call: &NewCall<'_>) -> Option<Arc<str>> {
        let conversation = rows::conversation_key(&divided.name, call);
        let (version, begun) = {
            // What is decided meanwhile is on disk first; and of two calls that begin a conversation, the second one goes on with it.
            let _deciding = divided.deciding.lock().await;
            let noted = divided.fresh(&conversation).or_else(|| self.origin(&divided.name, &conversation));
            let stranger = origin_of(&self.owner_written, call.caller);
            // With no room, an older conversation cannot be told from one that began when there was none.
            if noted.is_none() && !self.room.has_room(&divided.name, stranger.is_some()) {
                return divided.route_unnoted(self.clock.now_ms());
            }
            // One that is known and not noted began before what is noted.
            let origin = noted.or_else(|| call.is_known.then(Origin::default));
            let began_ms = origin.as_ref().map(|origin| origin.at_ms);
            // Whose work it was when it began: whoever goes on with it is answered by the same version.
            let work = origin.unwrap_or_else(|| Origin::of(call, stranger.is_some()));
            let channel = work.channel_of_group();
            let asked = Call {
                task: call.message,
                conversation: Some(Conversation { id: call.context, began_ms }),
                caller: Some(call.caller),
                origin: stranger,
                channel: channel.as_deref(),
                group: work.group.as_deref(),
                now_ms: self.clock.now_ms(),
            };
            let (version, route) = divided.route(&asked, CallKey::of(call.caller, call.context, call.message));
            let begun = began_ms.is_none().then(|| {
                let began = Origin { at_ms: route.began_ms, ..work };
                let rows = rows::begin(&conversation, &began);
                self.room.add(&divided.name, began.is_stranger);
                (divided.begin_conversation(conversation, began), rows)
            });
            (version, begun)
        };
        if let Some((fresh, rows)) = begun {
            self.note_origin(fresh, rows).await;
        }
        version
    }

    /// Notes how a conversation began. The call does not wait for that: the write is in the queue of the store before the call goes on,
    /// unless that is full, and so before whatever is written of the call itself. A call of which nothing is written may be answered
    /// before it is.
    async fn note_origin(&self, fresh: FreshConversation, rows: Batch) {
        let mut writing = self.store.write(rows, Durability::Buffered);
        match futures::poll!(&mut writing) {
            Poll::Ready(written) => end_note(&fresh, written),
            Poll::Pending => drop(tokio::spawn(async move { end_note(&fresh, writing.await) })),
        }
    }

    /// Counts what came of a call, and gives it to the new version too where that has a shadow of it. Such a call counts with its copy
    /// or not at all: else stable would be known by all calls, and the new version by those that need no effects. What stable does
    /// that must not be is known at once, before its copy does the same.
    async fn note(&self, divided: &Arc<AgentRollout>, outcome: TurnOutcome) {
        let key = CallKey::of(&outcome.caller, &outcome.context, &outcome.message);
        let tickets = divided.take_tickets(key, &outcome.agent.version);
        let is_copied = tickets.is_some_and(|tickets| tickets.shadow.is_some());
        let ended = tickets.zip(counted(course_of(&outcome, is_copied), outcome.first));
        let counted = ended.and_then(|(tickets, came)| match tickets.shadow {
            None => Some((tickets.call, came)),
            Some(_) => came.breach.map(|_| (tickets.call.uncompared(), came)),
        });
        let is_tried = divided.tried().is_some_and(|tried| tried == outcome.agent.version);
        let effects = if is_tried { outcome.effects } else { Vec::new() };
        self.add(divided, counted, &effects).await;
        let shadow = ended.and_then(|(tickets, came)| Some((tickets.shadow?, (tickets.call, came))));
        if let Some(((ticket, stable), copied)) = shadow.zip(outcome.copy) {
            let (copy, task) = *copied;
            let answered = turn_output("", &task);
            self.shadows.push(ShadowTurn { divided: divided.clone(), ticket, stable, copy, answered });
        }
    }

    /// The two versions of an agent whose rollout is under way: stable, and the new one.
    #[must_use]
    pub fn versions(&self, agent: &str) -> Option<[AgentRef; 2]> {
        let divided = self.named(agent).filter(|divided| divided.is_running())?;
        let stable = divided.name_of(divided.versions().stable())?;
        let id = AgentId::new(self.owner, agent).ok()?;
        Some([AgentRef { id: id.clone(), version: stable }, AgentRef { id, version: divided.tried()? }])
    }

    /// Counts a labelled case that both versions were given, if the rollout is under way still: what came of it with stable, and
    /// with the new one.
    pub async fn count_case(&self, agent: &str, came: [CaseResult; 2]) {
        let Some(divided) = self.named(agent) else { return };
        let Some(tickets) = divided.versions().case_tickets() else { return };
        for (ticket, CaseResult { is_right, first_token_ms }) in tickets.into_iter().zip(came) {
            let came = Outcome { is_error: !is_right, first_token_ms, ..Outcome::default() };
            self.add(&divided, Some((ticket, came)), &[]).await;
        }
    }

    /// Counts what came of the jobs of a control loop since the last look: with stable, and with the new version, where each ran some.
    pub(super) async fn count_jobs(&self, divided: &AgentRollout, came: [Option<Outcome>; 2]) {
        let Some(tickets) = divided.versions().job_tickets() else { return };
        for (ticket, came) in tickets.into_iter().zip(came) {
            self.add(divided, came.map(|came| (ticket, came)), &[]).await;
        }
    }

    /// Counts what came of a call of stable's and of its shadow, in this order.
    pub(super) async fn count_shadow(&self, divided: &AgentRollout, came: [(Ticket, Outcome); 2]) {
        for counted in came {
            self.add(divided, Some(counted), &[]).await;
        }
    }

    async fn add(&self, divided: &AgentRollout, counted: Option<(Ticket, Outcome)>, effects: &[String]) {
        if counted.is_none() && effects.is_empty() {
            return;
        }
        let _deciding = divided.deciding.lock().await;
        if !self.is_current(divided) {
            return;
        }
        if let Err(error) = self.decide(divided, counted, effects).await {
            tracing::error!(agent = divided.name, %error, "what was decided of a rollout is not on disk");
        }
    }

    /// Called while nothing else is decided.
    async fn decide(
        &self,
        divided: &AgentRollout,
        counted: Option<(Ticket, Outcome)>,
        effects: &[String],
    ) -> Result<(), NodeError> {
        let mut versions = divided.versions();
        let before = versions.stable();
        let has_effects = versions.note_effects(effects);
        let change = counted.and_then(|(ticket, came)| versions.outcome(ticket, &came, self.clock.now_ms()));
        let Some(change) = change.or(has_effects.then_some(Change::Evidence)) else {
            divided.set(versions);
            return Ok(());
        };
        // A version that is worse gets no more calls, whatever the disk does.
        let holds_anyway = matches!(change, Change::WentBack(_) | Change::Evidence);
        if holds_anyway {
            divided.set(versions.clone());
        }
        let written = match change {
            Change::Promoted => rows::promotion(self.store.as_ref(), &divided.name, &versions),
            // Another version may be stable by what is not on disk yet.
            _ if divided.unwritten().is_some() => rows::decision(self.store.as_ref(), &divided.name, &versions),
            Change::Share(_) | Change::WentBack(_) | Change::Evidence => Ok(rows::change(&divided.name, &versions)),
        };
        // What is only counted may be lost with the machine, and not with the process.
        let durability = if change == Change::Evidence { Durability::Buffered } else { Durability::Synced };
        let mut batch = written?;
        batch.append(self.records.decided(divided, (before, &versions), change));
        if let Err(error) = self.store.write(batch, durability).await {
            if let Change::WentBack(reason) = change {
                divided.note_unwritten(Some(OpenDecision::back(&versions, reason)));
                self.announce(&divided.name);
            }
            return Err(error.into());
        }
        versions.settle();
        divided.set(versions);
        tell(divided, change);
        // Nothing is done on evidence alone, and much of it would leave no time for what is.
        if change != Change::Evidence {
            self.announce(&divided.name);
        }
        Ok(())
    }
}

/// It was written how a conversation began, or could not be.
fn end_note(fresh: &FreshConversation, written: Result<(), WriteError>) {
    if let Err(error) = written {
        tracing::error!(agent = fresh.agent(), %error, "it cannot be noted when a conversation began");
    }
}

/// Whose calls one of this caller is weighed with, as its task's owner is written: those of all users of another owner, who names as
/// many as it likes; and those of one user of the own gateway. None of the owner itself.
fn origin_of<'a>(owner: &str, caller: &'a str) -> Option<&'a str> {
    let id = caller.split(' ').next().unwrap_or(caller);
    if id == owner { Some(caller).filter(|caller| *caller != owner) } else { Some(id) }
}

/// Tells the log what was decided.
fn tell(divided: &AgentRollout, change: Change) {
    let agent = &divided.name;
    match change {
        Change::Share(percent) => tracing::info!(agent, percent, "a new version has a larger share of the calls"),
        Change::Promoted => tracing::info!(agent, "a new version has taken the place of the one before"),
        Change::WentBack(reason) => {
            let versions = divided.versions();
            let effects = versions.rollout().into_iter().flat_map(Rollout::effects);
            let effects: Vec<String> = effects.map(|(tool, calls)| format!("{tool} {calls}")).collect();
            tracing::warn!(agent, reason = reason.words(), effects = effects.join(", "), "a new version went back");
        }
        Change::Evidence => {}
    }
}

/// What is counted of a turn that went so, and whose first output took that long; nothing of one that says nothing of its version.
pub(super) fn counted(course: TurnCourse, first: Option<Duration>) -> Option<Outcome> {
    let (is_error, is_refused, breach) = match course {
        TurnCourse::Good => (false, false, None),
        TurnCourse::Failed => (true, false, None),
        // That a gate was down is no fault of a version: what of it cannot be judged weighs as the same of the other one.
        TurnCourse::Silent | TurnCourse::Unjudged => (false, true, None),
        TurnCourse::Refused => (false, true, Some(Breach::Refusal)),
        TurnCourse::Crashed => (true, false, Some(Breach::Crash)),
        TurnCourse::OverBudget => (true, false, Some(Breach::Budget)),
        TurnCourse::Open => return None,
    };
    let first_token_ms = first.map(|first| u64::try_from(first.as_millis()).unwrap_or(u64::MAX));
    let is_unjudged = course == TurnCourse::Unjudged;
    Some(Outcome { is_error, is_refused, is_unjudged, first_token_ms, breach, differs: false })
}

impl Versions for Rollouts {
    fn divides(&self, agent: &AgentId) -> bool {
        self.lock().contains_key(agent)
    }

    fn route<'a>(&'a self, call: &'a NewCall<'a>) -> BoxFuture<'a, Option<Arc<str>>> {
        async move {
            let divided = self.get(call.agent)?;
            self.choose(&divided, call).await
        }
        .boxed()
    }

    fn may_answer(&self, agent: &AgentRef) -> bool {
        self.get(&agent.id).is_none_or(|divided| divided.may_answer(&agent.version))
    }

    fn starting(&self, agent: &AgentId) -> Vec<Arc<str>> {
        let divided = if self.opened.elapsed() < START_MAX { self.get(agent) } else { None };
        divided.map(|divided| divided.starting()).unwrap_or_default()
    }
}

impl CountOutcomes for Rollouts {
    fn counts(&self, agent: &AgentId) -> bool {
        self.lock().contains_key(agent)
    }

    fn copies(&self, agent: &AgentId) -> bool {
        self.get(agent).is_some_and(|divided| divided.has_shadows())
    }

    fn count(&self, outcome: TurnOutcome) -> BoxFuture<'_, ()> {
        async move {
            if let Some(divided) = self.get(&outcome.agent.id) {
                self.note(&divided, outcome).await;
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::origin_of;

    #[test]
    fn another_owner_is_one_origin_whomever_it_names_and_each_user_of_the_own_gateway_is_one() {
        let [own, other] = [1, 2].map(|byte| PublisherId::from_digest([byte; 32]).to_string());
        let user = |id: &str, name: &str| format!("{id} user:{name}");
        assert_eq!(origin_of(&own, &own), None);
        assert_eq!(origin_of(&own, &user(&own, "maria")), Some(user(&own, "maria").as_str()));
        assert_eq!(origin_of(&own, &other), Some(other.as_str()));
        for name in ["maria", "jon"] {
            assert_eq!(origin_of(&own, &user(&other, name)), Some(other.as_str()));
        }
    }
}
