//! `echo`: a minimal agent, as an example.

use std::path::Path;
use std::sync::Arc;

use a2a::{Message, Part, Role};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::Made;
use crate::{Agent, AgentError, Output, SystemCalls, Turn};

/// Answers with the text of the message.
#[derive(Debug, Default)]
pub struct Echo {
    answer: Form,
}

/// What an answer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    /// A task with an artifact.
    #[default]
    Task,
    /// A message; no task is made.
    Message,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    answer: Form,
}

impl Echo {
    /// The agent of this configuration: `answer`, which is `task` (the default) or `message`.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn build(config: &Value, _folder: &Path, _calls: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
        Echo::read(config).map(|echo| Arc::new(echo) as Arc<dyn Agent>)
    }

    fn read(config: &Value) -> Result<Echo, String> {
        if config.is_null() {
            return Ok(Echo::default());
        }
        let Config { answer } = Config::deserialize(config)
            .map_err(|error| format!("{error}; `echo` takes `answer: task` or `answer: message`"))?;
        Ok(Echo { answer })
    }
}

impl Agent for Echo {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let text = turn.text();
            match self.answer {
                Form::Task => out.text("echo", text).await,
                Form::Message => out.put(Made::Reply(Message::new(Role::Agent, vec![Part::text(text)]))).await,
            }
        })
    }

    fn may_reply(&self) -> bool {
        self.answer == Form::Message
    }

    fn is_enclosed(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn its_answers_are_tasks_or_messages() {
        assert!(!Echo::read(&Value::Null).expect("no configuration").may_reply());
        assert!(!Echo::read(&json!({})).expect("an empty one").may_reply());
        assert!(!Echo::read(&json!({ "answer": "task" })).expect("the default").may_reply());
        assert!(Echo::read(&json!({ "answer": "message" })).expect("messages").may_reply());
    }

    #[test]
    fn another_configuration_is_refused_with_what_to_write() {
        for config in [json!({ "answer": "both" }), json!({ "answers": "task" }), json!("message")] {
            let Err(refused) = Echo::read(&config) else { panic!("{config} was accepted") };
            assert!(refused.contains("answer: message"), "{refused}");
        }
    }
}
