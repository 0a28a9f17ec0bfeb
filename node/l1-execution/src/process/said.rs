//! What programs say goes where the node's messages go: line by line, as text. A program has no descriptor of the node's, by
//! which it could read what is typed there, or cut off what was written.

use althing_td::visible;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::Receiver;

/// The longest line that is passed on at once, bytes.
const LINE_BYTES_MAX: u64 = 4 << 10;
/// Characters of the last line that are kept.
const SAID_CHARS_MAX: usize = 300;

/// Passes on what a program says, until it is closed; gives the last that it said.
pub async fn passed_on(from: Receiver) -> String {
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
