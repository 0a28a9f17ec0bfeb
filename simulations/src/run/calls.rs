//! Calls: a node searches for an agent, gives it a task, and asks for that task again later.

use althing_calls::{Operation, OperationError, Reply};
use althing_discovery::Query;
use althing_protocol::PublisherId;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Ended, Slot, Step, World};
use crate::invariant::Called;
use crate::mesh::{answer, message};

/// The task in an answer: its id, and whether it is completed.
fn task(answer: Result<Reply, OperationError>) -> Result<(String, bool), String> {
    let Reply::One(body) = answer.map_err(|refused| format!("{}: {}", refused.reason(), refused.message))? else {
        return Err("it streams".to_owned());
    };
    let answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let task = answer.get("task").unwrap_or(&answer);
    let done = task["status"]["state"] == "TASK_STATE_COMPLETED";
    Ok((task["id"].as_str().ok_or("it is no task")?.to_owned(), done))
}

impl World<'_> {
    /// A random node searches for a capability, and gives the agent a task.
    pub(super) fn call(&mut self, ended: mpsc::Sender<Ended>) {
        let Some((caller, capability)) = self.draw_search() else { return };
        let now_ms = self.now_ms();
        let expected = self.nodes.expected(caller, &capability, now_ms, &self.judge.truth);
        let is_healed = self.is_healed(now_ms);
        let Some(node) = &self.nodes.slot(caller).node else { return };
        let (discovery, calls, begun) = (node.discovery.clone(), node.calls.clone(), self.begun);
        let number = self.judge.call_begins(now_ms);
        tokio::spawn(async move {
            let query = Query { capability: Some(capability), ..Query::default() };
            let (found, _) = discovery.search(&query).await;
            let Some(found) = found.into_iter().next() else {
                let _ = ended.send(Ended::Called(number, None)).await;
                return;
            };
            let agent = found.candidate.verified.agent.clone();
            let answer = answer(&calls, &agent, Operation::SendMessage, message("work")).await;
            let called = Called {
                began_ms: now_ms,
                ended_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
                caller,
                agent,
                node: found.node,
                task: task(answer),
                recalled: None,
                undisturbed: is_healed && expected.contains(&found.node),
                trusted: None,
            };
            // The run may be over.
            let _ = ended.send(Ended::Called(number, Some(called))).await;
        });
    }

    /// Has nothing disturbed the network since `began_ms`, and have both nodes been running since?
    fn undisturbed(&self, called: &Called, began_ms: u64) -> bool {
        let hosts =
            |slot: &Slot| slot.since_ms <= began_ms && slot.node.as_ref().is_some_and(|node| node.id() == called.node);
        self.fault_ms.is_none_or(|fault_ms| fault_ms < began_ms)
            && self.nodes.slot(called.caller).node.is_some()
            && self.nodes.slot(called.caller).since_ms <= began_ms
            && self.nodes.slots.iter().any(hosts)
    }

    /// Whether the nodes of an owner trust that of `caller` since `since_ms`; `None` if that changed meanwhile.
    pub(super) fn trusted(&self, caller: u32, by: PublisherId, since_ms: u64) -> Option<bool> {
        self.judge.truth.trusted(self.nodes.owners[self.nodes.owner_of(caller)].id(), by, since_ms)
    }

    pub(super) fn judge_call(&mut self, mut called: Called) -> Option<(u64, Step)> {
        called.undisturbed &= self.undisturbed(&called, called.began_ms);
        called.trusted = self.trusted(called.caller, called.agent.publisher(), called.began_ms);
        self.judge.call(&called);
        called.task.as_ref().ok()?;
        let again_after_ms = self.scenario.calls.as_ref()?.again_after_ms;
        Some((self.now_ms() + again_after_ms, Step::Recall(Box::new(called))))
    }

    /// The caller asks for its task again, if it is running.
    pub(super) fn recall(&mut self, mut called: Called, ended: mpsc::Sender<Ended>) {
        let now_ms = self.now_ms();
        let Some(caller) = self.nodes.slot(called.caller).node.as_ref() else { return };
        let settled = |slot: &Slot| {
            slot.since_ms + super::SETTLED_MS <= now_ms && slot.isolated == self.nodes.slot(called.caller).isolated
        };
        let host = self.nodes.slots.iter().find(|slot| slot.node.as_ref().is_some_and(|node| node.id() == called.node));
        let revoked = self.judge.truth.revoked_ms.contains_key(&called.agent.publisher());
        called.undisturbed =
            self.is_healed(now_ms) && settled(self.nodes.slot(called.caller)) && host.is_some_and(settled) && !revoked;
        let (calls, begun) = (caller.calls.clone(), self.begun);
        let Ok((id, _)) = &called.task else { return };
        let number = self.judge.call_begins(now_ms);
        let by_id = json!({ "id": id });
        tokio::spawn(async move {
            called.recalled = Some(task(answer(&calls, &called.agent, Operation::GetTask, by_id).await));
            called.began_ms = now_ms;
            called.ended_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            // The run may be over.
            let _ = ended.send(Ended::Recalled(number, called)).await;
        });
    }

    pub(super) fn judge_recall(&mut self, mut called: Called) {
        called.undisturbed &= self.undisturbed(&called, called.began_ms);
        called.trusted = self.trusted(called.caller, called.agent.publisher(), called.began_ms);
        self.judge.recall(&called);
    }
}
