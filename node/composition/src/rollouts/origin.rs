//! How conversations begin.

/// How a conversation began: what decides its version for as long as it goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// When, Unix milliseconds.
    pub at_ms: u64,
    /// The id of the group whose work its first call was.
    pub group: Option<String>,
}

impl Origin {
    /// As it is on disk: the time, and then the group.
    pub fn row(&self) -> Vec<u8> {
        [self.at_ms.to_be_bytes().as_slice(), self.group.as_deref().unwrap_or_default().as_bytes()].concat()
    }

    /// Reads what [`Origin::row`] gives; none where it is shorter than the time.
    pub fn of_row(row: &[u8]) -> Option<Origin> {
        let (at_ms, group) = row.split_first_chunk::<8>()?;
        let group = (!group.is_empty()).then(|| String::from_utf8_lossy(group).into_owned());
        Some(Origin { at_ms: u64::from_be_bytes(*at_ms), group })
    }
}
