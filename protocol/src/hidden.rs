//! The only list of invisible and reordering characters (threat model, rows 6 and 7): a text with one of them looks like another
//! text, or gives a model instructions that people do not see.

/// Whether a character is invisible or reorders text.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    matches!(c,
        // Joiners, marks of direction, fillers of Hangul and Khmer.
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{3164}' | '\u{FFA0}'
        // Separators of lines and paragraphs: what follows is on another line for some readers.
        | '\u{2028}' | '\u{2029}'
        | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}'
        // Annotations: what stands between these need not be shown. Before them, what may become such.
        | '\u{FFF0}'..='\u{FFFB}'
        // Variants: of Mongolian, of mathematics (not the two that choose between text and emoji), and 240 more, which hold
        // any bytes.
        | '\u{180B}'..='\u{180F}' | '\u{FE00}'..='\u{FE0D}' | '\u{E0100}'..='\u{E01EF}'
        // Controls of shorthand and of musical notation.
        | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        // Tags, and what is reserved beside them.
        | '\u{E0000}'..='\u{E00FF}' | '\u{E01F0}'..='\u{E0FFF}')
        || (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_hidden_and_what_people_write_is_not() {
        for c in [
            '\u{0}',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{00AD}',
            '\u{200B}',
            '\u{202E}',
            '\u{2028}',
            '\u{2029}',
            '\u{2066}',
            '\u{FE00}',
            '\u{FEFF}',
            '\u{FFF9}',
            '\u{FFFA}',
            '\u{FFFB}',
            '\u{E0001}',
            '\u{E007F}',
            '\u{E0100}',
            '\u{E01EF}',
        ] {
            assert!(is_hidden(c), "U+{:04X}", u32::from(c));
        }
        for text in ["Straße, ñandú & Übung\n\tein Wort", "日本語", "Ελλάδα", "❤\u{FE0F}", "עברית", "\u{FFFD}"]
        {
            assert_eq!(text.chars().find(|c| is_hidden(*c)), None, "{text}");
        }
    }
}
