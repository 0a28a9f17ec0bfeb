//! What follows from a Thing Description: pure.

pub mod answer;
pub mod directory;
pub mod form;
pub mod plan;
pub mod request;
pub mod template;
