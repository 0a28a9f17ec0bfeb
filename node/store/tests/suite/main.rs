//! What every store keeps: its contract, its files, its memory, and what faults leave of it.

mod contract;
mod faults;
mod file;
mod full_disk;
mod group_commit;
mod keyfile;
mod log_faults;
mod memory_bound;
mod memory_time;
mod model;
mod opening;
mod support;
