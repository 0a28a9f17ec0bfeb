//! Agents that are known by a description alone: people ask for them in other words.

use super::*;
use crate::lexicon::Word;

/// Ten agents, each on a line with its description.
const AGENTS: &str = include_str!("../../../../../docs/examples/routing/described-agents.txt");
/// Sentences for them and for none, made from the descriptions alone.
const SENTENCES: &[u8] = include_bytes!("../../../../../docs/examples/routing/described.csv");
/// A word that is no more common than that says what a sentence is about.
const CONTENT: f32 = 0.5;

fn agents() -> Vec<Candidate> {
    let lines = AGENTS.lines().map(|line| line.split_once(": ").expect("a name and a description"));
    lines.map(|(name, description)| candidate(name, true, description, &[])).collect()
}

fn sentences() -> Vec<Row> {
    parse(SENTENCES).expect("the set is read")
}

fn content(text: &str) -> Vec<Word> {
    Word::all(text, usize::MAX).into_iter().filter(|word| word.weight >= CONTENT).collect()
}

#[test]
fn half_of_the_sentences_have_no_word_of_their_agents_description() {
    let (agents, rows) = (agents(), sentences());
    let distinct: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.instruction.as_str()).collect();
    assert_eq!((agents.len(), distinct.len()), (10, rows.len()));
    for agent in &agents {
        let described = content(&format!("{} {}", agent.name, agent.description));
        let own = rows.iter().filter(|row| row.agent == agent.name);
        let (other, near): (Vec<&Row>, Vec<&Row>) = own.partition(|row| row.intent == "other-words");
        let counts = (near.len(), other.len());
        assert!(counts.0 + counts.1 >= 50 && counts.1 >= counts.0, "{}: {counts:?}", agent.name);
        for row in other {
            let shared = content(&row.instruction).into_iter().any(|word| described.contains(&word));
            assert!(!shared, "{}: {}", agent.name, row.instruction);
        }
    }
    assert_eq!(rows.iter().filter(|row| row.agent.is_empty()).count(), 100);
}

/// What was measured is in docs/benchmarks.md; the floors are a little lower.
#[test]
fn most_sentences_find_their_agent_by_its_description_and_what_is_for_nobody_is_refused() {
    let router = Router::new(agents(), &[], None);
    let rows = sentences();
    for mode in [Mode::Vector, Mode::Hybrid] {
        let found = evaluate(&router, mode, &rows, None, &|| 0);
        let (accuracy, refusal) = (found.accuracy().expect("some"), found.refusal().expect("some"));
        let other: Vec<Row> = rows.iter().filter(|row| row.intent == "other-words").cloned().collect();
        let other = evaluate(&router, mode, &other, None, &|| 0).accuracy().expect("some");
        println!("{} {accuracy:.4}, of other words {other:.4}, {refusal:.4} close {}", mode.name(), found.close);
        assert!(accuracy >= 0.72 && other >= 0.5, "{}: {accuracy}, {other}", mode.name());
        assert!(refusal >= 0.75, "{}: {refusal}", mode.name());
    }
}

#[test]
fn an_agent_with_examples_and_one_with_a_description_alone_are_found_both() {
    let travel = candidate("travel", true, "Books flights, trains and hotels", &[]);
    let router = Router::new([described(), vec![travel]].concat(), &[], None);
    for (sentence, wanted) in [
        ("I want to fly to Lisbon next Thursday", "travel"),
        ("show me my last bill", "billing"),
        ("how do I knit a scarf", "nobody"),
        ("tell me a joke about elephants", "nobody"),
        ("", "nobody"),
    ] {
        for mode in [Mode::Vector, Mode::Hybrid] {
            assert_eq!(chosen(&router, mode, sentence), wanted, "{}: {sentence}", mode.name());
        }
    }
}

#[test]
fn a_description_of_unknown_words_is_no_reason_to_choose_it() {
    let odd = candidate("xqz", true, "Zqrwt pflk, wxy", &[]);
    let router = Router::new(vec![odd], &[], None);
    for sentence in ["will it rain on Sunday", "", "wxyz"] {
        assert_eq!(chosen(&router, Mode::Vector, sentence), "nobody", "{sentence}");
    }
}

/// A taught sentence is more than a description: from then on the classifier alone decides.
#[test]
fn what_was_taught_for_an_agent_takes_the_place_of_its_description() {
    let rows = [row("what is the damage", "billing")];
    let taught = Router::new(agents(), &rows, None);
    let place = taught.candidates().iter().position(|candidate| candidate.name == "billing").expect("it is there");
    let score = |router: &Router| {
        let scored = router.route(Mode::Vector, "you took money from my bank account twice", None).scored;
        scored.into_iter().find(|scored| scored.candidate == place).map_or(0.0, |scored| scored.vector)
    };
    assert!(score(&Router::new(agents(), &[], None)) > score(&taught));
    assert_eq!(chosen(&taught, Mode::Vector, "what is the damage"), "billing");
}

#[test]
fn a_strangers_description_changes_no_other_score() {
    let quiet = candidate("first", false, "Books flights", &[]);
    let loud = candidate("second", false, "weather, bills and jokes\nflights and invoices, history, games", &[]);
    let without = Router::new([agents(), vec![quiet.clone()]].concat(), &[], None);
    let with = Router::new([agents(), vec![quiet, loud]].concat(), &[], None);
    for sentence in ["will it rain", "tell me a joke", "fly me to Rome", "who was Napoleon"] {
        let scores = |router: &Router| -> Vec<(String, u32)> {
            let scored = router.route(Mode::Hybrid, sentence, None).scored.into_iter();
            let mut scores: Vec<_> = scored
                .map(|scored| (router.candidates()[scored.candidate].name.clone(), scored.score.to_bits()))
                .filter(|(name, _)| name != "second")
                .collect();
            scores.sort();
            scores
        };
        assert_eq!(scores(&without), scores(&with), "{sentence}");
    }
}

#[test]
fn of_a_description_alone_the_whole_its_clauses_and_its_words_are_read_and_topics_to_compare_them_with() {
    let wanted = texts(vec![candidate("travel", true, "Travel\nBooks flights and trains.", &[])], &[]).near;
    for text in ["travel Books flights and trains.", "Books flights", "trains", "flights", "jokes and riddles"] {
        assert!(wanted.iter().any(|other| other == text), "{text}: {wanted:?}");
    }
    let with_examples = texts(described(), &[]).near;
    assert!(!with_examples.iter().any(|text| text == "jokes and riddles" || text == "invoices"), "{with_examples:?}");
}
