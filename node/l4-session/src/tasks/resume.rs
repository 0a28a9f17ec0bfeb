//! Goes on with the turns of an agent that had not ended when the node did, once it has been added.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2a::{Role, TaskState};
use althing_call::{CallMetadata, Consent, Decision, chain};
use althing_communication::Caller;
use althing_execution::lease::Lease;
use althing_protocol::{AgentRef, Attributes, CallerId};
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::journal::Attempt;
use crate::machine::listing::NotedFailure;
use crate::machine::losses::TurnLoss;
use crate::machine::record::Record;
use crate::machine::recovery::{self, Failure, Present, Reason, Recovery};
use crate::machine::session::{Begin, Damage, TurnRows};
use crate::machine::size::stored_bytes;
use crate::machine::task;
use crate::tasks::begin;
use crate::tasks::live::{LiveTask, TurnRequest};
use crate::tasks::parking::{self, CONSENT_RETRY, RETRY};
use crate::tasks::read_ahead::{self, ReadAhead};
use crate::tasks::runner::{HostedAgent, Resumer, TaskRunner};
use crate::tasks::standing::{Recheck, Standing};
use crate::tasks::start;
use crate::tasks::task_rows::{self, TaskCopy};
use crate::tasks::tenure::{self, Tenure};
use crate::tasks::waits;

/// How long a turn waits for the version of its agent that began it, beside the one that was added.
pub(super) const VERSION_PATIENCE: Duration = Duration::from_secs(30);

/// What became of an unfinished task.
enum Progress {
    /// It goes on, waits, or failed.
    Made,
    /// There is no room for it yet, its version is not there, its group does not answer, or it changed meanwhile.
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
    right: Right,
}

/// By what right a turn goes on.
enum Right {
    /// It may, under this lease if it is for a task of a group.
    Granted(Option<Lease>),
    /// It may not.
    Refused(Reason),
    /// Its group does not answer now.
    Unknown,
    /// Somebody must consent first, to this.
    Resting(String),
}

/// Goes on with the unfinished tasks of an agent.
pub(super) async fn resume(runner: TaskRunner, agent: HostedAgent, recheck: Recheck) {
    let begun = Instant::now();
    for id in runner.store().journals().unfinished(agent.name()) {
        if parking::is_parked(&runner, &id) {
            parking::watch(&runner, agent.name().to_owned(), id);
        }
    }
    // Those to which somebody must consent, and since when that is known.
    let mut resting: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        if runner.host().agent(&agent.agent).is_none() || runner.ending().is_cancelled() {
            // It was removed meanwhile, or the node is being stopped: they wait until it is added again.
            return;
        }
        let is_last = begun.elapsed() >= VERSION_PATIENCE;
        let journals = runner.store().journals();
        let mut waiting = unfinished(&runner, &agent);
        waiting.retain(|id| resting.get(id).is_none_or(|since| since.elapsed() >= CONSENT_RETRY));
        let mut ahead = ReadAhead::of(&runner, waiting);
        while let Some((id, copy)) = ahead.next().await {
            // Another version of the agent may be trying it.
            let Some(attempt) = journals.attempt(agent.name(), &id) else { continue };
            match resume_task(&runner, &agent, (attempt, copy), &recheck, is_last).await {
                Progress::Made | Progress::Later => {}
                Progress::Resting => drop(resting.insert(id, Instant::now())),
            }
        }
        // As long as one is left: whoever tries it may be removed before it goes on.
        if unfinished(&runner, &agent).is_empty() {
            return;
        }
        sleep(RETRY).await;
    }
}

/// The unfinished tasks of an agent, but for those that wait for an answer: they are watched one by one.
fn unfinished(runner: &TaskRunner, agent: &HostedAgent) -> Vec<String> {
    let mut all: Vec<String> = runner.store().journals().unfinished(agent.name()).into_iter().collect();
    all.retain(|id| !parking::is_parked(runner, id));
    all
}

/// Fails a task whose agent is not here; false if a turn of it is still ending, and it is to be tried again.
pub(super) async fn give_up(runner: &TaskRunner, id: &str) -> bool {
    let _lock = runner.live().write_lock(id).await;
    if runner.live().running(id).is_some() {
        return false;
    }
    let (reader, named) = (runner.clone(), id.to_owned());
    let Ok(Ok(Some((record, rows)))) = runner.apart(move || task_rows::read(&reader, &named)).await else {
        return true;
    };
    let began = record.read_begin().and_then(Result::ok);
    let agent = began.and_then(|began| Some(AgentRef { id: began.agent.parse().ok()?, version: began.version.into() }));
    let failure = match &rows {
        Ok(rows) => Failure { reason: Reason::NotResumable, doubts: rows.doubts() },
        // Which calls are in doubt is not known then, and that is what is told.
        Err(damage) => Failure { reason: damage.into(), doubts: Vec::new() },
    };
    note_loss(runner, &record.agent, id, &failure);
    match agent.and_then(|agent| begin_again(runner, &agent, record, rows, None)) {
        Some(live) => parking::fail(runner, &live, failure.to_string()).await,
        // There is no room for it, or its beginning names no agent.
        None => note_unreadable(runner, id, &failure.to_string()).await,
    }
    true
}

