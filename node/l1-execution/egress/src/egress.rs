//! How one program reaches hosts, and how much it may take.

use std::sync::Arc;
use std::time::Duration;

use althing_fetch::{Fetch, StreamLimits};
use tokio::sync::Semaphore;

use crate::admission::{Admission, ByFile};
use crate::told::{Apart, Told, Traces};

/// What one program may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at one time, over all its listeners; more wait to be accepted.
    pub connections: usize,
    /// Bytes each way: of a tunnel, and of the bodies of a request.
    pub bytes: usize,
    /// How long nothing may pass on a connection.
    pub idle: Duration,
    /// How long a tunnel or a request may last.
    pub whole: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            connections: 64,
            bytes: 1 << 30,
            idle: Duration::from_secs(5 * 60),
            whole: Duration::from_secs(60 * 60),
        }
    }
}

impl Bounds {
    /// The same, of a request and its answer.
    pub(crate) fn of_streams(&self) -> StreamLimits {
        // Whoever thinks for long before it answers may: a model does.
        StreamLimits { sent: self.bytes, received: self.bytes, first: self.idle, idle: self.idle, whole: self.whole }
    }
}

/// How one program reaches hosts; clones share its bounds.
#[derive(Clone)]
pub struct Egress {
    pub(crate) fetch: Fetch,
    pub(crate) told: Told,
    pub(crate) traces: Arc<dyn Traces>,
    pub(crate) admission: Arc<dyn Admission>,
    pub(crate) bounds: Bounds,
    /// One for each connection that it may have.
    pub(crate) places: Arc<Semaphore>,
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl Egress {
    /// For one program: through this fetch, and with somebody who is told what it reaches. Each connection is a trace.
    #[must_use]
    pub fn new(fetch: Fetch, told: Told, bounds: Bounds) -> Egress {
        let places = Arc::new(Semaphore::new(bounds.connections));
        Egress { fetch, told, traces: Arc::new(Apart), admission: Arc::new(ByFile), bounds, places }
    }

    /// The same, with somebody who decides on each host that the file names.
    #[must_use]
    pub fn asking(self, admission: Arc<dyn Admission>) -> Egress {
        Egress { admission, ..self }
    }

    /// The same, with its connections in these traces.
    #[must_use]
    pub fn within(self, traces: Arc<dyn Traces>) -> Egress {
        Egress { traces, ..self }
    }
}
