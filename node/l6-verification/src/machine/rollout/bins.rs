//! Among which calls a call is weighed.

/// The bins of a call: that of its origin, if that is bounded, and that of its conversation. Labelled cases have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bins {
    pub origin: Option<u8>,
    pub conversation: Option<u8>,
}
