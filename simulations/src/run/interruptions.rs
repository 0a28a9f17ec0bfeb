//! Turns of agents that their caller interrupts with a second message to the same task.

use std::time::Duration;

use althing_calls::Operation;
use rand::Rng as _;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::questions::seen;
use super::{Ended, World};
use crate::invariant::Interrupted;
use crate::mesh::{answer, message};

/// The second message is sent so long after the first was acknowledged, milliseconds. The turn takes 500 ms, or does not end.
const AFTER_MS: std::ops::Range<u64> = 0..350;
/// The task is read again so long after the second answer: then the first turn would be over, too.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// The second message.
const SECOND: &str = "something else";

/// A node gives an agent of another one a task, and interrupts its turn. Every other agent waits for a third one meanwhile, if
/// agents may ask.
pub(super) fn start(world: &mut World<'_>, caller: u32, ended: mpsc::Sender<Ended>) {
    let hosts = world.nodes.hosts();
    let mut at = world.rng.random_range(0..hosts.len());
    if hosts[at] == caller {
        at = (at + 1) % hosts.len();
    }
    let after = Duration::from_millis(world.rng.random_range(AFTER_MS));
    let mut nodes = vec![caller, hosts[at]];
    let mut first = "pieces".to_owned();
    if world.scenario.agents.asks > 0 && world.rng.random() {
        nodes.push(hosts[(at + 1) % hosts.len()]);
        first = format!("forward {} stuck", world.nodes.agent(nodes[2]).name());
    }
    let now_ms = world.now_ms();
    let undisturbed = world.is_settled(&nodes, now_ms);
    let Some(node) = &world.nodes.slot(caller).node else { return };
    let (calls, begun, agent) = (node.calls.clone(), world.begun, world.nodes.agent(nodes[1]));
    let number = world.judge.call_begins(now_ms);
    tokio::spawn(async move {
        let said = [first, SECOND.to_owned()];
        let asking = |operation, params| answer(&calls, &agent, operation, params);
        let mut params = message(&said[0]);
        params["configuration"] = json!({ "returnImmediately": true });
        let (answer, later) = match seen(asking(Operation::SendMessage, params).await) {
            Err(why) => (Err(why.clone()), Err(why)),
            Ok((_, task, _)) => {
                sleep(after).await;
                let mut params = message(SECOND);
                params["message"]["taskId"] = json!(task);
                let answer = seen(asking(Operation::SendMessage, params).await).map(|(seen, ..)| seen);
                sleep(AGAIN_AFTER).await;
                let read = asking(Operation::GetTask, json!({ "id": task })).await;
                (answer, seen(read).map(|(seen, ..)| seen))
            }
        };
        let ended_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let interrupted = Interrupted { began_ms: now_ms, ended_ms, caller, agent, said, answer, later, undisturbed };
        // The run may be over.
        let _ = ended.send(Ended::Interrupted(number, nodes, interrupted)).await;
    });
}

pub(super) fn judge(world: &mut World<'_>, nodes: &[u32], mut interrupted: Interrupted) {
    let trusted = world.trusted(interrupted.caller, interrupted.agent.publisher(), interrupted.began_ms);
    interrupted.undisturbed &= world.is_steady(nodes, interrupted.began_ms) && trusted == Some(true);
    world.judge.interruption(&interrupted);
}

/// Judges the turns that run on nodes, and the reservations there, if all calls ended long enough ago.
pub(super) fn judge_at_rest(world: &mut World<'_>) {
    let now_ms = world.now_ms();
    if !world.judge.is_at_rest(now_ms) || !world.is_healed(now_ms) {
        return;
    }
    world.judge.outcome.at_rest = true;
    for number in world.nodes.running() {
        let slot = world.nodes.slot(number);
        let turns = slot.node.as_ref().map_or(0, |node| node.hosting.live_tasks());
        let reserved = slot.promises.as_ref().map_or(0, |promises| promises.reserved());
        world.judge.check(now_ms, |invariant, _| invariant.check_at_rest(number, turns, reserved));
    }
}
