//! What an agent does, or the node for it, that a gate decides on and a journal notes.

/// What passes a gate, and is a step of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// The agent makes a system call: it calls a tool, or uses its memory as a component does.
    Tool,
    /// The node looks in the agent's memory for what resembles a message, before a model answers it, unasked by the agent.
    /// `tool` is `memory/recall`, and `arguments` are those of that tool.
    Recall,
    /// The node sends a request to the agent's model: `tool` is `models/` and the model's name, and `arguments` is the body
    /// as it is sent, in the form of OpenAI's chat completions (`model`, `messages`, `max_tokens`, `tools`). A server of tools
    /// may be named `models` too: calls of its tools are of the kind `Tool`.
    Model,
}
