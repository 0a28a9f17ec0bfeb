//! Goes on with the turns of an agent that had not ended when the node did, once it has been added.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2a::Role;
use althing_call::{CallMetadata, Consent, Decision, Principal, chain};
use althing_communication::Caller;
use althing_protocol::{AgentRef, Attributes, CallerId, Label};
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::journal::TurnJournal;
use crate::machine::listing::NotedFailure;
use crate::machine::record::Record;
use crate::machine::recovery::{self, Failure, Present, Reason, Recovery};
use crate::machine::session::{Begin, DOUBT_MS_MAX, Damage, TurnRows};
use crate::machine::size::stored_bytes;
use crate::machine::task;
use crate::tasks::begin;
use crate::tasks::live::{LiveTask, TurnRequest};
use crate::tasks::runner::{HostedAgent, TaskRunner};
use crate::tasks::start;
use crate::tasks::store::TaskStoreError;
use crate::tasks::turn;

/// How long a turn waits for the version of its agent that began it, beside the one that was added.
const VERSION_PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts, where there is no room for a turn yet, or its version is not there.
const RETRY: Duration = Duration::from_secs(1);
/// Between two times that is asked whether a turn may go on to which somebody must consent.
const CONSENT_RETRY: Duration = Duration::from_secs(60);

/// By what right a turn would go on.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The agent, in the version that would go on.
    pub agent: AgentRef,
    /// Who sent the message.
    pub caller: Caller,
    /// On whose behalf, the origin first.
    pub principals: Vec<Principal>,
    /// The label of what came with it.
    pub label: Option<Label>,
}

/// Decides again whether a caller may call an agent.
pub type Recheck = Arc<dyn Fn(Standing) -> BoxFuture<'static, Decision> + Send + Sync>;

/// What became of an unfinished task.
enum Attempt {
    /// It goes on, waits, or failed.
    Made,
    /// There is no room for it yet, its version is not there, or it changed meanwhile.
    Later,
    /// Somebody must consent first.
    Resting,
}

/// Whether the caller of a turn may call its agent, which is decided before the task is locked.
struct Permission {
    /// The agent, in the version that would go on.
    agent: AgentRef,
    /// With what the turn began, as it is in the task.
    begin: Option<String>,
    may: Decision,
}

/// An unfinished task, with the rows of its journal.
pub(super) type TaskRows = (Record, Result<TurnRows, Damage>);

/// Goes on with the unfinished tasks of an agent.
pub(super) async fn resume(runner: TaskRunner, agent: HostedAgent, recheck: Recheck) {
    let begun = Instant::now();
    // Those to which somebody must consent, and since when that is known.
    let mut resting: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        if runner.host().agent(&agent.agent).is_none() || runner.ending().is_cancelled() {
            // It was removed meanwhile, or the node is being stopped: they wait until it is added again.
            return;
        }
        let is_last = begun.elapsed() >= VERSION_PATIENCE;
        let journals = runner.store().journals();
        for id in journals.unfinished(agent.name()) {
            if resting.get(&id).is_some_and(|since| since.elapsed() < CONSENT_RETRY) {
                continue;
            }
            // Another version of the agent may be trying it.
            let Some(attempt) = journals.attempt(agent.name(), &id) else { continue };
            match resume_task(&runner, &agent, &id, &recheck, is_last).await {
                Attempt::Made => attempt.made(),
                Attempt::Later => {}
                Attempt::Resting => drop(resting.insert(id, Instant::now())),
            }
        }
        // As long as one is left: whoever tries it may be removed before it goes on.
        if journals.unfinished(agent.name()).is_empty() {
            return;
        }
        sleep(RETRY).await;
    }
}

/// Fails the tasks whose agents have not been added a day after the node began.
pub(super) fn give_up_later(runner: &TaskRunner) {
    if runner.store().journals().waiting().is_empty() {
        return;
    }
    let weak = runner.weak();
    tokio::spawn(async move {
        sleep(Duration::from_millis(DOUBT_MS_MAX)).await;
        let Some(runner) = weak() else { return };
        for (agent, id) in runner.store().journals().all_unfinished() {
            let Some(attempt) = runner.store().journals().attempt(&agent, &id) else { continue };
            give_up(&runner, &id).await;
            attempt.made();
        }
    });
}

