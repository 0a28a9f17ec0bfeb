//! Few lines can reach the private fields of one struct: who changes what a field means reads them all.
//!
//! Counted are, in the modules that see the fields: the methods of the struct; those of its views, which are types that hold
//! it behind a reference or a shared pointer (`struct Reader<'a>(&'a Store)`), or else use its fields through one of their
//! own; and other functions that are handed it and use its fields. A view spreads the struct over more names, and separates
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Finding, Source, crates, only_shrinks, parts};

mod code;
mod names;

use code::{Block, Code, Function, Uses};
use names::Name;

/// Lines of code, without comments, blank lines and tests, that can reach the private fields of one struct.
const REACH_LINES_MAX: usize = 400;

/// Whether a module is another one, or lies in it.
fn is_in(module: &str, container: &str) -> bool {
    container.is_empty() || module.strip_prefix(container).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Who holds a struct.
struct Holder<'a> {
    name: &'a Name,
    /// In which of its fields.
    field: &'a str,
    behind_pointer: bool,
}

/// For each struct with private fields: the lines that can reach them, and whose they are.
fn reach(sources: &[Source]) -> BTreeMap<Name, Finding> {
    let code = Code::of(sources);
    let mut holders: BTreeMap<Name, Vec<Holder>> = BTreeMap::new();
    for (name, definition) in &code.definitions {
        for field in &definition.fields {
            for (held, behind_pointer) in code.names.held(&name.0, field.of) {
                holders.entry(held).or_default().push(Holder { name, field: &field.name, behind_pointer });
            }
        }
    }
    let of_block = |block: &Block| code.names.held(&block.module, block.of).into_iter().next().map(|(name, _)| name);
    let types: Vec<Option<Name>> = code.blocks.iter().map(of_block).collect();
    let mut found = BTreeMap::new();
    for (name, definition) in &code.definitions {
        let private =
            definition.fields.iter().filter_map(|field| Some((field.name.as_str(), field.seen_in.as_deref()?)));
        let private: BTreeMap<&str, &str> = private.collect();
        // One module contains the others, since all contain that of the struct.
        if let Some(widest) = private.values().copied().min_by_key(|module| module.len()) {
            let fields: BTreeSet<&str> = private.keys().copied().collect();
            let subject = Subject { name, fields, seen_in: widest, code: &code, types: &types };
            found.insert(name.clone(), subject.lines(&subject.views(&holders)));
        }
    }
    found
}

/// A struct with private fields, in its crate.
struct Subject<'a> {
    name: &'a Name,
    /// Those that are private.
    fields: BTreeSet<&'a str>,
    seen_in: &'a str,
    code: &'a Code<'a>,
    /// Whose each block is.
    types: &'a [Option<Name>],
}

impl<'a> Subject<'a> {
    /// The struct, its views, and theirs.
    fn views(&self, holders: &'a BTreeMap<Name, Vec<Holder<'a>>>) -> BTreeSet<&'a Name> {
        let mut views = BTreeSet::from([self.name]);
        let mut open = vec![self.name];
        while let Some(view) = open.pop() {
            let is_borrowed = view != self.name && self.code.definitions[view].borrows;
            for holder in holders.get(view).into_iter().flatten() {
                let beside = is_in(&holder.name.0, &self.name.0);
                let is_view = (holder.behind_pointer || is_borrowed) && beside;
                let uses = view == self.name && is_in(&holder.name.0, self.seen_in) && self.is_used_by(holder);
                if (is_view || uses) && views.insert(holder.name) {
                    open.push(holder.name);
                }
            }
        }
        views
    }

    /// Whether the methods of what holds the struct use its private fields.
    fn is_used_by(&self, holder: &Holder) -> bool {
        let blocks = self.code.blocks.iter().zip(self.types);
        let mut own = blocks.filter(|(_, of)| of.as_ref() == Some(holder.name)).map(|(block, _)| block);
        own.any(|block| self.is_used(&block.uses, holder.field))
    }

    fn is_used(&self, uses: &Uses, before: &str) -> bool {
        uses.0.iter().any(|(held, field)| held == before && self.fields.contains(field.as_str()))
    }

    /// The lines of the struct, of its views, and of functions that are handed it.
    fn lines(&self, views: &BTreeSet<&Name>) -> Finding {
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        let is_view = |of: &Option<Name>| of.as_ref().is_some_and(|name| views.contains(name));
        for (block, of) in self.code.blocks.iter().zip(self.types) {
            if let Some(name) = of.as_ref().filter(|_| is_view(of))
                && is_in(&block.module, self.seen_in)
            {
                *lines.entry(&name.1).or_default() += block.lines;
            }
        }
        for function in &self.code.functions {
            let is_counted = function.block.is_some_and(|block| is_view(&self.types[block]));
            if !is_counted && is_in(&function.module, self.seen_in) && self.is_handed_to(function) {
                *lines.entry("functions").or_default() += function.lines;
            }
        }
        let number = lines.values().sum();
        let places = lines.into_iter().map(|(of, lines)| format!("{of}: {lines}")).collect();
        Finding { number, places }
    }

    /// Whether a function has the struct for a parameter, and uses its private fields.
    fn is_handed_to(&self, function: &Function) -> bool {
        function.signature.inputs.iter().any(|input| {
            let syn::FnArg::Typed(parameter) = input else { return false };
            let syn::Pat::Ident(name) = &*parameter.pat else { return false };
            self.is_used(&function.uses, &name.ident.to_string())
                && self.code.names.held(&function.module, &parameter.ty).iter().any(|(held, _)| held == self.name)
        })
    }
}

