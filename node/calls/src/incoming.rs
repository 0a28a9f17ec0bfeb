//! The incoming path of a call: L2 has verified it; what is decided on it follows, then the agent's turn.

use althing_call::{
    CallMetadata, Operation, OperationError, OperationRequest, Params, Refusal, Reply, Trace, chain, traced,
};
use althing_communication::{Answer, Caller, Inbound, Priority, Request};
use althing_execution::TurnRights;
use althing_protocol::Label;
use althing_session::is_handoff;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tracing::{Instrument as _, Span};

use crate::hosting::Hosting;

/// Serves `/althing/call/1`.
pub struct Incoming(pub Hosting);

impl Inbound for Incoming {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let operation = Operation::parse(&request.operation);
        let span = tracing::info_span!(
            "a2a.server",
            otel.kind = "server",
            // Not what a peer wrote, which may be anything.
            rpc.method = operation.as_ref().map_or("_OTHER", |operation| operation.name()),
            agent = request.agent.as_ref().map(tracing::field::display),
            caller = %caller.node,
            althing.binding.hash = tracing::field::Empty,
            "error.type" = tracing::field::Empty,
            otel.status_description = tracing::field::Empty,
        );
        if let Some(hash) = request.agent.as_ref().and_then(|agent| self.0.binding_hash(agent)) {
            span.record("althing.binding.hash", &*hash);
        }
        let trace = Trace { traceparent: request.traceparent.clone(), tracestate: request.tracestate.clone() };
        trace.continue_in(&span);
        walk(self.0.clone(), caller, operation, request, span.clone()).instrument(span).boxed()
    }

    fn priority(&self, request: &Request) -> Priority {
        let priority = request.agent.as_ref().map_or(Priority::default(), |agent| self.0.priority(agent));
        // Operations that only read tasks are interactive: somebody waits for them.
        let is_message = Operation::parse(&request.operation).is_ok_and(Operation::is_message);
        if is_message { priority } else { priority.max(Priority::Interactive) }
    }
}

async fn walk(
    hosting: Hosting,
    caller: Caller,
    operation: Result<Operation, OperationError>,
    request: Request,
    span: Span,
) -> Answer {
    let is_message = operation.as_ref().is_ok_and(|operation| operation.is_message());
    let handled = async {
        let operation = operation?;
        let agent = request.agent.ok_or_else(|| OperationError::invalid_request("the call names no agent"))?;
        let principals = chain::received(&request.principals, &caller);
        let asked = OperationRequest::parse(operation, request.body)?;
        let mut attributes = request.attributes;
        if attributes.label.is_none() && !is_labelled(&asked.params) {
            attributes.label = Some(Label::UNLABELLED);
        }
        let metadata = CallMetadata {
            extensions: request.extensions,
            activated: request.activated,
            attributes,
            answer: request.answer,
            principals,
            holder: request.holder,
            rights: TurnRights::default(),
        };
        let handling = hosting.handle(&caller, &agent, asked, &metadata);
        // The deadline passed: nobody waits for the answer. The turn goes on until it ends or `CancelTask` ends it.
        match request.deadline {
            Some(deadline) => {
                let late = |_| OperationError::deadline(format!("no answer within {deadline:?}"));
                tokio::time::timeout(deadline, handling).await.map_err(late)?
            }
            None => handling.await,
        }
    };
    match traced::ended(&span, handled.await, is_message) {
        Ok(Reply::One(body)) => Answer::Response(body),
        Ok(Reply::Events(events)) => {
            Answer::Events(events.map(|event| event.map_err(|error| body(&broken_off(error)))).boxed())
        }
        Err(error) => {
            tracing::debug!(code = error.code(), reason = error.reason(), "operation refused");
            Answer::Error(body(&error))
        }
    }
}

/// Whether the parameters themselves say what may be done with their data: a handoff does.
fn is_labelled(params: &Params) -> bool {
    matches!(params, Params::Send(request) if is_handoff(&request.message))
}

/// Why events end, as another node is told it: of a turn that goes on when this node is up again, as where this node is lost, so that
/// the other one attaches to the task then.
fn broken_off(error: OperationError) -> OperationError {
    if error.refusal == Refusal::TurnLeft { OperationError::agent_unreachable(error.message) } else { error }
}

fn body(error: &OperationError) -> Vec<u8> {
    error.to_json().to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_attaches_again_to_a_task_that_goes_on_when_this_node_is_back_and_to_no_other() {
        let busy = OperationError::busy("its node is being stopped");
        let left = OperationError { refusal: Refusal::TurnLeft, ..busy.clone() };
        assert_eq!(broken_off(left), OperationError::agent_unreachable(busy.message.clone()));
        assert_eq!(broken_off(busy.clone()), busy, "words say nothing");
    }
}
