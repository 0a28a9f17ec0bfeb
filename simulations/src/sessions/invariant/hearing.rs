//! Nothing heard is lost: what an agent heard before its node ended it hears again, and its answer is made of that; no step is left
//! out, no note is missing, and nothing is heard that somebody else wrote into its rows.

use serde_json::Value;

use super::super::evidence::{Evidence, View};
use super::super::plan::Deed;
use super::super::worker::note_text;
use super::Invariant;

pub(super) struct SameWords;

impl Invariant for SameWords {
    fn name(&self) -> &'static str {
        "nothing-heard-is-lost"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        for (turn, plan) in seen.plan.turns.iter().enumerate() {
            for step in 0..plan.steps.len() {
                same(seen, turn, step)?;
            }
            let Some(last) = seen.last(turn) else { continue };
            if last.text.contains("DIVERGED") {
                return Err(format!("turn {turn} does not find what it did before: {}", last.text));
            }
            if last.is_completed() {
                if seen.forged.contains(&turn) {
                    return Err(format!("turn {turn} was completed by rows that somebody else wrote"));
                }
                whole(seen, turn, last)?;
            }
        }
        Ok(())
    }
}

/// What must be heard again is heard again.
fn same(seen: &Evidence, turn: usize, step: usize) -> Result<(), String> {
    let all: Vec<_> = seen.heard(turn, step).collect();
    for (place, (until, heard)) in all.iter().enumerate() {
        for (at, before) in &all[..place] {
            if before != heard && seen.is_binding(turn, *at, *until) {
                return Err(format!("turn {turn}, step {step}: the agent heard {before:?}, and then {heard:?}"));
            }
        }
    }
    Ok(())
}

/// The answer is made of what was heard of all steps, and the notes of the turn were there when it read them.
fn whole(seen: &Evidence, turn: usize, last: &View) -> Result<(), String> {
    let steps = &seen.plan.turns[turn].steps;
    let said = last.answer["said"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (number, step) in steps.iter().enumerate() {
        let heard = seen.heard(turn, number).next_back().map(|(_, heard)| heard.clone().unwrap_or_default());
        let said = said.get(number).filter(|said| said[0] == number).map(|said| said[1].clone());
        if said.is_none() || said != heard {
            return Err(format!("turn {turn}, step {number}: the agent heard {heard:?}, and answers with {said:?}"));
        }
        if step.what != Deed::Notes {
            continue;
        }
        let read = said.unwrap_or_default();
        let notes = (0..number).filter(|earlier| steps[*earlier].what == Deed::Note);
        for text in notes.map(|earlier| Value::from(note_text(turn, earlier))) {
            if !read.as_array().is_some_and(|read| read.contains(&text)) {
                return Err(format!("turn {turn}: the note {text} is not there: {read}"));
            }
        }
    }
    Ok(())
}
