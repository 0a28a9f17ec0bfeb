//! Regular expressions that every client reads. Pure.
//!
//! What is common to ECMAScript's with the flag `u`, Python's and Rust's: one that only some of them know, such as `(?i)` or
//! `\p{L}`, makes the others refuse the schema, or the list that it stands in.

use std::iter::Peekable;
use std::str::Chars;

const PATTERN_BYTES_MAX: usize = 512;
/// Groups within groups.
const DEPTH_MAX: usize = 16;
/// Digits of a number of repetitions.
const DIGITS_MAX: usize = 4;

/// Whether every client reads that pattern, and reads the same in it.
pub(super) fn is_portable(pattern: &str) -> bool {
    let mut reader = PatternReader { rest: pattern.chars().peekable() };
    pattern.len() <= PATTERN_BYTES_MAX && reader.alternatives(0) && reader.rest.peek().is_none()
}

/// What an escape is.
enum Escape {
    Char(char),
    /// A set of characters, such as `\d`.
    Set,
    /// A place between characters, which is not repeated.
    Edge,
}

struct PatternReader<'a> {
    rest: Peekable<Chars<'a>>,
}

impl PatternReader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    /// Takes that character, if it is the next one.
    fn takes(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
    }

    /// Alternatives, up to the end of the group or of the pattern.
    fn alternatives(&mut self, depth: usize) -> bool {
        if depth > DEPTH_MAX {
            return false;
        }
        // Whether what was read last may be repeated.
        let mut is_atom = false;
        while let Some(next) = self.peek() {
            if next == ')' {
                return true;
            }
            self.rest.next();
            let read = match next {
                '|' | '^' | '$' => Some(false),
                '*' | '+' | '?' | '{' => (is_atom && (next != '{' || self.counts())).then(|| {
                    self.takes('?');
                    false
                }),
                '(' => self.group(depth),
                '[' => self.class().then_some(true),
                ']' | '}' => None,
                '\\' => self.escape(false).map(|escape| !matches!(escape, Escape::Edge)),
                _ => Some(true),
            };
            match read {
                Some(read) => is_atom = read,
                None => return false,
            }
        }
        true
    }

    /// A group after its `(`: whether it may be repeated; `None` if it is not one that all know.
    fn group(&mut self, depth: usize) -> Option<bool> {
        let mut is_atom = true;
        if self.takes('?') {
            match self.rest.next()? {
                ':' => {}
                '=' | '!' => is_atom = false,
                _ => return None,
            }
        }
        (self.alternatives(depth + 1) && self.takes(')')).then_some(is_atom)
    }

    /// A number of repetitions after its `{`.
    fn counts(&mut self) -> bool {
        let Some(least) = self.number() else { return false };
        let is_good = !self.takes(',') || self.peek() == Some('}') || self.number().is_some_and(|most| most >= least);
        is_good && self.takes('}')
    }

    fn number(&mut self) -> Option<u32> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        digits.parse().ok().filter(|_| digits.len() <= DIGITS_MAX)
    }

    /// What follows a `\`.
    fn escape(&mut self, in_class: bool) -> Option<Escape> {
        let next = self.rest.next()?;
        Some(match next {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => Escape::Set,
            'b' | 'B' if !in_class => Escape::Edge,
            't' => Escape::Char('\t'),
            'n' => Escape::Char('\n'),
            'r' => Escape::Char('\r'),
            'f' => Escape::Char('\u{c}'),
            'v' => Escape::Char('\u{b}'),
            'x' => Escape::Char(self.code(2)?),
            'u' => Escape::Char(self.code(4)?),
            '^' | '$' | '\\' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '/' => {
                Escape::Char(next)
            }
            '-' if in_class => Escape::Char(next),
            _ => return None,
        })
    }

    /// A character by that many hexadecimal digits; half of a pair is none.
    fn code(&mut self, digits: usize) -> Option<char> {
        let mut code = 0;
        for _ in 0..digits {
            code = code * 16 + self.rest.next()?.to_digit(16)?;
        }
        char::from_u32(code)
    }

    /// A class of characters after its `[`.
    fn class(&mut self) -> bool {
        self.takes('^');
        if self.peek() == Some(']') {
            return false;
        }
        let mut last = None;
        loop {
            let Some(next) = self.rest.next() else { return false };
            if next == ']' {
                return true;
            }
            // Twice the same: an operator on sets for some.
            if matches!(next, '&' | '~' | '-' | '|') && last == Some(next) {
                return false;
            }
            last = Some(next);
            let Some(from) = self.member(next) else { return false };
            if !self.is_range() {
                continue;
            }
            self.rest.next();
            let to = self.rest.next().and_then(|next| self.member(next));
            let is_ordered = match (from, to) {
                (Escape::Char(from), Some(Escape::Char(to))) => from <= to,
                _ => false,
            };
            if !is_ordered {
                return false;
            }
            last = None;
        }
    }

    /// A member of a class that begins so.
    fn member(&mut self, next: char) -> Option<Escape> {
        match next {
            '[' => None,
            '\\' => self.escape(true),
            other => Some(Escape::Char(other)),
        }
    }

    /// Whether a `-` follows that is not the last of its class.
    fn is_range(&self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next() == Some('-') && ahead.next() != Some(']')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_read_is_portable() {
        for pattern in [
            "",
            "^[a-z][a-z0-9_-]{0,63}$",
            r"^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2})?$",
            r"^(?!x-)(?=.)[^\s/\\\]]+?$",
            r"^\+?[\x20-\x7e\u00e4]{2,}$",
            "a|b|",
            "[-a]|[a-]|[^a-c-]",
            r"\bword\B",
            r"\.\/\|",
            "ä*",
        ] {
            assert!(is_portable(pattern), "{pattern}");
            let schema = serde_json::json!({ "pattern": pattern });
            assert!(jsonschema::draft202012::new(&schema).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn what_only_some_read_is_not() {
        for pattern in [
            "(?i)abc",
            "(?x) a",
            "(?<name>a)",
            "(?P<name>a)",
            "(?<=a)b",
            "(?>a)",
            "(?#note)",
            r"\p{L}",
            r"\Aa\z",
            r"\Qa\E",
            r"a\-b",
            r"\_",
            r"\1",
            r"\0",
            r"\u{e4}",
            r"\ud83d\ude00",
            r"\x4",
            r"\cA",
            r"[\b]",
            "a++",
            "a**",
            "*a",
            "^*",
            "(?=a)*",
            r"\b+",
            "a{2,1}",
            "a{,3}",
            "a{",
            "a{x}",
            "{1}",
            "a}",
            "a]",
            "a{99999}",
            "[]",
            "[^]",
            "[a",
            "[b-a]",
            r"[\d-z]",
            r"[a-\d]",
            "[[:alpha:]]",
            "[a&&b]",
            "[a--b]",
            "(",
            "(a",
            "a)",
            "(?:",
            "\\",
        ] {
            assert!(!is_portable(pattern), "{pattern}");
        }
        assert!(!is_portable(&"(".repeat(4000)));
        assert!(!is_portable(&"a".repeat(PATTERN_BYTES_MAX + 1)));
    }
}
