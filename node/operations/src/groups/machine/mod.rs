//! Pure decisions about groups: what an application changes in one, and which step of a workflow is answered.

pub mod app;
pub mod parts;
pub mod question;
