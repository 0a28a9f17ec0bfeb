//! Replies have the JSON that people's scripts read, letter by letter.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Asserts that a value is written as this JSON, its members in this order, and read from it.
#[track_caller]
pub fn assert_json<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, json: &str) {
    assert_eq!(serde_json::to_string(value).expect("a reply is JSON"), json);
    assert_eq!(&serde_json::from_str::<T>(json).expect("it has the shape of a reply"), value);
}
