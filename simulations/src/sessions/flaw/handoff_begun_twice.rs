//! A recipient begins work anew that is committed a second time.

use super::Flaw;

pub(super) struct SecondStart;

impl Flaw for SecondStart {
    fn name(&self) -> &'static str {
        "handoff-begun-twice"
    }

    fn begins_again(&self) -> bool {
        true
    }
}
