//! `althing verdict`

use althing_api::{AnswerRefusal, JudgeAgreement, VerdictReport};
use althing_verification::machine::evidence::Interval;
use althing_verification::machine::report::Agreement;

use crate::commands::agent::escape;
use crate::commands::{Out, date_time, one_line};
use crate::exit::Failure;
use crate::paths::Paths;

/// Shows what gates refused of a task's answers.
pub async fn run(at: &Paths, task: &str, out: &Out) -> Result<(), Failure> {
    let report: VerdictReport = at.connect().await?.read(&format!("/tasks/{}/verdict", escape(task))).await?;
    out.show(&report, shown);
    Ok(())
}

fn shown(report: &VerdictReport) -> String {
    let VerdictReport { task, state, refusals, judges } = report;
    if refusals.is_empty() {
        return format!("no gate refused an answer of task {task} ({state})");
    }
    let refusals: Vec<String> = refusals.iter().map(|one| refusal(one, judges)).collect();
    format!("task {task} ({state})\n\n{}", refusals.join("\n\n"))
}

/// How far the word of a gate goes; nothing of one that is a rule or a tool.
fn agreement(gate: &str, judges: &[JudgeAgreement]) -> String {
    match judges.iter().find(|known| known.judge == gate).cloned() {
        Some(JudgeAgreement { judge, agreed, asked, interval }) => {
            let interval = interval.map(|(low, high)| Interval { low, high });
            format!(" ({})", Agreement { judge, agreed, asked, interval }.words())
        }
        None if gate.starts_with("agents/") => " (its agreement is not measured)".to_owned(),
        None => String::new(),
    }
}

fn refusal(one: &AnswerRefusal, judges: &[JudgeAgreement]) -> String {
    let place = if one.place.is_empty() { "the whole answer" } else { &one.place };
    let rule = if one.rule.is_empty() { String::new() } else { format!(" ({} of its schema)", one.rule) };
    let mut lines = vec![
        format!("answer {} to message {}, {}", one.attempt, one.message, date_time(one.ended_ms)),
        format!("gate    {}{}", one.gate, agreement(&one.gate, judges)),
        format!("place   {place}"),
        format!("reason  {}{rule}", one.reason),
    ];
    // An agent, or a judge that is one, wrote what each of them says.
    lines.iter_mut().for_each(|line| *line = one_line(line));
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
        let (task, state) = ("t-1".to_owned(), "TASK_STATE_FAILED".to_owned());
        let report = VerdictReport { task, state, refusals: vec![refused()], judges: Vec::new() };
        let told = shown(&report);
        for words in ["t-1 (TASK_STATE_FAILED)", "answer 2 to message m-1, 1970-01-01T01:01:01Z", "schema", "/total"] {
            assert!(told.contains(words), "{words} in {told}");
        }
        assert!(told.ends_with("  | {\n  | }"), "{told}");
        let none = VerdictReport { refusals: Vec::new(), ..report };
        assert_eq!(shown(&none), "no gate refused an answer of task t-1 (TASK_STATE_FAILED)");
    }

    #[test]
    fn the_word_of_a_judge_stands_beside_how_far_it_agrees_with_labelled_cases() {
        let judged = AnswerRefusal { gate: "agents/judge".to_owned(), ..refused() };
        let (judge, interval) = (judged.gate.clone(), Some((0.621, 0.968)));
        let known = JudgeAgreement { judge, agreed: 17, asked: 20, interval };
        let told = refusal(&judged, std::slice::from_ref(&known));
        let line = "gate    agents/judge (agreed in 17 of 20 labelled runs, 0.850 (0.621 to 0.968))\n";
        assert!(told.contains(line), "{told}");
        assert!(refusal(&judged, &[]).contains("gate    agents/judge (its agreement is not measured)\n"));
        assert!(refusal(&refused(), &[known]).contains("gate    schema\n"), "a rule is no matter of agreement");
    }

    #[test]
    fn no_reason_looks_like_another_line() {
        let told = refusal(&AnswerRefusal { reason: "no\ngate    schema\u{202e}".to_owned(), ..refused() }, &[]);
        assert!(told.contains("reason  no\\u{a}gate    schema\\u{202e} (/properties"), "{told}");
        assert_eq!(told.lines().filter(|line| line.starts_with("gate")).count(), 1, "{told}");
    }

    #[test]
    fn of_a_long_answer_it_is_said_how_long_it_was() {
        let whole = AnswerRefusal { place: String::new(), rule: String::new(), bytes: 70_000, ..refused() };
        let told = refusal(&whole, &[]);
        assert!(
            told.contains("the whole answer") && told.ends_with("70000 bytes in all, of which the first 3 are kept")
        );
        assert!(!told.contains("of its schema"), "{told}");
    }
}
