//! What is at an address of the Web of Things: a Thing, a directory, or a page of one (W3C WoT Discovery).

use althing_td::{TITLE_CHARS_MAX, identifier, is_hidden, is_thing, is_thing_by_forms};
use reqwest::Url;
use serde_json::{Map, Value};

use super::template::{Template, escape};

/// The most Things that are read of one directory.
pub const ENTRIES_MAX: usize = 1_000;
/// Bytes of an entry's id.
const ID_BYTES_MAX: usize = 512;
/// Entries of a directory that are named where they are left out; the others are counted.
const NAMED_MAX: usize = 16;
/// Characters of such a name.
const NAME_CHARS_MAX: usize = 64;

/// The contexts of WebThings before it took over those, without their schemes.
const WEBTHINGS: [&str; 2] = ["webthings.io/schemas", "iot.mozilla.org/schemas"];
/// The members of a description that hold affordances.
const AFFORDANCES: [&str; 3] = ["properties", "actions", "events"];

/// A Thing of a directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Its title, cut where it is too long.
    pub title: String,
    /// Where the directory has its description.
    pub url: String,
}

/// What a directory has beside its Things.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Omissions {
    /// Which entry, and why it is no Thing that can be chosen, for people: at most 16.
    pub named: Vec<(String, String)>,
    /// How many there are, those that are named included; pages that were not read count as one.
    pub count: usize,
}

impl Omissions {
    /// Adds an entry, the `number`th of its list, from 0.
    pub fn add(&mut self, number: usize, item: &Value) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            let title = item.get("title").and_then(Value::as_str).unwrap_or_default();
            let seen = title.chars().filter(|c| !c.is_control() && !is_hidden(*c));
            let title: String = seen.take(NAME_CHARS_MAX).collect();
            let name = if title.is_empty() { String::new() } else { format!(" {title:?}") };
            self.named.push((format!("entry {}{name}", number + 1), unfit(item).to_owned()));
        }
    }
}

/// What a document is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A Thing.
    Thing(Map<String, Value>),
    /// A directory, whose list is there.
    Directory(Url),
    /// A page of a list, and where the next one is.
    List(Vec<Value>, Option<Url>),
}

/// What a document that was read at `from` is; nothing that is known, if none. `is_typed`: its media type says that it is a
/// Thing Description.
pub fn kind(document: Value, from: &Url, is_typed: bool) -> Option<Kind> {
    match document {
        Value::Array(items) => is_list(&items).then_some(Kind::List(items, None)),
        Value::Object(mut members) if members.get("members").is_some_and(Value::is_array) => {
            let Some(Value::Array(items)) = members.remove("members") else { return None };
            let next = members.get("next").and_then(Value::as_str).and_then(|next| from.join(next).ok());
            is_list(&items).then_some(Kind::List(items, next))
        }
        Value::Object(td) if !is_typed && !is_thing(&td) && !is_thing_by_forms(&td) => None,
        Value::Object(td) => Some(list_of(&td, from).map_or_else(|| Kind::Thing(td), Kind::Directory)),
        _ => None,
    }
}

/// Whether these are the entries of a directory, which may be odd beside the description of a Thing.
fn is_list(items: &[Value]) -> bool {
    items.is_empty() || items.iter().any(|item| item.as_object().is_some_and(is_thing))
}

/// Whether a document is the answer of a directory as a graph of JSON-LD, which is no Thing whatever its context is.
pub fn is_graph(document: &Value) -> bool {
    document.get("@graph").is_some_and(Value::is_array)
}

/// Whether a document is a Thing of WebThings from before its descriptions were those of the W3C, or a list of such: where
/// forms belong it has `links`, or the older `href`.
pub fn is_before_w3c(document: &Value) -> bool {
    match document {
        Value::Object(members) => is_webthing(members),
        Value::Array(items) => !items.is_empty() && items.iter().all(|item| item.as_object().is_some_and(is_webthing)),
        _ => false,
    }
}

