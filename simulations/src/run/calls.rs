//! Somebody gives a task to what it finds, and asks for it again later.

use althing_calls::{Operation, OperationError, Reply};
use althing_discovery::Query;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Ended, Step, Violation, World};
use crate::invariant::{Called, LONGEST_MS};
use crate::mesh::{ask, message};

/// The task in an answer: its id, and whether it was done.
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
    /// Somebody looks for something, and gives it a task.
    pub(super) fn call(&mut self, ended: mpsc::Sender<Ended>) {
        let Some((caller, capability)) = self.wish() else { return };
        let now_ms = self.now_ms();
        let (living, calm) = (self.living(caller, &capability), self.calm(now_ms));
        let Some(node) = &self.place(caller).node else { return };
        let (discovery, calls, begun) = (node.discovery.clone(), node.calls.clone(), self.begun);
        let number = self.begin(now_ms);
        tokio::spawn(async move {
            let query = Query { capability: Some(capability), ..Query::default() };
            let (found, _) = discovery.seek(&query).await;
            let Some(found) = found.into_iter().next() else {
                let _ = ended.send(Ended::Called(number, None)).await;
                return;
            };
            let agent = found.candidate.verified.agent.clone();
            let answer =
                calls.ask(ask(&agent, Operation::SendMessage, &message("work")).expect("good parameters")).await;
            let called = Called {
                began_ms: now_ms,
                ended_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
                caller,
                agent,
                node: found.node,
                task: task(answer),
                recalled: None,
                calm: calm && living.contains(&found.node),
            };
            // The run may be over.
            let _ = ended.send(Ended::Called(number, Some(called))).await;
        });
    }

    /// A call begins; gives its number.
    fn begin(&mut self, now_ms: u64) -> u64 {
        self.calls += 1;
        self.calling.insert(self.calls, now_ms);
        self.calls
    }

    /// Calls that should have ended, at the end of the run.
    pub(super) fn judge_stuck(&mut self) {
        let now_ms = self.now_ms();
        let stuck = self.calling.iter().filter(|(_, began_ms)| *began_ms + LONGEST_MS < now_ms);
        let stuck: Vec<Violation> = stuck
            .map(|(number, began_ms)| {
                let what = format!("call {number}, begun after {began_ms} ms, has not ended");
                Violation { invariant: "calls-are-answered", at_ms: now_ms, what }
            })
            .collect();
        self.outcome.violations.extend(stuck);
    }

    /// Has nothing disturbed the network since `began_ms`, and are both still there?
    fn undisturbed(&self, called: &Called, began_ms: u64) -> bool {
        let there = |node: &super::Place| {
            node.since_ms <= began_ms && node.node.as_ref().is_some_and(|node| node.id() == called.node)
        };
        self.fault_ms.is_none_or(|fault_ms| fault_ms < began_ms)
            && self.place(called.caller).node.is_some()
            && self.place(called.caller).since_ms <= began_ms
            && self.places.iter().any(there)
    }

    pub(super) fn judge_call(&mut self, mut called: Called) -> Option<(u64, Step)> {
        called.calm &= self.undisturbed(&called, called.began_ms);
        self.outcome.calm_calls[0] += usize::from(called.calm);
        let took_ms = called.ended_ms - called.began_ms;
        let (caller, agent) = (called.caller, called.agent.name());
        self.recorder.note(format_args!("node {caller} called {agent}, for {took_ms} ms: {:?}", called.task));
        self.check(called.ended_ms, |invariant, truth| invariant.check_call(&called, truth));
        called.task.as_ref().ok()?;
        self.outcome.tasks += 1;
        let again_after_ms = self.scenario.calls.as_ref()?.again_after_ms;
        Some((self.now_ms() + again_after_ms, Step::Recall(Box::new(called))))
    }

    /// Who gave a task asks for it, if it is still there.
    pub(super) fn recall(&mut self, mut called: Called, ended: mpsc::Sender<Ended>) {
        let now_ms = self.now_ms();
        let Some(caller) = self.place(called.caller).node.as_ref() else { return };
        let settled = |place: &super::Place| {
            place.since_ms + super::SETTLED_MS <= now_ms && place.away == self.place(called.caller).away
        };
        let host = self.places.iter().find(|place| place.node.as_ref().is_some_and(|node| node.id() == called.node));
        let revoked = self.truth.revoked_ms.contains_key(&called.agent.publisher());
        called.calm = self.calm(now_ms) && settled(self.place(called.caller)) && host.is_some_and(settled) && !revoked;
        let (calls, begun) = (caller.calls.clone(), self.begun);
        let Ok((id, _)) = &called.task else { return };
        let number = self.begin(now_ms);
        let question = ask(&called.agent, Operation::GetTask, &json!({ "id": id })).expect("good parameters");
        tokio::spawn(async move {
            called.recalled = Some(task(calls.ask(question).await));
            called.began_ms = now_ms;
            called.ended_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            // The run may be over.
            let _ = ended.send(Ended::Recalled(number, called)).await;
        });
    }

    pub(super) fn judge_recall(&mut self, called: &Called) {
        let mut called = called.clone();
        called.calm &= self.undisturbed(&called, called.began_ms);
        let (caller, agent) = (called.caller, called.agent.name());
        self.recorder.note(format_args!("node {caller} asked {agent} again: {:?}", called.recalled));
        self.outcome.recalled += 1;
        self.outcome.calm_calls[1] += usize::from(called.calm);
        self.outcome.kept += usize::from(called.recalled == Some(called.task.clone()));
        self.check(called.ended_ms, |invariant, truth| invariant.check_call(&called, truth));
    }
}
