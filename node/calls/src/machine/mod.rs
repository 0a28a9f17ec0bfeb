//! The deciding code of `calls`: plain data in, plain data out.

pub(crate) mod redirects;
pub mod tool_name;

pub use althing_call::chain;
