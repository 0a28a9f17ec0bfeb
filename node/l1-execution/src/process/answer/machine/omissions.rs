//! What is left out of an answer: where it was, what is lost with it, and how often. Pure.

use std::collections::BTreeSet;
use std::fmt;

/// Kinds of places that are remembered of an answer.
const PLACES_MAX: usize = 64;

/// Something that was left out of an event, with what was left out at places that differ from its place in numbers alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omission {
    /// Where the first was, as a JSON pointer into the result.
    pub at: String,
    /// What is lost with it.
    pub kind: OmissionKind,
    /// How many there are.
    pub count: usize,
}

/// What is lost with something that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OmissionKind {
    /// Nothing that people read.
    Detail,
    /// Something that the agent said.
    Message,
    /// What it said with a state after which nothing more comes: such as what it asks.
    LastWord,
    /// Something that the agent made.
    Artifact,
}

impl OmissionKind {
    /// Whether the answer may lack a piece without it.
    pub fn is_piece(self) -> bool {
        matches!(self, OmissionKind::LastWord | OmissionKind::Artifact)
    }
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 | 1 => f.write_str(&self.at),
            all => write!(f, "{} and {} more", self.at, all - 1),
        }
    }
}

/// The omissions of an event, each kind of place once: there are as many as the event has kinds of members, however long it is.
#[derive(Debug, Default)]
pub struct Omissions(Vec<Omission>);

impl Omissions {
    /// Adds what was at that place.
    pub fn add(&mut self, place: &Place<'_>, kind: OmissionKind) {
        let at = place.to_string();
        let is_like = |one: &&mut Omission| one.kind == kind && words(&one.at).eq(words(&at));
        match self.0.iter_mut().find(is_like) {
            Some(one) => one.count += 1,
            None => self.0.push(Omission { at, kind, count: 1 }),
        }
    }

    /// Them, in the order in which they were found.
    pub fn all(self) -> Vec<Omission> {
        self.0
    }
}

/// A place in a result, as what lies above it and a name or a number there. It is written only where something is left out.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// The result itself.
    Result,
    /// A member of what is at that place.
    Member(&'a Place<'a>, &'a str),
    /// An item of the list at that place.
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// The place of a member.
    pub fn member<'b>(&'b self, name: &'b str) -> Place<'b> {
        Place::Member(self, name)
    }

    /// The place of an item.
    pub fn item(&self, number: usize) -> Place<'_> {
        Place::Item(self, number)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Result => Ok(()),
            Place::Member(above, name) => write!(f, "{above}/{name}"),
            Place::Item(above, number) => write!(f, "{above}/{number}"),
        }
    }
}

/// What was named of an answer so far, so that it is named once, however often it comes.
#[derive(Debug, Default)]
pub struct NamedPlaces(BTreeSet<(OmissionKind, String)>);

impl NamedPlaces {
    /// Notes an omission; whether none like it was noted before. After many of them, none is new.
    pub fn note(&mut self, omission: &Omission) -> bool {
        let folded = words(&omission.at).collect::<Vec<_>>().join("*");
        self.0.len() < PLACES_MAX && self.0.insert((omission.kind, folded))
    }
}

/// A text without its numbers.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_ascii_digit()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_numbers_alone_is_named_once_and_counted() {
        let mut omissions = Omissions::default();
        let root = Place::Result;
        let (task, message) = (root.member("task"), root.member("message"));
        let (artifacts, said) = (task.member("artifacts"), message.member("parts"));
        for number in 0..10_000 {
            omissions.add(&artifacts.item(number).member("parts").item(7), OmissionKind::Artifact);
            omissions.add(&artifacts.item(number), OmissionKind::Detail);
            omissions.add(&artifacts.item(number), OmissionKind::Artifact);
            omissions.add(&said.item(number), OmissionKind::Message);
        }
        let all: Vec<(String, OmissionKind)> = omissions.all().iter().map(|one| (one.to_string(), one.kind)).collect();
        let expected = [
            ("/task/artifacts/0/parts/7 and 9999 more", OmissionKind::Artifact),
            ("/task/artifacts/0 and 9999 more", OmissionKind::Detail),
            ("/task/artifacts/0 and 9999 more", OmissionKind::Artifact),
            ("/message/parts/0 and 9999 more", OmissionKind::Message),
        ];
        assert_eq!(all, expected.map(|(at, kind)| (at.to_owned(), kind)));
    }

    #[test]
    fn a_place_is_new_once_and_no_more_are_remembered_than_the_bound() {
        let mut named = NamedPlaces::default();
        let mut is_new = |kind, at: &str| named.note(&Omission { at: at.to_owned(), kind, count: 1 });
        assert!(is_new(OmissionKind::Artifact, "/task/artifacts/0/parts/1"));
        assert!(!is_new(OmissionKind::Artifact, "/task/artifacts/12/parts/345"));
        assert!(is_new(OmissionKind::Detail, "/task/artifacts/12/parts/345"), "something else is lost");
        assert!(is_new(OmissionKind::Artifact, "/task/artifacts/0"));
        let places = ('a'..='z').flat_map(|one| ('a'..='z').map(move |two| format!("/{one}{two}")));
        let new = places.filter(|place| is_new(OmissionKind::Detail, place)).count();
        assert_eq!((new, named.0.len()), (PLACES_MAX - 3, PLACES_MAX));
    }
}
