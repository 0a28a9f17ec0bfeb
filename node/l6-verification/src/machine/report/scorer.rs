//! Whether the text of an answer is right: as Inspect's scorers of the same names say it.

/// How a text is compared with the answers of which any is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scorer {
    /// An answer stands somewhere in the text.
    #[default]
    Includes,
    /// The text ends with an answer, without spaces and punctuation around both.
    MatchEnd,
    /// It begins with one.
    MatchBegin,
    /// One stands somewhere in it.
    MatchAny,
    /// It is one.
    MatchExact,
}

/// The scorers by their words.
const WORDS: [(&str, Scorer); 5] = [
    ("includes", Scorer::Includes),
    ("match", Scorer::MatchEnd),
    ("match:begin", Scorer::MatchBegin),
    ("match:any", Scorer::MatchAny),
    ("match:exact", Scorer::MatchExact),
];

impl Scorer {
    /// The scorer of that word.
    #[must_use]
    pub fn of(word: &str) -> Option<Scorer> {
        WORDS.iter().find(|(known, _)| *known == word).map(|(_, scorer)| *scorer)
    }

    /// How it is written on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(_, scorer)| *scorer == self).map_or("includes", |(word, _)| word)
    }

    /// Whether a text is right.
    #[must_use]
    pub fn is_right(self, text: &str, targets: &[String]) -> bool {
        targets.iter().any(|target| self.holds(text, target))
    }

    fn holds(self, text: &str, target: &str) -> bool {
        if self == Scorer::Includes {
            return folded(text).contains(&folded(target));
        }
        let (text, whole) = (folded(text.trim()), folded(target.trim()));
        let (text, target) = match bare(&whole) {
            // Inspect finds such an answer in every text, also in an empty one.
            "" => (text.as_str(), whole.as_str()),
            target => (bare(&text), target),
        };
        match self {
            Scorer::MatchBegin => text.starts_with(target),
            Scorer::MatchEnd => text.ends_with(target),
            Scorer::MatchExact => text == target,
            Scorer::MatchAny | Scorer::Includes => text.contains(target),
        }
    }
}

/// A text without the case of its letters.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'ß' | 'ẞ' => folded.push_str("ss"),
            'ς' => folded.push('σ'),
            _ => folded.extend(c.to_lowercase()),
        }
    }
    folded
}

/// A text without spaces and punctuation of ASCII around it.
fn bare(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_punctuation() || matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{B}' | '\u{C}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_right_as_inspect_says() {
        // What inspect-ai 0.3.285 says: tests/e2e/python/inspect_cases.py asks it.
        let table: [(&str, &str, [bool; 5]); 9] = [
            ("The answer is 42.", "42", [true, true, false, true, false]),
            ("42 is it", "42", [true, false, true, true, false]),
            (" 42!\n", "42", [true, true, true, true, true]),
            ("PARIS", "paris", [true; 5]),
            ("in Paris, France", "Paris", [true, false, false, true, false]),
            ("STRASSE", "straße", [true; 5]),
            ("ΣΟΦΟΣ", "σοφος", [true; 5]),
            ("", "x", [false; 5]),
            ("nothing", "42", [false; 5]),
        ];
        for (text, target, right) in table {
            let said = WORDS.map(|(_, scorer)| scorer.is_right(text, &[target.to_owned()]));
            assert_eq!(said, right, "{text:?}, {target:?}");
        }
    }

    #[test]
    fn an_answer_of_punctuation_is_not_in_every_text() {
        for (_, scorer) in WORDS {
            assert!(!scorer.is_right("", &["?".to_owned()]) && scorer.is_right("?", &["?".to_owned()]));
        }
    }

    #[test]
    fn each_word_is_of_its_scorer() {
        for (word, scorer) in WORDS {
            assert_eq!((Scorer::of(word), scorer.word()), (Some(scorer), word));
        }
        assert_eq!(Scorer::of("exactly"), None);
    }
}
