//! What goes first where more is remembered of messages than there is room for: what is too old, then what its payer has beyond
//! its share, so that one caller's keys do not push out another's.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::Digest;

use super::{ANSWER_MS_MAX, AnswerRow, ShortAnswer};

/// One payer's part of the room, where others want it, too: an eighth. What nobody else wants it may have as well.
const PAYER_PARTS: u64 = 8;
/// Of so many quarters of the room nothing of this node's owner goes for others.
const OWN_QUARTERS: u64 = 3;

/// How much is remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Messages: beyond that some are forgotten.
    pub rows: usize,
    /// Bytes of all rows: beyond that of some only that they were answered is remembered.
    pub bytes: u64,
}

/// What is too much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Surplus {
    /// All of the row of that name. It counts no more.
    Row(Digest),
    /// The answer in the row of that name, which counts as this one from now on.
    Answer(Digest, AnswerRow),
}

/// When a message was answered, and its name: the smallest goes first.
type Age = (u64, Digest);

/// What one payer has.
#[derive(Debug, Default)]
struct Part {
    ages: BTreeSet<Age>,
    amount: u64,
}

/// What all payers have of one thing.
#[derive(Debug, Default)]
struct Parts {
    of: BTreeMap<Digest, Part>,
    /// The oldest of each payer.
    oldest: BTreeSet<(Age, Digest)>,
    /// How much each payer has.
    amounts: BTreeSet<(u64, Digest)>,
}

impl Parts {
    fn add(&mut self, payer: Digest, age: Age, amount: u64) {
        self.change(payer, |part| {
            part.ages.insert(age);
            part.amount = part.amount.saturating_add(amount);
        });
    }

    fn remove(&mut self, payer: Digest, age: &Age, amount: u64) {
        self.change(payer, |part| {
            part.ages.remove(age);
            part.amount = part.amount.saturating_sub(amount);
        });
    }

    fn change(&mut self, payer: Digest, change: impl FnOnce(&mut Part)) {
        let mut part = self.of.remove(&payer).unwrap_or_default();
        if let Some(oldest) = part.ages.first() {
            self.oldest.remove(&(*oldest, payer));
            self.amounts.remove(&(part.amount, payer));
        }
        change(&mut part);
        if let Some(oldest) = part.ages.first() {
            self.oldest.insert((*oldest, payer));
            self.amounts.insert((part.amount, payer));
            self.of.insert(payer, part);
        }
    }

    /// The one that goes first of at most `most`: of who has most beyond a payer's share, then of the owner beyond its own, then
    /// the oldest of the others.
    fn first(&self, own: &Digest, most: u64) -> Option<Age> {
        let oldest_of = |payer: &Digest| self.of.get(payer).and_then(|part| part.ages.first().copied());
        let largest = self.amounts.iter().rev().find(|(_, payer)| payer != own);
        if let Some((_, payer)) = largest.filter(|(amount, _)| *amount > most / PAYER_PARTS) {
            return oldest_of(payer);
        }
        if self.of.get(own).is_some_and(|part| part.amount > most / 4 * OWN_QUARTERS) {
            return oldest_of(own);
        }
        let of_others = self.oldest.iter().find(|(_, payer)| payer != own);
        of_others.or_else(|| self.oldest.first()).map(|(age, _)| *age)
    }
}

/// Where a row is counted.
#[derive(Debug, Clone, Copy)]
struct Place {
    at_ms: u64,
    payer: Digest,
    bytes: u64,
    /// What is left of it without its answer, of one that has an answer: so no row has to be read to shorten it.
    short: Option<ShortAnswer>,
}

/// What is remembered of messages, by age and payer, without its answers.
#[derive(Debug)]
pub(crate) struct Ages {
    limits: Limits,
    /// This node's owner, as a payer.
    own: Digest,
    rows: BTreeMap<Digest, Place>,
    /// How many rows each payer has.
    counts: Parts,
    /// Those of which the answer is kept, too, with their bytes.
    with_answer: Parts,
    bytes: u64,
}

impl Ages {
    /// None yet.
    pub fn new(own: Digest, limits: Limits) -> Ages {
        let (rows, counts, with_answer) = Default::default();
        Ages { limits, own, rows, counts, with_answer, bytes: 0 }
    }

