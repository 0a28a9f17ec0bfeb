//! Registries over HTTP: what they publish, prove, find and withhold.

mod adversaries;
mod approval_killed;
mod attestations;
mod damaged;
mod directory;
mod jsonpath;
mod liars;
mod opening;
mod organisations;
mod party;
mod program;
mod proofs;
mod purge_killed;
mod purging;
mod quarantine;
mod real;
mod rules;
mod scale;
mod searching;
mod support;
mod things;
mod totals;
mod twins;
mod witness;
