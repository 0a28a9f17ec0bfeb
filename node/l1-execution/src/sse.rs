//! A bounded parser for server-sent events (WHATWG HTML §9.2) of programs and models; only `data` is used.

/// The longest event.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// Assembles bytes into events.
#[derive(Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    after_cr: bool,
}

/// An event, or a line, longer than [`EVENT_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Events {
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

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
        if line.is_empty() {
            let mut data = std::mem::take(&mut self.data);
            return data.pop().map(|_line_end| data);
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            self.data.push(b'\n');
        }
        None
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
    fn an_endless_event_is_refused() {
        let mut events = Events::default();
        let outcome = (0..=EVENT_BYTES_MAX / 1024).map(|_| events.push(&[b'x'; 1024])).find(Result::is_err);
        assert_eq!(outcome, Some(Err(TooLong)));
    }
}
