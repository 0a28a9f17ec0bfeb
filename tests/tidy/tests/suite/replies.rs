//! What a node answers its owner has a type in `node/api`, which both sides read.

use std::collections::BTreeSet;
use std::path::Path;

const RULE: &str = "a reply of the owner's API is a type of node/api: `json!` makes no part of it in node/gateway/control or \
node/api, nor of what node/operations sends, and no command reads it as a `Value`. What has another reason is listed in \
tests/tidy/tests/suite/replies.rs";

/// Files, each with the reason.
type Excuses = &'static [(&'static str, &'static str)];
type Rule = (&'static str, &'static str, Excuses);

/// A folder, a word that no file below it names outside tests, and the files that do all the same, with what for. The lists may
/// only shrink.
const WORDS: &[Rule] = &[
    ("node/api/src", "json", &[]),
    ("node/gateway/control/src", "json", &[]),
    ("node/operations/src", "json", &[]),
    (
        "node/althing/src/commands",
        "Value",
        &[
            ("node/althing/src/commands/bind.rs", "values of a contract, as somebody wrote them"),
            ("node/althing/src/commands/call.rs", "events of A2A, as they arrive"),
            ("node/althing/src/commands/contents.rs", "an agent file as somebody else wrote it"),
            ("node/althing/src/commands/contract.rs", "what it finds itself, without a node"),
            ("node/althing/src/commands/key.rs", "what it finds itself, without a node"),
            ("node/althing/src/commands/memory.rs", "has a reply with a variant of that name"),
            ("node/althing/src/commands/mod.rs", "times of what `key` finds itself, without a node"),
            ("node/althing/src/commands/task_sets.rs", "has an associated type of that name"),
        ],
    ),
];

#[test]
fn replies_have_types_on_both_sides() {
    let (production, _) = crate::support::rust_files();
    for (folder, word, excused) in WORDS {
        let (mut elsewhere, mut named) = (Vec::new(), BTreeSet::new());
        for file in production.iter().filter(|file| file.starts_with(folder)) {
            let tests = crate::support::test_lines(file);
            let is_product = |line: &usize| !tests.iter().any(|test| test.contains(line));
            let lines = crate::support::idents(file).into_iter().filter(|(found, _)| found == word);
            for (_, line) in lines.filter(|(_, line)| is_product(line)) {
                match excused.iter().position(|(at, _)| file == Path::new(at)) {
                    Some(excuse) => drop(named.insert(excuse)),
                    None => elsewhere.push(format!("  {}:{line}: {word}", file.display())),
                }
            }
        }
        assert!(elsewhere.is_empty(), "{RULE}.\n{}", elsewhere.join("\n"));
        for (at, (file, _)) in excused.iter().enumerate() {
            assert!(named.contains(&at), "{file} does not name {word} any more: take it out of WORDS");
        }
    }
}
