//! The commands of governance.

use crate::args::Governance;
use crate::commands::{Out, audit, consents, pending, people, policy, stop};
use crate::exit::Failure;
use crate::paths::Paths;

/// Runs one of them.
pub async fn run(at: &Paths, asked: &Governance, out: &Out) -> Result<(), Failure> {
    match asked {
        Governance::Policy(policy) => policy::run(at, policy, out).await,
        Governance::People(people) => people::run(at, people, out).await,
        Governance::Pending => pending::list(at, out).await,
        Governance::Consents(consents) => consents::run(at, consents, out).await,
        Governance::Approve(approve) => pending::approve(at, approve, out).await,
        Governance::Deny(deny) => pending::deny(at, deny, out).await,
        Governance::Audit(audit) => audit::run(at, audit, out).await,
        Governance::Stop(stop) => stop::run(at, stop, out).await,
        Governance::Who { action } => policy::who(at, action, out).await,
        Governance::Explain { decision } => policy::decision(at, *decision, out).await,
    }
}
