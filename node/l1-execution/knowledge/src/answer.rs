//! Streams passages as an artifact: each passage with its citation, then all citations as data.

use althing_execution::agent::Made;
use althing_execution::{AgentError, Output};
use serde_json::json;

use crate::index::Passage;

/// The id of the one artifact of an answer.
const ANSWER: &str = "answer";

/// Streams the answer, one chunk for each passage.
pub(crate) async fn write(passages: &[Passage], left_out: Option<&str>, out: &Output) -> Result<(), AgentError> {
    if passages.is_empty() {
        let left_out = left_out.map_or_else(String::new, |left_out| format!(" Files {left_out}."));
        return out.text(ANSWER, format!("Nothing in these files answers that.{left_out}")).await;
    }
    for (passage, number) in passages.iter().zip(1..) {
        let quoted: Vec<String> = passage.text.lines().map(|line| format!("> {line}\n")).collect();
        let text = format!("[{number}] {}:{}\n{}\n", passage.file, passage.line, quoted.concat());
        out.chunk(ANSWER, text, number > 1, false).await?;
    }
    let citations = passages.iter().map(|passage| {
        json!({
            "file": passage.file,
            "line": passage.line,
            "lastLine": passage.last_line,
            "score": passage.score,
        })
    });
    let citations = json!({ "citations": citations.collect::<Vec<_>>() });
    let artifact = a2a::Artifact {
        artifact_id: ANSWER.to_owned(),
        name: None,
        description: None,
        parts: vec![a2a::Part::data(citations)],
        metadata: None,
        extensions: None,
    };
    out.put(Made::Artifact { artifact, append: true, last: true }).await
}
