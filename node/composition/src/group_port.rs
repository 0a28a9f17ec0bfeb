//! The port for who does tasks of groups on this node. It is made once agents can be called, and told of the groups before any
//! agent starts.

use std::sync::Arc;

use althing_calls::Calls;
use althing_coordination::{Groups, Worker};

use crate::identity::Identity;

/// Told of the groups that this node belongs to, once they are open.
pub type GroupHook = Box<dyn FnOnce(&Groups) + Send>;

/// Makes what does tasks of groups here, of what calls agents and of whose node it is; and what is told of the groups.
pub type MakeWorker = Box<dyn FnOnce(&Calls, &Arc<Identity>) -> (Arc<dyn Worker>, GroupHook) + Send>;
