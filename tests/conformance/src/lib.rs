//! One suite for every implementation of a port; see `tests/`.
