//! The deciding code of `calls`: plain data in, plain data out.

pub(crate) mod addressee;
pub(crate) mod redirects;
pub(crate) mod stream_view;
pub mod tool_name;

pub use althing_call::chain;
