//! Task sets from papers and other programs, with the response times or verdicts that these give: the numbers stand in
//! `published.json`, each set with its source.

use serde_json::Value;

use crate::admission::edf::Edf;
use crate::admission::rm;
use crate::admission::task::{Preemption, Reason, RtTask};

fn vectors() -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_str(include_str!("published.json")).expect("JSON");
    for set in &all {
        assert!(set["source"].as_str().is_some_and(|source| source.len() > 20), "{}: a set has its source", set["id"]);
    }
    all
}

fn number(of: &Value, name: &str) -> Option<u64> {
    of.get(name).map(|value| value.as_u64().expect("a whole number"))
}

fn tasks(vector: &Value) -> Vec<RtTask> {
    let sections = vector["maxnp"].as_array();
    let task = |(at, row): (usize, &Value)| {
        let period_ns = number(row, "T").expect("a period");
        RtTask {
            wcet_ns: number(row, "C").expect("an execution time"),
            period_ns,
            // Where none is given, or the response passes it, the response may be as long as it is.
            deadline_ns: number(row, "D").filter(|_| vector["kind"] != "can").unwrap_or(1_000_000_000),
            jitter_ns: number(row, "J").unwrap_or(0),
            section_ns: sections.map_or(0, |sections| sections[at].as_u64().expect("a whole number")),
            blocking_ns: number(row, "B").unwrap_or(0),
        }
    };
    vector["ts"].as_array().expect("tasks").iter().enumerate().map(task).collect()
}

fn expected(vector: &Value) -> Vec<u64> {
    vector["R"].as_array().expect("responses").iter().map(|r| r.as_u64().expect("a whole number")).collect()
}

#[test]
fn responses_under_fixed_priorities_are_those_of_the_papers() {
    let mut seen = 0;
    for vector in vectors() {
        let preemption = match vector["kind"].as_str().expect("a kind") {
            "fp" | "fpB" | "fp_exJ" => Preemption::Full,
            "np" | "can" => Preemption::None,
            "fnps" => Preemption::Limited,
            _ => continue,
        };
        let tasks = tasks(&vector);
        let found = rm::responses(&tasks, preemption).unwrap_or_else(|reason| panic!("{}: {reason:?}", vector["id"]));
        // The vectors count from the release, which may be late.
        let found: Vec<u64> = found.iter().zip(&tasks).map(|(response, task)| response - task.jitter_ns).collect();
        // Times in that paper are not whole: what began just before is there in full.
        let whole = |place: usize| u64::from(vector["kind"] == "can" && place + 1 < tasks.len());
        let found: Vec<u64> = found.iter().enumerate().map(|(place, response)| response + whole(place)).collect();
        assert_eq!(found, expected(&vector), "{}", vector["id"]);
        seen += 1;
    }
    assert_eq!(seen, 13, "published sets");
}

#[test]
fn verdicts_and_responses_under_edf_are_those_of_the_papers() {
    let mut seen = 0;
    for vector in vectors() {
        let kind = vector["kind"].as_str().expect("a kind");
        if kind != "edf" && kind != "edfrta" {
            continue;
        }
        let mut tasks = tasks(&vector);
        if kind == "edf" {
            let verdict = Edf::new(&tasks, Preemption::Full).and_then(|edf| edf.check());
            assert_eq!(verdict.is_ok(), vector["ok"].as_bool().expect("a verdict"), "{}: {verdict:?}", vector["id"]);
            if let Err(reason) = verdict {
                assert!(matches!(reason, Reason::Demand { excess_ns: 1.., .. }), "{reason:?}");
            }
        } else {
            if vector["id"].as_str().is_some_and(|id| id.starts_with("gy")) {
                tasks.sort_by_key(|task| task.deadline_ns);
            }
            let edf = Edf::new(&tasks, Preemption::Full).expect("tasks");
            let busy = edf.busy_period().expect("a busy period");
            let found: Vec<u64> = (0..tasks.len())
                .map(|place| edf.response(place, busy, &mut usize::MAX.clone()).expect("in time"))
                .collect();
            assert_eq!(found, expected(&vector), "{}", vector["id"]);
        }
        seen += 1;
    }
    assert_eq!(seen, 5, "published sets");
}
