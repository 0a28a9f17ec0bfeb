//! A bounded parser for server-sent events (WHATWG HTML §9.2) of programs and models; only their names and `data` are used.

/// The longest event.
const EVENT_BYTES_MAX: usize = 4 << 20;
/// Bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 64;

/// Assembles bytes into events. One without data is none.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    after_cr: bool,
    /// The name of the event that comes, as in [`Event`].
    name: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The first bytes of its name; empty for a message, which has none, or the name `message`.
    pub name: Vec<u8>,
    /// Its data, which is not blank.
    pub data: Vec<u8>,
}

/// An event, or a line, longer than [`EVENT_BYTES_MAX`], and the events that were completed before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong(pub Vec<Event>);

impl Events {
    /// Adds bytes; gives each completed event.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
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
                    return Err(TooLong(events));
                }
            }
        }
        Ok(events)
    }

    /// What is there when no more bytes come: an event that no empty line follows, whole or not.
    pub fn end(&mut self) -> Option<Event> {
        let ended = if self.line.is_empty() { None } else { self.end_line() };
        ended.or_else(|| self.end_event())
    }

    fn end_line(&mut self) -> Option<Event> {
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
            let name = name.strip_prefix(b" ").unwrap_or(name);
            let name = if name == b"message" { &b""[..] } else { &name[..name.len().min(NAME_BYTES_MAX)] };
            self.name = name.to_vec();
        }
        None
    }

    fn end_event(&mut self) -> Option<Event> {
        let (mut data, name) = (std::mem::take(&mut self.data), std::mem::take(&mut self.name));
        // The end of its last line.
        data.pop();
        (!data.iter().all(u8::is_ascii_whitespace)).then_some(Event { name, data })
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
            let got: Vec<Vec<u8>> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| events.push(chunk).expect("short"))
                .map(|event| event.data)
                .collect();
            assert_eq!(got, expected, "split every {size} bytes");
        }
    }

    #[test]
    fn an_event_without_data_is_none_a_name_is_told_and_the_last_needs_no_empty_line() {
        let text = "\u{feff}id: 0\ndata:\n\nevent: ping\ndata: {}\n\nevent: message\ndata: a\n\nevent:\ndata: b\n\n\
                    event: end\n\ndata: c\n\nretry: 5\n\ndata: d";
        let mut events = Events::default();
        let mut read = events.push(text.as_bytes()).expect("short");
        read.extend(events.end());
        assert_eq!(events.end(), None, "it ends once");
        let read: Vec<(&[u8], &[u8])> = read.iter().map(|event| (&event.name[..], &event.data[..])).collect();
        let messages = ["a", "b", "c", "d"].map(|data| (&b""[..], data.as_bytes()));
        assert_eq!(read[0], (&b"ping"[..], &b"{}"[..]));
        assert_eq!(read[1..], messages);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut events = Events::default();
        let outcome = (0..=EVENT_BYTES_MAX / 1024).map(|_| events.push(&[b'x'; 1024])).find(Result::is_err);
        assert_eq!(outcome, Some(Err(TooLong(Vec::new()))));
        let mut after = b"data: a\n\ndata: ".to_vec();
        after.resize(EVENT_BYTES_MAX + 100, b'x');
        let Err(TooLong(before)) = Events::default().push(&after) else { panic!("it is too long") };
        assert_eq!(before, [Event { name: Vec::new(), data: b"a".to_vec() }], "what came before is not lost");
    }
}
