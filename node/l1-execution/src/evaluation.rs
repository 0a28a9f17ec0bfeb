//! Verdicts as events of the spans in which they are made, by the names of OpenTelemetry's conventions for GenAI.

use althing_protocol::contract::Observability;

/// The target of verdicts among what is traced: whatever exports spans takes them as events of these.
pub const EVALUATIONS: &str = "althing_execution::evaluation";

/// Tells whether a gate let something pass, and why it did or did not, as far as the contract lets traces record it.
pub fn tell(observability: Observability, gate: &str, is_passed: bool, why: Option<&str>) {
    if observability == Observability::None {
        return;
    }
    let label = if is_passed { "pass" } else { "fail" };
    // At the level of the turn's spans.
    tracing::event!(
        name: "gen_ai.evaluation.result",
        target: EVALUATIONS,
        tracing::Level::INFO,
        gen_ai.evaluation.name = gate,
        gen_ai.evaluation.score.label = label,
        gen_ai.evaluation.explanation = why,
    );
}
