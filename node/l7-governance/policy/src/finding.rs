//! What is wrong with a text, and where.

/// Where in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Place {
    pub(crate) const START: Place = Place { line: 1, column: 1 };

    /// Of a place in bytes; of the end where the text is shorter.
    pub(crate) fn of(text: &str, offset: usize) -> Place {
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line = before.rsplit('\n').next().unwrap_or_default();
        Place { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// One thing that is wrong with a set, or that its owner should look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The name of the file, as its reader called it.
    pub file: String,
    /// Where it is known.
    pub place: Option<Place>,
    /// The policy that it is in, where it is in one.
    pub policy: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(place) = self.place {
            write!(f, ", {place}")?;
        }
        if let Some(policy) = &self.policy {
            write!(f, ", policy `{policy}`")?;
        }
        write!(f, ": {}: {}", self.what, self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters() {
        let text = "ä\nbü c";
        assert_eq!(Place::of(text, 0), Place { line: 1, column: 1 });
        assert_eq!(Place::of(text, 3), Place { line: 2, column: 1 });
        // Within the two bytes of ü, and behind it.
        assert_eq!(Place::of(text, 5), Place { line: 2, column: 2 });
        assert_eq!(Place::of(text, 6), Place { line: 2, column: 3 });
        assert_eq!(Place::of(text, 99), Place { line: 2, column: 5 });
    }
}
