//! The state of a registry, which follows from the entries of its log alone.
//!
//! Pure: the time and all bytes are handed in. What is judged here is not in the state until it is applied, after the log has
//! it on disk.

mod attestations;
mod judging;
mod limited;
mod named;
mod opened;
mod organisation;
mod organisation_rules;
mod purge;
mod purging;
mod quarantine;
mod quarantined;
mod quota;
mod refusal;
mod released;
mod shown;
mod state;
pub mod things;
mod twins;

pub use attestations::{Attested, HeldAttestations};
pub use named::{TWINS_MAX, twins_of};
pub use opened::Opened;
pub use organisation::{Claim, HeldDomain, HeldRoster, Organisations};
pub(crate) use organisation_rules::knows;
pub use purge::{Purge, PurgedBy};
pub use refusal::Refusal;
pub use released::Released;
pub use shown::{ShownAgent, ShownAgents};
pub use state::{Admission, Judged, RegistryState, Statement, Versions};
pub use twins::look_alike;

#[cfg(test)]
mod tests;
