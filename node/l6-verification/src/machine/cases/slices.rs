//! Slices: what some cases of a file have in common and others have not, by what their `metadata` says.

use std::collections::BTreeSet;

use serde_json::Value;

use super::case::excerpt;
use super::file::Cases;
use super::problem::{CaseProblem, CasesError};

impl Cases {
    /// The slices of each case, in their order: for each key `KEY=VALUE`, of a list one for each of its values. A case that says
    /// nothing under a key is in no slice of it.
    ///
    /// # Errors
    /// [`CasesError`]: a value is neither a text, a number nor a truth value, or no case has the key.
    pub fn slices(&self, keys: &[String]) -> Result<Vec<BTreeSet<String>>, CasesError> {
        let mut slices = vec![BTreeSet::new(); self.len()];
        let mut problems = Vec::new();
        for key in keys {
            let mut is_said = false;
            for ((case, of_case), line) in self.iter().zip(&mut slices).zip(1..) {
                let Some(said) = case.metadata(key) else { continue };
                is_said = true;
                match words(&said) {
                    Some(values) => of_case.extend(values.into_iter().map(|value| format!("{key}={value}"))),
                    None => {
                        let what = "it is neither a text, a number, a truth value nor a list of these";
                        let place = format!("metadata.{}", excerpt(key));
                        problems.push(CaseProblem::new(line, place, what, "take another key for slices"));
                    }
                }
            }
            if !is_said {
                let what = format!("no case has {:?} in its metadata", excerpt(key));
                problems.push(CaseProblem::new(0, "", what, "name a key that some have, or leave it out"));
            }
        }
        if problems.is_empty() { Ok(slices) } else { Err(CasesError::of(problems)) }
    }
}

/// The values as words; none if one of them is none.
fn words(said: &Value) -> Option<Vec<String>> {
    let word = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    match said {
        Value::Array(values) => values.iter().map(word).collect(),
        value => word(value).map(|word| vec![word]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(metadata: &[&str]) -> Cases {
        let line = |metadata: &&str| format!(r#"{{"input": "hi", "target": "hi", "metadata": {metadata}}}"#);
        let lines: Vec<String> = metadata.iter().map(line).collect();
        Cases::read(lines.join("\n").as_bytes()).expect("cases")
    }

    fn keys(keys: &[&str]) -> Vec<String> {
        keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn cases_are_in_the_slices_that_their_metadata_names() {
        let cases = cases(&[r#"{"lang": "fi", "hard": true}"#, r#"{"lang": ["fi", "sv"], "hard": null}"#, "{}"]);
        let slices = cases.slices(&keys(&["lang", "hard"])).expect("slices");
        let found: Vec<Vec<&str>> = slices.iter().map(|all| all.iter().map(String::as_str).collect()).collect();
        assert_eq!(found, [vec!["hard=true", "lang=fi"], vec!["lang=fi", "lang=sv"], vec![]]);
        assert_eq!(cases.slices(&[]).expect("none"), vec![BTreeSet::new(); 3]);
    }

    #[test]
    fn what_begins_with_a_byte_order_mark_has_slices_too() {
        let file = "\u{FEFF}{\"input\": \"hi\", \"metadata\": {\"level\": 2}}";
        let slices = Cases::read(file.as_bytes()).expect("cases").slices(&keys(&["level"])).expect("slices");
        assert_eq!(slices, [BTreeSet::from(["level=2".to_owned()])]);
    }

    #[test]
    fn a_key_that_makes_no_slices_is_named() {
        let cases = cases(&[r#"{"lang": "fi"}"#, r#"{"lang": {"code": "fi"}}"#]);
        let told = cases.slices(&keys(&["lang", "tongue"])).expect_err("both are wrong").to_string();
        assert!(told.contains("line 2, metadata.lang: it is neither a text"), "{told}");
        assert!(told.contains(r#"no case has "tongue" in its metadata"#), "{told}");
    }
}
