//! Questions of agents to agents of other nodes, perhaps through a third one.

use althing_calls::{Operation, OperationError, Reply};
use rand::Rng as _;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{Ended, World};
use crate::invariant::{Asked, Seen};
use crate::mesh::{answer, message};

/// The texts of parts, one after another.
fn text(parts: &Value) -> String {
    let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

/// The task in an answer as its caller sees it, its id, and what its state says.
pub(super) fn seen(answer: Result<Reply, OperationError>) -> Result<(Seen, String, String), String> {
    let Reply::One(body) = answer.map_err(|refused| format!("{}: {}", refused.reason(), refused.message))? else {
        return Err("it streams".to_owned());
    };
    let answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let task = answer.get("task").unwrap_or(&answer);
    let list = |member: &str| task[member].as_array().cloned().unwrap_or_default();
    let by_user = |message: &&Value| message["role"] == "ROLE_USER";
    let seen = Seen {
        done: task["status"]["state"] == "TASK_STATE_COMPLETED",
        artifacts: list("artifacts").iter().map(|artifact| text(&artifact["parts"])).collect(),
        said: list("history").iter().filter(by_user).map(|message| text(&message["parts"])).collect(),
    };
    let status = format!("{} {}", task["status"]["state"], text(&task["status"]["message"]["parts"]));
    Ok((seen, task["id"].as_str().ok_or("it is no task")?.to_owned(), status))
}

/// The node's agent is told to ask another, or to have another ask a third, on whose behalf it is called.
pub(super) fn start(world: &mut World<'_>, asker: u32, ended: mpsc::Sender<Ended>) {
    let hosts = world.nodes.hosts();
    let Some(mut at) = hosts.iter().position(|host| *host == asker) else { return };
    let mut nodes = vec![asker];
    for _ in 0..world.rng.random_range(1..=2) {
        at = (at + world.rng.random_range(1..=world.scenario.agents.asks as usize)) % hosts.len();
        nodes.push(hosts[at]);
    }
    let now_ms = world.now_ms();
    let undisturbed = world.is_settled(&nodes, now_ms);
    let Some(node) = &world.nodes.slot(asker).node else { return };
    let agents: Vec<_> = nodes.iter().map(|number| world.nodes.agent(*number)).collect();
    let said = agents[1..].iter().map(|agent| format!("forward {} ", agent.name())).collect::<String>() + "who";
    let said = message(&said);
    let (calls, begun) = (node.calls.clone(), world.begun);
    let number = world.judge.call_begins(now_ms);
    tokio::spawn(async move {
        let answer = match seen(answer(&calls, &agents[0], Operation::SendMessage, said).await) {
            Ok((seen, _, _)) if seen.done => Ok(seen.artifacts.concat()),
            Ok((_, _, status)) => Err(status),
            Err(why) => Err(why),
        };
        let ended_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let asked = Asked { began_ms: now_ms, ended_ms, asker, agents, answer, undisturbed, trusted: None };
        // The run may be over.
        let _ = ended.send(Ended::Asked(number, nodes, asked)).await;
    });
}

pub(super) fn judge(world: &mut World<'_>, nodes: &[u32], mut asked: Asked) {
    asked.undisturbed &= world.is_steady(nodes, asked.began_ms);
    let pairs = nodes.iter().zip(&asked.agents[1..]).zip(&asked.agents);
    // An agent asks only those that its node trusts, and is answered only by those that trust it.
    let trusted = pairs.map(|((from, to), by)| {
        let back = world.judge.truth.trusted(to.publisher(), by.publisher(), asked.began_ms);
        world.trusted(*from, to.publisher(), asked.began_ms).zip(back).map(|(there, back)| there && back)
    });
    let trusted: Vec<Option<bool>> = trusted.collect();
    asked.trusted = if trusted.contains(&None) { None } else { Some(!trusted.contains(&Some(false))) };
    world.judge.question(&asked);
}
