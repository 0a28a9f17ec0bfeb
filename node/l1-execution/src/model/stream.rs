//! The answer of an endpoint, as it is streamed or comes in one piece.

use std::collections::{BTreeSet, VecDeque};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::lenient_json;
use crate::model::calls::{Calls, fill_ids};
use crate::model::chat::ChatToolCall;
use crate::model::chunk::{Chunk, OTHER, Unread};
use crate::model::error::{EndpointError, PATIENCE};
use crate::sse::Events;

/// Bytes of an answer that is not streamed.
const WHOLE_BYTES_MAX: usize = 4 << 20;
/// Bytes of a streamed answer, beside those of its tokens: what thinks long sends much that is no text.
const STREAM_BYTES_MAX: u64 = 64 << 20;
/// Bytes in which a token may be told, with all that stands around it.
const TOKEN_BYTES_MAX: u64 = 4 << 10;
/// Bytes of text that count as a token where nobody tells how many there are.
const BYTES_OF_TOKEN: usize = 4;
/// The event after which nothing comes.
const DONE: &[u8] = b"[DONE]";
/// Bytes of the name of a model, and what stands in one beside letters and digits.
const MODEL_NAME_BYTES_MAX: usize = 128;
const MODEL_NAME_MARKS: &str = "._:/@+-";
/// Why models stop, in the words of endpoints; whatever else one says is [`OTHER`].
const FINISHES: [&str; 16] = [
    "stop",
    "length",
    "content_filter",
    "tool_calls",
    "function_call",
    "max_tokens",
    "model_length",
    "end_turn",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "eos",
    "eos_token",
    "abort",
    "error",
];

/// A finished answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Completion {
    /// The model, as its server calls it.
    pub model: Option<String>,
    /// The model that was asked; none in rows of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// What a million tokens cost at the endpoint that answered, millionths of a currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
    pub finish: String,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub pieces: u64,
    /// The text of the answer.
    pub text: String,
    /// The tool calls that the model makes.
    pub calls: Vec<ChatToolCall>,
}

impl Completion {
    /// Input and output tokens; estimated if the endpoint does not tell.
    pub fn tokens(&self, prompt_tokens: u64) -> (u64, u64) {
        (self.input_tokens.unwrap_or(prompt_tokens), self.output_tokens.unwrap_or(self.pieces))
    }
}

/// A streamed answer.
pub(super) struct Stream {
    bytes: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    events: Events,
    /// What came of an answer that is not streamed; none of one that is, and before anything came.
    whole: Option<Vec<u8>>,
    has_begun: bool,
    /// Bytes that came.
    taken: u64,
    ready: VecDeque<String>,
    completion: Completion,
    calls: Calls,
    /// Whether pieces said anything: a whole answer after them says it again.
    is_in_pieces: bool,
    /// How many messages its request has. No other answer of the conversation has that many before it.
    messages: usize,
    /// Members that were left out, as they are named to the operator: each once.
    odd: BTreeSet<&'static str>,
    over: bool,
}

impl Stream {
    /// The answer to a request of so many messages.
    pub fn new(bytes: BoxStream<'static, reqwest::Result<bytes::Bytes>>, messages: usize) -> Stream {
        Stream {
            bytes,
            events: Events::default(),
            whole: None,
            has_begun: false,
            taken: 0,
            ready: VecDeque::new(),
            completion: Completion::default(),
            calls: Calls::default(),
            is_in_pieces: false,
            messages,
            odd: BTreeSet::new(),
            over: false,
        }
    }

