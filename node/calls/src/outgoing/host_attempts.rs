//! Asks the hosts of an agent one after the other, and follows redirects from one to another, and tasks to where they moved. What
//! is followed is decided in [`crate::machine::redirects`], and by L4 which home of a task is believed.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use althing_call::{OperationError, Redirect, Refusal, Reply, traced};
use althing_communication::CallError;
use althing_discovery::Discovery;
use althing_protocol::PublicKey;
use althing_session::{MoveError, Remote};

use super::host_calls::{Call, HostCalls, SendError};
use super::host_verdicts::HostVerdicts;
use crate::machine::redirects::{NO_REDIRECT, RedirectError, RedirectPath, Redirects};
use crate::target::Finder;

/// What is said of the host that did what it was asked for.
const ANSWERED: &str = "answered";
/// What is said of one that nothing was sent to.
const NOT_REACHED: &str = "not reached";

/// Why no host answered.
pub(super) enum Unanswered {
    /// One refused, or failed.
    Refused(OperationError),
    /// None could be reached; why the last one could not. Nothing where there was none to ask.
    Unreached(Option<CallError>),
}

/// What a call needs on its way: who has hosts answer it, and what says to which others it may go.
#[derive(Clone, Copy)]
pub(super) struct AttemptPorts<'a> {
    pub hosts: &'a HostCalls,
    pub discovery: &'a Discovery,
    /// Where tasks are.
    pub remote: &'a Remote,
    /// Which hosts this node's owner permits.
    pub finder: &'a Finder,
    /// Where calls were redirected.
    pub redirects: &'a Mutex<Redirects>,
}

/// One call on its way to a host that answers it.
pub(super) struct HostAttempts<'a> {
    ports: AttemptPorts<'a>,
    call: &'a Call,
    /// Whether it sends a message that begins a task: nothing else is redirected.
    begins: bool,
    /// Whether it follows a task that moved: no other host can take it.
    is_bound: bool,
    /// What the node said that was asked for a task first and does not host the agent: the other hosts are asked then.
    absent: Option<OperationError>,
    path: RedirectPath,
    /// What became of each host.
    verdicts: HostVerdicts,
}