/// Waits for a task whose turn is to go on where its node ended, until it does, or does not go on.
pub(super) async fn until_begun(runner: &TaskRunner, id: &str) {
    let goes_on = |record: Record| record.begin.is_some() && record.goes_on() && !record.is_parked();
    // In this order: a turn that ends is in the store before it is live no more.
    while runner.live().running(id).is_none() && runner.store().read(id).ok().flatten().is_some_and(goes_on) {
        sleep(RETRY).await;
    }
}

/// Goes on with one task, of which a copy may have been read before.
async fn resume_task(
    runner: &TaskRunner,
    agent: &HostedAgent,
    (attempt, copy): (Attempt, Option<Box<TaskCopy>>),
    recheck: &Recheck,
    is_last: bool,
) -> Progress {
    let id = &attempt.task().to_owned();
    let copy = match copy {
        Some(copy) => Some(copy),
        None => read_ahead::one(runner, id).await,
    };
    let permission = match &copy {
        Some(copy) => permission(runner, agent, &copy.record, recheck, is_last).await,
        None => None,
    };
    let lock = runner.live().write_lock(id).await;
    if runner.live().running(id).is_some() {
        // What the task is now is on disk, and whoever listens to its last turn is told of that first.
        return Progress::Later;
    }
    let read = match task_rows::read_locked(runner, id, copy).await {
        Ok(read) => read,
        Err(why) => return unreadable(runner, attempt, &why).await,
    };
    let Some((record, rows)) = read else {
        attempt.made();
        return Progress::Made;
    };
    let Some(agent) = version_for(runner, agent, &record, is_last) else { return Progress::Later };
    let (is_resumable, binding) = (begin::is_resumable(runner, &agent), begin::binding(runner, &agent));
    let present = Present { version: &agent.version, binding: &binding, is_resumable, now_ms: runner.now_ms() };
    let recovery = recovery::decide(&rows, present);
    let right = match &recovery {
        Recovery::Resume | Recovery::Wait(_) => {
            let of_it = permission.filter(|asked| asked.agent == agent && asked.begin == record.begin);
            let Some(permission) = of_it else { return Progress::Later };
            permission.right
        }
        Recovery::Fail(_) => Right::Granted(None),
    };
    let (lease, refused) = match right {
        Right::Granted(lease) => (lease, None),
        Right::Refused(reason) => (None, Some(reason)),
        Right::Unknown => return Progress::Later,
        Right::Resting(to) => {
            tracing::info!(agent = agent.name(), task = id, to, "a turn waits until somebody consents that it goes on");
            return Progress::Resting;
        }
    };
    let failure = recovery.failure(refused);
    let Some(live) = begin_again(runner, &agent, record, rows, lease) else { return Progress::Later };
    waits::end(runner, id).await;
    drop(lock);
    // Before it goes on: it may come to wait again at once.
    attempt.made();
    match failure {
        None => {
            tracing::info!(agent = agent.name(), task = id, "a turn goes on that had not ended when the node did");
            start::start(runner, &live);
        }
        Some(failure) => {
            tracing::warn!(agent = agent.name(), task = id, %failure, "a turn does not go on");
            keep_for_restart(&live, &failure);
            note_loss(runner, agent.name(), id, &failure);
            parking::fail(runner, &live, failure.to_string()).await;
        }
    }
    Progress::Made
}

/// Keeps the journal of a turn that does not go on, where it may be restarted by hand.
fn keep_for_restart(live: &LiveTask, failure: &Failure) {
    if let (Reason::Journal(error), Some(journal)) = (&failure.reason, &live.request.journal)
        && recovery::may_restart(error)
    {
        journal.keep_for_restart();
    }
}

/// Notes that a turn does not go on, where what its agent knew is lost with that.
fn note_loss(runner: &TaskRunner, agent: &str, task: &str, failure: &Failure) {
    if failure.reason.is_loss() {
        let (agent, task, why) = (agent.to_owned(), task.to_owned(), failure.to_string());
        let loss = TurnLoss { agent, task, why, restart_until_ms: None };
        runner.store().journals().losses().add(runner.now_ms(), loss);
    }
}

/// Goes on with the turn of a task that rests, as soon as there is room for it.
pub(super) fn go_on(runner: TaskRunner, agent: String, id: String) -> BoxFuture<'static, ()> {
    Box::pin(async move { attempt_until_made(&runner, &agent, &id).await })
}

