//! What servers say, as it is taken. Pure.

pub mod answer;
pub mod line;
pub mod listing;
pub mod origins;
pub mod skim;
