//! A bounded parser for server-sent events (WHATWG HTML §9.2) of programs, models and servers of tools. What the standard does not know
//! is passed over.

/// The longest event.
const EVENT_BYTES_MAX: usize = 4 << 20;
/// Bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 64;
/// The longest id; a longer one is passed over.
const ID_BYTES_MAX: usize = 1_024;

/// Assembles bytes into events. One without data is none, unless the stream is [resumable](Events::resumable).
#[derive(Debug)]
pub struct Events {
    bytes_max: usize,
    is_resumable: bool,
    line: Vec<u8>,
    /// The event that comes; each line of its data has an end.
    event: Event,
    after_cr: bool,
}

/// An event, or the part of one that came.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The first bytes of its name; empty for a message, which has none, or the name `message`.
    pub name: Vec<u8>,
    /// Its data, which is not blank; empty of an event that has none.
    pub data: Vec<u8>,
    /// After which event its reader asks for more, if the stream ends then.
    pub id: Option<String>,
    /// How long its reader waits before it asks for more, milliseconds.
    pub retry: Option<u64>,
}

/// An event, or a line, longer than the bound, and the events that were completed before it. Nothing after it can be read.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong(pub Vec<Event>);

impl Default for Events {
    /// Of a stream whose events have 4 MiB at most.
    fn default() -> Events {
        Events { is_resumable: false, ..Events::resumable(EVENT_BYTES_MAX) }
    }
}

impl Events {
    /// Of a stream that is asked for again where it ends, whose events have so many bytes at most: those without data are given
    /// too, if they have an id or say how long to wait.
    #[must_use]
    pub fn resumable(bytes_max: usize) -> Events {
        Events { bytes_max, is_resumable: true, line: Vec::new(), event: Event::default(), after_cr: false }
    }

    /// Adds bytes; gives each completed event.
    ///
    /// # Errors
    /// One is too long.
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
                if self.line.len() + self.event.data.len() > self.bytes_max {
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
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = colon.map_or((line, &b""[..]), |at| (&line[..at], &line[at + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.event.data.extend_from_slice(value);
                self.event.data.push(b'\n');
            }
            b"event" => {
                let name = if value == b"message" { &b""[..] } else { &value[..value.len().min(NAME_BYTES_MAX)] };
                self.event.name = name.to_vec();
            }
            b"id" if value.len() <= ID_BYTES_MAX && !value.contains(&0) => {
                self.event.id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"retry" => {
                let said = std::str::from_utf8(value).ok().and_then(|value| value.trim().parse().ok());
                self.event.retry = said.or(self.event.retry);
            }
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<Event> {
        let mut event = std::mem::take(&mut self.event);
        // The end of its last line.
        event.data.pop();
        if event.data.iter().all(u8::is_ascii_whitespace) {
            event.data.clear();
        }
        let is_bare = self.is_resumable && (event.id.is_some() || event.retry.is_some());
        (is_bare || !event.data.is_empty()).then_some(event)
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
        assert_eq!(before, [message("a")], "what came before is not lost");
    }

    fn message(data: &str) -> Event {
        Event { data: data.as_bytes().to_vec(), ..Event::default() }
    }

    /// The events of a whole stream, whatever the pieces in which it passes.
    fn resumable(stream: &[u8]) -> Vec<Event> {
        let all = [1, 2, stream.len().max(1)].map(|size| {
            let mut events = Events::resumable(64);
            let pieces = stream.chunks(size).flat_map(|piece| events.push(piece).expect("it is short"));
            let mut all: Vec<Event> = pieces.collect();
            all.extend(events.end());
            all
        });
        assert!(all.windows(2).all(|two| two[0] == two[1]), "{all:?}");
        let [first, ..] = all;
        first
    }

    #[test]
    fn a_stream_that_is_asked_for_again_gives_ids_and_times_also_without_data() {
        let with_id = |id: &str, data: &str| Event { id: Some(id.to_owned()), ..message(data) };
        let wait = Event { retry: Some(5), ..Event::default() };
        let cases: [(&[u8], Vec<Event>); 9] = [
            (b"id: 1\ndata:\n\nretry: 5\n\nid\ndata: a\n\n", vec![with_id("1", ""), wait, with_id("", "a")]),
            (b"retry: soon\nodd\nmore: x\ndata:a\ndata: b\n\n", vec![message("a\nb")]),
            (b"event: x\nid: 1\nid: 2\nevent: message\ndata: a\n\n", vec![with_id("2", "a")]),
            (b"retry: 5s\nretry: 7 \nretry: no\n\n", vec![Event { retry: Some(7), ..Event::default() }]),
            (b"id: 1\x00\ndata: a\n\n", vec![message("a")]),
            (b"data: a\ndata\ndata: b\n\n", vec![message("a\n\nb")]),
            (b"data\n\n: only\n\nevent: ping\n\n", Vec::new()),
            (b"id: 1\ndata: a", vec![with_id("1", "a")]),
            (b"", Vec::new()),
        ];
        for (stream, expected) in cases {
            assert_eq!(resumable(stream), expected, "{}", String::from_utf8_lossy(stream));
        }
        let long = format!("id: {}\ndata: a\n\n", "1".repeat(ID_BYTES_MAX + 1));
        assert_eq!(Events::resumable(1 << 16).push(long.as_bytes()), Ok(vec![message("a")]));
    }

    #[test]
    fn the_bound_is_that_of_one_event() {
        let mut events = Events::resumable(16);
        for _ in 0..9 {
            assert_eq!(events.push(b"data: abc\n\n"), Ok(vec![message("abc")]));
        }
        assert_eq!(events.push(b"data: abc\n\ndata: abcdefghijklmn"), Err(TooLong(vec![message("abc")])));
        let mut events = Events::resumable(16);
        assert_eq!(events.push(b"data: abcde\ndata: abcd"), Ok(Vec::new()));
        assert_eq!(events.push(b"e"), Err(TooLong(Vec::new())), "its lines count together");
    }
}
