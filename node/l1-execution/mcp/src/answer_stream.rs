//! The events that answer a request, member by member. One that is too long ends them with an error.

use std::future::ready;

use futures::{StreamExt as _, stream};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::SseError;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::bodies::{Meaning, OpenRequest};
use crate::machine::line;
use crate::posting::{Event, is_oversize};

/// What is said where the first question has no answer.
const ENDED: &str = "it ended before it answered";

/// Reads the events that answer a request. What comes after `until` is not waited for.
pub fn read(events: BoxedSseResponse, asked: OpenRequest, until: Option<Instant>) -> BoxedSseResponse {
    let events = match until {
        Some(until) => events.take_until(sleep_until(until)).boxed(),
        None => events,
    };
    let mut reading = AnswerStream { asked, unaddressed: None, is_answered: false, goes_on: false };
    let all = events.map(Some).chain(stream::once(ready(None)));
    all.flat_map(move |event| stream::iter(reading.take(event))).boxed()
}

/// An event that says this.
pub fn with_data(mut event: Event, data: String) -> Event {
    event.data = Some(data);
    event
}

/// A stream that answers a request.
struct AnswerStream {
    asked: OpenRequest,
    /// An error that does not say of what: the answer, if no other comes.
    unaddressed: Option<Value>,
    is_answered: bool,
    /// Whether another stream may go on where this one ends.
    goes_on: bool,
}

impl AnswerStream {
    /// The next that came, or the end.
    fn take(&mut self, event: Option<Result<Event, SseError>>) -> Vec<Result<Event, SseError>> {
        match event {
            Some(Ok(event)) => self.said(event),
            Some(Err(error)) if is_oversize(&error) => {
                self.is_answered = true;
                let told = serde_json::to_string(&line::too_long(self.asked.id.clone())).unwrap_or_default();
                vec![Ok(with_data(Event::default(), told))]
            }
            Some(Err(_)) if self.asked.is_probe() && !self.is_answered => Vec::new(),
            Some(Err(error)) => vec![Err(error)],
            None => self.ended(),
        }
    }

    fn said(&mut self, mut event: Event) -> Vec<Result<Event, SseError>> {
        self.goes_on |= event.id.is_some();
        let mut told = Vec::new();
        for said in event.data.take().map(|data| self.asked.event(&data)).unwrap_or_default() {
            match said {
                Meaning::Answer(answer) => {
                    self.is_answered = true;
                    told.push(answer);
                }
                Meaning::Beside(message) => told.push(message),
                Meaning::Unaddressed(error) => self.unaddressed = Some(error),
                Meaning::Foreign => {}
            }
        }
        // What else an event says counts once, also without data.
        let mut all: Vec<Result<Event, SseError>> = Vec::new();
        for message in told {
            all.push(Ok(with_data(std::mem::take(&mut event), message.to_string())));
        }
        if all.is_empty() {
            all.push(Ok(event));
        }
        all
    }

    fn ended(&mut self) -> Vec<Result<Event, SseError>> {
        // The first question is not asked for on another stream.
        if self.is_answered || (self.goes_on && !self.asked.is_first()) {
            return Vec::new();
        }
        let no_answer = self.asked.is_first().then(|| self.asked.error(ENDED));
        let told = self.unaddressed.take().or(no_answer);
        told.map(|told| Ok(with_data(Event::default(), told.to_string()))).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use althing_execution::tools::RESULT_TOO_LONG;
    use rmcp::model::RequestId;
    use serde_json::json;

    use super::*;
    use crate::machine::line::NO_ANSWER;
    use crate::posting::oversize;

    fn asked(method: &str) -> OpenRequest {
        OpenRequest { method: method.to_owned(), id: RequestId::Number(4), server: "stub".into() }
    }

    /// The data of events, as they are read for a request of this method.
    async fn read_of(method: &str, events: BoxedSseResponse, until: Option<Instant>) -> Vec<Value> {
        let events = read(events, asked(method), until);
        let read = events.filter_map(|event| ready(event.expect("no failure").data));
        read.map(|data| serde_json::from_str(&data).expect("JSON")).collect().await
    }

    fn events(data: &[&str]) -> BoxedSseResponse {
        let all: Vec<_> = data.iter().map(|data| Ok(with_data(Event::default(), (*data).to_owned()))).collect();
        stream::iter(all).boxed()
    }

    #[tokio::test]
    async fn an_event_that_is_too_long_is_told_to_whoever_waits_for_it() {
        let failed = stream::iter([Err(oversize(7))]).boxed();
        let told = read_of("tools/call", failed, None).await;
        assert_eq!((&told[0]["id"], &told[0]["error"]["message"]), (&json!(4), &json!(RESULT_TOO_LONG)));
        let sounds_so = std::io::Error::other("it exceeded the maximum size of 7 bytes");
        for broken in [SseError::InvalidLine, SseError::Body(sounds_so.into())] {
            let broken = stream::iter([Err(broken)]).boxed();
            assert!(read(broken, asked("tools/call"), None).next().await.is_some_and(|event| event.is_err()));
        }
    }

    #[tokio::test]
    async fn noise_and_answers_to_others_are_passed_over_and_an_error_of_nothing_is_the_answer_if_none_else_comes() {
        let unaddressed = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#;
        let foreign = r#"{"jsonrpc":"2.0","id":"x","result":{}}"#;
        let noise = ["{}", "null", "hello", r#"{"level":"info"}"#, "", unaddressed, foreign];
        for method in ["initialize", "server/discover", "tools/call"] {
            let error = r#"{"jsonrpc":"2.0","id":4,"error":{"code":-7,"message":"mine"}}"#;
            let told = read_of(method, events(&[&noise[..], &[error]].concat()), None).await;
            assert_eq!((told.len(), &told[0]["error"]["code"]), (1, &json!(-7)), "{method}");
            let told = read_of(method, events(&noise), None).await;
            assert_eq!((told.len(), &told[0]["id"], &told[0]["error"]["code"]), (1, &json!(4), &json!(-1)), "{method}");
        }
        let told = read_of("server/discover", events(&["{}"]), None).await;
        assert_eq!(told[0]["error"]["code"], NO_ANSWER.0, "the server may speak an earlier version");
        assert_eq!(read_of("tools/call", events(&["{}"]), None).await, Vec::<Value>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_is_not_waited_for_beyond_its_time_whatever_comes_instead() {
        let pings = stream::repeat_with(|| Ok(Event::default())).then(|event| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            event
        });
        let broken = stream::iter([Err(SseError::InvalidLine)]).boxed();
        for (stream, seconds) in [(stream::pending().boxed(), 3), (pings.boxed(), 3), (broken, 0)] {
            let begun = Instant::now();
            let told = read_of("server/discover", stream, Some(begun + Duration::from_secs(3))).await;
            assert_eq!((told.len(), &told[0]["error"]["code"]), (1, &json!(NO_ANSWER)), "{told:?}");
            assert_eq!(begun.elapsed().as_secs(), seconds);
        }
    }
}
