//! Real processes in network namespaces, and one on a disk of its own that is full.

mod agents;
mod faults;
mod group_faults;
mod interfaces;
mod introductions;
mod known_peers;
mod layers;
mod nat;
mod one_key;
mod private;
mod registry_domain;
mod registry_faults;
mod storms;
mod table;
