//! Each yes that is promised to a call whose intent is not on disk yet.

use std::collections::BTreeMap;

use althing_protocol::Digest;

use crate::machine::consent::AskId;

/// A yes that is promised to a call.
pub(crate) struct Grant {
    /// The questions whose yes it is.
    pub(crate) asks: Vec<AskId>,
    /// The digest of the first of them.
    pub(crate) consent: Option<Digest>,
}

/// All that are, by their receipts.
pub(crate) type Grants = BTreeMap<[u8; 16], Grant>;
