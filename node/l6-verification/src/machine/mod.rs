//! The deciding code: plain data in, plain data out.

pub mod answer;
pub mod cases;
pub mod evidence;
pub mod gates;
pub mod grounding;
pub mod json;
pub mod model_cost;
pub mod report;
pub mod rollout;
pub mod rules;
pub mod silent;
pub mod tape;
pub mod words;
