//! `althing verdict`

use althing_api::{AnswerRefusal, VerdictReport};

use crate::commands::agent::escape;
use crate::commands::{Out, date_time};
use crate::exit::Failure;
use crate::paths::Paths;

/// Shows what gates refused of a task's answers.
pub async fn run(at: &Paths, task: &str, out: &Out) -> Result<(), Failure> {
    let report: VerdictReport = at.connect().await?.read(&format!("/tasks/{}/verdict", escape(task))).await?;
    out.show(&report, shown);
    Ok(())
}

fn shown(report: &VerdictReport) -> String {
    let VerdictReport { task, state, refusals } = report;
    if refusals.is_empty() {
        return format!("no gate refused an answer of task {task} ({state})");
    }
    let refusals: Vec<String> = refusals.iter().map(refusal).collect();
    format!("task {task} ({state})\n\n{}", refusals.join("\n\n"))
}

fn refusal(one: &AnswerRefusal) -> String {
    let place = if one.place.is_empty() { "the whole answer" } else { &one.place };
    let rule = if one.rule.is_empty() { String::new() } else { format!(" ({} of its schema)", one.rule) };
    let mut lines = vec![
        format!("answer {} to message {}, {}", one.attempt, one.message, date_time(one.ended_ms)),
        format!("gate    {}", one.gate),
        format!("place   {place}"),
        format!("reason  {}{rule}", one.reason),
    ];
    lines.extend(one.answer.lines().map(|line| format!("  | {line}")));
    if u64::try_from(one.answer.len()).is_ok_and(|shown| shown < one.bytes) {
        lines.push(format!("  … {} bytes in all, of which the first {} are kept", one.bytes, one.answer.len()));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> AnswerRefusal {
        AnswerRefusal {
            message: "m-1".to_owned(),
            attempt: 2,
            ended_ms: 3_661_000,
            gate: "schema".to_owned(),
            place: "/total".to_owned(),
            rule: "/properties/total/type".to_owned(),
            reason: "it breaks `type`".to_owned(),
            answer: "{\n}".to_owned(),
            bytes: 3,
        }
    }

    #[test]
    fn a_refusal_is_shown_with_its_answer() {
        let report =
            VerdictReport { task: "t-1".to_owned(), state: "TASK_STATE_FAILED".to_owned(), refusals: vec![refused()] };
        let told = shown(&report);
        for words in ["t-1 (TASK_STATE_FAILED)", "answer 2 to message m-1, 1970-01-01T01:01:01Z", "schema", "/total"] {
            assert!(told.contains(words), "{words} in {told}");
        }
        assert!(told.ends_with("  | {\n  | }"), "{told}");
        let none = VerdictReport { refusals: Vec::new(), ..report };
        assert_eq!(shown(&none), "no gate refused an answer of task t-1 (TASK_STATE_FAILED)");
    }

    #[test]
    fn of_a_long_answer_it_is_said_how_long_it_was() {
        let whole = AnswerRefusal { place: String::new(), rule: String::new(), bytes: 70_000, ..refused() };
        let told = refusal(&whole);
        assert!(
            told.contains("the whole answer") && told.ends_with("70000 bytes in all, of which the first 3 are kept")
        );
        assert!(!told.contains("of its schema"), "{told}");
    }
}