    /// The next piece of text; none at the end. An answer is cut after `max_tokens` pieces, each of which has at least one
    /// token. What is no text does not count; its bytes have a bound.
    pub async fn next(&mut self, max_tokens: u64) -> Result<Option<String>, EndpointError> {
        loop {
            if let Some(text) = self.ready.pop_front() {
                if self.completion.pieces >= max_tokens {
                    "length".clone_into(&mut self.completion.finish);
                    self.ready.clear();
                    self.over = true;
                    return Ok(None);
                }
                self.completion.pieces += 1;
                return Ok(Some(text));
            }
            if self.over {
                return Ok(None);
            }
            let more = timeout(PATIENCE, self.bytes.next()).await.map_err(|_| EndpointError::Silent)?;
            match more {
                Some(Ok(bytes)) => {
                    self.taken = self.taken.saturating_add(bytes.len() as u64);
                    let most = max_tokens.saturating_mul(TOKEN_BYTES_MAX).saturating_add(STREAM_BYTES_MAX);
                    if self.taken > most {
                        return Err(EndpointError::Malformed(format!("an answer of more than {most} bytes")));
                    }
                    self.take(&bytes)?;
                }
                Some(Err(error)) => return Err(EndpointError::unreachable(error)),
                None if self.whole.is_some() => self.end_whole()?,
                None => self.end_events()?,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), EndpointError> {
        // No line of an event begins like that: it is an answer in one piece, whatever its media type says.
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if let Some(first) = first.filter(|_| !self.has_begun) {
            self.has_begun = true;
            self.whole = matches!(first, b'{' | b'[').then(Vec::new);
        }
        if let Some(whole) = &mut self.whole {
            if whole.len() + bytes.len() > WHOLE_BYTES_MAX {
                return Err(EndpointError::Malformed(format!("an answer of more than {WHOLE_BYTES_MAX} bytes")));
            }
            whole.extend_from_slice(bytes);
            return Ok(());
        }
        let events = self.events.push(bytes).map_err(|_| EndpointError::Malformed("an endless event".to_owned()))?;
        for event in events {
            self.take_event(&event.data)?;
            if self.over {
                break;
            }
        }
        Ok(())
    }

    fn take_event(&mut self, data: &[u8]) -> Result<(), EndpointError> {
        if data.trim_ascii() == DONE {
            self.over = true;
            return Ok(());
        }
        self.take_chunk(data)
    }

    /// Ends a streamed answer where its bytes end.
    fn end_events(&mut self) -> Result<(), EndpointError> {
        // Some send no empty line after the last event. One that broke off is none.
        let is_whole = |data: &[u8]| data.trim_ascii() == DONE || lenient_json::parse(data).is_ok();
        if let Some(last) = self.events.end().filter(|last| is_whole(&last.data)) {
            self.take_event(&last.data)?;
        }
        // Some servers close without `[DONE]`, but none before the finish reason.
        if !self.over && self.completion.finish.is_empty() {
            return Err(EndpointError::Cut);
        }
        self.over = true;
        Ok(())
    }

    /// Reads an answer that is not streamed, which is there to its end.
    fn end_whole(&mut self) -> Result<(), EndpointError> {
        let whole = self.whole.take().unwrap_or_default();
        self.take_chunk(&whole)?;
        self.over = true;
        let completion = &mut self.completion;
        if completion.finish.is_empty() {
            OTHER.clone_into(&mut completion.finish);
        }
        // It is one piece, which would count as one token.
        let bytes: usize = self.ready.iter().map(String::len).sum();
        let tokens = u64::try_from(bytes.div_ceil(BYTES_OF_TOKEN)).unwrap_or(u64::MAX);
        completion.output_tokens.get_or_insert(tokens);
        Ok(())
    }

    fn take_chunk(&mut self, bytes: &[u8]) -> Result<(), EndpointError> {
        let chunk = Chunk::read(bytes).map_err(|unread| match unread {
            Unread::Malformed(why) => EndpointError::Malformed(why),
            Unread::Error(said) => EndpointError::Error(said),
        })?;
        for member in chunk.odd {
            if self.odd.insert(member) {
                tracing::debug!("`{member}` of an endpoint's answer is not as it should be, and is left out");
            }
        }
        let completion = &mut self.completion;
        completion.model = chunk.model.or(completion.model.take());
        completion.input_tokens = chunk.input_tokens.or(completion.input_tokens);
        completion.output_tokens = chunk.output_tokens.or(completion.output_tokens);
        let says_again = chunk.is_whole && self.is_in_pieces;
        self.is_in_pieces |= !(chunk.is_whole || chunk.texts.is_empty() && chunk.calls.is_empty());
        // What pieces left out is taken: some have the calls in the whole answer alone.
        if !(says_again && (completion.pieces > 0 || !self.ready.is_empty())) {
            self.ready.extend(chunk.texts);
        }
        if !says_again || completion.calls.is_empty() {
            for piece in chunk.calls {
                self.calls.add(&mut completion.calls, piece).map_err(EndpointError::Malformed)?;
            }
        }
        if let Some(finish) = chunk.finish {
            completion.finish = finish;
        }
        Ok(())
    }

    /// The finished answer. What the endpoint says of it is shown beside the answer, where no gate reads it: so only what is no
    /// text is kept of that, and the name of the model not at all if it could be one.
    pub fn completion(mut self) -> Completion {
        self.completion.model = self.completion.model.take().filter(|model| is_model_name(model));
        let finish = &mut self.completion.finish;
        if !finish.is_empty() && !FINISHES.contains(&finish.as_str()) {
            OTHER.clone_into(finish);
        }
        // Here, and not where it is told again: what journals have stays as it was sent.
        fill_ids(&mut self.completion.calls, self.messages);
        self.completion
    }
}

fn is_model_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || MODEL_NAME_MARKS.contains(letter);
    !name.is_empty() && name.len() <= MODEL_NAME_BYTES_MAX && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests;
