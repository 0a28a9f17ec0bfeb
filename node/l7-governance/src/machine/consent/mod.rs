//! What people are asked before a call is made, and what they agreed to: a question is bound to one call, answered by whom it is
//! for, and its yes is used once.

mod asks;
mod definitions;
mod error;
mod messages;
mod outline;
mod question;
mod rows;
mod standing;
#[cfg(test)]
mod tests;

pub use asks::{ASKS_MAX, AskId, Asks};
pub use definitions::{DEFINITIONS_MAX, DefinitionState, Definitions, ToolChange};
pub use error::ConsentError;
pub use messages::{MESSAGE_ACTION, MessagePasses, MessageSettlements, settlement_name};
pub use outline::{AskOutline, escaped};
pub use question::{Answer, DenialReason, Need, Question, QuestionState, Speaker};
pub use rows::{QUESTION_ROW_BYTES_MAX, RowError, decode_row, encode_row};
pub use standing::{STANDING_LIFE_MAX_MS, STANDING_MAX, StandingYes, StandingYeses, Template};
