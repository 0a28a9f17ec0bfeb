//! Scenarios and groups in virtual time, and the program that runs them.

mod groups;
mod moves;
mod scenarios;
mod swarm;
