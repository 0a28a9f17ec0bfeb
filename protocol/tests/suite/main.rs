//! What proves the protocol: each rule of `SPEC.md` is cited (`P-17`) where a test would fail without it.

mod cbor_strict;
mod envelopes;
mod evidence;
mod forks;
mod frames;
mod group_deployments;
mod group_proposals;
mod group_tasks;
mod group_workflows;
mod groups;
mod keylog;
mod keyring;
mod kinds_matrix;
mod malformed;
mod names;
mod objects;
mod records;
mod specification;
mod stolen_keys;
mod streams;
mod support;
mod vector_cases;
mod vector_objects;
mod vector_runner;
mod vectors;