/// Fails a task whose agent is not here.
async fn give_up(runner: &TaskRunner, id: &str) {
    let _lock = runner.live().write_lock(id).await;
    let (reader, named) = (runner.clone(), id.to_owned());
    let Ok(Ok(Some((record, rows)))) = runner.apart(move || read(&reader, &named)).await else { return };
    let began = record.read_begin().and_then(Result::ok);
    let agent = began.and_then(|began| Some(AgentRef { id: began.agent.parse().ok()?, version: began.version.into() }));
    let doubts = rows.as_ref().map(TurnRows::doubts).unwrap_or_default();
    let failure = Failure { reason: Reason::NotResumable, doubts };
    match agent.and_then(|agent| begin_again(runner, &agent, record, rows)) {
        Some(live) => turn::fail(runner, &live, failure.to_string()).await,
        // There is no room for it, or its beginning names no agent.
        None => {
            let _ = unreadable(runner, id, &failure.to_string()).await;
        }
    }
}

/// Goes on with one task.
async fn resume_task(runner: &TaskRunner, agent: &HostedAgent, id: &str, recheck: &Recheck, is_last: bool) -> Attempt {
    let permission = permission(runner, agent, id, recheck, is_last).await;
    let lock = runner.live().write_lock(id).await;
    let (reader, named) = (runner.clone(), id.to_owned());
    let read = match runner.apart(move || read(&reader, &named)).await {
        Ok(Ok(read)) => read,
        Ok(Err(error)) => return unreadable(runner, id, &error.to_string()).await,
        Err(error) => return unreadable(runner, id, &error.message).await,
    };
    let Some((record, rows)) = read else { return Attempt::Made };
    let Some(agent) = version_for(runner, agent, &record, is_last) else { return Attempt::Later };
    let is_resumable = begin::is_resumable(runner, &agent);
    let binding = begin::binding(runner, &agent);
    let present = Present { version: &agent.version, binding: &binding, is_resumable, now_ms: runner.now_ms() };
    let recovery = recovery::decide(&rows, present);
    let may_go_on = match &recovery {
        Recovery::Resume | Recovery::Wait(_) => {
            let of_it = permission.filter(|asked| asked.agent == agent && asked.begin == record.begin);
            let Some(permission) = of_it else { return Attempt::Later };
            permission.may
        }
        Recovery::Fail(_) => Decision::Allow,
    };
    let failure = match (recovery, may_go_on) {
        (Recovery::Fail(failure), _) => Some(failure),
        (Recovery::Wait(doubts), Decision::Deny(error)) => {
            Some(Failure { reason: Reason::Caller(error.message), doubts })
        }
        (Recovery::Resume, Decision::Deny(error)) => {
            Some(Failure { reason: Reason::Caller(error.message), doubts: Vec::new() })
        }
        (Recovery::Resume | Recovery::Wait(_), Decision::Ask(Consent { to })) => {
            tracing::info!(agent = agent.name(), task = id, to, "a turn waits until somebody consents that it goes on");
            return Attempt::Resting;
        }
        (Recovery::Resume | Recovery::Wait(_), Decision::Allow) => None,
    };
    let Some(live) = begin_again(runner, &agent, record, rows) else { return Attempt::Later };
    drop(lock);
    match failure {
        None => {
            tracing::info!(agent = agent.name(), task = id, "a turn goes on that had not ended when the node did");
            start::start(runner, &live);
        }
        Some(failure) => {
            tracing::warn!(agent = agent.name(), task = id, %failure, "a turn does not go on");
            turn::fail(runner, &live, failure.to_string()).await;
        }
    }
    Attempt::Made
}

/// Decides again whether the caller of a turn may call its agent; none where there is nothing to go on with. That may take long, and
/// many tasks share the lock of one: nobody waits for it.
async fn permission(
    runner: &TaskRunner,
    agent: &HostedAgent,
    id: &str,
    recheck: &Recheck,
    is_last: bool,
) -> Option<Permission> {
    let (reader, named) = (runner.clone(), id.to_owned());
    let record = runner.apart(move || reader.store().read(&named)).await.ok()?.ok()??;
    let begin = record.read_begin()?.ok()?;
    let agent = version_for(runner, agent, &record, is_last)?;
    let may = recheck(standing(runner, &agent, &record, &begin)).await;
    Some(Permission { agent, begin: record.begin, may })
}

