//! Confusable letters (Unicode Technical Standard 39): those that look like ASCII letters and digits, which names are made of.

/// Letters of other scripts, each row after the ASCII character that they look like.
const LOOK_ALIKES: [(char, &str); 47] = [
    ('a', "аɑα"),
    ('b', "Ƅь"),
    ('c', "сϲᴄⅽ"),
    ('d', "ԁⅾ"),
    ('e', "еҽ℮"),
    ('g', "ɡց"),
    ('h', "һհ"),
    ('i', "іιıɪӏⅰ"),
    ('j', "јϳ"),
    ('l', "ⅼןا"),
    ('m', "ⅿ"),
    ('n', "ոռ"),
    ('o', "оοօഠᴏ"),
    ('p', "рρ"),
    ('q', "ԛգ"),
    ('r', "гᴦ"),
    ('s', "ѕꜱ"),
    ('u', "υսʋᴜ"),
    ('v', "νѵⅴᴠ"),
    ('w', "ԝաɯᴡ"),
    ('x', "хⅹ"),
    ('y', "уγүʏ"),
    ('z', "ᴢ"),
    ('A', "АΑᎪ"),
    ('B', "ВΒᏴ"),
    ('C', "СϹⅭᏟ"),
    ('D', "ᎠⅮ"),
    ('E', "ЕΕᎬ"),
    ('G', "ԌᏀ"),
    ('H', "НΗᎻ"),
    ('I', "ІΙⅠӀ"),
    ('J', "ЈᎫ"),
    ('K', "КΚᏦK"),
    ('L', "ᏞⅬ"),
    ('M', "МΜᎷⅯ"),
    ('N', "Ν"),
    ('O', "ОΟՕ"),
    ('P', "РΡᏢ"),
    ('Q', "Ԛ"),
    ('R', "Ꭱ"),
    ('S', "ЅՏᏚ"),
    ('T', "ТΤᎢ"),
    ('V', "ѴᏙⅤ"),
    ('W', "ԜᎳ"),
    ('X', "ХΧⅩ"),
    ('Y', "ҮΥ"),
    ('Z', "ΖᏃ"),
];

/// The ASCII character that `c` looks like, if there is one.
fn look_alike(c: char) -> Option<char> {
    let offset = |first: u32| u32::from(c) - first;
    let letter = |offset: u32| {
        let base = if offset < 26 { u32::from('A') } else { u32::from('a') - 26 };
        char::from_u32(base + offset)
    };
    match c {
        '\0'..='\u{7f}' => None,
        // Full-width forms; letters and digits of mathematics, in thirteen styles and five; letters in circles.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(offset(0xff01) + 0x21),
        '\u{1d400}'..='\u{1d6a3}' => letter(offset(0x1d400) % 52),
        '\u{1d7ce}'..='\u{1d7ff}' => char::from_digit(offset(0x1d7ce) % 10, 10),
        '\u{24b6}'..='\u{24e9}' => letter(offset(0x24b6)),
        c => LOOK_ALIKES.iter().find(|(_, others)| others.contains(c)).map(|(ascii, _)| *ascii),
    }
}

/// Scripts whose letters are mixed into Latin words only to deceive.
fn is_of_another_script(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{58f}' | '\u{13a0}'..='\u{13ff}' | '\u{1c80}'..='\u{1c8f}' | '\u{2c80}'..='\u{2cff}')
}

/// The first deceptive character of a word: one that looks like an ASCII letter in a word that would read as ASCII, or a letter
/// of another script in a Latin word. None for ordinary words of other languages.
pub(crate) fn disguised(text: &str) -> Option<char> {
    text.split(|c: char| !c.is_alphanumeric() && look_alike(c).is_none()).find_map(|word| {
        let reads_as_ascii = word.chars().all(|c| c.is_ascii() || look_alike(c).is_some());
        let latin = word.chars().any(|c| c.is_ascii_alphabetic());
        word.chars().find(|c| {
            let stands_in = reads_as_ascii && look_alike(*c).is_some();
            stands_in || (latin && is_of_another_script(*c))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_read_as_others_are_found_and_those_of_other_languages_are_not() {
        for (text, found) in [
            ("Bіlling", 'і'),
            ("есһо", 'е'),
            ("the Ｅcho", 'Ｅ'),
            ("𝐞cho", '𝐞'),
            ("ⓔcho", 'ⓔ'),
            ("ech𝟎", '𝟎'),
            ("Weather Вerlin", 'В'),
            ("desЖk", 'Ж'),
        ] {
            assert_eq!(disguised(text), Some(found), "{text}");
        }
        for text in [
            "Zähler",
            "Straße",
            "Москва",
            "Ελλάδα",
            "天気",
            "weather-berlin 2",
            "naïve café",
            "Погода: Berlin",
            "",
            "😀",
        ] {
            assert_eq!(disguised(text), None, "{text}");
        }
    }
}
