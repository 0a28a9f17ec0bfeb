//! The deciding code: plain data in, plain data out.

pub mod arguments;
pub mod consent;
pub mod delivery;
pub mod key;
pub mod orders;
pub mod people;
pub mod profile;
pub mod rules;
pub mod taint;
