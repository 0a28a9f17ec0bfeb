//! What is asked of handoffs: to take work, to give it away, and to make the document for that.

use std::sync::Arc;

use super::begin;
use super::way::HandoffWay;
use crate::tasks::runner::TaskRunner;
use crate::tasks::service::TaskService;

/// Who gives work away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoffGiver {
    /// The owner of the node, whose order is on record by itself.
    Owner,
    /// The task's agent, by a call of which it hears no more once the work is given away.
    Agent,
}

/// The handoffs of a node's tasks.
#[derive(Clone)]
pub struct HandoffService {
    pub(super) runner: TaskRunner,
}

impl HandoffService {
    /// Those of the node that has these tasks.
    #[must_use]
    pub fn of(tasks: &TaskService) -> HandoffService {
        HandoffService { runner: tasks.runner.clone() }
    }

    /// Work can be given away from now on through `way`, and what was given away before the node started is followed. The first
    /// way stays.
    pub fn connect(&self, way: Arc<dyn HandoffWay>) {
        if self.runner.store().handoffs().way.set(way).is_ok() {
            begin::resume(&self.runner);
        }
    }
}
