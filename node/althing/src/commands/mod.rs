//! The commands: ask the node, print what it says.

pub mod agent;
pub mod call;
pub mod contract;
pub mod find;
pub mod show;
pub mod trust;
pub mod up;

use serde_json::Value;

/// How results are printed.
pub struct Out {
    /// As JSON.
    pub json: bool,
}

impl Out {
    /// Prints `value` as JSON, or what `people` makes of it.
    pub fn show(&self, value: &Value, people: impl FnOnce(&Value) -> String) {
        let text = if self.json { format!("{value:#}") } else { people(value) };
        print_line(text.trim_end());
    }
}

/// Prints a line; a closed pipe is no error.
pub fn print_line(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Columns of text, each as wide as its widest cell.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([head[at].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let head: Vec<String> = head.iter().map(|name| name.to_ascii_uppercase()).collect();
    line(&head) + &rows.iter().map(|row| line(row)).collect::<String>()
}

/// A member as text; empty when it is not there.
pub fn text(value: &Value, name: &str) -> String {
    match &value[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A DID short enough for a table.
pub fn short(did: &str) -> String {
    let key = did.strip_prefix("did:key:").unwrap_or(did);
    if key.len() > 14 { format!("{}…{}", &key[..6], &key[key.len() - 6..]) } else { key.to_owned() }
}

/// The rows of a list.
pub fn rows<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}
