//! What waits for people, for those of them who are users of the gateway.

use std::sync::{Arc, Weak};

use althing_api::Problem;
use althing_control::ApiError;
use althing_gateway::{QuestionRefusal, Questions};
use althing_operations::Operations;
use axum::body::Bytes;
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

/// Those of a node, as long as it runs.
struct NodeQuestions(Weak<Operations>);

/// What waits for people on a node.
pub fn of(node: &Arc<Operations>) -> Arc<dyn Questions> {
    Arc::new(NodeQuestions(Arc::downgrade(node)))
}

impl NodeQuestions {
    fn node(&self) -> Result<Arc<Operations>, QuestionRefusal> {
        let stopped = || QuestionRefusal { status: 503, message: "the node is being stopped: try again".to_owned() };
        self.0.upgrade().ok_or_else(stopped)
    }
}

impl Questions for NodeQuestions {
    fn show(&self, user: &str, ask: &str) -> Result<Value, QuestionRefusal> {
        let node = self.node()?;
        value(althing_control::person_question(&node, user, ask))
    }

    fn answer(&self, user: String, ask: String, answer: Bytes) -> BoxFuture<'static, Result<Value, QuestionRefusal>> {
        let node = self.node();
        Box::pin(async move { value(althing_control::person_answer(node?, &user, &ask, &answer).await) })
    }
}

/// A reply of the control API, as a face shows it.
fn value<T: Serialize>(replied: Result<T, ApiError>) -> Result<Value, QuestionRefusal> {
    let reply = replied.map_err(|error| {
        let Problem { kind, message, .. } = error.into();
        QuestionRefusal { status: kind.status(), message }
    })?;
    serde_json::to_value(reply).map_err(|error| {
        tracing::error!(%error, "a reply cannot be written");
        QuestionRefusal { status: 500, message: "the node cannot write its answer: its log says why".to_owned() }
    })
}