impl<'a> HostAttempts<'a> {
    pub(super) fn new(ports: AttemptPorts<'a>, call: &'a Call, verdicts: HostVerdicts) -> HostAttempts<'a> {
        let begins = call.request.operation().is_message() && call.request.request.params.task_id().is_none();
        HostAttempts { ports, call, begins, is_bound: false, absent: None, path: RedirectPath::default(), verdicts }
    }

    /// Asks `hosts`, as [`HostAttempts::attempt`], and says on the span of the call what became of each.
    pub(super) async fn ask(mut self, hosts: Vec<PublicKey>) -> Result<Reply, Unanswered> {
        let answered = self.attempt(hosts).await;
        self.verdicts.record();
        answered
    }

    /// Asks `hosts` in their order, the one to which the agent's calls were redirected last before the others. The next one is
    /// asked where the one before could not be reached, and another one where it redirects the call.
    async fn attempt(&mut self, mut hosts: Vec<PublicKey>) -> Result<Reply, Unanswered> {
        let is_for_one = self.call.request.host.is_some();
        if self.begins && !is_for_one {
            self.redirects().order(&self.call.agent, &mut hosts);
        }
        let mut hosts = VecDeque::from(hosts);
        let mut failed = None;
        while let Some(node) = hosts.pop_front() {
            let refused = match self.ports.hosts.ask_host(node, self.call).await {
                Ok(reply) => {
                    self.verdicts.note(node, ANSWERED);
                    return Ok(reply);
                }
                // Nothing was sent: another host can be tried.
                Err(SendError::Call(error @ CallError::Unreachable { .. })) => {
                    self.verdicts.note(node, NOT_REACHED);
                    self.path.mark_unreachable(node);
                    self.redirects().forget(&self.call.agent, node);
                    failed = Some(error);
                    continue;
                }
                Err(error) => OperationError::from(error),
            };
            self.verdicts.note(node, verdict(&refused.refusal));
            let redirect = match refused.refusal {
                // Another one would know nothing of it when it is sent again: this one takes it, or nobody.
                Refusal::Redirected { .. } if is_for_one => {
                    self.path.stay(node);
                    return Box::pin(self.fall_back_to_first(stays(node))).await;
                }
                Refusal::Redirected { member, fence } if self.begins => Redirect { member, fence },
                Refusal::TaskMoved { proof } => {
                    let home = Box::pin(self.follow_task(node, &proof)).await.map_err(Unanswered::Refused)?;
                    hosts = VecDeque::from([home]);
                    continue;
                }
                Refusal::AgentNotHere if self.call.request.request.params.task_id().is_some() => {
                    Box::pin(self.search_on(node, refused, &mut hosts)).await;
                    continue;
                }
                // Another one may have it.
                Refusal::TaskNotFound if self.absent.is_some() => continue,
                // Whoever redirected the call has other rules than this one, and another version of the agent.
                _ if refused.refusal.is_of_host() => return Box::pin(self.fall_back_to_first(refused)).await,
                _ => return Err(Unanswered::Refused(refused)),
            };
            // Rarely needed, and large.
            match Box::pin(self.follow(node, redirect)).await {
                Ok(next) => {
                    hosts.retain(|host| *host != next);
                    hosts.push_front(next);
                }
                Err(lost) => return Box::pin(self.fall_back_to_first(lost)).await,
            }
        }
        if let Some(absent) = self.absent.take() {
            return Err(Unanswered::Refused(absent));
        }
        match failed {
            Some(error) if self.path.first().is_some() && !self.is_bound => {
                let lost = OperationError::busy(format!(
                    "the call was redirected, and no host is left that can be reached ({error}); nothing was taken: try again \
                     in a moment"
                ));
                Box::pin(self.fall_back_to_first(lost)).await
            }
            failed => Err(Unanswered::Unreached(failed)),
        }
    }

    /// The task is asked for where the agent is not hosted any more: the other hosts are searched for, and asked next. Whoever handed
    /// the task over says where it is; whoever lost it does not.
    async fn search_on(&mut self, node: PublicKey, refused: OperationError, hosts: &mut VecDeque<PublicKey>) {
        self.path.mark_unreachable(node);
        if self.absent.is_some() {
            return;
        }
        self.absent = Some(refused);
        let (ports, agent, request) = (self.ports, &self.call.agent, &self.call.request);
        let mut others = ports.discovery.search_other_hosts(agent, node).await;
        if request.operation().is_message() {
            others = ports.finder.permitted(agent, others, request).await.unwrap_or_default();
        }
        others.retain(|host| !hosts.contains(host) && !self.path.failed(host));
        hosts.extend(others);
    }

    /// Falls back to the first redirecting host, with redirects forbidden, when no target accepted the call; `lost` says why. The
    /// caller may reach other hosts than that one does, and each host has rules of its own.
    async fn fall_back_to_first(&mut self, lost: OperationError) -> Result<Reply, Unanswered> {
        let Some(first) = self.path.first() else { return Err(Unanswered::Refused(lost)) };
        let mut call = Call { agent: self.call.agent.clone(), request: self.call.request.clone() };
        call.request.metadata.extensions.push(NO_REDIRECT.to_owned());
        let (became, answered) = last_answer(self.ports.hosts.ask_host(first, &call).await, lost);
        self.verdicts.note(first, became);
        answered.map_err(Unanswered::Refused)
    }

    /// The host that is asked next, since `from` redirected the call. A new frame is signed for it.
    async fn follow(&mut self, from: PublicKey, redirect: Redirect) -> Result<PublicKey, OperationError> {
        let (ports, agent) = (self.ports, &self.call.agent);
        let next = self.redirects().update(agent, from, redirect, &self.path);
        let is_host = ports.discovery.search_host(agent, next).await;
        self.path.follow(from, next, is_host).map_err(|error| lost(from, next, error))?;
        ports.finder.permitted(agent, vec![next], &self.call.request).await?;
        self.redirects().note(agent, redirect);
        // The span of the call names the node that served it; this one, who redirected it.
        let span = traced::redirect(&from, redirect.fence, &self.call.request.binding_hash);
        span.in_scope(|| tracing::debug!(%agent, %from, to = %next, "a call is redirected"));
        Ok(next)
    }

    /// The node that is asked next, since `from` proved that it handed the task over. A new frame is signed for it, and it is
    /// asked first for that task from then on.
    async fn follow_task(&mut self, from: PublicKey, proof: &str) -> Result<PublicKey, OperationError> {
        let (ports, agent, request) = (self.ports, &self.call.agent, &self.call.request);
        let home = ports.remote.moved(agent, request.request.params.task_id(), from, proof);
        let home = home.map_err(|why| unproven(from, &why))?;
        let is_host = ports.discovery.search_host(agent, home.node).await;
        self.path.move_on(from, home.node, is_host).map_err(|error| lost(from, home.node, error))?;
        if request.operation().is_message() {
            ports.finder.permitted(agent, vec![home.node], request).await?;
        }
        ports.remote.follow(agent, &home).await;
        self.is_bound = true;
        Ok(home.node)
    }

    fn redirects(&self) -> MutexGuard<'a, Redirects> {
        self.ports.redirects.lock().expect("no holder of the redirects panics")
    }
}

