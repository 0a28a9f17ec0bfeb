//! Random bytes.

use std::sync::Arc;

/// Fills bytes with randomness.
pub type Entropy = Arc<dyn Fn(&mut [u8]) + Send + Sync>;
