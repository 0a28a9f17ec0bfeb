//! Which of the names that are known a person may have meant by one that is not.

/// The longest name that is compared, in characters.
const CHARS_MAX: usize = 128;
/// Of how many characters one may be wrong.
const CHARS_PER_MISTAKE: usize = 3;
/// Mistakes in a name, at most.
const MISTAKES_MAX: usize = 3;
/// The shortest beginning by which a name is recognised, in characters.
const BEGINNING_CHARS_MIN: usize = 3;

/// The known name that differs least from the one that was written, if by no more than a typo: a character that is missing,
/// wrong, too many, or exchanged with the next one, in each three. Otherwise the only one that begins so. Nothing if the name
/// is known as it was written.
#[must_use]
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = written.to_lowercase();
    let length = wanted.chars().count();
    if length == 0 || length > CHARS_MAX {
        return None;
    }
    let mistakes_max = (length / CHARS_PER_MISTAKE).min(MISTAKES_MAX);
    let (mut best, mut begins) = (None::<(usize, &str)>, Vec::new());
    for name in known {
        if name == written {
            return None;
        }
        let lower = name.to_lowercase();
        if length >= BEGINNING_CHARS_MIN && lower.starts_with(&wanted) {
            begins.push(name);
        }
        if lower.chars().count().abs_diff(length) > mistakes_max {
            continue;
        }
        let found = (strsim::osa_distance(&wanted, &lower), name);
        if found.0 <= mistakes_max && best.is_none_or(|best| found < best) {
            best = Some(found);
        }
    }
    begins.sort_unstable();
    begins.dedup();
    match (best, begins.as_slice()) {
        (Some((_, name)), _) => Some(name),
        (None, [only]) => Some(*only),
        (None, _) => None,
    }
}

/// What is added to the message about an unknown name: the one that may be meant, or nothing.
#[must_use]
pub fn hint<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, known).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_a_question_or_nothing() {
        assert_eq!(hint("ecko", ["echo"]), "; did you mean \"echo\"?");
        assert_eq!(hint("other", ["echo"]), "");
    }

    #[test]
    fn a_typo_is_recognised_and_another_name_is_not() {
        let known = ["echo", "billing", "billing-archive", "weather", "ab"];
        for (written, meant) in [
            ("ecko", Some("echo")),
            ("ehco", Some("echo")),
            ("ech", Some("echo")),
            ("echoo", Some("echo")),
            ("ECHO", Some("echo")),
            ("biling", Some("billing")),
            ("wether", Some("weather")),
            ("weath", Some("weather")),
            ("billing-a", Some("billing")),
            ("billing-arch", Some("billing-archive")),
            // Of two characters none may be wrong.
            ("ac", None),
            ("echo", None),
            ("clock", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), meant, "{written:?}");
        }
    }

    #[test]
    fn of_equals_the_first_in_order_is_named_and_of_several_beginnings_none() {
        assert_eq!(nearest("cat", ["hat", "bat"]), Some("bat"));
        assert_eq!(nearest("rep", ["reports", "repairs", "reports"]), None);
        assert_eq!(nearest("rep", ["reports", "reports"]), Some("reports"));
        let long = "x".repeat(CHARS_MAX + 1);
        assert_eq!(nearest(&long, [&long[1..]]), None);
    }
}