/// What is said of a host after which no other one is asked, and how the call ends: `lost` says why no other one took it.
fn last_answer(
    answered: Result<Reply, SendError>,
    lost: OperationError,
) -> (&'static str, Result<Reply, OperationError>) {
    match answered {
        Ok(reply) => (ANSWERED, Ok(reply)),
        Err(SendError::Call(CallError::Unreachable { .. })) => (NOT_REACHED, Err(lost)),
        Err(error) => {
            let refused = OperationError::from(error);
            let is_again = matches!(refused.refusal, Refusal::Redirected { .. } | Refusal::TaskMoved { .. });
            (verdict(&refused.refusal), Err(if is_again { lost } else { refused }))
        }
    }
}

/// What is said of a host that did not do what it was asked for.
fn verdict(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Redirected { .. } => "redirected the call",
        Refusal::TaskMoved { .. } => "handed the task over",
        Refusal::AgentNotHere => "does not host the agent",
        Refusal::TaskNotFound => "does not have the task",
        _ => "refused the call",
    }
}

/// A call that was redirected and goes no further.
pub(super) fn lost(from: PublicKey, to: PublicKey, error: RedirectError) -> OperationError {
    OperationError::busy(format!(
        "{from} redirected the call to {to}, {error}; nothing was taken: try again in a moment"
    ))
}

/// A call that was redirected and is for the host that did so.
fn stays(host: PublicKey) -> OperationError {
    OperationError::busy(format!(
        "{host} redirects the call, which is for that node alone, and does not take it; nothing was taken: try again in a moment"
    ))
}

/// A node said that it handed a task over, and is not believed.
pub(super) fn unproven(from: PublicKey, why: &MoveError) -> OperationError {
    OperationError::invalid_agent_response(format!("{from} says that the task moved, which is not believed: {why}"))
}

#[cfg(test)]
mod tests {
    use althing_communication::OpenError;
    use althing_protocol::SecretKey;

    use super::*;

    #[test]
    fn of_the_host_that_is_asked_last_its_refusal_is_told_too() {
        let host = SecretKey::from_seed(&[1; 32]).public();
        let unreachable = CallError::Unreachable { peer: host, reason: OpenError::NotConnected };
        let again = OperationError::redirected(Redirect { member: host, fence: 1 });
        for (answered, became, reason) in [
            (Ok(Reply::One(Vec::new())), ANSWERED, None),
            (Err(SendError::Call(unreachable)), NOT_REACHED, Some("OVERLOADED")),
            (Err(SendError::Answer(again)), "redirected the call", Some("OVERLOADED")),
            (Err(SendError::Answer(OperationError::agent_unknown("gone"))), "refused the call", Some("AGENT_UNKNOWN")),
        ] {
            let (told, end) = last_answer(answered, OperationError::busy("nothing was taken"));
            let refused = end.err().map(|refused| refused.reason().to_owned());
            assert_eq!((told, refused.as_deref()), (became, reason));
        }
    }
}
