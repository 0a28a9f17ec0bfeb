//! What an owner's policies say of a request: permit, ask or deny. The language is Cedar, and nothing is added to it but the
//! meaning of four annotations (`@id`, `@ask`, `@consent`, `@sign_off`).
//!
//! **Inputs**: the text of a set, the tools that are bound (their names and schemas of inputs), what is known of agents,
//! persons, tools and so on, a request with its real arguments.
//! **Outputs**: a [`PolicySet`] or what is wrong with the text and where; a [`Verdict`] with the policies behind it.
//!
//! **Invariants**: the same inputs give the same verdict. A `forbid` that applies denies, whatever permits. A policy that
//! cannot be evaluated denies, and so does a request that does not fit its tool. No schema of a tool fails a set: what
//! cannot be expressed as a type has none. What a model writes as an argument is a value, never the name of an entity.
//!
//! **Never knows**: clocks, disks, networks, who answers what is asked, where decisions are recorded.

mod bounds;
mod cases;
mod decide;
mod demand;
mod difference;
mod entity_types;
mod explain;
mod finding;
mod gate;
mod kind;
mod lint;
mod schema;
mod scopes;
mod set;
mod shape;
mod value;
mod world;

pub use bounds::Bounds;
pub use cases::{CASES_MAX, Case, CasesError, Expectation, Outcome, cases, run};
pub use decide::{Answer, EvaluationError, Request, Verdict};
pub use demand::{Demand, SIGNERS_MAX};
pub use difference::{Decision, Difference, differences};
pub use explain::{Explanation, Reason, explain};
pub use finding::{Finding, Place};
pub use gate::Gate;
pub use kind::{EntityName, Kind};
pub use lint::{NO_PERMIT, lint};
pub use schema::{Schema, TOOLS_MAX, ToolInput, ToolSignature};
pub use set::{PolicySet, ReadError, SetDigest};
pub use world::{ENTITIES_MAX, Entry, World, WorldError};

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod tests;
