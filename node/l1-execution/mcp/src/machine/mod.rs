//! What servers say, as it is taken. Pure.

pub mod answer;
pub mod block;
pub mod events;
pub mod greeting;
pub mod line;
pub mod listing;
pub mod origins;
pub mod question;
pub mod skim;
