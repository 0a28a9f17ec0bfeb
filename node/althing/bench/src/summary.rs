//! What became of the jobs of a class, in one shape for all classes: completion, deadlines, onset and jitter, what the contract
//! forbids, and cost.

use althing_client::table;
use althing_execution::realtime::Lateness;
use serde_json::{Value, json};

use crate::error::BenchError;
use crate::figures::times;
use crate::nothing::{contract, tools};

/// Calls that a contract permits, and as many that it forbids.
const CALLS: u64 = 100;

/// What became of the jobs of one class.
pub struct Summary {
    /// `hrt`, `srt` or `dt`.
    pub class: &'static str,
    /// Jobs, answers or units of work that were begun.
    pub jobs: u64,
    /// Those that came to their end.
    pub completed: u64,
    /// Those that were later than their contract says; none where it says nothing.
    pub missed: Option<u64>,
    /// From when a job could begin until it did, or until the first word of its answer, nanoseconds each; empty where there is no
    /// such time.
    pub onset_ns: Vec<u64>,
    /// Whether what the contract forbids was stopped.
    pub adherence: Adherence,
    /// Processor time of a job, microseconds, where it is measured.
    pub processor_us: Option<f64>,
    /// Tokens of a job, where a model answers.
    pub tokens: Option<f64>,
}

/// How often a contract decided, and how often that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adherence {
    pub decided: u64,
    pub kept: u64,
}

impl Summary {
    /// For the report.
    pub fn report(self) -> Value {
        let all = Lateness::of(self.onset_ns.clone());
        let us = |permille| all.quantile(permille) as f64 / 1e3;
        let has_onset = !self.onset_ns.is_empty();
        json!({
            "class": self.class,
            "jobs": self.jobs,
            "completed": self.completed,
            "missed": self.missed,
            "onsetUs": has_onset.then(|| times(self.onset_ns)),
            "jitterUs": has_onset.then(|| us(990) - us(500)),
            "policy": { "decided": self.adherence.decided, "kept": self.adherence.kept },
            "cost": { "processorUs": self.processor_us, "tokens": self.tokens },
        })
    }
}

/// The reports of all classes as one file, with all goals of them.
pub fn together(reports: Vec<(&'static str, Value)>) -> Value {
    let (mut classes, mut goals, mut parts) = (Vec::new(), Vec::new(), serde_json::Map::new());
    let (mut machine, mut rows) = (Value::Null, Value::Null);
    for (class, mut report) in reports {
        for goal in report["goals"].as_array_mut().into_iter().flatten() {
            let name = format!("{class}: {}", goal["name"].as_str().unwrap_or_default());
            goal["name"] = name.into();
            goals.push(goal.take());
        }
        classes.extend(report["classes"].as_array_mut().into_iter().flatten().map(Value::take));
        if machine.is_null() {
            machine = report["machine"].clone();
        }
        if rows.is_null() {
            rows = report["rows"].clone();
        }
        if let Some(members) = report.as_object_mut() {
            ["goals", "classes", "machine", "rows"].iter().for_each(|name| drop(members.remove(*name)));
        }
        parts.insert(class.to_owned(), report);
    }
    json!({
        "benchmark": "althing-classes/1",
        "machine": machine,
        "classes": classes,
        "rows": rows,
        "reports": parts,
        "goals": goals,
    })
}

/// The classes of a report for people.
pub fn table_of(report: &Value) -> String {
    let number = |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), |number| format!("{number:.1}"));
    let count = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), |count| count.to_string());
    let row = |class: &Value| {
        vec![
            class["class"].as_str().unwrap_or_default().to_owned(),
            count(&class["jobs"]),
            count(&class["completed"]),
            count(&class["missed"]),
            number(&class["onsetUs"]["p50"]),
            number(&class["jitterUs"]),
            format!("{} of {}", count(&class["policy"]["kept"]), count(&class["policy"]["decided"])),
            number(&class["cost"]["processorUs"]),
            number(&class["cost"]["tokens"]),
        ]
    };
    let rows: Vec<Vec<String>> = report["classes"].as_array().into_iter().flatten().map(row).collect();
    let head = ["class", "jobs", "completed", "late", "onset p50 us", "jitter us", "contract kept", "cpu us", "tokens"];
    table(&head, &rows)
}

/// Makes calls that a contract permits, and calls that it forbids: the first must be answered, the others denied. By what it
/// decides that is the same in each class.
pub async fn adherence() -> Result<Adherence, BenchError> {
    let contract = contract(&json!({ "capabilities": ["permitted/*"] }))?;
    let tools = tools(&contract, &["permitted", "forbidden"]).await?;
    let mut kept = 0;
    for _ in 0..CALLS {
        let (permitted, _) = tools.invoke("permitted/nothing", "{}").await;
        let (forbidden, _) = tools.invoke("forbidden/nothing", "{}").await;
        kept += u64::from(permitted.is_ok()) + u64::from(forbidden.is_err());
    }
    Ok(Adherence { decided: 2 * CALLS, kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(class: &'static str, onset_ns: Vec<u64>) -> Summary {
        let adherence = Adherence { decided: 200, kept: 199 };
        let (processor_us, tokens) = (Some(500.0), None);
        Summary { class, jobs: 10, completed: 9, missed: Some(1), onset_ns, adherence, processor_us, tokens }
    }

    #[test]
    fn all_classes_have_the_same_members_and_nothing_stands_for_what_is_not_measured() {
        let with = summary("hrt", vec![1_000, 2_000, 5_000]).report();
        let without = Summary { missed: None, ..summary("dt", Vec::new()) }.report();
        let members = |report: &Value| report.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
        assert_eq!(members(&with), members(&without));
        assert_eq!(with["jitterUs"], 3.0, "of the middle and the last one: {with}");
        assert!(without["jitterUs"].is_null() && without["onsetUs"].is_null() && without["missed"].is_null());
        let shown = table_of(&json!({ "classes": [with, without] }));
        assert!(shown.contains("199 of 200") && shown.contains('-'), "{shown}");
    }

    #[test]
    fn one_file_has_all_classes_and_all_goals() {
        let report = |class| {
            json!({ "benchmark": class, "machine": class, "classes": [summary(class, vec![1]).report()],
                "goals": [{ "name": "soon", "measured": 1.0, "holds": class != "srt" }] })
        };
        let all = together(vec![("hrt", report("hrt")), ("srt", report("srt"))]);
        assert_eq!([&all["goals"][0]["name"], &all["goals"][1]["name"]], ["hrt: soon", "srt: soon"]);
        assert_eq!((&all["classes"][1]["class"], &all["machine"]), (&json!("srt"), &json!("hrt")));
        assert_eq!(all["reports"]["srt"], json!({ "benchmark": "srt" }), "nothing is there twice");
    }

    #[tokio::test]
    async fn what_a_contract_forbids_is_denied() {
        assert_eq!(adherence().await.expect("it is measured"), Adherence { decided: 200, kept: 200 });
    }
}
