//! What the libp2p shell decides, without clocks or sockets. Times are since the start of the network.

pub mod ban_list;
pub mod connections;
pub mod probes;
pub mod relay_reservations;
