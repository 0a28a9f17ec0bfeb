//! What was not as it should be in a description that somebody else wrote.

use crate::hidden::is_hidden;

/// Places that are named; the others are counted.
pub(super) const NOTES_MAX: usize = 32;
/// Characters of a place and of what is said of it.
const SHOWN_CHARS_MAX: usize = 160;

/// Where it was not as it should be (a JSON pointer), and how it was read.
#[derive(Default)]
pub(super) struct Notes {
    noted: Vec<(String, String)>,
    more: usize,
}

impl Notes {
    pub fn note(&mut self, at: &str, how: &str) {
        if self.noted.len() < NOTES_MAX {
            self.noted.push((shown(at), shown(how)));
        } else {
            self.more += 1;
        }
    }

    pub fn left_out(&mut self, at: &str, why: &str) {
        self.note(at, &format!("{}, and is left out", why.chars().take(SHOWN_CHARS_MAX - 24).collect::<String>()));
    }

    pub fn all(mut self) -> Vec<(String, String)> {
        if self.more > 0 {
            self.noted.push(("/".to_owned(), format!("{} more members are not as they should be", self.more)));
        }
        self.noted
    }
}

/// A stranger's text on one line: the start of it.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !is_hidden(*c)).take(SHOWN_CHARS_MAX).collect()
}
