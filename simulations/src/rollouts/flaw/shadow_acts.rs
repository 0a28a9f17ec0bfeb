//! A shadow has effects.

use super::Flaw;

pub(super) struct ActingShadow;

impl Flaw for ActingShadow {
    fn name(&self) -> &'static str {
        "shadow-acts"
    }

    fn shadow_acts(&self) -> bool {
        true
    }
}
