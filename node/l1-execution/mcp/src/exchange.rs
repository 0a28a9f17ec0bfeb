//! What the calls on one connection share with its transport.

use std::sync::Arc;

use crate::news::News;
use crate::questions::Questions;

/// What the calls on one connection share with its transport.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub questions: Arc<Questions>,
    pub news: Arc<News>,
}
