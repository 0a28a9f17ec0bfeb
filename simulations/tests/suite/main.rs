//! Scenarios, groups, sessions and rollouts in virtual time, and the program that runs them.

mod groups;
mod moves;
mod rollout_news;
mod rollouts;
mod scenarios;
mod sessions;
mod swarm;
