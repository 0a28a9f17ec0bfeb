//! Which lines of a text are code.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

/// The numbers of the lines, from 1, that hold more than blanks and comments. A text over several lines counts whole.
pub fn code_lines(text: &str) -> Result<BTreeSet<usize>, LexError> {
    let mut lines = BTreeSet::new();
    walk(text.parse()?, &mut lines);
    Ok(lines)
}

fn walk(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                drop(tokens.next_if(|next| matches!(next, TokenTree::Punct(mark) if mark.as_char() == '!')));
                if tokens.next_if(is_documentation).is_none() {
                    lines.insert(hash.span().start().line);
                }
            }
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                walk(group.stream(), lines);
                lines.insert(group.span_close().end().line);
            }
            other => lines.extend(other.span().start().line..=other.span().end().line),
        }
    }
}

/// Whether it is the rest of a doc comment, which the lexer turns into `#[doc = "…"]`.
fn is_documentation(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    group.delimiter() == Delimiter::Bracket
        && matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
}

#[test]
fn comments_and_blank_lines_are_no_code() {
    let text = "//! Of the file.\n\n/// Of the item.\n#[derive(Debug)]\nstruct S; // behind\n/* two\nlines */\nconst T: &str = \"a\n\nb\";\nfn f(\n) {\n    // inside\n    m! { /* in a macro */ }\n}\n";
    let lines = code_lines(text).expect("Rust");
    assert_eq!(lines.into_iter().collect::<Vec<_>>(), [4, 5, 8, 9, 10, 11, 12, 14, 15]);
}
