//! How deeply a query is nested, before anything parses it.
//!
//! The parser reads a filter that stands for a path twice, and what is within it twice again, and each function may double that:
//! 40 filters within each other, in 160 bytes, would take it days. So this reader, which looks at each character once, comes first.

/// Filters and functions within each other. The parser may read what is innermost 4 to the power of that often.
const DEPTH_MAX: usize = 5;
/// Brackets and parentheses within each other, of whatever kind: the parser takes a part of the stack for each.
const BRACKETS_MAX: usize = 32;

/// What is open.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    /// A filter, or the arguments of a function.
    Doubling,
    /// Another bracket or parenthesis.
    Other,
}

/// Whether a query, without blanks and what its texts say, is nested as deeply as the parser may be given. What is no query
/// may be either.
pub fn is_bounded(bare: &str) -> bool {
    let mut open: Vec<Open> = Vec::new();
    let mut before = ' ';
    for one in bare.chars() {
        match one {
            '(' if before.is_ascii_alphanumeric() || before == '_' => open.push(Open::Doubling),
            '(' | '[' => open.push(Open::Other),
            ')' | ']' => drop(open.pop()),
            // The filters of one bracket stand beside each other.
            '?' => match open.last_mut() {
                Some(last) => *last = Open::Doubling,
                None => open.push(Open::Doubling),
            },
            _ => {}
        }
        let doublings = open.iter().filter(|of| **of == Open::Doubling).count();
        if doublings > DEPTH_MAX || open.len() > BRACKETS_MAX {
            return false;
        }
        before = one;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_and_functions_are_counted_where_they_are_within_each_other() {
        for good in [
            "$[?@.a]",
            "$[?@.a[?@.b[?@.c[?@.d]]]]",
            "$[?length(@.a[?search(@.b,'')])>2]",
            "$[?((((((@.a))))))]",
            "$[?@[?@.a],?@[?@.b],?@[?@.c],?@[?@.d],?@[?@.e],?@[?@.f]]",
            "$[?@.a[?@.b]&&@.c[?@.d]&&@.e[?@.f]&&@.g[?@.h]]",
        ] {
            assert!(is_bounded(good), "{good}");
        }
        let nested =
            |open: &str, close: &str, times: usize| format!("$[?{}@.a{}]", open.repeat(times), close.repeat(times));
        for (open, close, most) in [("@[?", "]", 4), ("length(", ")", 4), ("count(@[?", "])", 2)] {
            assert!(is_bounded(&nested(open, close, most)), "{open} {most} times");
            assert!(!is_bounded(&nested(open, close, most + 1)), "{open} {} times", most + 1);
        }
        for (open, close) in [("(", ")"), ("!(", ")"), ("@[", "]")] {
            assert!(is_bounded(&nested(open, close, 31)) && !is_bounded(&nested(open, close, 32)), "{open}");
        }
        // What closes nothing makes no room.
        assert!(!is_bounded(&format!("{}{}", "]".repeat(100), nested("@[?", "", 5))));
    }
}
