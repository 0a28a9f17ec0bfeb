//! Others who may know which nodes host what is looked for: registries.

use std::future::Future;
use std::pin::Pin;

use althing_communication::Provider;
use althing_protocol::inquiry::Inquiry;

/// Nodes of one answer that are asked.
pub(crate) const HINTS_MAX: usize = 32;

/// Names nodes that may host what is looked for. Each is only a hint: the node is asked, and its evidence is verified.
pub trait HostHints: Send + Sync {
    /// Whether anybody can be asked for hints.
    fn available(&self) -> bool;

    /// Nodes that may match. A search waits for them as long as for the look-up in the DHT.
    fn hosts<'a>(&'a self, inquiry: &'a Inquiry) -> Pin<Box<dyn Future<Output = Vec<Provider>> + Send + 'a>>;
}
