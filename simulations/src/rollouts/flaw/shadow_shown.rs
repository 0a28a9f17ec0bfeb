//! What a shadow answers is shown.

use super::Flaw;

pub(super) struct TalkingShadow;

impl Flaw for TalkingShadow {
    fn name(&self) -> &'static str {
        "shadow-shown"
    }

    fn shows_shadow(&self) -> bool {
        true
    }
}
