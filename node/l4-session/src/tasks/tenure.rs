//! Whether a turn that is for a task of a group goes on where its node ended: only under the token that it had, while its group says
//! that this counts.

use std::sync::Arc;

use althing_execution::lease::Lease;
use futures::future::BoxFuture;

use crate::machine::session::GroupAttempt;

/// Knows the groups for whose tasks turns of this node run.
pub trait Tenures: Send + Sync + 'static {
    /// Whether an attempt that this node began before it ended still counts, as its group says now.
    fn tenure(&self, attempt: GroupAttempt) -> BoxFuture<'static, Tenure>;
}

/// What a group says of an attempt at one of its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tenure {
    /// It counts. Its turn goes on under this lease.
    Valid(Lease),
    /// Another one does, or none any more: why.
    Over(String),
    /// It does not answer now.
    Unknown,
}

/// The attempt that has that lease.
pub(super) fn attempt(lease: &Lease) -> GroupAttempt {
    let (group, task) = lease.name();
    GroupAttempt { group: group.to_owned(), task: task.to_owned(), token: lease.token() }
}

/// What the group of an attempt says of it; nothing is known before [`crate::Sessions::ask_tenures`].
pub(super) async fn of(tenures: Option<&Arc<dyn Tenures>>, attempt: &GroupAttempt) -> Tenure {
    match tenures {
        Some(tenures) => tenures.tenure(attempt.clone()).await,
        None => Tenure::Unknown,
    }
}