async fn attempt_until_made(runner: &TaskRunner, agent: &str, id: &str) {
    let begun = Instant::now();
    loop {
        let resumer = runner.resumer(agent);
        let resumer = resumer.filter(|resumer| runner.host().agent(&resumer.agent.agent).is_some());
        // Without its agent it waits until that is added again, as other turns do.
        let Some(Resumer { agent, recheck, .. }) = resumer.filter(|_| !runner.ending().is_cancelled()) else { return };
        if !runner.store().journals().unfinished(agent.name()).contains(id) {
            return;
        }
        let mut pause = RETRY;
        if let Some(attempt) = runner.store().journals().attempt(agent.name(), id) {
            let is_last = begun.elapsed() >= VERSION_PATIENCE;
            match resume_task(runner, &agent, (attempt, None), &recheck, is_last).await {
                Progress::Made => return,
                Progress::Later => {}
                Progress::Resting => pause = CONSENT_RETRY,
            }
        }
        sleep(pause).await;
    }
}

/// By what right a turn would go on; none where there is nothing to go on with. Whoever is asked may take long, and many tasks share
/// the lock of one: nobody waits for it.
async fn permission(
    runner: &TaskRunner,
    agent: &HostedAgent,
    record: &Record,
    recheck: &Recheck,
    is_last: bool,
) -> Option<Permission> {
    let begin = record.read_begin()?.ok()?;
    let agent = version_for(runner, agent, record, is_last)?;
    let right = right(runner, &begin, recheck(standing(runner, &agent, record, &begin))).await;
    Some(Permission { agent, begin: record.begin.clone(), right })
}

/// Its group says that its attempt counts, and its caller may still call the agent.
async fn right(runner: &TaskRunner, begin: &Begin, recheck: BoxFuture<'static, Decision>) -> Right {
    let lease = match &begin.attempt {
        None => None,
        Some(attempt) => match tenure::of(runner.tenures().get(), attempt).await {
            Tenure::Valid(lease) => Some(lease),
            Tenure::Over(why) => return Right::Refused(Reason::StaleToken(why)),
            Tenure::Unknown => return Right::Unknown,
        },
    };
    match recheck.await {
        Decision::Allow => Right::Granted(lease),
        Decision::Deny(error) => Right::Refused(Reason::Caller(error.message)),
        Decision::Ask(Consent { to }) => Right::Resting(to),
    }
}

/// The version of the agent that began the turn, if it runs here; else, at last, the one that was added.
pub(super) fn version_for(
    runner: &TaskRunner,
    agent: &HostedAgent,
    record: &Record,
    is_last: bool,
) -> Option<AgentRef> {
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
    let message = record.task.history.iter().flatten().find(|message| message.message_id == begin.message).cloned();
    let metadata = begin.metadata.as_ref().and_then(|metadata| serde_json::from_slice(metadata).ok());
    Standing { agent: agent.clone(), caller: Caller { node, owner }, principals, label: begin.label, message, metadata }
}

/// Makes a task live again; none if there is no room for it yet.
fn begin_again(
    runner: &TaskRunner,
    agent: &AgentRef,
    mut record: Record,
    rows: Result<TurnRows, Damage>,
    lease: Option<Lease>,
) -> Option<Arc<LiveTask>> {
    if record.ask.take().is_some() {
        // It rests no more.
        task::set_status(&mut record.task, TaskState::Working, None, runner.now());
    }
    let mut asked = TurnRequest::default();
    let mut journalled = 0;
    match rows {
        Ok(rows) => {
            journalled = usize::try_from(rows.size().1).unwrap_or(usize::MAX);
            asked = request(rows.begin(), &record);
            // One that goes on anew has all of its time again.
            asked.elapsed = Duration::from_millis(runner.now_ms().saturating_sub(rows.began_ms()));
            asked.call.rights.lease = lease;
            let rows = begin::arranged(runner, agent, rows);
            asked.journal = Some(Arc::new(begin::opened(runner, agent, rows, begin::payer(runner, &record))));
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
pub(super) fn request(begin: &Begin, record: &Record) -> TurnRequest {
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
        ..TurnRequest::default()
    }
}

/// The status that a continued task had, as far as it is needed: none of a task that its message began.
fn before(record: &Record) -> Option<a2a::TaskStatus> {
    let said = record.task.history.iter().flatten().filter(|message| message.role == Role::User).count();
    (said > 1).then(|| record.task.status.clone())
}

/// Notes that a task failed which cannot be read.
async fn unreadable(runner: &TaskRunner, attempt: Attempt, why: &str) -> Progress {
    note_unreadable(runner, attempt.task(), why).await;
    attempt.made();
    Progress::Made
}

async fn note_unreadable(runner: &TaskRunner, id: &str, why: &str) {
    tracing::error!(task = id, why, "a task that had not ended cannot be read");
    let now = runner.now().timestamp_millis();
    runner.store().note_failures(&[id.to_owned()], NotedFailure::Unreadable, now).await;
    runner.store().push().note(id, None, runner.now_ms()).await;
}

#[cfg(test)]
mod tests;
