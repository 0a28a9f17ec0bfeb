//! What a workflow file or an app file says of itself, for those with whom it is shared.

use serde::Serialize;

use crate::agent_file::{DESCRIPTION_CHARS_MAX, TITLE_CHARS_MAX, VERSION_DEFAULT};
use crate::confusable::disguised;
use crate::hidden::hidden_in;
use crate::json::excerpt;
use crate::reader::{Fields, Reader};

/// What a file says of itself. Groups do not see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Heading {
    /// Its version (semver 2.0.0); 1.0.0 unless the file says otherwise.
    pub version: String,
    /// Its title, for people; its name unless the file says otherwise.
    pub title: String,
    /// What it does, for people.
    pub description: Option<String>,
}

/// Reads the heading of the file of that name, and notes what to change.
pub(crate) fn read(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Heading {
    let version = reader.text(fields, "version").unwrap_or_else(|| VERSION_DEFAULT.to_owned());
    if semver::Version::parse(&version).is_err() {
        let message = format!("{:?} is not a semantic version", excerpt(&version, 40));
        reader.refuse(fields, "version", "semver", message, "Write three numbers, for example \"1.0.0\"".to_owned());
    }
    let title = reader.text(fields, "title");
    if let Some(title) = &title {
        visible(reader, fields, "title", title, TITLE_CHARS_MAX);
        if title.contains(['\n', '\r', '\t']) {
            let fix = "Write it on one line, without tabs".to_owned();
            reader.refuse(fields, "title", "one-line", "it has a line break or a tab".to_owned(), fix);
        }
        if let Some(c) = disguised(title) {
            let message = format!("it holds U+{:04X}, which is easily taken for another letter", u32::from(c));
            reader.refuse(fields, "title", "look-alike", message, "Write each word in one script".to_owned());
        }
    }
    let description = reader.text(fields, "description");
    if let Some(description) = &description {
        visible(reader, fields, "description", description, DESCRIPTION_CHARS_MAX);
    }
    Heading { version, title: title.unwrap_or_else(|| name.to_owned()), description }
}

/// Notes a text that is empty, too long, or has hidden characters.
fn visible(reader: &mut Reader, fields: &Fields<'_>, key: &str, text: &str, chars_max: usize) {
    let chars = text.chars().count();
    if text.trim().is_empty() || chars > chars_max {
        let fix = format!("Write 1 to {chars_max} characters, or leave it out");
        reader.refuse(fields, key, "out-of-range", format!("this text has {chars} characters"), fix);
    }
    if let Some(c) = hidden_in(text) {
        let message = format!("it holds the invisible character U+{:04X}", u32::from(c));
        let fix = "Remove it: it can make one name look like another".to_owned();
        reader.refuse(fields, key, "hidden-character", message, fix);
    }
}