fn is_webthing(document: &Map<String, Value>) -> bool {
    let of_kind = |kind: &&str| document.get(*kind).and_then(Value::as_object).into_iter().flatten();
    let affordances = || AFFORDANCES.iter().flat_map(of_kind).filter_map(|(_, affordance)| affordance.as_object());
    if is_thing(document) || document.contains_key("forms") || affordances().any(|one| one.contains_key("forms")) {
        return false;
    }
    let leads = |link: &Value| link.get("href").is_some_and(Value::is_string);
    // Of the Thing itself only those to its affordances: others have links too.
    let leads_to_affordances = |link: &Value| {
        leads(link) && link.get("rel").and_then(Value::as_str).is_some_and(|rel| AFFORDANCES.contains(&rel))
    };
    has_webthings_context(document)
        || affordances().any(|one| one.get("href").is_some_and(Value::is_string) || links(one).any(leads))
        || links(document).any(leads_to_affordances)
}

fn links(of: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    of.get("links").and_then(Value::as_array).into_iter().flatten()
}

/// Whether it names the context of WebThings, or the one that it had before.
fn has_webthings_context(document: &Map<String, Value>) -> bool {
    let known = |context: &Value| {
        let context = context.as_str().unwrap_or_default().trim_end_matches('/');
        let bare = context.strip_prefix("https://").or_else(|| context.strip_prefix("http://"));
        bare.is_some_and(|bare| WEBTHINGS.contains(&bare))
    };
    match document.get("@context") {
        Some(Value::Array(all)) => all.iter().any(known),
        Some(one) => known(one),
        None => false,
    }
}

/// Where a directory has its list: the property `things`, which is a list of descriptions.
fn list_of(td: &Map<String, Value>, from: &Url) -> Option<Url> {
    let things = td.get("properties")?.get("things")?;
    if things.get("type").is_some_and(|kind| kind != "array") {
        return None;
    }
    let base = td.get("base").and_then(Value::as_str).and_then(|base| from.join(base).ok());
    let href = things.get("forms")?.as_array()?.first()?.get("href")?.as_str()?;
    // Without values for its variables: the first page.
    let href = Template::read(href).ok()?.expand(&std::collections::BTreeMap::new()).ok()?;
    base.as_ref().unwrap_or(from).join(&href).ok()
}

/// The entry of a description in the list at `list`; none if it is no description, has no id, or one that is too long.
pub fn entry(td: &Value, list: &Url) -> Option<Entry> {
    let text = |member: &str| td.get(member).and_then(Value::as_str);
    let id = td.as_object().filter(|td| is_thing(td)).and_then(identifier).filter(|id| id.len() <= ID_BYTES_MAX)?;
    let title = text("title").unwrap_or(id).chars().take(TITLE_CHARS_MAX).collect();
    let mut list = list.clone();
    list.set_query(None);
    list.set_fragment(None);
    let mut url = format!("{}/", list.as_str().trim_end_matches('/'));
    escape(id, &mut url);
    Some(Entry { id: id.to_owned(), title, url })
}

/// Why an entry of a list is none that can be chosen.
fn unfit(item: &Value) -> &'static str {
    match item.as_object() {
        None => "it is no object, or nested too deeply",
        Some(td) if !is_thing(td) => "its context is not that of Thing Descriptions",
        Some(td) if identifier(td).is_some() => "its id has more than 512 bytes",
        Some(_) => "it has no id",
    }
}

