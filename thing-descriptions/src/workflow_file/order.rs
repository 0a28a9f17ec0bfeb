//! Brings the steps of a file into an order in which each comes after those that it waits for, and checks the workflow.

use althing_protocol::contract::did_you_mean;
use althing_protocol::group::{Step, Workflow, WorkflowError};

use crate::reader::yaml::At;
use crate::reader::{self, FileProblem};

/// The workflow of a file, whose steps are as they stand there.
pub(super) fn order(file: Workflow, root: &At) -> Result<Workflow, Vec<FileProblem>> {
    let ids: Vec<&str> = file.steps.iter().map(|step| step.id.as_str()).collect();
    let problems: Vec<FileProblem> =
        file.steps.iter().enumerate().flat_map(|(place, step)| names(place, step, &ids, root)).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    let places = |step: &Step| step.after.iter().filter_map(|id| file.place(id)).collect();
    let waits: Vec<Vec<usize>> = file.steps.iter().map(places).collect();
    let ordered = reader::order(&waits).map_err(|circle| {
        let path: Vec<&str> = circle.iter().map(|place| ids[*place]).collect();
        let message = format!("these steps wait for each other: {}", path.join(" → "));
        let fix = "Take one of them out of `after`; a loop is written with `repeat`";
        vec![problem(root, format!("steps[{}].after", circle[0]), "circle", message, fix.to_owned())]
    })?;
    let steps = ordered.iter().map(|place| file.steps[*place].clone()).collect();
    let workflow = Workflow { name: file.name.clone(), steps };
    workflow.check().map_err(|error| vec![refused(&error, &file, root)])?;
    Ok(workflow)
}

fn problem(root: &At, field: String, rule: &'static str, message: String, fix: String) -> FileProblem {
    FileProblem { line: root.line_of(&field), field, rule, message, fix }
}

/// An id that an earlier step has, and ids of others that no step has.
fn names(place: usize, step: &Step, ids: &[&str], root: &At) -> Vec<FileProblem> {
    let at = |key: &str| format!("steps[{place}].{key}");
    let mut problems = Vec::new();
    if ids[..place].contains(&step.id.as_str()) {
        let message = format!("{:?} is the id of an earlier step", step.id);
        problems.push(problem(root, at("id"), "id-twice", message, "Give each step an id of its own".to_owned()));
    }
    let when = step.when.iter().map(|when| ("when.step", when.step.as_str()));
    let repeat = step.repeat.iter().map(|repeat| ("repeat.from", repeat.from.as_str()));
    let each = step.for_each().map(|source| ("for_each", source));
    // The reader added these to `after`.
    let special: Vec<(&str, &str)> = when.chain(repeat).chain(each).collect();
    let plain = step.after.iter().map(|id| ("after", id.as_str()));
    let plain = plain.filter(|(_, id)| !special.iter().any(|(_, other)| other == id));
    for (key, id) in special.iter().copied().chain(plain).filter(|(_, id)| !ids.contains(id)) {
        let id: String = id.chars().take(64).collect();
        problems.push(problem(
            root,
            at(key),
            "unknown-step",
            format!("there is no step {id:?}"),
            did_you_mean(&id, ids),
        ));
    }
    problems
}

/// What the protocol refuses, as a problem of the file.
fn refused(error: &WorkflowError, file: &Workflow, root: &At) -> FileProblem {
    let place = error.step.as_deref().and_then(|step| file.place(step));
    let field = place.map_or_else(|| error.field.to_owned(), |place| format!("steps[{place}].{}", error.field));
    let (message, fix) = error.why.rsplit_once("; ").unwrap_or_else(|| (&error.why, remedy(error.field)));
    let mut letters = fix.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    problem(root, field, "not-valid", message.to_owned(), first.chain(letters).collect())
}

/// What to do where the protocol only says what it allows.
fn remedy(field: &str) -> &'static str {
    match field {
        "steps" => "Shorten them, or hand over texts as the input of a run",
        "after" => "Let some of them come after each other, or join them in a step between",
        _ => "Write it so",
    }
}
