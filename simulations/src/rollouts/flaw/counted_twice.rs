//! Each call is counted twice.

use super::Flaw;

pub(super) struct SecondCount;

impl Flaw for SecondCount {
    fn name(&self) -> &'static str {
        "counted-twice"
    }

    fn times(&self) -> usize {
        2
    }
}
