//! The words of names.

/// The words of a name, in lower case: those of `KeyLog2` and of `key_log_2` are `key`, `log` and `2`.
pub fn words_of_name(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    for (at, letter) in letters.iter().enumerate().filter(|(_, letter)| letter.is_alphanumeric()) {
        let before = at.checked_sub(1).map(|before| letters[before]).filter(|before| before.is_alphanumeric());
        let lower_next = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let continues = before.is_some_and(|before| {
            let begins = letter.is_uppercase() && (before.is_lowercase() || lower_next);
            !begins && letter.is_numeric() == before.is_numeric()
        });
        match words.last_mut() {
            Some(word) if continues => word.push(letter.to_ascii_lowercase()),
            _ => words.push(letter.to_ascii_lowercase().to_string()),
        }
    }
    words
}

#[test]
fn names_are_taken_apart_where_they_are_put_together() {
    let words = |name: &str| words_of_name(name).join(" ");
    assert_eq!(words("KeyLog2"), "key log 2");
    assert_eq!(words("BODY_BYTES_MAX"), "body bytes max");
    assert_eq!(words("into_did_key"), "into did key");
    assert_eq!(words("HTTPServer"), "http server");
    assert_eq!(words("Kept"), "kept");
}
