//! What decides about answers, pure: what their bytes say, when they are complete, and what of a task is new.

pub mod artifacts;
pub mod course;
pub mod decoder;
mod evidence;
pub mod members;
pub mod omissions;
mod repairs;
pub mod words;