/// The next page, as a `Link` header says (RFC 8288).
pub fn next(link: &str, from: &Url) -> Option<Url> {
    link.split(',').find_map(|one| {
        let (target, parameters) = one.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.split(';').any(|parameter| matches!(parameter.trim(), "rel=next" | "rel=\"next\""));
        is_next.then(|| from.join(target).ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at() -> Url {
        Url::parse("http://192.0.2.1/.well-known/wot").expect("an address")
    }

    fn td(members: Value) -> Value {
        let mut td = json!({ "@context": ["https://www.w3.org/2022/wot/td/v1.1"], "title": "T" });
        if let (Some(td), Value::Object(members)) = (td.as_object_mut(), members) {
            td.extend(members);
        }
        td
    }

    #[test]
    fn a_directory_is_told_from_a_thing_by_its_list() {
        let Some(Kind::Thing(thing)) = kind(td(json!({ "actions": {} })), &at(), false) else { panic!("a Thing") };
        assert_eq!(thing["title"], "T");
        let directory = td(json!({ "properties": { "things": {
            "type": "array", "forms": [{ "href": "/things{?offset,limit}" }],
        } } }));
        let wanted = Url::parse("http://192.0.2.1/things").expect("an address");
        assert_eq!(kind(directory, &at(), false), Some(Kind::Directory(wanted)));
        // A Thing that only has a property of that name.
        let shelf = td(json!({ "properties": { "things": { "type": "integer", "forms": [{ "href": "/things" }] } } }));
        assert!(matches!(kind(shelf, &at(), false), Some(Kind::Thing(_))));
    }

    #[test]
    fn lists_are_read_in_both_forms() {
        assert!(
            matches!(kind(json!([td(json!({ "id": "urn:x:1" }))]), &at(), false), Some(Kind::List(all, None)) if all.len() == 1)
        );
        let collection = json!({ "@context": "https://w3c.github.io/wot-discovery/context/discovery-context.jsonld",
            "@type": "ThingCollection", "members": [td(json!({}))], "next": "/things?offset=1&format=collection" });
        assert!(matches!(kind(collection, &at(), false), Some(Kind::List(_, Some(next))) if next.path() == "/things"));
    }

    #[test]
    fn an_odd_entry_spoils_no_directory_and_is_named() {
        let list = Url::parse("http://192.0.2.1/things").expect("an address");
        let good = td(json!({ "id": "urn:x:1" }));
        let long = td(json!({ "id": "i".repeat(ID_BYTES_MAX + 1) }));
        for (odd, why) in [
            (json!(null), "no object"),
            (json!(7), "no object"),
            (json!([]), "no object"),
            (json!({}), "context"),
            (json!({ "id": "urn:x:2", "title": "Card" }), "context"),
            (td(json!({ "id": null })), "no id"),
            (td(json!({ "title": null })), "no id"),
            (long, "512 bytes"),
        ] {
            for document in [json!([odd, good]), json!({ "members": [odd, good] })] {
                let Some(Kind::List(items, _)) = kind(document, &at(), false) else { panic!("a list: {odd}") };
                let read: Vec<Option<Entry>> = items.iter().map(|item| entry(item, &list)).collect();
                assert!(read[0].is_none(), "{odd}");
                assert_eq!(read[1].as_ref().map(|one| one.id.as_str()), Some("urn:x:1"), "{odd}");
            }
            let mut unlisted = Omissions::default();
            unlisted.add(0, &odd);
            assert!(unlisted.count == 1 && unlisted.named[0].1.contains(why), "{odd}: {unlisted:?}");
        }
        let mut unlisted = Omissions::default();
        (0..NAMED_MAX + 9).for_each(|number| unlisted.add(number, &json!({ "title": "a\u{202e}b\n".repeat(99) })));
        assert_eq!((unlisted.named.len(), unlisted.count), (NAMED_MAX, NAMED_MAX + 9));
        assert_eq!(unlisted.named[1].0, format!("entry 2 {:?}", "ab".repeat(NAME_CHARS_MAX / 2)));
    }

    #[test]
    fn a_media_type_says_what_a_context_does_not() {
        let document = json!({ "title": "T", "actions": {} });
        assert!(matches!(kind(document.clone(), &at(), true), Some(Kind::Thing(_))));
        assert_eq!(kind(document, &at(), false), None);
        assert!(matches!(kind(td(json!({ "members": 7 })), &at(), false), Some(Kind::Thing(_))), "a member of its own");
    }

    #[test]
    fn forms_say_what_a_context_does_not() {
        let formed = json!({ "title": "T", "properties": { "on": { "forms": [{ "href": "/on" }] } } });
        assert!(matches!(kind(formed.clone(), &at(), false), Some(Kind::Thing(_))));
        assert!(!is_before_w3c(&formed));
        let other = json!({ "@context": "https://webthings.io/schemas", "properties": formed["properties"] });
        assert_eq!(kind(other, &at(), false), None, "it says that it is something else");
        assert!(is_graph(&json!({ "@graph": [formed] })) && !is_graph(&formed) && !is_graph(&json!([])));
    }

    #[test]
    fn other_documents_are_neither() {
        for other in [json!({}), json!({ "name": "a card" }), json!([{ "a": 1 }]), json!(7), json!({ "members": [1] })]
        {
            assert_eq!(kind(other.clone(), &at(), false), None, "{other}");
        }
    }

    #[test]
    fn things_of_webthings_before_w3c_are_known_by_links_where_forms_belong() {
        let links = json!([{ "href": "/things/fan/properties/speed" }]);
        let speed = json!({ "speed": { "type": "integer", "links": links } });
        for old in [
            json!({ "@context": "https://webthings.io/schemas", "title": "Fan", "properties": speed }),
            json!({ "@context": "https://iot.mozilla.org/schemas/", "name": "Fan" }),
            json!({ "@context": ["http://example.org/x", "https://webthings.io/schemas/"], "title": "Fan" }),
            json!({ "name": "Fan", "properties": speed }),
            json!({ "name": "Fan", "type": "onOffSwitch", "properties": { "on": { "href": "/properties/on" } } }),
            json!({ "name": "Fan", "actions": { "stop": { "links": links } } }),
            json!({ "name": "Fan", "events": { "jam": { "links": links } } }),
            json!({ "name": "Fan", "links": [{ "rel": "properties", "href": "/things/fan/properties" }] }),
        ] {
            assert!(is_before_w3c(&old), "{old}");
            assert!(is_before_w3c(&json!([old])), "a list of them: {old}");
        }
        let formed = json!({ "speed": { "links": links, "forms": [{ "href": "/speed" }] } });
        for other in [
            td(json!({ "properties": speed })),
            json!({ "@context": "https://webthings.io/schemas", "properties": formed }),
            json!({ "name": "card", "url": "https://a.example", "skills": [] }),
            json!({ "type": "object", "properties": { "href": { "type": "string" } } }),
            json!({ "title": "a page", "links": [{ "rel": "about", "href": "/about" }] }),
            json!([]),
            json!(7),
        ] {
            assert!(!is_before_w3c(&other), "{other}");
        }
    }

    #[test]
    fn an_entry_is_below_its_list() {
        let list = Url::parse("http://192.0.2.1/things?offset=0").expect("an address");
        let entry = entry(&td(json!({ "id": "urn:x:a/b" })), &list).expect("an entry");
        assert_eq!((entry.title.as_str(), entry.url.as_str()), ("T", "http://192.0.2.1/things/urn%3Ax%3Aa%2Fb"));
        let named = super::entry(&td(json!({ "@id": "urn:x:2" })), &list).expect("an entry");
        assert_eq!((named.id.as_str(), named.url.as_str()), ("urn:x:2", "http://192.0.2.1/things/urn%3Ax%3A2"));
        assert_eq!(super::entry(&td(json!({})), &list), None, "it has no id to ask for");
    }

    #[test]
    fn an_entry_is_as_long_as_a_person_reads() {
        let list = Url::parse("http://192.0.2.1/things").expect("an address");
        let read = |id: &str, title: &str| super::entry(&td(json!({ "id": id, "title": title })), &list);
        // Characters are counted, not bytes.
        let long = "\u{e9}".repeat(TITLE_CHARS_MAX + 1);
        assert_eq!(read("urn:x:1", &long).expect("an entry").title.chars().count(), TITLE_CHARS_MAX);
        let fits = "i".repeat(ID_BYTES_MAX);
        let entry = read(&fits, "T").expect("an entry");
        assert_eq!((entry.id.as_str(), entry.title.as_str()), (fits.as_str(), "T"));
        assert_eq!(read(&format!("{fits}i"), "T"), None, "it is left out: a cut id would be another one");
        let untitled = json!({ "@context": "https://www.w3.org/2022/wot/td/v1.1", "id": fits });
        let title = super::entry(&untitled, &list).expect("an entry").title;
        assert_eq!(title.len(), TITLE_CHARS_MAX, "an id in place of the title is cut too");
    }

    #[test]
    fn the_next_page_is_that_of_the_link() {
        let found = next("</a>; rel=\"prev\", </things?offset=50>; rel=\"next\"", &at()).expect("a link");
        assert_eq!(found.as_str(), "http://192.0.2.1/things?offset=50");
        assert_eq!(next("</a>; rel=prev", &at()), None);
    }
}
