//! How large a set may be. A text is measured before it is parsed: a parser's own stack grows with what is nested, and
//! what it made is freed level by level.

use crate::finding::Place;

/// The bounds of one set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Of the text, in bytes.
    pub bytes_max: usize,
    /// Of policies and templates.
    pub policies_max: usize,
    /// Of brackets within brackets.
    pub depth_max: usize,
    /// Of operators in one policy: each may nest what is before it once more.
    pub operators_max: usize,
}

impl Default for Bounds {
    /// A megabyte and a thousand policies: ten times what a decision is measured with.
    fn default() -> Self {
        Bounds { bytes_max: 1 << 20, policies_max: 1_000, depth_max: 48, operators_max: 500 }
    }
}

/// What a text has more of than it may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    pub(crate) place: Place,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

/// # Errors
/// The first bound that the text breaks.
pub(crate) fn check(text: &str, bounds: &Bounds) -> Result<(), Excess> {
    if text.len() > bounds.bytes_max {
        let what = format!("the set has {} bytes, and may have {}", text.len(), bounds.bytes_max);
        let remedy = "leave out policies that no longer apply".to_owned();
        return Err(Excess { place: Place::START, what, remedy });
    }
    let mut scan = Scan { depth: 0, operators: 0, policies: 0 };
    for (at, token) in tokens(text) {
        if let Some((what, remedy)) = scan.excess_with(token, bounds) {
            return Err(Excess { place: Place::of(text, at), what, remedy });
        }
    }
    Ok(())
}

struct Scan {
    depth: usize,
    operators: usize,
    policies: usize,
}

impl Scan {
    fn excess_with(&mut self, token: Token, bounds: &Bounds) -> Option<(String, String)> {
        match token {
            Token::Open => self.depth += 1,
            Token::Close => self.depth = self.depth.saturating_sub(1),
            Token::Operator => self.operators += 1,
            Token::End => {
                self.policies += 1;
                self.operators = 0;
            }
        }
        let excess = |what: &str, most: usize, remedy: &str| Some((format!("{what}; {most} may"), remedy.to_owned()));
        if self.depth > bounds.depth_max {
            return excess("too many brackets stand within brackets", bounds.depth_max, "write it as several policies");
        }
        if self.operators > bounds.operators_max {
            let remedy = "write it as several policies, or list values in a set: `[a, b].contains(x)`";
            return excess("too many operators stand in one policy", bounds.operators_max, remedy);
        }
        if self.policies > bounds.policies_max {
            return excess(
                "too many policies stand in the set",
                bounds.policies_max,
                "join those that differ in one value",
            );
        }
        None
    }
}

#[derive(Clone, Copy)]
enum Token {
    Open,
    Close,
    Operator,
    End,
}

/// What can nest, with its place in bytes. Texts in quotes and comments have none.
fn tokens(text: &str) -> impl Iterator<Item = (usize, Token)> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let here = at;
            at += 1;
            match bytes[here] {
                b'"' => at = end_of_quotes(bytes, at),
                b'/' if bytes.get(at) == Some(&b'/') => at = end_of_line(bytes, at),
                b'(' | b'[' | b'{' => return Some((here, Token::Open)),
                b')' | b']' | b'}' => return Some((here, Token::Close)),
                b';' => return Some((here, Token::End)),
                b'&' | b'|' | b'+' | b'-' | b'*' | b'.' | b'!' | b'<' | b'>' | b'=' => {
                    return Some((here, Token::Operator));
                }
                b'i' if is_word_if(bytes, here) => return Some((here, Token::Operator)),
                _ => {}
            }
        }
        None
    })
}

fn end_of_quotes(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

fn end_of_line(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |line| at + line)
}

fn is_word_if(bytes: &[u8], at: usize) -> bool {
    let is_letter = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let before = at.checked_sub(1).and_then(|before| bytes.get(before));
    bytes.get(at + 1) == Some(&b'f') && !is_letter(before) && !is_letter(bytes.get(at + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        check(text, &Bounds::default()).expect_err("it is too large").what
    }

    #[test]
    fn what_is_in_quotes_or_comments_is_not_counted() {
        let text =
            format!("// {0}\npermit(principal, action, resource) when {{ \"{0}\\\"{0}\" == \"\" }};", "((".repeat(99));
        assert_eq!(check(&text, &Bounds::default()), Ok(()));
    }

    #[test]
    fn what_nests_is_bounded_in_each_of_its_forms() {
        let deep = format!("permit(principal, action, resource) when {{ {}true{} }};", "(".repeat(60), ")".repeat(60));
        assert!(refused(&deep).contains("within brackets"));
        for link in ["true && ", "!", "1 + 1 == 2 || ", "if true then true else ", "- "] {
            let long = format!("permit(principal, action, resource) when {{ {}true }};", link.repeat(600));
            assert!(refused(&long).contains("operators"), "{link}");
        }
        let chain = format!("permit(principal, action, resource) when {{ principal{} }};", ".a".repeat(600));
        assert!(refused(&chain).contains("operators"));
    }

    #[test]
    fn a_text_is_bounded_in_bytes_and_in_policies() {
        assert!(refused(&" ".repeat((1 << 20) + 1)).contains("bytes"));
        assert!(refused(&"permit(principal, action, resource);\n".repeat(1_001)).contains("too many policies"));
    }

    #[test]
    fn a_text_that_ends_within_quotes_is_read_to_its_end() {
        for text in ["\"", "\"\\", "/", "//", "i", "if"] {
            assert_eq!(check(text, &Bounds::default()), Ok(()), "{text}");
        }
    }
}
