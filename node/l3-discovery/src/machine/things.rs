//! Other people's Things: what their descriptions say, for as long as they can be read. Nobody vouches for them, and
//! nobody here calls them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use althing_td::Description;

use crate::machine::query::{Query, RESULTS_MAX};

/// Things that are remembered.
const THINGS_MAX: usize = 512;
/// Bytes of all their descriptions.
const BYTES_MAX: usize = 8 << 20;

/// A Thing, as its description says.
#[derive(Debug, Clone)]
pub struct Thing {
    /// Its identifier, or else where it was read.
    pub id: String,
    /// The description.
    pub description: Arc<Description>,
    /// Where it was read.
    pub from: String,
    /// The configuration names that place.
    pub vouched: bool,
    /// When, milliseconds that only rise.
    pub read_ms: u64,
}

/// Why a Thing is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotTaken {
    /// One of that identifier was read elsewhere.
    Elsewhere,
    /// There is no room.
    Full,
}

/// The Things that are known.
#[derive(Debug, Default)]
pub struct Things {
    things: BTreeMap<String, Thing>,
    bytes: usize,
    /// Places of the configuration that could not be read when they were read last, and why.
    unread: BTreeMap<String, String>,
}

impl Things {
    /// Takes a Thing. The first place where one was read keeps it, so that nobody's description takes the place of
    /// another's of the same name; places of the configuration come before what the LAN tells of.
    ///
    /// # Errors
    /// See [`NotTaken`].
    pub fn note(&mut self, thing: Thing) -> Result<(), NotTaken> {
        let held = self.things.get(&thing.id);
        if held.is_some_and(|held| held.from != thing.from && (held.vouched || !thing.vouched)) {
            return Err(NotTaken::Elsewhere);
        }
        let before = held.map_or(0, |held| held.description.bytes().len());
        let bytes = self.bytes - before + thing.description.bytes().len();
        if bytes > BYTES_MAX || held.is_none() && self.things.len() >= THINGS_MAX {
            return Err(NotTaken::Full);
        }
        self.bytes = bytes;
        self.things.insert(thing.id.clone(), thing);
        Ok(())
    }

    /// A place of the configuration was read, or not for this reason. True when that is news.
    pub fn outcome(&mut self, from: &str, why: Option<String>) -> bool {
        match why {
            None => self.unread.remove(from).is_some(),
            Some(why) => {
                let news = self.unread.get(from) != Some(&why);
                self.unread.insert(from.to_owned(), why);
                news
            }
        }
    }

    /// Places of the configuration that could not be read when they were read last, and why.
    #[must_use]
    pub fn unread(&self) -> Vec<(String, String)> {
        self.unread.iter().map(|(from, why)| (from.clone(), why.clone())).collect()
    }

    /// The one of that identifier.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Thing> {
        self.things.get(id).cloned()
    }

    /// One of that title, which anybody may give a Thing.
    #[must_use]
    pub fn titled(&self, title: &str) -> Option<Thing> {
        self.things.values().find(|thing| thing.description.title() == title).cloned()
    }

    /// Forgets what was not read for `ttl_ms`, and what was read in places that are not among `from` any more.
    pub fn sweep(&mut self, now_ms: u64, ttl_ms: u64, from: &BTreeSet<String>) {
        self.things.retain(|_, thing| {
            let stays = thing.read_ms + ttl_ms > now_ms && from.contains(&thing.from);
            if !stays {
                self.bytes -= thing.description.bytes().len();
            }
            stays
        });
    }

    /// Those that `query` finds, the best match of its text first. Loads and grades are of nodes, which Things are not:
    /// a query that bounds them finds none.
    #[must_use]
    pub fn find(&self, query: &Query) -> Vec<Thing> {
        if query.max_load.is_some() || query.min_grade.is_some() {
            return Vec::new();
        }
        let fitting = self.things.values().filter(|thing| query.matches(thing.description.capabilities()));
        let mut found: Vec<(usize, &Thing)> = fitting
            .filter_map(|thing| match &query.text {
                Some(text) => Some(words_in(text, thing)).filter(|words| *words > 0).map(|words| (words, thing)),
                None => Some((0, thing)),
            })
            .collect();
        found.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.id.cmp(&other.id)));
        let limit = query.limit.unwrap_or(RESULTS_MAX).min(RESULTS_MAX);
        found.into_iter().take(limit).map(|(_, thing)| thing.clone()).collect()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.things.len()
    }

    /// True when none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }
}

