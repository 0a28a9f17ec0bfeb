//! Printed results: JSON for programs, text and tables for people.

use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use althing_td::marked;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use serde_json::Value;

/// Why a reply can be written: the names of its members are texts, and nothing in it refuses to be written.
const IS_JSON: &str = "a reply is JSON";

/// Between two looks at whether what is printed has a reader still.
const READER_LOOK: Duration = Duration::from_millis(500);

/// How results are printed.
pub struct Out {
    /// As JSON.
    pub json: bool,
}

impl Out {
    /// Prints `value` as JSON, or what `people` makes of it.
    pub fn show<T: Serialize>(&self, value: &T, people: impl FnOnce(&T) -> String) {
        let text = if self.json {
            serde_json::to_string_pretty(value).expect(IS_JSON)
        } else {
            plain(&people(value), &std::io::stdout())
        };
        print_line(text.trim_end());
    }

    /// Prints a line of many as JSON, or what `people` makes of it; whether anybody read it, as [`print_read`] says it.
    #[must_use]
    pub fn line<T: Serialize>(&self, value: &T, people: impl FnOnce(&T) -> String) -> bool {
        let text = if self.json {
            serde_json::to_string(value).expect(IS_JSON)
        } else {
            plain(&people(value), &std::io::stdout())
        };
        print_read(&text)
    }
}

/// Prints a line. A closed pipe is no error; a full disk ends the program with code 1.
pub fn print_line(text: &str) {
    // A node, or a call, goes on whether somebody reads what it prints or not.
    let _ = print_read(text);
}

/// Prints a line as [`print_line`] does; false where standard output is a pipe that nobody reads any more: the end of a command that
/// does nothing but print.
#[must_use]
pub fn print_read(text: &str) -> bool {
    written(&mut std::io::stdout(), text).unwrap_or_else(|error| {
        eprintln!("althing: cannot write to standard output: {error}");
        // The exit code of every program for an operation that failed.
        std::process::exit(1);
    })
}

/// Writes a line; false where nobody reads it any more.
fn written(to: &mut impl Write, text: &str) -> std::io::Result<bool> {
    match writeln!(to, "{text}").and_then(|()| to.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Waits until standard output is a pipe, or a terminal, that nobody reads any more. A command that does nothing but print is told so
/// also while there is nothing to print.
pub async fn reader_gone() {
    while !is_unread(std::io::stdout().as_fd()) {
        tokio::time::sleep(READER_LOOK).await;
    }
}

/// Whether that is the end of a pipe of which the other one is closed.
fn is_unread(end: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(end, PollFlags::empty())];
    let seen = poll(&mut polled, PollTimeout::ZERO).ok().and_then(|_| polled[0].revents());
    seen.is_some_and(|seen| seen.intersects(PollFlags::POLLERR | PollFlags::POLLHUP))
}

/// What somebody else wrote: where it goes to a terminal, control characters but line ends and tabs are shown, not obeyed.
pub fn plain(text: &str, to: &impl std::io::IsTerminal) -> String {
    if to.is_terminal() { harmless(text) } else { text.to_owned() }
}

fn harmless(text: &str) -> String {
    written_out(text, &['\n', '\t'])
}

/// What somebody else wrote, on one line wherever it goes: line ends and tabs are shown too, so that no text looks like another line
/// of what is printed.
#[must_use]
pub fn one_line(text: &str) -> String {
    written_out(text.trim_end(), &[])
}

/// What somebody else wrote, behind the name of its line: on that line, or below it where it has several, each with a mark.
#[must_use]
pub fn block(text: &str) -> String {
    let text = text.trim_end();
    if !text.contains('\n') {
        return one_line(text);
    }
    text.lines().map(|line| format!("\n  | {}", harmless(line))).collect()
}

/// A text in which all is shown that nobody sees, or that moves text about, but for these characters.
fn written_out(text: &str, obeyed: &[char]) -> String {
    let shown = |(c, is_seen): (char, bool)| match c {
        c if obeyed.contains(&c) => c.to_string(),
        c if c.is_control() || !is_seen => c.escape_unicode().to_string(),
        c => c.to_string(),
    };
    marked(text).map(shown).collect()
}

/// Columns of text, each as wide as its widest cell. A cell is one line, whoever wrote it.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
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

/// The rows of a list.
pub fn rows<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use althing_td::is_hidden;

    use super::*;

    #[test]
    fn who_prints_is_told_that_nobody_reads_it_and_no_less_that_it_cannot_be_written() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        assert!(written(&mut writer, "one").expect("it is read") && !is_unread(writer.as_fd()));
        drop(reader);
        assert!(is_unread(writer.as_fd()), "also before anything is written");
        assert!(!written(&mut writer, "two").expect("no failure"));
        let full = written(&mut [0_u8; 2].as_mut_slice(), "three").expect_err("there is no room for it");
        assert_ne!(full.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_others_wrote_does_not_steer_a_terminal() {
        assert_eq!(harmless("a\tb\nc ä 漢 🦀"), "a\tb\nc ä 漢 🦀");
        for steering in ["\u{1b}]0;OWNED\u{7}", "\u{1b}[2J", "\r", "\u{8}", "\u{9b}31m", "\u{202e}abc", "a\u{200b}b"] {
            let shown = harmless(steering);
            assert!(shown.chars().all(|c| !c.is_control() && !is_hidden(c)), "{shown:?}");
        }
    }

    #[test]
    fn what_others_wrote_makes_no_line_of_its_own() {
        let forged = "ok\nneeds    nothing\r\tx\u{202e}y\u{1b}[2J\u{2028}z\n";
        let shown = one_line(forged);
        assert_eq!(shown, "ok\\u{a}needs    nothing\\u{d}\\u{9}x\\u{202e}y\\u{1b}[2J\\u{2028}z");
        assert_eq!(one_line("c ä 漢 🦀\n"), "c ä 漢 🦀");
        let rows = vec![vec!["a".to_owned(), forged.to_owned()], vec!["b".to_owned(), "fine".to_owned()]];
        let told = table(&["id", "what"], &rows);
        assert_eq!(told.lines().count(), 3, "a head and two rows: {told}");
        assert!(told.contains(&format!("\na   {shown}\n")), "{told}");
    }

    #[test]
    fn a_text_of_several_lines_is_marked_on_each_of_them() {
        assert_eq!(block("it is done\n"), "it is done");
        let told = format!("result   {}\nstate    open", block("ok\n\tstate    closed\r\u{1b}[2J"));
        assert_eq!(told, "result   \n  | ok\n  | \tstate    closed\\u{d}\\u{1b}[2J\nstate    open");
    }
}
