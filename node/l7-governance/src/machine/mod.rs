//! The deciding code: plain data in, plain data out.

pub mod arguments;
pub mod consent;
pub mod delivery;
pub mod key;
pub mod node_profile;
pub mod orders;
pub mod people;
pub mod profile;
pub mod pruning;
pub mod rules;
pub mod successions;
pub mod taint;
