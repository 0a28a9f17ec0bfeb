//! Threat row 6: names of agents, and titles, that only look like those that one knows. As a name each is refused; as the
//! title of an agent of one's own it is refused; as that of somebody else's Thing it is flagged.

use std::collections::BTreeSet;

use althing_td::{AgentFile, AgentFileError, validate};
use serde_json::json;

const KNOWN: [&str; 6] = ["billing", "echo", "weather-berlin", "citizens", "seat-booking", "planner"];
/// What nobody sees: zero-width characters, soft hyphens, marks and overrides of direction.
const HIDDEN: [char; 18] = [
    '\u{ad}', '\u{34f}', '\u{61c}', '\u{180e}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{202a}',
    '\u{202b}', '\u{202d}', '\u{202e}', '\u{2060}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{feff}',
];
/// Letters of other scripts that are taken for these (Unicode's confusables.txt).
const LETTERS: [(char, &str); 18] = [
    ('a', "аɑα"),
    ('b', "ь"),
    ('c', "сϲᴄ"),
    ('e', "еҽ"),
    ('g', "ɡց"),
    ('h', "һհ"),
    ('i', "іιıɪ"),
    ('k', "К"),
    ('l', "ⅼ"),
    ('n', "ո"),
    ('o', "оοօᴏ"),
    ('p', "рρ"),
    ('r', "гᴦ"),
    ('s', "ѕꜱ"),
    ('t', "Т"),
    ('w', "ԝᴡ"),
    ('z', "ᴢ"),
    ('v', "ν"),
];

fn style(c: char, first: u32) -> Option<char> {
    c.is_ascii_lowercase().then(|| char::from_u32(first + u32::from(c) - u32::from('a')).expect("a letter"))
}

fn variants() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for name in KNOWN {
        let letters: Vec<char> = name.chars().collect();
        let put = |at: usize, c: char| {
            let mut letters = letters.clone();
            letters[at] = c;
            String::from_iter(letters)
        };
        for (at, letter) in letters.iter().enumerate() {
            for hidden in HIDDEN {
                let mut with = letters.clone();
                with.insert(at, hidden);
                all.insert(String::from_iter(with));
            }
            let others = LETTERS.iter().find(|(ascii, _)| ascii == letter).map_or("", |(_, others)| others);
            all.extend(others.chars().map(|other| put(at, other)));
            // Full-width, mathematical bold, sans-serif and monospace, in circles.
            let styles =
                [0xff41, 0x1d41a, 0x1d5ba, 0x1d68a, 0x24d0].into_iter().filter_map(|first| style(*letter, first));
            all.extend(styles.map(|styled| put(at, styled)));
        }
        all.insert(letters.iter().map(|letter| style(*letter, 0x1d41a).unwrap_or(*letter)).collect());
        all.insert(format!("\u{202e}{}", letters.iter().rev().collect::<String>()));
    }
    all
}

#[test]
fn a_thousand_variants_of_known_names_and_titles_are_refused_or_flagged() {
    let variants = variants();
    assert!(variants.len() >= 1_000, "{}", variants.len());
    let refused = |field: &str, text: &str| match AgentFile::parse(text) {
        Err(AgentFileError::Invalid(problems)) => problems.iter().any(|problem| problem.field == field),
        // Some of these characters no YAML may have.
        Err(_) => true,
        Ok(_) => false,
    };
    let file = |name: &str, title: &str| {
        let runtime = json!({ "native": { "builtin": "echo" } });
        json!({ "name": name, "title": title, "description": "Says it.", "runtime": runtime }).to_string()
    };
    for variant in &variants {
        assert!(refused("name", &file(variant, "Fine")), "as a name: {variant:?}");
        assert!(refused("title", &file("fine", variant)), "as a title: {variant:?}");
        let td = json!({
            "@context": "https://www.w3.org/2022/wot/td/v1.1", "id": "urn:example:x", "title": variant,
            "securityDefinitions": { "n": { "scheme": "nosec" } }, "security": "n",
        });
        let report = validate(td.to_string().as_bytes());
        let flagged = report.findings.iter().any(|finding| finding.pointer == "/title");
        assert!(flagged, "as somebody's title: {variant:?}: {report}");
    }
    for name in KNOWN {
        assert!(AgentFile::parse(&file(name, name)).is_ok(), "the known ones are none of them: {name}");
    }
}
