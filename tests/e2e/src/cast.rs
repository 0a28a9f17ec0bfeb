//! Agent files and programs that play a part in the tests.

/// An agent that says back what it is told.
pub fn echo(name: &str, callers: &str) -> String {
    file(name, callers, "  native:\n    builtin: echo\n    config: {}\n")
}

/// An agent that is a program.
pub fn program(name: &str, command: &[&str], callers: &str) -> String {
    let command = serde_json::to_string(command).expect("JSON is YAML");
    let runtime =
        format!("  process:\n    command: {command}\n    cwd: .\n    env: {{}}\n    startup_timeout_ms: 30000\n");
    file(name, callers, &runtime)
}

fn file(name: &str, callers: &str, runtime: &str) -> String {
    format!(
        "name: {name}\n\
         title: Agent {name}\n\
         description: Plays the part of {name} in a test\n\
         version: 1.0.0\n\
         skills:\n\
         - id: {name}.say\n  \
           name: Say\n  \
           description: Says something about {name}\n  \
           action: say\n  \
           target: {name}\n  \
           tags: [test]\n  \
           examples: [\"say {name}\"]\n\
         runtime:\n{runtime}\
         contract: {{ class: {{ latency: srt }} }}\n\
         callers: {callers}\n\
         exposure: public\n\
         input_modes: [text/plain]\n\
         output_modes: [text/plain]\n"
    )
}
