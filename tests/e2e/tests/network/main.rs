//! Real processes in network namespaces.

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