    /// Adds a row of so many bytes, in place of an earlier one of its name.
    pub fn add(&mut self, name: Digest, row: &AnswerRow, bytes: usize) {
        self.remove(&name);
        let (at_ms, payer, bytes) = (row.at_ms, row.payer(), bytes as u64);
        let place = Place { at_ms, payer, bytes, short: row.answer.is_some().then(|| ShortAnswer::of(row)) };
        self.counts.add(payer, (at_ms, name), 1);
        if place.short.is_some() {
            self.with_answer.add(payer, (at_ms, name), bytes);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.rows.insert(name, place);
    }

    /// The row of that name counts no more.
    pub fn remove(&mut self, name: &Digest) {
        let Some(Place { at_ms, payer, bytes, short }) = self.rows.remove(name) else { return };
        self.counts.remove(payer, &(at_ms, *name), 1);
        if short.is_some() {
            self.with_answer.remove(payer, &(at_ms, *name), bytes);
        }
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Takes the oldest one, if it is too old; else an answer, if all have too many bytes; else a row, if there are too many.
    pub fn take_surplus(&mut self, now_ms: u64) -> Option<Surplus> {
        let &((at_ms, oldest), _) = self.counts.oldest.first()?;
        let is_old = now_ms.saturating_sub(at_ms) > ANSWER_MS_MAX;
        let is_long = self.bytes > self.limits.bytes;
        if !is_old
            && is_long
            && let Some((_, name)) = self.with_answer.first(&self.own, self.limits.bytes)
            && let Some((place, short)) = self.rows.get(&name).and_then(|place| Some((*place, place.short?)))
        {
            let short = short.row(place.at_ms, place.payer);
            self.add(name, &short, short.encode().len());
            return Some(Surplus::Answer(name, short));
        }
        let name = match is_old {
            true => oldest,
            false if is_long || self.rows.len() > self.limits.rows => {
                self.counts.first(&self.own, self.limits.rows as u64)?.1
            }
            false => return None,
        };
        self.remove(&name);
        Some(Surplus::Row(name))
    }
}

#[cfg(test)]
mod tests {
    use a2a::{Message, Part, Role};

    use super::*;

    const OWN: Digest = [0; 32];
    const LIMITS: Limits = Limits { rows: 80, bytes: u64::MAX };

    fn name(payer: u8, number: u64) -> Digest {
        let mut name = [payer; 32];
        name[..8].copy_from_slice(&number.to_be_bytes());
        name
    }

    fn row(payer: u8, at_ms: u64) -> AnswerRow {
        AnswerRow::of_deleted(at_ms).paid_by([payer; 32])
    }

    /// So many more rows of a payer, the oldest first; and the payers' names of what goes for them.
    fn add(ages: &mut Ages, payer: u8, numbers: std::ops::Range<u64>) -> Vec<u8> {
        let mut gone = Vec::new();
        for number in numbers {
            ages.add(name(payer, number), &row(payer, number), 100);
            while let Some(surplus) = ages.take_surplus(number) {
                let Surplus::Row(name) = surplus else { panic!("no row has an answer") };
                gone.push(name[31]);
            }
        }
        gone
    }

    #[test]
    fn whoever_has_more_than_its_share_pushes_out_its_own_keys_and_nobody_elses() {
        let mut ages = Ages::new(OWN, LIMITS);
        // The oldest of all.
        assert!(add(&mut ages, 1, 0..5).is_empty() && add(&mut ages, 0, 5..10).is_empty());
        assert!(add(&mut ages, 2, 10..80).is_empty(), "what nobody wants it may have");
        assert_eq!(add(&mut ages, 2, 80..200), [2; 120]);
        assert_eq!(add(&mut ages, 3, 200..210), [2; 10], "and no longer than that");
        assert_eq!(add(&mut ages, 0, 210..250), [2; 40]);
        // The others have 5, 20 and 10 now, and the owner 45.
        assert_eq!(add(&mut ages, 0, 250..270), [vec![2; 10], vec![1; 5], vec![0; 5]].concat(), "its own room is kept");
        assert!(!add(&mut ages, 2, 270..400).contains(&0), "and nobody takes that");
    }

    #[test]
    fn long_answers_push_out_those_of_their_own_payer() {
        let mut ages = Ages::new(OWN, Limits { rows: 80, bytes: 8_000 });
        let message = Message::new(Role::Agent, vec![Part::text("hi")]);
        let answered = |payer: u8, at_ms: u64| AnswerRow::of(&message, &message, None, at_ms).paid_by([payer; 32]);
        ages.add(name(1, 0), &answered(1, 0), 900);
        for number in 1..50 {
            let row = answered(2, number);
            ages.add(name(2, number), &row, 500);
            while let Some(surplus) = ages.take_surplus(number) {
                let Surplus::Answer(gone, short) = surplus else { panic!("that it was answered is still known") };
                assert_eq!(gone[31], 2, "at {number}");
                let whole = answered(2, short.at_ms);
                assert_eq!(short, AnswerRow { answer: None, ..whole }, "all but the answer");
            }
        }
        assert_eq!((ages.rows.len(), ages.bytes <= 8_000), (50, true));
    }

    #[test]
    fn a_row_that_is_written_again_is_not_taken_for_its_earlier_one() {
        let mut ages = Ages::new(OWN, LIMITS);
        ages.add(name(1, 1), &row(1, 5), 100);
        let late = 6 + ANSWER_MS_MAX;
        ages.add(name(1, 1), &row(1, late), 100);
        assert_eq!(ages.take_surplus(late), None);
        assert_eq!(ages.bytes, 100);
    }
}
