//! Names of organisations' agents as people type them: `example.org/billing@^1.2`. What only looks like a name is refused by
//! what is wrong with it.

use std::fmt;

use althing_protocol::limits::AGENT_NAME_MAX;
use althing_protocol::registry::{Domain, DomainError};
use unicode_security::{GeneralSecurityProfile as _, MixedScript as _, confusable_detection::skeleton};

/// Characters of a name, domain and range included.
const NAME_CHARS_MAX: usize = 400;

/// A name, and which versions are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The domain of the organisation.
    pub domain: Domain,
    /// The agent's name there.
    pub name: String,
    /// A range of versions or a version; `*` if none was given.
    pub range: String,
}

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has a character that nobody sees, or that reorders the others.
    #[error("the name has the character U+{:04X}, which nobody sees or which reorders the others: type the name yourself", u32::from(*.0))]
    Hidden(char),
    /// Letters of several scripts are mixed.
    #[error("the name mixes letters of several scripts (U+{:04X} among others): type it yourself, in lower-case ASCII", u32::from(*.0))]
    Mixed(char),
    /// It has letters that are not ASCII.
    #[error(
        "the name has the letter U+{:04X}: names are written in lower-case ASCII, and a domain of another script in its xn-- \
         form",
        u32::from(*.0)
    )]
    NotAscii(char),
    /// A label of the domain is another one in disguise.
    #[error("{label} is shown as {shown:?}, which looks like {like:?}: it is somebody else's name")]
    Disguised {
        /// The label.
        label: String,
        /// What it is shown as.
        shown: String,
        /// What it looks like.
        like: String,
    },
    /// A label of the domain is none.
    #[error("{0} is no label of an international domain")]
    Label(String),
    /// The domain is none.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// It has another form.
    #[error("{0:?} is no name: it looks like example.org/billing or example.org/billing@^1.2")]
    Form(String),
}

impl Reference {
    /// Whether a text is meant as a name, and not as an agent's id or a name of one's own.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        !text.starts_with("urn:") && text.split('@').next().is_some_and(|name| name.contains('/'))
    }

    /// Reads a name.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn parse(text: &str) -> Result<Reference, NameError> {
        check_letters(text)?;
        let form = || NameError::Form(text.chars().take(80).collect());
        if text.len() > NAME_CHARS_MAX {
            return Err(form());
        }
        let (whole, range) = text.split_once('@').unwrap_or((text, "*"));
        let (domain, name) = whole.split_once('/').ok_or_else(form)?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let fits = (1..=AGENT_NAME_MAX).contains(&name.len()) && !name.starts_with('-') && !name.ends_with('-');
        if !fits || !name.chars().all(plain) || range.is_empty() {
            return Err(form());
        }
        let domain: Domain = domain.parse()?;
        domain.as_str().split('.').filter(|label| label.starts_with("xn--")).try_for_each(check_label)?;
        Ok(Reference { domain, name: name.to_owned(), range: range.to_owned() })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.name)
    }
}

/// Finds what is not ASCII, and says what it is.
fn check_letters(text: &str) -> Result<(), NameError> {
    let Some(first) = text.chars().find(|c| !c.is_ascii() || c.is_ascii_control()) else { return Ok(()) };
    // What UTS 39 restricts by its kind, and all that is no letter, digit or mark.
    let hides = |c: char| c.is_control() || (!c.is_ascii() && !c.is_alphanumeric() && !c.identifier_allowed());
    if let Some(hidden) = text.chars().find(|c| hides(*c)) {
        return Err(NameError::Hidden(hidden));
    }
    if !text.is_single_script() {
        return Err(NameError::Mixed(first));
    }
    Err(NameError::NotAscii(first))
}

