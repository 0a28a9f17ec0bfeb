//! Takes every task that another member has not begun, begins it, and never ends it.

use std::time::Duration;

use althing_coordination::machine::group::Group;
use althing_coordination::machine::work::State;
use althing_protocol::group::{Claim, Command, Steal};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::Target;

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(15);

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let (group, node) = (target.group, target.key.public());
        loop {
            tokio::time::sleep(EVERY).await;
            let waiting = |state: &Group| -> Vec<Steal> {
                let tasks = state.work().tasks().iter().filter(|task| task.state == State::Assigned);
                let of_others = tasks.filter_map(|task| Some((task.id(), task.held?.member)));
                of_others.filter(|(_, from)| *from != node).map(|(task, from)| Steal { task, from }).collect()
            };
            for steal in target.running.groups.look(group, waiting).unwrap_or_default() {
                let task = steal.task;
                // Another one may have begun it meanwhile.
                if let Ok(Some(token)) = target.running.groups.command(group, Command::Steal(steal)).await {
                    let _ = target.running.groups.command(group, Command::Start(Claim { task, token })).await;
                }
            }
        }
    }
    .boxed()
}
