//! The label of data as they travel.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::contract::DataLabel;

/// How far data may go, and whether what they say can be relied on. Labels join where data meet, and never fall by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[cbor(map)]
pub struct Label {
    /// How far the data may go.
    #[n(0)]
    pub level: DataLabel,
    /// Whether all of their sources are trusted.
    #[n(1)]
    pub trusted: bool,
}

impl Label {
    /// What data count as that come from another node without a label: nobody vouches for them, and whether they may go further
    /// nobody said.
    pub const UNLABELLED: Label = Label { level: DataLabel::Confidential, trusted: false };

    /// The label of data of that level, all of whose sources are trusted.
    #[must_use]
    pub fn of_trusted(level: DataLabel) -> Label {
        Label { level, trusted: true }
    }

    /// The label of data that are made of data with this label and with the other one.
    #[must_use]
    pub fn join(self, other: Label) -> Label {
        Label { level: self.level.max(other.level), trusted: self.trusted && other.trusted }
    }

    /// The label of data that are made of two of which something may be said.
    #[must_use]
    pub fn of_both(one: Option<Label>, other: Option<Label>) -> Option<Label> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.join(other)),
            (one, other) => one.or(other),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.name())?;
        if self.trusted { Ok(()) } else { f.write_str(", not trusted") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Label> {
        let levels = [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];
        levels.into_iter().flat_map(|level| [true, false].map(|trusted| Label { level, trusted })).collect()
    }

    #[test]
    fn labels_join_in_any_order_and_never_fall() {
        // P-201: every pair and triple of the eight that there are.
        for one in all() {
            assert_eq!(one.join(one), one);
            for other in all() {
                let both = one.join(other);
                assert_eq!(both, other.join(one));
                assert!(both.level >= one.level && both.level >= other.level, "{one:?} and {other:?}");
                assert_eq!(both.trusted, one.trusted && other.trusted, "{one:?} and {other:?}");
                for third in all() {
                    assert_eq!(both.join(third), one.join(other.join(third)));
                }
            }
        }
    }

    #[test]
    fn what_nobody_labelled_is_raised_by_nothing_but_restricted_data() {
        // P-201
        for one in all() {
            let both = one.join(Label::UNLABELLED);
            assert_eq!(both.level == DataLabel::Restricted, one.level == DataLabel::Restricted, "{one:?}");
            assert!(both.level >= DataLabel::Confidential && !both.trusted, "{one:?}");
            assert_eq!(one.join(Label::of_trusted(DataLabel::Public)), one, "it adds nothing");
        }
    }

    #[test]
    fn a_label_is_told_in_words() {
        assert_eq!(Label::UNLABELLED.to_string(), "confidential, not trusted");
        assert_eq!(Label::of_trusted(DataLabel::Public).to_string(), "public");
    }

    #[test]
    fn a_label_is_five_bytes() {
        // P-201
        let encoded = all().into_iter().map(|label| minicbor::to_vec(label).expect("writing to a vector cannot fail"));
        let by_hand = (0..4u8).flat_map(|level| [0xf5, 0xf4].map(|trusted| vec![0xa2, 0, level, 1, trusted]));
        assert_eq!(encoded.collect::<Vec<_>>(), by_hand.collect::<Vec<_>>());
    }
}
