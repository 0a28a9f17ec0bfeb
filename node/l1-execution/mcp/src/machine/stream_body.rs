//! The body of what a server calls a stream: events, or JSON where it names the wrong type. Which of both comes is told by the first
//! character: no line of events begins with one of JSON's.

use althing_execution::lenient_json;
use althing_execution::sse::{Event, Events, TooLong};

/// What stands before the first character.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A body that passes.
#[derive(Debug)]
pub struct StreamBody {
    bytes_max: usize,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Nothing but space came.
    Open,
    Events(Events),
    Json(Vec<u8>),
}

impl StreamBody {
    /// Of a body whose events, or whose JSON, have so many bytes at most.
    pub fn new(bytes_max: usize) -> StreamBody {
        StreamBody { bytes_max, form: Form::Open }
    }

    /// More of it; gives the events that end there.
    ///
    /// # Errors
    /// One of them, or the JSON, is too long; with the events before it.
    pub fn pass(&mut self, piece: &[u8]) -> Result<Vec<Event>, TooLong> {
        let piece = match self.form {
            Form::Open => {
                let begins = |byte: &u8| !byte.is_ascii_whitespace() && !BYTE_ORDER_MARK.contains(byte);
                &piece[piece.iter().position(begins).unwrap_or(piece.len())..]
            }
            _ => piece,
        };
        let Some(first) = piece.first() else { return Ok(Vec::new()) };
        if let Form::Open = self.form {
            self.form = match first {
                b'{' | b'[' => Form::Json(Vec::new()),
                _ => Form::Events(Events::resumable(self.bytes_max)),
            };
        }
        match &mut self.form {
            Form::Open => Ok(Vec::new()),
            Form::Events(events) => events.push(piece),
            Form::Json(body) if body.len() + piece.len() > self.bytes_max => Err(TooLong(Vec::new())),
            Form::Json(body) => {
                body.extend_from_slice(piece);
                Ok(Vec::new())
            }
        }
    }

    /// What counts when no more comes. Of an event that has no end its data do, if they are there to their end; its id does not:
    /// whoever asks for more is given the event whole, and not what follows it.
    pub fn end(&mut self) -> Option<Event> {
        let data = match &mut self.form {
            Form::Open => return None,
            Form::Events(events) => events.end()?.data,
            Form::Json(body) => return Some(Event { data: std::mem::take(body), ..Event::default() }),
        };
        lenient_json::parse(&data).is_ok().then(|| Event { data, ..Event::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of a whole body, and the ids, whatever the pieces in which it passes.
    fn told(body: &str) -> Vec<(Option<String>, String)> {
        let all = [1, 3, body.len().max(1)].map(|size| {
            let mut passing = StreamBody::new(128);
            let pieces = body.as_bytes().chunks(size).flat_map(|piece| passing.pass(piece).expect("it is short"));
            let mut all: Vec<Event> = pieces.collect();
            all.extend(passing.end());
            let text = |data: Vec<u8>| String::from_utf8(data).expect("text");
            all.into_iter().map(|event| (event.id, text(event.data))).collect::<Vec<_>>()
        });
        assert!(all.windows(2).all(|two| two[0] == two[1]), "{all:?}");
        let [first, ..] = all;
        first
    }

    fn data(text: &str) -> Vec<(Option<String>, String)> {
        vec![(None, text.to_owned())]
    }

    #[test]
    fn json_is_read_where_events_are_announced() {
        let answer = "{\"jsonrpc\":\"2.0\",\n\n\"id\":4,\"result\":{}}";
        for (body, expected) in [
            (answer.to_owned(), answer.to_owned()),
            (format!("\u{feff}\r\n {answer}\n"), format!("{answer}\n")),
            (format!("[{answer}]"), format!("[{answer}]")),
        ] {
            assert_eq!(told(&body), data(&expected));
        }
        let line = answer.replace('\n', "");
        assert_eq!(told(&format!("\u{feff}\n\ndata: {line}\n\n")), data(&line));
        for nothing in ["", " \r\n", ": hello\n\n"] {
            assert_eq!(told(nothing), Vec::new(), "{nothing:?}");
        }
        let mut long = StreamBody::new(8);
        assert_eq!(long.pass(b"[1,2,3"), Ok(Vec::new()));
        assert_eq!(long.pass(b",4]"), Err(TooLong(Vec::new())));
    }

    #[test]
    fn of_an_event_that_is_cut_only_whole_data_count_and_no_id() {
        let first = vec![(Some("1".to_owned()), String::new())];
        let whole = "{\"id\":4,\"result\":{}}";
        for (cut, expected) in [
            ("id: 2\n".to_owned(), Vec::new()),
            ("retry: 5\n".to_owned(), Vec::new()),
            ("id: 2\ndata: {\"id\":4,\"result\":{\"con".to_owned(), Vec::new()),
            (format!("id: 2\ndata: {whole}"), data(whole)),
            (format!("id: 2\nretry: 0\ndata: {whole}\n"), data(whole)),
            (format!("data: {whole}\nid"), data(whole)),
        ] {
            let expected = [first.clone(), expected].concat();
            assert_eq!(told(&format!("id: 1\ndata:\n\n{cut}")), expected, "{cut:?}");
        }
    }
}
