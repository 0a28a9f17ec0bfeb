//! Who agrees to what a new version may do.

use std::path::PathBuf;

use althing_td::{AgentFile, Rights};

use crate::agreements::Agreements;
use crate::error::NodeError;
use crate::node::Node;

/// Who agrees to what a new version may do.
pub(super) enum Consent<'a> {
    /// Its owner: where it may do more than was agreed to, to what has this digest.
    Owner(Option<&'a str>),
    /// Nobody: it may do no more than the version that everybody has.
    Nobody,
}

impl Consent<'_> {
    /// Refuses a file, read from these sources, that may do more than was agreed to.
    pub fn check(
        &self,
        node: &Node,
        before: &AgentFile,
        (file, sources): (&AgentFile, &[PathBuf]),
    ) -> Result<(), NodeError> {
        let is_agreed = match self {
            Consent::Owner(agreed) => {
                let rights = Agreements(node.store.as_ref()).changes(file, sources.first())?;
                !rights.wider || *agreed == Some(rights.digest.as_str())
            }
            Consent::Nobody => !Rights::of(file).changed(&[Some(Rights::of(before))]).wider,
        };
        if is_agreed { Ok(()) } else { Err(NodeError::Wider(file.name.clone())) }
    }
}
