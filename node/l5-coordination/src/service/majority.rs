//! Nobody waits for a group that is known to decide nothing: a majority of its voters cannot be reached.

use std::time::Duration;

use althing_protocol::group::GroupId;

use super::{Groups, overview};
use crate::error::GroupError;
use crate::machine::majority::{Shortage, shortage};

/// Between two looks whether a majority is reached.
const LOOK: Duration = Duration::from_millis(250);

/// Does something with a group, as `work` does, but for no longer than a majority of its voters may be reached. What the group
/// reads or writes belongs here where a person, or a caller, waits for it.
///
/// # Errors
/// Those of `work`, and [`GroupError::NoMajority`].
pub async fn promptly<T, E: From<GroupError>>(
    groups: &Groups,
    group: GroupId,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    if let Some(error) = lack(groups, group, false) {
        return Err(error.into());
    }
    let mut work = Box::pin(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Some(error) = lack(groups, group, true) {
            return Err(error.into());
        }
    }
}

/// Why a group decides nothing, if that is known; none where it may.
#[must_use]
pub fn lacks_majority(groups: &Groups, group: GroupId) -> Option<GroupError> {
    lack(groups, group, false)
}

fn lack(groups: &Groups, group: GroupId, begun: bool) -> Option<GroupError> {
    let member = groups.active(group).ok()?;
    let network = groups.shared.communication.network();
    let voters = member.look(|state| state.members().voters().clone()).ok()?;
    // Nearly always.
    if voters.len() < 2 {
        return None;
    }
    let reached = network.connected().into_iter().chain([network.local()]).collect();
    let known = overview(&member);
    let silence = known.silence.unwrap_or_else(|| member.begun.elapsed());
    let Shortage { voters, missing } = shortage(&voters, &reached, silence)?;
    Some(GroupError::NoMajority { name: known.name, voters, missing, silent_s: silence.as_secs(), begun })
}
