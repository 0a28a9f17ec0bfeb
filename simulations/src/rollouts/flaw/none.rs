//! The program as it is.

use super::Flaw;

pub(super) struct None;

impl Flaw for None {
    fn name(&self) -> &'static str {
        "none"
    }
}
