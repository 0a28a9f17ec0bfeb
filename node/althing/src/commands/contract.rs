//! `althing contract admit`: the admission test on files of task sets, offline, so that anyone can check it.

use std::path::PathBuf;

use althing_client::agent_file;
use althing_execution::admission::{Config, Hint, Partition, Reason, RtTask, partition};
use serde_json::{Value, json};

use crate::args::{Admit, Contract};
use crate::commands::task_sets::{self, Set};
use crate::commands::{Out, rows, table, text};
use crate::exit::{Failure, code};

/// Runs `althing contract`.
pub fn run(contract: &Contract, out: &Out) -> Result<(), Failure> {
    match contract {
        Contract::Admit(admit) => run_admit(admit, out),
        Contract::Lint { files } => lint(files, out),
    }
}

/// Checks contracts, alone or in agent files.
fn lint(files: &[PathBuf], out: &Out) -> Result<(), Failure> {
    let mut told = Vec::new();
    let mut wrong = Vec::new();
    for file in files {
        match agent_file::read_any_contract(file) {
            Ok(contract) => {
                let digest = althing_protocol::hex(&contract.digest());
                told.push(json!({ "file": file, "class": contract.class.name(), "digest": digest }));
            }
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if !told.is_empty() {
        out.show(&json!({ "contracts": told }), |told| {
            let line = |contract: &Value| {
                format!("{}: {} {}\n", text(contract, "file"), text(contract, "class"), text(contract, "digest"))
            };
            rows(told, "contracts").iter().map(line).collect()
        });
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::usage(wrong.join("\n"))) }
}

fn run_admit(admit: &Admit, out: &Out) -> Result<(), Failure> {
    let cap_ppm = (admit.cap * 1e6).round() as u64;
    let config = Config { policy: admit.policy.into(), preemption: admit.preemption.into(), cap_ppm, platform_ns: 0 };
    let mut sets = Vec::new();
    for file in &admit.files {
        sets.extend(task_sets::read(file)?);
    }
    let mut refused = false;
    let mut told = Vec::with_capacity(sets.len());
    for (number, set) in sets.iter().enumerate() {
        let id = set.id.clone().unwrap_or_else(|| format!("set {}", number + 1));
        let placed = place(set, &id, admit, &config)?;
        refused |= placed.verdicts.iter().any(Result::is_err);
        told.push(tell(&id, set, &placed));
    }
    out.show(&json!({ "sets": told }), people);
    if refused { Err(Failure::shown(code::REFUSED)) } else { Ok(()) }
}

fn place(set: &Set, id: &str, admit: &Admit, config: &Config) -> Result<Partition, Failure> {
    let tasks = set.tasks.iter().enumerate().map(|(at, row)| {
        let task = RtTask {
            wcet_ns: row.c,
            period_ns: row.t,
            deadline_ns: row.d.unwrap_or(row.t),
            jitter_ns: row.j,
            section_ns: row.q,
            blocking_ns: row.b,
        };
        task.check().map_err(|error| Failure::usage(format!("task {} of {id}: {error}", at + 1)))?;
        Ok(task)
    });
    let tasks: Vec<RtTask> = tasks.collect::<Result<_, Failure>>()?;
    Ok(partition(&tasks, admit.cores, config))
}

fn tell(id: &str, set: &Set, placed: &Partition) -> Value {
    let verdicts = placed.verdicts.iter().zip(&set.tasks).map(|(verdict, row)| {
        let mut told = match verdict {
            Ok(admitted) => json!({ "admitted": true, "core": admitted.core, "response": admitted.response_bound_ns,
                "test": admitted.test }),
            Err(rejected) => {
                let mut told = json!({ "admitted": false, "core": rejected.core, "why": why(&rejected.reason),
                    "reason": rejected.reason });
                if let Some(hint) = rejected.hint {
                    let (name, value) = match hint {
                        Hint::MaxWcetNs(most) => ("C", most),
                        Hint::MinPeriodNs(least) => ("T", least),
                    };
                    told["hint"] = json!({ name: value });
                }
                told
            }
        };
        (told["C"], told["T"], told["D"]) = (json!(row.c), json!(row.t), json!(row.d.unwrap_or(row.t)));
        told
    });
    let admitted = placed.verdicts.iter().all(Result::is_ok);
    json!({ "id": id, "admitted": admitted, "tasks": verdicts.collect::<Vec<_>>() })
}

/// The proof as a sentence.
fn why(reason: &Reason) -> String {
    match reason {
        Reason::Utilisation { wanted_ppm, cap_ppm } => {
            let share = |ppm: &u64| *ppm as f64 / 1e6;
            format!("{:.3} of the core is wanted, {:.3} may be given", share(wanted_ppm), share(cap_ppm))
        }
        Reason::Demand { at_ns, excess_ns } => {
            format!("within {at_ns} after a critical instant {} must be done: {excess_ns} too much", at_ns + excess_ns)
        }
        Reason::Response { task, deadline_ns, excess_ns } => {
            format!("task {} may take {}, its deadline is {deadline_ns}", task + 1, deadline_ns + excess_ns)
        }
        Reason::Jitter { bound_ns, wanted_ns, .. } => {
            format!("its response may vary by {bound_ns}, it bears {wanted_ns}")
        }
        Reason::TooComplex => "the proof would take too long, and nothing is promised without one".to_owned(),
        Reason::NoCore => "there is no core".to_owned(),
    }
}

fn people(told: &Value) -> String {
    let mut shown = String::new();
    for set in rows(told, "sets") {
        let verdict = if set["admitted"] == true { "admitted" } else { "refused" };
        shown.push_str(&format!("{}: {verdict}\n", text(set, "id")));
        let cells = |(at, task): (usize, &Value)| {
            let of = |name: &str| text(task, name);
            let mut row = vec![(at + 1).to_string(), of("C"), of("T"), of("D"), of("core"), of("response")];
            row.push(if task["admitted"] == true { of("test") } else { hinted(task) });
            row
        };
        let cells: Vec<Vec<String>> = rows(set, "tasks").iter().enumerate().map(cells).collect();
        shown.push_str(&table(&["task", "C", "T", "D", "core", "response", "proof"], &cells));
        shown.push('\n');
    }
    shown
}

fn hinted(task: &Value) -> String {
    let hint = task["hint"].as_object().and_then(|hint| hint.iter().next());
    let hint = hint.map(|(name, value)| format!("; admitted with {name} = {value}"));
    format!("refused: {}{}", text(task, "why"), hint.unwrap_or_default())
}
