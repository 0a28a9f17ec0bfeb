//! What programs say goes where the node's messages go, and into the log of their agent: line by line, as text. A program has no
//! descriptor of the node's, by which it could read what is typed there, or cut off what was written.

use althing_td::visible;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;

use super::log::LogWriter;

/// The longest line that is passed on at once, bytes.
const LINE_BYTES_MAX: u64 = 4 << 10;
/// Characters of the last line that are kept.
pub(super) const SAID_CHARS_MAX: usize = 300;

/// Passes on what a program says, until it is closed; gives the last that it said.
pub async fn passed_on(from: Receiver, log: LogWriter) -> String {
    let (mut from, mut last) = (BufReader::new(from), String::new());
    let mut to = tokio::io::stderr();
    loop {
        let mut line = Vec::new();
        let read = (&mut from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return last;
        }
        let text = String::from_utf8_lossy(&line);
        let said: String = shown(text.trim()).take(SAID_CHARS_MAX).collect();
        if !said.is_empty() {
            last = said;
        }
        log.write(&shown(&text).collect::<String>());
        let whole: String = shown(&text).chain(line.ends_with(b"\n").then_some('\n')).collect();
        // An error means that nobody reads it.
        let _ = to.write_all(whole.as_bytes()).await;
        let _ = to.flush().await;
    }
}

/// A text without what is not seen, and what a terminal takes for an order.
fn shown(text: &str) -> impl Iterator<Item = char> {
    visible(text).filter(|c| *c == '\t' || !c.is_control())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use tokio::net::unix::pipe;

    use super::*;
    use crate::process::log::ProgramLog;

    #[tokio::test]
    async fn what_a_program_says_is_in_its_log_without_what_steers_a_terminal() {
        let (write, from) = pipe::pipe().expect("a pipe");
        let log = ProgramLog::default();
        let passing = tokio::spawn(passed_on(from, log.writer("runtime")));
        let write = write.into_blocking_fd().expect("a descriptor");
        let said = format!("Traceback\n\n  no \x1b[1mmodule\u{202e}\n{}\nlast", "x".repeat(5_000));
        nix::unistd::write(write.as_fd(), said.as_bytes()).expect("it is said");
        drop(write);
        assert_eq!(passing.await.expect("it ends"), "last");
        let lines: Vec<String> = log.page(0).lines.into_iter().map(|line| line.text).collect();
        assert_eq!(lines[..2], ["Traceback", "  no [1mmodule"]);
        assert_eq!(lines[2].len() + lines[3].len(), 5_000, "a long line is cut, and nothing of it is lost");
        assert_eq!(lines[4..], ["last"]);
    }
}
