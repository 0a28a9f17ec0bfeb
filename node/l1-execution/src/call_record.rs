//! The record of one call of a tool, and the span of the same.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tracing::Span;

use crate::context;
use crate::run_notes::CallFacts;
use crate::tool_error::ToolError;

/// What stands for the name of a tool that is none: whoever calls it chose that name, and could say anything with it.
pub(crate) const UNKNOWN: &str = "unknown";

/// The record of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// `server/tool`; `unknown` once the call is over where there is no tool of that name.
    pub tool: String,
    /// Hash of its definition.
    pub definition: String,
    /// Hash of its arguments.
    pub arguments: String,
    /// Hash of its result, when there was one.
    pub result: Option<String>,
    /// Whether the result is not what the tool's definition says of it (`outputSchema`).
    #[serde(skip_serializing_if = "is_false")]
    pub breaks_schema: bool,
    /// How long it took.
    pub took_us: u64,
    /// `done`, `error` (of the tool), `denied`, `changed` (not the tool that was bound), `superseded` (the turn's group task
    /// was given to another member) or `failed`.
    pub outcome: &'static str,
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

impl CallRecord {
    /// Of a call that begins.
    pub(crate) fn of(tool: String, definition: Option<String>) -> CallRecord {
        CallRecord {
            tool,
            definition: definition.unwrap_or_default(),
            arguments: String::new(),
            result: None,
            breaks_schema: false,
            took_us: 0,
            outcome: "failed",
        }
    }

    /// The span of a call that begins.
    pub(crate) fn span(&self, agent: &str) -> Span {
        // The names are those of OpenTelemetry's conventions for GenAI.
        context::span(|| {
            tracing::info_span!(
                "execute_tool",
                otel.kind = "client",
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = self.tool,
                gen_ai.agent.name = agent,
                gen_ai.tool.call.arguments = tracing::field::Empty,
                gen_ai.tool.call.result = tracing::field::Empty,
                althing.tool.definition = self.definition,
                althing.binding.hash = &*context::binding_hash(),
                "error.type" = tracing::field::Empty,
                otel.status_description = tracing::field::Empty,
            )
        })
    }

    /// Keeps its name, once it is over, where that is one of a tool: it `is_there`, or it gave a result, also
    /// where its journal answered before a server was asked.
    pub(crate) fn keep_name(&mut self, is_there: bool) {
        if !is_there && self.result.is_none() {
            UNKNOWN.clone_into(&mut self.tool);
        }
    }

    /// What is noted of it, for the record of its turn: with the agent and the task, where another agent was called.
    pub(crate) fn facts(&self, callee: Option<(String, String)>) -> CallFacts {
        CallFacts {
            tool: self.tool.clone(),
            definition: self.definition.clone(),
            arguments: self.arguments.clone(),
            result: self.result.clone(),
            outcome: self.outcome,
            breaks_schema: self.breaks_schema,
            callee,
            is_check: context::is_check(),
        }
    }

    /// Notes how the call ended, here and in its span.
    pub(crate) fn end(&mut self, agent: &str, span: &Span, (outcome, took): (&Result<Value, ToolError>, Duration)) {
        context::record(span, "gen_ai.tool.call.result", || match outcome {
            Ok(result) => result.to_string(),
            Err(error) => error.to_string(),
        });
        self.took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.outcome = match outcome {
            Ok(result) if result["isError"] == true => "error",
            Ok(_) => "done",
            Err(ToolError::Denied(_)) => "denied",
            Err(ToolError::Superseded(_)) => "superseded",
            Err(ToolError::Unfit { .. }) => "changed",
            Err(_) => "failed",
        };
        if outcome.is_err() || self.outcome == "error" {
            span.record("error.type", self.outcome);
            // This sets the status to an error too.
            span.record("otel.status_description", self.outcome);
        }
        tracing::info!(
            agent,
            tool = self.tool,
            outcome = self.outcome,
            took_us = self.took_us,
            label = context::written_label(),
            "system call"
        );
    }
}