#[test]
fn few_lines_reach_the_private_fields_of_one_struct() {
    let mut found: BTreeMap<String, Finding> = BTreeMap::new();
    for (folder, sources) in crates() {
        for ((module, name), finding) in reach(&sources) {
            if finding.number > REACH_LINES_MAX {
                let path = [parts(&module), vec![name]].concat().join("::");
                found.insert(format!("{} {path}", folder.display()), finding);
            }
        }
    }
    only_shrinks(
        "reach.txt",
        &found,
        &format!(
            "over {REACH_LINES_MAX} lines of code can reach the private fields of one struct. Give what belongs together \
             a struct of its own, with fields that only its methods see; a view (`struct X<'a>(&'a T)`) reaches all of them"
        ),
    );
}

/// The lines of each type in a crate of these modules, with what they are made of.
fn lines_of(modules: &[(&str, &str)]) -> BTreeMap<String, (usize, String)> {
    let sources: Vec<Source> =
        modules.iter().map(|(name, text)| Source::of(name, (*text).to_owned()).expect("it parses")).collect();
    let found = reach(&sources).into_iter();
    found.map(|((_, name), finding)| (name, (finding.number, finding.places.join(", ")))).collect()
}

#[test]
fn views_of_a_struct_are_counted_in() {
    let lines = lines_of(&[
        (
            "store",
            "mod view;\nuse std::sync::Arc;\npub struct Store { rows: Vec<u8>, pub shown: u8 }\n\
             /// Comment.\nimpl Store {\n    // comment\n    fn own(&self) {}\n\n    #[test]\n    fn test() {}\n}\n\
             impl Drop for Store {\n    fn drop(&mut self) {}\n}\n\
             type Shared = Arc<Store>;\npub struct Handle(Shared);\nimpl Handle {\n}\n\
             #[cfg(test)]\nmod tests {\n    impl super::Store {}\n}",
        ),
        (
            "store::view",
            "use super::{Store as Held, Handle};\npub struct View<'a>(pub(super) &'a Held);\nimpl<'a> View<'a> {\n}\n\
             enum Either<'a> { One(Option<View<'a>>) }\nimpl Either<'_> {}\n\
             struct Owner { held: Held }\nimpl Owner {\n    fn of(&self) -> usize { self.held.rows.len() }\n}\n\
             struct Other { held: Held, handle: Handle }\nimpl Other { fn of(&self) -> u8 { self.held.shown } }",
        ),
        (
            "outside",
            "use std::sync::Arc; use crate::store::Store;\nstruct Far(Arc<Store>);\nimpl Far { fn f(&self) { self.0.shown } }",
        ),
    ]);
    let (number, places) = &lines["Store"];
    assert_eq!(places, "Either: 1, Handle: 2, Owner: 3, Store: 6, View: 2");
    assert_eq!(*number, 14);
    assert_eq!(lines["Far"].0, 1, "what cannot see the fields counts for itself only");
    assert!(!lines.contains_key("Either"), "an enum has no private fields");
}

#[test]
fn functions_that_use_what_they_are_handed_are_counted_in() {
    let lines = lines_of(&[
        ("", "mod store;"),
        (
            "store",
            "mod deep;\npub struct Store { pub(super) rows: Vec<u8>, of: u8 }\n\
             fn uses(store: &mut Store) -> usize {\n    store.rows.len()\n}\n\
             fn passes_on(store: &Store) {\n    uses(store)\n}\n\
             fn another(rows: &[u8], store: &Store) {\n    rows.of\n}",
        ),
        (
            "store::deep",
            "use super::*;\nstruct Judge;\nimpl Judge {\n    fn judge(&self, of: &Option<super::Store>) {\n        \
             format!(\"{}\", of.rows)\n    }\n    fn other() {}\n}",
        ),
        ("far", "use crate::store::Store;\npub fn sees(store: &Store) -> u8 { store.rows[0] }"),
    ]);
    assert_eq!(lines["Store"], (7, "functions: 7".to_owned()));
}
