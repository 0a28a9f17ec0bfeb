//! No room but the command line names its commands: an error says what failed, where and why, and carries the next step as a
//! value of `node/failure`, which each face says in its own words.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};

use crate::support::{Finding, only_shrinks, place, rust_files, test_lines, text};

/// How a text that names a command begins to.
const COMMAND: &str = "`althing ";

/// What says commands: the command line with its leaves, and what tests it.
const FACES: &[&str] = &["node/althing", "tests"];

const REMEDY: &str = "a text below the faces names a command: give the error a `remedy()` of node/failure, and have \
node/althing/src/words.rs say it";

/// The lines of the literals among tokens that name a command. Comments are none, also those that document something.
fn commands(tokens: TokenStream) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_attribute = false;
    for token in tokens {
        let behind_hash = std::mem::take(&mut is_attribute);
        match token {
            // `#` of an attribute, or `#!` of one that is about what it lies in.
            TokenTree::Punct(punct) => is_attribute = punct.as_char() == '#' || (behind_hash && punct.as_char() == '!'),
            TokenTree::Group(group) if behind_hash && documents(group.stream()) => {}
            TokenTree::Group(group) => found.extend(commands(group.stream())),
            TokenTree::Literal(literal) if literal.to_string().contains(COMMAND) => {
                found.push(literal.span().start().line);
            }
            TokenTree::Literal(_) | TokenTree::Ident(_) => {}
        }
    }
    found
}

/// Whether the inside of an attribute is documentation.
fn documents(attribute: TokenStream) -> bool {
    matches!(attribute.into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
}

#[test]
fn no_text_below_the_faces_names_a_command_but_those_that_are_listed() {
    let (production, _) = rust_files();
    let mut found: BTreeMap<String, Finding> = BTreeMap::new();
    for file in production.iter().filter(|file| !FACES.iter().any(|face| file.starts_with(face))) {
        let Some((folder, _)) = place(file) else { continue };
        let tokens = text(file).parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let tests = test_lines(file);
        for line in commands(tokens).into_iter().filter(|line| !tests.iter().any(|lines| lines.contains(line))) {
            found.entry(folder.display().to_string()).or_default().add(format!("{}:{line}", file.display()));
        }
    }
    only_shrinks("commands.txt", &found, REMEDY);
}

#[test]
fn commands_are_found_in_texts_and_in_those_of_attributes_and_not_in_comments() {
    let source = "//! Is for `althing up`.
        /// As `althing id` shows it.
        #[error(\"none; `althing find` lists them\")]
        struct Unknown; // `althing call`
        fn said() -> String {
            format!(\"there is none (`althing registry \\
                     add`): {}\", \"althing up\")
        }";
    assert_eq!(commands(source.parse().expect("it parses")), [3, 6]);
}
