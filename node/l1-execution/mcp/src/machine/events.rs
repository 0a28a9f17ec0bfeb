//! Events of a stream (server-sent events), read as their standard has it: what it does not know is passed over, whatever stands
//! there. Unlike there, an event that is last and has no end counts.

/// Programs of some systems begin their output with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event. Its data has no end of a line at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamEvent {
    pub event: Option<String>,
    pub data: Option<String>,
    pub id: Option<String>,
    /// Milliseconds.
    pub retry: Option<u64>,
}

/// An event has more bytes than are read.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// A stream that passes.
#[derive(Debug)]
pub struct Events {
    bytes_max: usize,
    /// The line that is being read.
    line: Vec<u8>,
    /// The event that is being read, and the bytes of its lines.
    told: StreamEvent,
    bytes: usize,
    has_begun: bool,
    /// Whether a carriage return ended the line before: a line feed after it ends none.
    was_return: bool,
}

impl Events {
    /// Of a stream whose events have so many bytes at most.
    pub fn new(bytes_max: usize) -> Events {
        Events {
            bytes_max,
            line: Vec::new(),
            told: StreamEvent::default(),
            bytes: 0,
            has_begun: false,
            was_return: false,
        }
    }

    /// More of the stream; gives the events that end there.
    ///
    /// # Errors
    /// One of them is too long; nothing after it can be read.
    pub fn pass(&mut self, mut piece: &[u8]) -> Result<Vec<StreamEvent>, TooLong> {
        let mut all = Vec::new();
        while let Some(first) = piece.first() {
            if std::mem::take(&mut self.was_return) && *first == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let end = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &piece[..end.unwrap_or(piece.len())];
            if self.bytes + self.line.len() + part.len() > self.bytes_max {
                return Err(TooLong);
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.was_return = piece[end] == b'\r';
            piece = &piece[end + 1..];
            all.extend(self.line_ended());
        }
        Ok(all)
    }

    /// The end of the stream; gives the event that it ends.
    pub fn end(&mut self) -> Option<StreamEvent> {
        let last = self.line_ended();
        last.or_else(|| self.event_ended())
    }

    fn line_ended(&mut self) -> Option<StreamEvent> {
        let line = std::mem::take(&mut self.line);
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let line = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(&line);
        if line.is_empty() {
            return self.event_ended();
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = colon.map_or((line, b"".as_slice()), |at| (&line[..at], &line[at + 1..]));
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match name {
            b"data" => match &mut self.told.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(&value);
                }
                none => *none = Some(value.into_owned()),
            },
            b"event" => self.told.event = Some(value.into_owned()),
            b"id" if !value.contains('\0') => self.told.id = Some(value.into_owned()),
            b"retry" => self.told.retry = value.trim().parse().ok().or(self.told.retry),
            // A comment, or what a later standard may mean.
            _ => return None,
        }
        self.bytes += line.len() + 1;
        None
    }

    fn event_ended(&mut self) -> Option<StreamEvent> {
        self.bytes = 0;
        let told = std::mem::take(&mut self.told);
        (told != StreamEvent::default()).then_some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a whole stream, whatever the pieces in which it passes.
    fn told(stream: &[u8]) -> Vec<StreamEvent> {
        let all: Vec<Vec<StreamEvent>> = [1, 2, stream.len().max(1)]
            .map(|size| {
                let mut events = Events::new(64);
                let pieces = stream.chunks(size).flat_map(|piece| events.pass(piece).expect("it is short"));
                let mut all: Vec<StreamEvent> = pieces.collect();
                all.extend(events.end());
                all
            })
            .to_vec();
        assert!(all.windows(2).all(|two| two[0] == two[1]), "{all:?}");
        all[0].clone()
    }

    fn data(text: &str) -> StreamEvent {
        StreamEvent { data: Some(text.to_owned()), ..StreamEvent::default() }
    }

    #[test]
    fn what_the_standard_does_not_know_is_passed_over() {
        let cases: [(&[u8], Vec<StreamEvent>); 11] = [
            (b"data: a\n\ndata: b\n\n", vec![data("a"), data("b")]),
            (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", vec![data("a"), data("b"), data("c")]),
            (b"\xef\xbb\xbfdata: a\n\n", vec![data("a")]),
            (b"retry: soon\ndata: a\n\n", vec![data("a")]),
            (b": hello\nodd\nmore: x\ndata:a\ndata: b\n\n", vec![data("a\nb")]),
            (b"data: a", vec![data("a")]),
            (b"data: a\n", vec![data("a")]),
            (b"data: \xff\n\n", vec![data("\u{fffd}")]),
            (b"data\n\n", vec![data("")]),
            (b"\n\n: only\n\n", Vec::new()),
            (b"", Vec::new()),
        ];
        for (stream, expected) in cases {
            assert_eq!(told(stream), expected, "{}", String::from_utf8_lossy(stream));
        }
        let all = told(b"event: x\nevent: message\nid: 1\nid: 2\nretry: 5\nretry: 7\ndata: a\n\n");
        let whole =
            StreamEvent { event: Some("message".to_owned()), id: Some("2".to_owned()), retry: Some(7), ..data("a") };
        assert_eq!(all, [whole]);
    }

    #[test]
    fn an_event_that_is_too_long_is_told_and_many_short_ones_are_not() {
        let mut events = Events::new(16);
        for _ in 0..9 {
            assert_eq!(events.pass(b"data: abc\n\n"), Ok(vec![data("abc")]));
        }
        assert_eq!(events.pass(b"data: abcdefghijklmn"), Err(TooLong));
        let mut events = Events::new(16);
        assert_eq!(events.pass(b"data: abc\ndata: "), Ok(Vec::new()));
        assert_eq!(events.pass(b"abc"), Err(TooLong));
    }
}
