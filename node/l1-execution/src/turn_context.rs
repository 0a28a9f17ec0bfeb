//! What the calls and the trace of a turn know of it, when it begins.

use std::sync::Arc;

use althing_protocol::contract::Observability;
use althing_protocol::{Contract, Label};
use tracing::Span;

use crate::agent::Turn;
use crate::bindable::Binding;
use crate::context::{CallContext, TurnAttributes};
use crate::journal::TurnRights;

/// The context of a turn that has these rights, of an agent with that contract that was bound so.
pub(crate) fn call_context(
    binding_hash: &Arc<str>,
    contract: &Contract,
    turn: &Turn,
    rights: TurnRights,
) -> CallContext {
    CallContext {
        binding_hash: binding_hash.clone(),
        task: turn.task_id.as_str().into(),
        trace: turn.parameters.traceparent.as_deref().map(Arc::from),
        label: contract.data_label,
        attributes: TurnAttributes::of(&turn.parameters.attributes, &turn.parameters.answer)
            .with_own(Label::of_trusted(contract.data_label)),
        principals: turn.parameters.principals.clone().into(),
        observability: contract.observability,
        rights,
        notes: turn.parameters.notes.clone(),
        hidden: Arc::default(),
        run: turn.parameters.run.clone(),
        is_check: false,
    }
}

/// The span of a turn of the agent of that name; none where its contract disables traces.
pub(crate) fn turn_span(observability: Observability, agent: &str, binding: &Binding) -> Span {
    // The names are those of OpenTelemetry's conventions for GenAI.
    match observability {
        Observability::None => Span::none(),
        Observability::Calls | Observability::Content => tracing::info_span!(
            "invoke_agent",
            otel.kind = "internal",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = agent,
            gen_ai.input.messages = tracing::field::Empty,
            althing.binding.hash = &*binding.hash,
            althing.binding.candidates = binding.candidates.as_deref(),
            althing.route.candidates = tracing::field::Empty,
        ),
    }
}
