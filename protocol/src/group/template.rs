//! Templates: texts into which a run of a workflow puts its input, and the results of its steps.
//!
//! `{{input}}` is the run's input, `{{step.ID}}` the result of the step `ID`, and `{{item}}` the item that a task is for. Spaces
//! within the braces do not count. All other text stands for itself; `{{` begins a placeholder wherever it is.

/// A part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// This text.
    Text(&'a str),
    /// The input of the run.
    Input,
    /// The item that the task is for.
    Item,
    /// The result of the step of this id.
    Step(&'a str),
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `{{` without `}}`.
    #[error("it has {{{{ without }}}} after it; close the placeholder")]
    Open,
    /// Not a placeholder.
    #[error("{{{{{0}}}}} is no placeholder; write {{{{input}}}}, {{{{item}}}} or {{{{step.ID}}}}")]
    Unknown(String),
}

/// The parts of a template, in order.
///
/// # Errors
/// [`TemplateError`].
pub fn parts(template: &str) -> Result<Vec<Part<'_>>, TemplateError> {
    let (mut found, mut rest) = (Vec::new(), template);
    while let Some((text, after)) = rest.split_once("{{") {
        let (inside, behind) = after.split_once("}}").ok_or(TemplateError::Open)?;
        if !text.is_empty() {
            found.push(Part::Text(text));
        }
        found.push(match inside.trim() {
            "input" => Part::Input,
            "item" => Part::Item,
            other => {
                let unknown = || TemplateError::Unknown(other.chars().take(64).collect());
                Part::Step(other.strip_prefix("step.").ok_or_else(unknown)?)
            }
        });
        rest = behind;
    }
    if !rest.is_empty() {
        found.push(Part::Text(rest));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_read_and_what_is_no_placeholder_is_named() {
        assert_eq!(parts(""), Ok(Vec::new()));
        let read = parts("a {b} {{ input }}{{step.x}} }} c").expect("a template");
        assert_eq!(read, [Part::Text("a {b} "), Part::Input, Part::Step("x"), Part::Text(" }} c")]);
        assert_eq!(parts("{{item}}"), Ok(vec![Part::Item]));
        assert_eq!(parts("a {{input"), Err(TemplateError::Open));
        let unknown = parts("{{inputs}}").expect_err("no placeholder");
        assert_eq!(unknown.to_string(), "{{inputs}} is no placeholder; write {{input}}, {{item}} or {{step.ID}}");
    }
}
