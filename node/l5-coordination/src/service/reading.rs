//! Reading a group where its charter may leave that to the owners: by this node's users, and by other members.

use std::time::Duration;

use althing_protocol::group::{GroupId, WorkId};
use althing_protocol::{Digest, PublicKey};

use super::Groups;
use super::member::Member;
use crate::error::GroupError;
use crate::machine::group::Group;
use crate::machine::read_scope::ReadScope;
use crate::machine::work::WorkItem;
use crate::machine::workflow::Run;

/// How long a member that asks for a result waits while this node learns what was executed before: less than it waits at all.
const LEARN: Duration = Duration::from_secs(1);

/// What this node shows its users of a group, as far as it has arrived here.
pub struct Reader<'a> {
    groups: &'a Groups,
    group: GroupId,
}

impl<'a> Reader<'a> {
    /// What is shown of `group`.
    #[must_use]
    pub fn of(groups: &'a Groups, group: GroupId) -> Reader<'a> {
        Reader { groups, group }
    }

    /// Looks at the state, and at what is shown of it.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn look<T>(&self, at: impl FnOnce(&Group, &ReadScope<'_>) -> T) -> Result<T, GroupError> {
        let here = self.groups.shared.here();
        self.groups.look(self.group, |state| at(state, &ReadScope::of(state, here)))
    }

    /// Whether everything is shown, its values too.
    ///
    /// # Errors
    /// [`GroupError::OnlyOwnersRead`] if not.
    pub fn check(&self) -> Result<(), GroupError> {
        self.look(|state, scope| if scope.is_whole() { Ok(()) } else { Err(only_owners(state)) })?
    }

    /// Looks at a task; none if the group has none of that id.
    ///
    /// # Errors
    /// [`GroupError::OnlyOwnersRead`] if it is not shown.
    pub fn task<T>(&self, id: &WorkId, look: impl FnOnce(&Group, &WorkItem) -> T) -> Result<Option<T>, GroupError> {
        self.look(|state, scope| match state.work().tasks().get(id) {
            Some(task) if scope.task(task) => Ok(Some(look(state, task))),
            Some(_) => Err(only_owners(state)),
            None => Ok(None),
        })?
    }

    /// Looks at a run of a workflow; none if the group has none of that id.
    ///
    /// # Errors
    /// [`GroupError::OnlyOwnersRead`] if it is not shown.
    pub fn run<T>(&self, id: &WorkId, look: impl FnOnce(&Run) -> T) -> Result<Option<T>, GroupError> {
        self.look(|state, scope| match state.flows().runs().get(id) {
            Some(run) if scope.of_author(run.author) => Ok(Some(look(run))),
            Some(_) => Err(only_owners(state)),
            None => Ok(None),
        })?
    }
}

fn only_owners(state: &Group) -> GroupError {
    GroupError::OnlyOwnersRead(state.charter().map(|charter| charter.name.clone()).unwrap_or_default())
}

/// Whether another member is handed a large result that this one holds.
pub(super) async fn is_shown(
    groups: &Groups,
    member: &Member,
    to: PublicKey,
    digest: &Digest,
) -> Result<bool, GroupError> {
    let here = groups.shared.here();
    let looked = || member.look(|state| ReadScope::of(state, to).result(here, digest));
    if looked()? {
        return Ok(true);
    }
    // That its task completed may not have arrived here yet. If it cannot be learned now, what is known counts.
    let _ = tokio::time::timeout(LEARN, Box::pin(groups.catch_up(member.id))).await;
    looked()
}
