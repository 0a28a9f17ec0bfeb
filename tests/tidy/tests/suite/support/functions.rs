//! The test functions of a file, also those in macros such as `proptest!`.

use std::{ops::RangeInclusive, path::Path};

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// A function that `cargo test` runs.
#[derive(Debug, PartialEq, Eq)]
pub struct TestFunction {
    /// Its lines, with its attributes and its doc comment.
    pub lines: RangeInclusive<usize>,
    /// Whether something in it, but for an operation of its own that fails, can make it fail.
    pub asserts: bool,
}

/// The test functions of a file, but for those that are run on demand only.
pub fn test_functions(file: &Path) -> Vec<TestFunction> {
    functions_in(&super::text(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Those of a text.
pub fn functions_in(text: &str) -> Result<Vec<TestFunction>, proc_macro2::LexError> {
    let mut found = Vec::new();
    walk(text.parse()?, &mut found);
    Ok(found)
}

/// What stands before an item.
#[derive(Default)]
struct Attributes {
    begin: Option<usize>,
    is_test: bool,
    is_ignored: bool,
    /// `#[should_panic]` is an assertion.
    should_panic: bool,
}

impl Attributes {
    fn add(&mut self, line: usize, attribute: &Group) {
        self.begin.get_or_insert(line);
        // The last name of the path: `tokio::test`, before its arguments.
        let names = attribute.stream().into_iter().filter_map(|token| match token {
            TokenTree::Ident(name) => Some(name.to_string()),
            _ => None,
        });
        match names.last().as_deref() {
            Some("test") => self.is_test = true,
            Some("ignore") => self.is_ignored = true,
            Some("should_panic") => self.should_panic = true,
            _ => {}
        }
    }
}

fn walk(tokens: TokenStream, found: &mut Vec<TestFunction>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut attributes = Attributes::default();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = tokens.peek() {
                    attributes.add(hash.span().start().line, attribute);
                    tokens.next();
                }
            }
            TokenTree::Punct(end) if end.as_char() == ';' => attributes = Attributes::default(),
            TokenTree::Ident(word) if word == "fn" && attributes.is_test => {
                let body = tokens.by_ref().find_map(|token| match token {
                    TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => Some(body),
                    _ => None,
                });
                let (Some(body), Some(begin)) = (body, attributes.begin) else { return };
                if !attributes.is_ignored {
                    let asserts = attributes.should_panic || asserts(body.stream());
                    found.push(TestFunction { lines: begin..=body.span().end().line, asserts });
                }
                attributes = Attributes::default();
            }
            TokenTree::Group(group) => {
                if group.delimiter() == Delimiter::Brace {
                    attributes = Attributes::default();
                }
                walk(group.stream(), found);
            }
            _ => {}
        }
    }
}

/// Whether there is a macro of assertions among the tokens, at any depth, or a call that wants an error.
fn asserts(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Group(group) => asserts(group.stream()),
            TokenTree::Ident(word) => {
                let word = word.to_string();
                let is_macro = matches!(tokens.peek(), Some(TokenTree::Punct(next))
                    if next.as_char() == '!' && next.spacing() == Spacing::Alone);
                let asserts = ["assert", "debug_assert", "prop_assert"].iter().any(|start| word.starts_with(start));
                (is_macro && (asserts || word == "panic")) || word == "expect_err" || word == "unwrap_err"
            }
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}
