//! A table of English words: how common each is, and a vector of what it means. Words that are used alike have vectors that
//! point alike, so that a sentence leads to a description that has none of its words.
//!
//! `lexicon.txt` has the words, sorted; `lexicon.bin` has a codebook, how common each word is, and for each part of a vector
//! the number of its piece in the codebook (product quantisation: Jégou et al. 2011). `scripts/lexicon.py` makes both, and
//! says from what.

use std::sync::LazyLock;

use crate::features::words;

const WORDS: &str = include_str!("lexicon.txt");
const TABLE: &[u8] = include_bytes!("lexicon.bin");
/// Parts of a vector, pieces that each of them may be, and the dimensions of one.
const PARTS: usize = 64;
const PIECES: usize = 256;
const PIECE: usize = 6;
/// Dimensions of a vector.
const DIMENSIONS: usize = PARTS * PIECE;
/// Bytes of the codebook.
const BOOK: usize = PARTS * PIECES * PIECE;
/// How fast a word counts less the more common it is (Arora et al. 2017): one of this share of all words counts half.
const HALF: f32 = 3e-4;
/// The share of the most common word, by Zipf's law; of the next one, half of it, and so on.
const COMMONEST: f32 = 0.1;
/// Endings of other forms of a word, and what stands in their place in the form that the table has.
const ENDINGS: [(&str, &[&str]); 9] = [
    ("ings", &["", "e"]),
    ("ing", &["", "e"]),
    ("ies", &["y"]),
    ("ed", &["", "e"]),
    ("es", &[""]),
    ("er", &["", "e"]),
    ("ly", &[""]),
    ("s", &[""]),
    ("y", &[""]),
];
/// Letters that are left of a word at least without its ending.
const STEM_MIN: usize = 3;

static LEXICON: LazyLock<Vec<&'static str>> = LazyLock::new(|| WORDS.lines().collect());

/// A word of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Word {
    /// Its place in the table.
    pub place: usize,
    /// How much it says, 0 to 1: less for a common word.
    pub weight: f32,
    /// What makes its vector one of length 1.
    scale: f32,
}

impl Word {
    /// The word, or that of which it is a form; none if the table has neither.
    pub fn find(word: &str) -> Option<Word> {
        let place = place(word).or_else(|| ENDINGS.iter().find_map(|ending| without(word, ending)))?;
        let at = BOOK + 2 * place;
        let rank = f32::from(u16::from_le_bytes([TABLE[at], TABLE[at + 1]]));
        // The first places of the list are no better apart than the third.
        let weight = HALF / (HALF + COMMONEST / (rank + 3.0));
        let square: f32 = pieces(place).map(|value| value * value).sum();
        Some(Word { place, weight, scale: square.sqrt().max(f32::MIN_POSITIVE).recip() })
    }

    /// The words of a text that the table has, each once, so many at most.
    pub fn all(text: &str, most: usize) -> Vec<Word> {
        let mut found: Vec<Word> = Vec::new();
        for word in words(text).iter().filter_map(|word| Word::find(word)) {
            if found.len() == most {
                break;
            }
            if found.iter().all(|other| other.place != word.place) {
                found.push(word);
            }
        }
        found
    }

    /// Its vector, of length 1.
    fn vector(&self) -> impl Iterator<Item = f32> + use<> {
        let scale = self.scale;
        pieces(self.place).map(move |value| value * scale)
    }
}

fn place(word: &str) -> Option<usize> {
    LEXICON.binary_search(&word).ok()
}

/// The word without that ending.
fn without(word: &str, (ending, others): &(&str, &[&str])) -> Option<usize> {
    let stem = word.strip_suffix(*ending).filter(|stem| stem.len() >= STEM_MIN)?;
    let found = others.iter().find_map(|other| place(&format!("{stem}{other}")));
    // "planned" is of "plan".
    let single = || {
        let last = stem.chars().next_back()?;
        let single = stem.strip_suffix(last)?;
        (stem.len() > STEM_MIN && single.ends_with(last)).then(|| place(single)).flatten()
    };
    found.or_else(single)
}

/// The numbers of the pieces of a word's vector, one for each part.
fn codes(place: usize) -> &'static [u8] {
    let begin = BOOK + 2 * LEXICON.len() + place * PARTS;
    &TABLE[begin..begin + PARTS]
}

/// A piece of the codebook.
fn piece(part: usize, code: usize) -> impl Iterator<Item = f32> {
    let begin = (part * PIECES + code) * PIECE;
    TABLE[begin..begin + PIECE].iter().map(|value| f32::from(value.cast_signed()))
}

/// The vector of a word as it is stored.
fn pieces(place: usize) -> impl Iterator<Item = f32> {
    codes(place).iter().enumerate().flat_map(|(part, code)| piece(part, usize::from(*code)))
}

/// What words mean together: the mean of their vectors, of length 1; zeros of no words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Meaning(Vec<f32>);

impl Meaning {
    pub fn of(words: &[Word]) -> Meaning {
        let mut sum = vec![0.0_f32; DIMENSIONS];
        for word in words {
            sum.iter_mut().zip(word.vector()).for_each(|(sum, value)| *sum += word.weight * value);
        }
        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        sum.iter_mut().for_each(|value| *value /= length);
        Meaning(sum)
    }

    /// How alike two are: 1 where they are the same, 0 where they have nothing to do with each other.
    pub fn likeness(&self, other: &Meaning) -> f32 {
        self.0.iter().zip(&other.0).map(|(one, other)| one * other).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(one: &str, other: &str) -> f32 {
        let [one, other] = [one, other].map(|word| Word::find(word).expect("the table has it"));
        Meaning::of(&[one]).likeness(&Meaning::of(&[other]))
    }

    #[test]
    fn the_table_is_whole_and_sorted() {
        assert!(LEXICON.len() > 20_000 && LEXICON.is_sorted(), "{} words", LEXICON.len());
        assert_eq!(TABLE.len(), BOOK + LEXICON.len() * (2 + PARTS));
    }

    #[test]
    fn forms_lead_to_their_word_and_words_that_mean_alike_are_alike() {
        for (form, word) in [("umbrellas", "umbrella"), ("raining", "rain"), ("planned", "plan")] {
            assert!(Word::find(form).is_some() && likeness(form, word) > 0.5, "{form}: {}", likeness(form, word));
        }
        assert!(Word::find("qwrtzpl").is_none() && Word::find("").is_none() && Word::find("s").is_none());
        assert!(likeness("umbrella", "rain") > likeness("umbrella", "invoice") + 0.2);
        assert!((likeness("invoice", "invoice") - 1.0).abs() < 1e-3);
        let common = |word: &str| Word::find(word).expect("the table has it").weight;
        assert!(common("the") < 0.1 && common("invoice") > 0.9);
    }

    #[test]
    fn a_meaning_is_of_length_one_or_of_nothing() {
        let of = |text: &str| Meaning::of(&Word::all(text, 8));
        let rain = of("rain and wind");
        assert!((rain.likeness(&rain) - 1.0).abs() < 1e-3 && rain.likeness(&of("")).abs() < 1e-6);
        assert_eq!(Word::all("rain rain rain, wind", 8).len(), 2);
        assert_eq!(Word::all("one two three four five", 2).len(), 2);
    }
}
