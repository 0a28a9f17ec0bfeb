//! Characters that people do not see in descriptions.

pub use althing_protocol::{hidden_in, is_hidden, marked, visible};

/// The joiners of Persian, many Indian scripts, and emoji: allowed in texts of others.
pub(crate) fn joins(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}')
}
