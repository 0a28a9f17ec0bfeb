//! Scenarios, groups and sessions in virtual time, and the program that runs them.

mod groups;
mod moves;
mod scenarios;
mod sessions;
mod swarm;