/// Refuses a label that is shown as something which reads as ASCII, or which mixes scripts.
fn check_label(label: &str) -> Result<(), NameError> {
    let (shown, read) = idna::domain_to_unicode(label);
    if read.is_err() || shown == label {
        return Err(NameError::Label(label.to_owned()));
    }
    let like: String = skeleton(&shown).collect();
    if like.is_ascii() || !shown.is_single_script() {
        return Err(NameError::Disguised { label: label.to_owned(), shown, like });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const KNOWN: [&str; 6] = [
        "example.org/billing",
        "acme.example/echo",
        "city.berlin/weather",
        "a-b.example/planner",
        "x.co/a",
        "no1.se/s",
    ];
    /// What nobody sees, or what reorders.
    const HIDDEN: [char; 16] = [
        '\u{ad}', '\u{34f}', '\u{61c}', '\u{180e}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}',
        '\u{202a}', '\u{202b}', '\u{202d}', '\u{202e}', '\u{2060}', '\u{2066}', '\u{feff}',
    ];
    /// Letters that are taken for others.
    const LETTERS: [(char, &str); 16] = [
        ('a', "аɑα"),
        ('b', "ьƄ"),
        ('c', "сϲᴄ"),
        ('e', "еҽ"),
        ('g', "ɡց"),
        ('h', "һհ"),
        ('i', "іιı"),
        ('l', "ⅼӏ"),
        ('m', "ⅿ"),
        ('n', "ո"),
        ('o', "оοօ"),
        ('p', "рρ"),
        ('r', "г"),
        ('s', "ѕꜱ"),
        ('.', "․。"),
        ('/', "∕⁄／"),
    ];

    fn variants() -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for known in KNOWN {
            let letters: Vec<char> = known.chars().collect();
            for (at, letter) in letters.iter().enumerate() {
                let mut put = |others: &mut dyn Iterator<Item = char>, insert: bool| {
                    for other in others {
                        let mut changed = letters.clone();
                        if insert {
                            changed.insert(at, other)
                        } else {
                            changed[at] = other
                        }
                        all.insert(String::from_iter(changed));
                    }
                };
                put(&mut HIDDEN.into_iter(), true);
                let others = LETTERS.iter().find(|(ascii, _)| ascii == letter).map_or("", |(_, others)| others);
                put(&mut others.chars(), false);
                if letter.is_ascii_lowercase() {
                    let styled = [0xff41, 0x1d41a, 0x1d5ba, 0x1d68a, 0x24d0].into_iter();
                    let style = |first: u32| char::from_u32(first + u32::from(*letter) - u32::from('a'));
                    put(&mut styled.filter_map(style), false);
                }
            }
            all.insert(format!("\u{202e}{}", letters.iter().rev().collect::<String>()));
        }
        all
    }

    #[test]
    fn a_thousand_names_that_only_look_like_known_ones_are_refused_for_what_they_are() {
        let variants = variants();
        assert!(variants.len() >= 1_000, "{}", variants.len());
        for variant in &variants {
            let refused = Reference::parse(variant);
            let by_what_it_is =
                matches!(refused, Err(NameError::Hidden(_) | NameError::Mixed(_) | NameError::NotAscii(_)));
            assert!(by_what_it_is, "{variant:?}: {refused:?}");
            if variant.chars().any(|c| HIDDEN.contains(&c)) {
                assert!(
                    matches!(refused, Err(NameError::Hidden(c)) if HIDDEN.contains(&c)),
                    "{variant:?}: {refused:?}"
                );
            }
        }
        for known in KNOWN {
            assert!(Reference::parse(known).is_ok(), "{known}");
        }
    }

    #[test]
    fn names_are_read_with_their_ranges() {
        let read = |text: &str| Reference::parse(text).map(|it| (it.to_string(), it.range));
        let good = |name: &str, range: &str| Ok((name.to_owned(), range.to_owned()));
        assert_eq!(read("example.org/billing@^1.2"), good("example.org/billing", "^1.2"));
        assert_eq!(read("example.org/billing"), good("example.org/billing", "*"));
        for bad in ["billing", "example.org/", "/billing", "example.org/a/b", "example.org/-a", "example.org/a@", "a/b"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(matches!(read("Example.org/billing"), Err(NameError::Domain(_))));
        assert!(Reference::is_meant("example.org/billing@^1"));
        assert!(!Reference::is_meant("urn:althing:z:billing@^1") && !Reference::is_meant("billing@1.0.0"));
    }

    #[test]
    fn a_domain_of_another_script_is_one_that_looks_like_no_other() {
        // bücher.example is a name; аррӏе.com, wholly Cyrillic, reads as another one.
        assert!(Reference::parse("xn--bcher-kva.example/echo").is_ok());
        assert!(matches!(Reference::parse("xn--80ak6aa92e.com/echo"), Err(NameError::Disguised { .. })));
        assert!(matches!(
            Reference::parse("xn--a-ecp.com/echo"),
            Err(NameError::Disguised { .. } | NameError::Label(_))
        ));
        assert!(matches!(Reference::parse("xn--\u{200b}.com/echo"), Err(NameError::Hidden(_))));
    }
}
