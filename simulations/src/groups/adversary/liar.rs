//! Says that it completed, began or gave up tasks that it does not have, by the tokens of others, by old ones and by those
//! to come.

use std::time::Duration;

use althing_coordination::machine::group::Group;
use althing_protocol::group::{Claim, Command, Complete, Content, Decline, Fail};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::Target;

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(60);

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let mut rng = StdRng::seed_from_u64(target.seed);
        loop {
            tokio::time::sleep(EVERY).await;
            let tokens = |state: &Group| -> Vec<Claim> {
                let tasks = state.work().tasks().iter();
                tasks.map(|task| Claim { task: task.id(), token: task.token }).collect()
            };
            let all = target.running.groups.look(target.group, tokens).unwrap_or_default();
            let Some(claim) = all.choose(&mut rng).copied() else { continue };
            let claim = Claim { token: (claim.token + 1).saturating_sub(rng.random_range(0..3)), ..claim };
            let reason = || "a lie".to_owned();
            let command = match rng.random_range(0..5) {
                0 | 1 => {
                    let result = Content::Inline(b"a lie".to_vec().into());
                    Command::Complete(Complete { claim, result, label: None, verified: None })
                }
                2 => Command::Fail(Fail { claim, reason: reason(), retry: false }),
                3 => Command::Decline(Decline { claim, reason: reason() }),
                _ => Command::Start(claim),
            };
            // It is refused, or the invariants say that it was not.
            let _ = target.running.groups.command(target.group, command).await;
        }
    }
    .boxed()
}
