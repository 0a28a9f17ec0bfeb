//! Real processes in network namespaces, and one on a disk of its own that is full.

mod agents;
mod faults;
mod group_faults;
mod introductions;
mod layers;
mod nat;
mod private;
mod registry_domain;
mod registry_faults;
mod storms;
mod table;
