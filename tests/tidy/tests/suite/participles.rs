//! A type is a noun of the field: a participle says what happened to something, and not what it is.

use std::collections::BTreeMap;

use syn::visit::Visit;

use crate::support::{Finding, is_test, only_shrinks, words_of_name};

/// Endings of participles.
const ENDINGS: &[&str] = &["ed", "en", "ing"];

/// Words with such an ending that are nouns.
const NOUNS: &str = "batching binding building ceiling children deed embedding encoding feed finding greeting heading hosting keyring \
    listing mapping meaning meeting need nothing opening padding pen ping posting pricing rating reading ring routing ruling \
    scheduling screen seed setting something speed spelling standing string thing timing token training warning";

/// Words with such an ending that are neither.
const OTHERS: &str = "even open red then when";

/// Participles with none of the endings; those that are nouns as well (run, set, cut, read) are left out.
const IRREGULAR: &str = "begun bent bought bound brought built caught dealt done drawn felt flown found gone grown heard held hung \
    kept known laid led left lent lost made meant met paid said sent shown sold sought spent stood struck stuck \
    sunk sworn taught thrown told torn understood won worn wound woven";

/// What stands before participles: `untold`, `withheld`, `rebuilt`.
const PREFIXES: &[&str] = &["", "over", "re", "un", "under", "with"];

/// Whether the last word of a name, which is what a thing of that name is, is a participle.
fn is_participle(name: &str) -> bool {
    let words = words_of_name(name);
    let Some(word) = words.last().map(String::as_str) else { return false };
    let is_among = |list: &str, word: &str| list.split_whitespace().any(|listed| listed == word);
    let mut bare = PREFIXES.iter().filter_map(|prefix| word.strip_prefix(*prefix));
    let regular = ENDINGS.iter().any(|ending| word.ends_with(*ending));
    let is_excused = is_among(NOUNS, word) || is_among(OTHERS, word);
    bare.any(|bare| is_among(IRREGULAR, bare)) || (regular && !is_excused)
}

/// The names of types outside tests, with their lines.
#[derive(Default)]
struct Types(Vec<(String, usize)>);

impl Types {
    fn add(&mut self, name: &syn::Ident, attributes: &[syn::Attribute]) {
        if !is_test(attributes) {
            self.0.push((name.to_string(), name.span().start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident, &item.attrs);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident, &item.attrs);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.add(&item.ident, &item.attrs);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident, &item.attrs);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident, &item.attrs);
        syn::visit::visit_item_trait(self, item);
    }
}

#[test]
fn no_type_is_named_by_a_participle_but_those_that_are_listed() {
    let (production, _) = crate::support::rust_files();
    let mut found: BTreeMap<String, Finding> = BTreeMap::new();
    for file in &production {
        let mut types = Types::default();
        types.visit_file(&crate::support::parsed(file));
        for (name, line) in types.0.into_iter().filter(|(name, _)| is_participle(name)) {
            found.entry(name).or_default().add(format!("{}:{line}", file.display()));
        }
    }
    only_shrinks(
        "participles.txt",
        &found,
        "a type is a noun of the field: not `Kept`, but what it is that is kept. What is a noun, and only looks like a \
         participle, is added to NOUNS in tests/tidy/tests/suite/participles.rs",
    );
}

#[test]
fn participles_are_told_from_nouns() {
    for participle in
        ["Kept", "Asked", "Untold", "Withheld", "WithdrawnRebuilt", "Seen", "Forgotten", "Running", "CallRefused"]
    {
        assert!(is_participle(participle), "{participle}");
    }
    for noun in [
        "Thing",
        "Binding",
        "Feed",
        "SeedString",
        "Ping",
        "Token",
        "KeptToken",
        "RunningAgent",
        "Run",
        "Request",
        "Open",
    ] {
        assert!(!is_participle(noun), "{noun}");
    }
}

#[test]
fn types_are_seen_wherever_they_are_but_in_tests() {
    let text =
        "pub struct Kept; enum Asked {} type Told = u8; trait Held { fn f() { struct Sent; } } union Made { a: u8 }
        mod inner { struct Named<T>(T); }
        impl Held for Kept { fn f() { enum Lost {} } }
        enum Kind { Refused }
        fn built() { type Found = u8; }
        #[cfg(test)] mod tests { struct Shown; }
        #[cfg(test)] struct Meant;
        #[test] fn known() { struct Known; }";
    let mut types = Types::default();
    types.visit_file(&syn::parse_file(text).expect("it parses"));
    let names: Vec<&str> = types.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Kept", "Asked", "Told", "Held", "Sent", "Made", "Named", "Lost", "Kind", "Found"]);
    assert_eq!(types.0[7].1, 3);
}
