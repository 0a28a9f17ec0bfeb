//! `profile` as it is written: a word that is none is refused where the file is read, and never taken for another one.

use althing_node::NodeProfile;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

/// Writes its word.
pub fn serialize<S: Serializer>(profile: &NodeProfile, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(profile.word())
}

/// Reads it; the error names all that there are.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<NodeProfile, D::Error> {
    let word = String::deserialize(from)?;
    word.parse().map_err(|error| D::Error::custom(format!("`profile`: {error}")))
}
