//! The commands of the documentation.

/// The commands of the `sh` blocks, with lines that go on put together.
pub fn commands(document: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut inside, mut goes_on) = (false, false);
    for line in document.lines() {
        if line.starts_with("```") {
            (inside, goes_on) = (line == "```sh", false);
        } else if inside && !line.trim().is_empty() {
            let part = line.trim_end_matches('\\');
            match commands.last_mut().filter(|_| goes_on) {
                Some(command) => command.push_str(part),
                None => commands.push(part.to_owned()),
            }
            goes_on = line.ends_with('\\');
        }
    }
    commands
}

/// What a reader has to fill in, and what builds the program that runs here.
pub fn is_for_the_reader(command: &str) -> bool {
    command.contains('…') || command.starts_with("git ") || command.starts_with("make ")
}
