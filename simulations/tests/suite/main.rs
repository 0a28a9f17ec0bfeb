//! Scenarios, groups, sessions and rollouts in virtual time, and the program that runs them.

mod groups;
mod moves;
mod rollouts;
mod scenarios;
mod sessions;
mod swarm;
