//! What is there already and should not be: lists in `tests/tidy/lists`, which may only shrink.

use std::{collections::BTreeMap, path::Path};

/// Something that a rule found.
#[derive(Default)]
pub struct Finding {
    /// How much of it there is, in what the rule counts.
    pub number: usize,
    /// Where it is, for whom the rule stops.
    pub places: Vec<String>,
}

impl Finding {
    /// One more, at a place.
    pub fn add(&mut self, place: String) {
        self.number += 1;
        self.places.push(place);
    }
}

/// Holds what was found, by name, against a list; `remedy` says what to do about what is new.
pub fn only_shrinks(list: &str, found: &BTreeMap<String, Finding>, remedy: &str) {
    let file = Path::new("tests/tidy/lists").join(list);
    let listed = super::text(&file);
    let differences = differences(&listed, found);
    assert!(
        differences.is_empty(),
        "{remedy}\n{}\n\n{} may only shrink. As the code is now, the whole file is:\n{}",
        differences.join("\n"),
        file.display(),
        written(&listed, found)
    );
}

/// The entries of a list: a name and a number on each line. Lines that begin with `#` are comments.
fn entries(list: &str) -> BTreeMap<&str, usize> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| entry(line).unwrap_or_else(|| panic!("{line}: a name and a number"))).collect()
}

/// A line of a list: a name, and behind the last space its number.
fn entry(line: &str) -> Option<(&str, usize)> {
    let (name, number) = line.rsplit_once(' ')?;
    Some((name, number.parse().ok()?))
}

/// How what was found differs from a list, a sentence each.
fn differences(list: &str, found: &BTreeMap<String, Finding>) -> Vec<String> {
    let mut listed = entries(list);
    let mut differences = Vec::new();
    for (name, finding) in found {
        let (number, places) = (finding.number, finding.places.join("\n      "));
        match listed.remove(name.as_str()) {
            None => differences.push(format!("  {name} is new, with {number}:\n      {places}")),
            Some(most) if number > most => {
                differences.push(format!("  {name} has grown from {most} to {number}:\n      {places}"));
            }
            Some(most) if number < most => {
                differences.push(format!("  {name} has shrunk from {most} to {number}: lower its number"));
            }
            Some(_) => {}
        }
    }
    differences.extend(listed.into_keys().map(|name| format!("  {name} is there no more: take it out of the list")));
    differences
}

/// The list of what was found, below the comments of another.
fn written(list: &str, found: &BTreeMap<String, Finding>) -> String {
    let comments = list.lines().filter(|line| line.starts_with('#')).map(str::to_owned);
    let entries = found.iter().map(|(name, finding)| format!("{name} {}", finding.number));
    comments.chain(entries).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_list_may_neither_grow_nor_be_too_long() {
    let list = "# why\nsame 2\ngrown 1\nshrunk 3\ngone 1\n";
    let numbers = [("same", 2), ("grown", 2), ("shrunk", 1), ("new one", 1)];
    let found: BTreeMap<String, Finding> = numbers
        .into_iter()
        .map(|(name, number)| (name.to_owned(), Finding { number, places: vec!["a.rs:1".to_owned()] }))
        .collect();
    let differences = differences(list, &found);
    let said = |words: &str| differences.iter().any(|difference| difference.contains(words));
    assert_eq!(differences.len(), 4, "{differences:?}");
    assert!(said("grown has grown from 1 to 2") && said("shrunk has shrunk from 3 to 1"), "{differences:?}");
    assert!(said("new one is new, with 1") && said("a.rs:1") && said("gone is there no more"), "{differences:?}");
    assert_eq!(written(list, &found), "# why\ngrown 2\nnew one 1\nsame 2\nshrunk 1");
    assert!(self::differences(&written(list, &found), &found).is_empty(), "what it prints is what it wants");
}
