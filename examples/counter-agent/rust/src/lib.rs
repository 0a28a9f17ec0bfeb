//! Counts the messages of a task, streams each word, and calls a tool on request.

use althing_guest::{Agent, Reply, agent, invoke_tool, say};

#[derive(Default)]
struct Counter(u32);

impl Agent for Counter {
    fn message(&mut self, text: &str) -> Result<Reply, String> {
        self.0 += 1;
        match text.split_once(' ').unwrap_or((text, "")) {
            ("call", rest) => {
                let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
                Ok(Reply::Done(invoke_tool(tool, arguments)?))
            }
            ("ask", _) => Ok(Reply::Ask(format!("({}) what else?", self.0))),
            ("fail", _) => Err("as it was told".to_owned()),
            _ => {
                text.split_whitespace().for_each(|word| say(&format!("{word} ")));
                Ok(Reply::Done(format!("({})", self.0)))
            }
        }
    }

    fn checkpoint(&self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }

    fn restore(&mut self, state: &[u8]) {
        self.0 = state.try_into().map(u32::from_le_bytes).unwrap_or_default();
    }
}

agent!(Counter);