/// How many words of a question stand in what a Thing says of itself.
fn words_in(question: &str, thing: &Thing) -> usize {
    let names = thing.description.affordances().join("\n");
    let text = format!("{}\n{names}", thing.description.search_text()).to_lowercase();
    let has: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
    let words: BTreeSet<String> = question.to_lowercase().split_whitespace().map(str::to_owned).collect();
    words.iter().filter(|word| has.contains(word.as_str())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing(id: &str, title: &str, action: &str, from: &str, read_ms: u64) -> Thing {
        let td = format!(
            r#"{{"@context":"https://www.w3.org/2022/wot/td/v1.1","id":"{id}","title":"{title}",
                "securityDefinitions":{{"n":{{"scheme":"nosec"}}}},"security":"n",
                "actions":{{"{action}":{{"forms":[{{"href":"http://192.0.2.1/a"}}]}}}}}}"#
        );
        let description = Arc::new(Description::parse(td.as_bytes()).expect("a description"));
        Thing { id: id.to_owned(), description, from: from.to_owned(), vouched: false, read_ms }
    }

    fn text(words: &str) -> Query {
        Query { text: Some(words.to_owned()), ..Query::default() }
    }

    #[test]
    fn things_are_found_by_what_they_say_and_do() {
        let mut things = Things::default();
        assert_eq!(things.note(thing("urn:lamp", "Lamp in the hall", "toggle", "a", 0)), Ok(()));
        assert_eq!(things.note(thing("urn:door", "Door of the hall", "open", "a", 0)), Ok(()));
        let ids = |query: &Query| things.find(query).into_iter().map(|found| found.id).collect::<Vec<_>>();
        assert_eq!(ids(&text("hall lamp")), ["urn:lamp", "urn:door"]);
        assert_eq!(ids(&text("OPEN")), ["urn:door"]);
        assert_eq!(ids(&text("boat")), [""; 0]);
        assert_eq!(ids(&Query { capability: Some("toggle".to_owned()), ..Query::default() }), ["urn:lamp"]);
        assert_eq!(ids(&Query { max_load: Some(1.0), ..Query::default() }), [""; 0]);
    }

    #[test]
    fn nobody_takes_another_s_place_and_what_is_not_read_is_forgotten() {
        let mut things = Things::default();
        let sources = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(things.note(thing("urn:lamp", "Lamp", "toggle", "a", 0)), Ok(()));
        assert_eq!(things.note(thing("urn:lamp", "Not the lamp", "burn", "b", 1)), Err(NotTaken::Elsewhere));
        assert_eq!(things.find(&text("lamp"))[0].description.title(), "Lamp");
        assert_eq!(things.note(thing("urn:lamp", "Lamp again", "toggle", "a", 5)), Ok(()));
        let named = Thing { vouched: true, ..thing("urn:lamp", "The owner's lamp", "toggle", "b", 5) };
        assert_eq!(things.note(named.clone()), Ok(()), "what the configuration names comes first");
        assert_eq!(things.note(Thing { from: "c".to_owned(), ..named }), Err(NotTaken::Elsewhere));
        assert_eq!(things.note(thing("urn:lamp", "Lamp", "toggle", "a", 5)), Err(NotTaken::Elsewhere));
        assert_eq!(things.note(thing("urn:a", "urn:lamp", "burn", "a", 0)), Ok(()));
        assert_eq!(things.get("urn:lamp").map(|lamp| lamp.from), Some("b".to_owned()), "a title is no identifier");
        assert_eq!(things.titled("urn:lamp").map(|lamp| lamp.id), Some("urn:a".to_owned()));
        things.sweep(14, 10, &sources);
        assert_eq!(things.len(), 1);
        things.sweep(15, 10, &sources);
        assert!(things.is_empty() && things.bytes == 0);
        assert_eq!(things.note(thing("urn:lamp", "Lamp", "toggle", "b", 15)), Ok(()), "and its name is free");
        things.sweep(16, 10, &BTreeSet::from(["a".to_owned()]));
        assert!(things.is_empty(), "its source is gone");
    }
}
