//! Those who want a call made that nobody agreed to, each in a file of its own, over many seeds.

mod adversary;
mod desk;
mod obedient_model;
mod pruning;
