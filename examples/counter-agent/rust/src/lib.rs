//! Counts the messages of a task, streams each word, and calls a tool on request: for `each` once for each word, and it saves
//! after every second one how far it came, so that a node that ends meanwhile does not begin again.

use althing_guest::{Agent, Reply, agent, checkpoint, invoke_tool, log, say};

/// After so many words it saves.
const EVERY: u32 = 2;

#[derive(Default)]
struct Counter {
    count: u32,
    /// Words of the message that are done.
    done: u32,
}

impl Counter {
    fn each(&mut self, tool: &str, words: &str) -> Reply {
        // Not 0 where the turn goes on from what was saved.
        let since = self.done;
        for word in words.split_whitespace().skip(since as usize) {
            if let Err(reason) = invoke_tool(tool, &format!("{{\"word\":{word:?}}}")) {
                log(&reason);
            }
            self.done += 1;
            if self.done.is_multiple_of(EVERY)
                && let Err(reason) = checkpoint(&self.checkpoint())
            {
                log(&reason);
            }
        }
        let finished = std::mem::take(&mut self.done);
        let from = if since > 0 { format!(", on from {since}") } else { String::new() };
        Reply::Done(format!("{finished} called{from}"))
    }
}

impl Agent for Counter {
    fn message(&mut self, text: &str) -> Result<Reply, String> {
        if let Some(rest) = text.strip_prefix("each ") {
            let (tool, words) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok(self.each(tool, words));
        }
        self.count += 1;
        match text.split_once(' ').unwrap_or((text, "")) {
            ("call", rest) => {
                let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
                Ok(Reply::Done(invoke_tool(tool, arguments)?))
            }
            ("ask", _) => Ok(Reply::Ask(format!("({}) what else?", self.count))),
            ("fail", _) => Err("as it was told".to_owned()),
            _ => {
                text.split_whitespace().for_each(|word| say(&format!("{word} ")));
                Ok(Reply::Done(format!("({})", self.count)))
            }
        }
    }

    fn checkpoint(&self) -> Vec<u8> {
        [self.count.to_le_bytes(), self.done.to_le_bytes()].concat()
    }

    fn restore(&mut self, state: &[u8]) {
        let number = |at: usize| {
            let bytes = state.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_le_bytes).unwrap_or_default()
        };
        (self.count, self.done) = (number(0), number(4));
    }
}

agent!(Counter);
