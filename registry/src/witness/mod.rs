//! A witness that serves, and how a registry asks others.

mod asking;

pub use althing_log::witness::{FAMILIES, OpenWitnessError, Seen, Witness, WitnessConfig, WitnessError};
pub use asking::{NoWitness, Witnesses};
