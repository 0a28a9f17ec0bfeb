//! What servers say, as it is taken. Pure.

pub mod answer;
pub mod block;
pub mod greeting;
pub mod line;
pub mod listing;
pub mod origins;
pub mod question;
pub mod skim;
pub mod stream_body;
