//! A bounded parser for server-sent events (WHATWG HTML §9.2) of programs and models; only `data` is used.

/// The longest event.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// Assembles bytes into events. One without data is none.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    after_cr: bool,
    /// Whether only messages are given: events without a name, or with the name `message`.
    of_messages: bool,
    /// Whether the event that comes has another name.
    is_named: bool,
}

/// An event, or a line, longer than [`EVENT_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Events {
    /// Gives only messages: a listener for them is not told of events with other names.
    pub fn of_messages() -> Events {
        Events { of_messages: true, ..Events::default() }
    }

    /// Adds bytes; gives the data of each completed event.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let ends = byte == b'\r' || (byte == b'\n' && !self.after_cr);
            let second_half = byte == b'\n' && self.after_cr;
            self.after_cr = byte == b'\r';
            if ends {
                events.extend(self.end_line());
            } else if !second_half {
                self.line.push(byte);
                if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                    return Err(TooLong);
                }
            }
        }
        Ok(events)
    }

    /// What is there when no more bytes come: an event that no empty line follows, whole or not.
    pub fn end(&mut self) -> Option<Vec<u8>> {
        let ended = if self.line.is_empty() { None } else { self.end_line() };
        ended.or_else(|| self.end_event())
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
        if line.is_empty() {
            return self.end_event();
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            self.data.push(b'\n');
        }
        if let Some(name) = line.strip_prefix(b"event:") {
            self.is_named = !matches!(name.strip_prefix(b" ").unwrap_or(name), b"" | b"message");
        }
        None
    }

    fn end_event(&mut self) -> Option<Vec<u8>> {
        let (mut data, is_named) = (std::mem::take(&mut self.data), std::mem::take(&mut self.is_named));
        // The end of its last line.
        data.pop();
        let is_other = self.of_messages && is_named;
        (!is_other && !data.iter().all(u8::is_ascii_whitespace)).then_some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_any_split_and_any_line_end() {
        let text = "data: a\r\ndata:b\r\n\r\n: note\nid: 7\ndata: c\n\ndata: d\r\rdata: e\n";
        let expected: Vec<Vec<u8>> = vec![b"a\nb".to_vec(), b"c".to_vec(), b"d".to_vec()];
        for size in 1..text.len() {
            let mut events = Events::default();
            let got: Vec<Vec<u8>> =
                text.as_bytes().chunks(size).flat_map(|chunk| events.push(chunk).expect("short")).collect();
            assert_eq!(got, expected, "split every {size} bytes");
        }
    }

    #[test]
    fn an_event_without_data_or_of_another_name_is_none_and_the_last_needs_no_empty_line() {
        let text = "\u{feff}id: 0\ndata:\n\nevent: ping\ndata: {}\n\nevent: message\ndata: a\n\nevent:\ndata: b\n\n\
                    event: end\n\ndata: c\n\nretry: 5\n\ndata: d";
        let read = |mut events: Events| -> Vec<String> {
            let mut read = events.push(text.as_bytes()).expect("short");
            read.extend(events.end());
            assert_eq!(events.end(), None, "it ends once");
            read.into_iter().map(|event| String::from_utf8(event).expect("text")).collect()
        };
        assert_eq!(read(Events::of_messages()), ["a", "b", "c", "d"]);
        assert_eq!(read(Events::default()), ["{}", "a", "b", "c", "d"]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut events = Events::default();
        let outcome = (0..=EVENT_BYTES_MAX / 1024).map(|_| events.push(&[b'x'; 1024])).find(Result::is_err);
        assert_eq!(outcome, Some(Err(TooLong)));
    }
}