/// Reads an unfinished task with its journal; none if it is finished by now, or gone.
pub(super) fn read(runner: &TaskRunner, id: &str) -> Result<Option<TaskRows>, TaskStoreError> {
    let Some(record) = runner.store().read(id)? else { return Ok(None) };
    if task::is_idle(&record.task.status.state) || record.departed.is_some() {
        return Ok(None);
    }
    let Some(began) = record.read_begin() else { return Ok(None) };
    let rows = began.and_then(|began| {
        let nobody = || Damage { step: 0, what: "its beginning names no agent".to_owned() };
        let turn = begin::turn(&record, &began).ok_or_else(nobody)?;
        runner.store().journals().read(turn, began)
    });
    Ok(Some((record, rows)))
}

/// The version of the agent that began the turn, if it runs here; else, at last, the one that was added.
fn version_for(runner: &TaskRunner, agent: &HostedAgent, record: &Record, is_last: bool) -> Option<AgentRef> {
    let version = record.version.as_deref().unwrap_or(&agent.agent.version);
    let began = AgentRef { id: agent.id().clone(), version: version.into() };
    match runner.host().agent(&began) {
        Some(_) => Some(began),
        None => is_last.then(|| agent.agent.clone()),
    }
}

/// Who stands behind a turn.
fn standing(runner: &TaskRunner, agent: &AgentRef, record: &Record, begin: &Begin) -> Standing {
    let node = begin.caller.unwrap_or_else(|| runner.signer().node());
    let owner = match record.scope.caller {
        CallerId::Publisher(owner) => Some(owner),
        CallerId::Node(_) => None,
    };
    let principals = chain::read(&begin.principals);
    Standing { agent: agent.clone(), caller: Caller { node, owner }, principals, label: begin.label }
}

/// Makes a task live again; none if there is no room for it yet.
fn begin_again(
    runner: &TaskRunner,
    agent: &AgentRef,
    record: Record,
    rows: Result<TurnRows, Damage>,
) -> Option<Arc<LiveTask>> {
    let mut asked = TurnRequest::default();
    let mut journalled = 0;
    match rows {
        Ok(rows) => {
            journalled = usize::try_from(rows.size().1).unwrap_or(usize::MAX);
            asked = request(rows.begin(), &record, runner.now_ms());
            let (rows, journals) = (begin::arranged(runner, agent, rows), runner.store().journals().clone());
            asked.journal = Some(Arc::new(TurnJournal::new(journals, runner.ports().0.clone(), rows)));
        }
        // It is told that it failed, and nothing runs. Its rows go when the node starts again.
        Err(_) => asked.before = before(&record),
    }
    let mut claim = runner.claim(agent, &record, None);
    claim.bytes = claim.bytes.saturating_add(journalled);
    let live = runner.live().begin(agent, &record, claim, stored_bytes(&record), asked).ok()?;
    // Whoever sent the message may ask for it by its task.
    live.keep_alive();
    live.disclose();
    Some(live)
}

/// The request that began a turn.
fn request(begin: &Begin, record: &Record, now_ms: u64) -> TurnRequest {
    let session = begin.session.as_ref().and_then(|session| session.as_slice().try_into().ok());
    let delegation = begin.delegation.as_ref().map(|delegation| delegation.to_vec());
    let attributes = Attributes { label: begin.label, session, delegation };
    let (extensions, principals) = (begin.extensions.clone(), chain::read(&begin.principals));
    TurnRequest {
        call: CallMetadata { extensions, attributes, principals, ..CallMetadata::default() },
        metadata: begin.metadata.as_ref().and_then(|metadata| serde_json::from_slice(metadata).ok()),
        accepted_output_modes: begin.modes.clone(),
        history_length: begin.history_length,
        before: before(record),
        message_id: begin.message.clone(),
        within: begin.within_ms.map(Duration::from_millis),
        elapsed: Duration::from_millis(now_ms.saturating_sub(begin.began_ms)),
        ..TurnRequest::default()
    }
}

/// The status that a continued task had, as far as it is needed: none of a task that its message began.
fn before(record: &Record) -> Option<a2a::TaskStatus> {
    let said = record.task.history.iter().flatten().filter(|message| message.role == Role::User).count();
    (said > 1).then(|| record.task.status.clone())
}

/// Notes that a task failed which cannot be read.
async fn unreadable(runner: &TaskRunner, id: &str, why: &str) -> Attempt {
    tracing::error!(task = id, why, "a task that had not ended cannot be read");
    let now = runner.now().timestamp_millis();
    runner.store().note_failures(&[id.to_owned()], NotedFailure::Unreadable, now).await;
    runner.store().push().note(id, None, runner.now_ms()).await;
    Attempt::Made
}

#[cfg(test)]
mod tests;
