//! A comment that repeats a name says nothing: what stays gives a unit, a shape or a reason.

use std::collections::{BTreeMap, BTreeSet};

use syn::{spanned::Spanned as _, visit::Visit};

use crate::support::{Finding, is_test, only_shrinks, place, words_of_name};

/// Words of a comment that can repeat a name; a longer one says more.
const WORDS_MAX: usize = 4;

/// Words that say nothing beside a name.
const EMPTY: &[&str] = &["a", "an", "its", "of", "the", "this"];

/// What turns comments into texts that people read where there is no name beside them: the help of commands.
const SHOWN: &[&str] = &["Args", "Parser", "Subcommand", "ValueEnum", "arg", "clap", "command"];

/// Whether a comment consists of words of the name below it and of the names of what that belongs to.
fn repeats(comment: &str, names: &str) -> bool {
    // What is quoted is somebody else's name, such as that of a section in a file.
    if comment.contains('`') {
        return false;
    }
    let edges = |letter: char| !letter.is_alphanumeric();
    let words = comment.split(|letter: char| letter.is_whitespace() || "/_:-".contains(letter));
    let words: Vec<&str> = words.map(|word| word.trim_matches(edges)).filter(|word| !word.is_empty()).collect();
    let known: BTreeSet<String> = words_of_name(names).iter().map(|word| stem(word)).collect();
    let says = |word: &str| {
        let is_plain = word.chars().all(char::is_alphanumeric);
        let parts = if is_plain { words_of_name(word) } else { vec![word.to_lowercase()] };
        parts.iter().any(|part| !EMPTY.contains(&part.as_str()) && !known.contains(&stem(part)))
    };
    (1..=WORDS_MAX).contains(&words.len()) && !words.into_iter().any(says)
}

/// A word without the ending of a plural, of a genitive or of a verb.
fn stem(word: &str) -> String {
    let word = word.replace('’', "'");
    let word = word.strip_suffix("'s").unwrap_or(&word);
    let short = word.strip_suffix('s').filter(|short| short.len() > 2 && !short.ends_with('s'));
    short.unwrap_or(word).to_owned()
}

/// The comments of a file that repeat names, outside tests: line, comment, name.
#[derive(Default)]
struct Comments {
    found: Vec<(usize, String, String)>,
    /// The names of what the item lies in, such as `Error` and a variant of it.
    owner: String,
}

impl Comments {
    /// Looks at the comment of an item. Returns whether to look into it.
    fn look(&mut self, name: &str, attributes: &[syn::Attribute]) -> bool {
        if is_test(attributes) || is_shown(attributes) {
            return false;
        }
        let lines: Vec<(usize, String)> = attributes.iter().filter_map(documentation).collect();
        let comment = lines.iter().map(|(_, line)| line.trim()).collect::<Vec<_>>().join(" ");
        if let Some((line, _)) = lines.first()
            && repeats(&comment, &format!("{}_{name}", self.owner))
        {
            self.found.push((*line, comment.trim().to_owned(), name.to_owned()));
        }
        true
    }

    /// Looks into something with a name of its own.
    fn within(&mut self, owner: String, look: impl FnOnce(&mut Comments)) {
        let before = std::mem::replace(&mut self.owner, owner);
        look(self);
        self.owner = before;
    }

    fn fields(&mut self, fields: &syn::Fields) {
        for field in fields {
            if let Some(name) = &field.ident {
                self.look(&name.to_string(), &field.attrs);
            }
        }
    }
}

/// The line and the text of a doc comment.
fn documentation(attribute: &syn::Attribute) -> Option<(usize, String)> {
    let syn::Meta::NameValue(syn::MetaNameValue { path, value: syn::Expr::Lit(value), .. }) = &attribute.meta else {
        return None;
    };
    let syn::Lit::Str(text) = &value.lit else { return None };
    path.is_ident("doc").then(|| (attribute.span().start().line, text.value()))
}

/// Whether the comments of an item and of what is in it are shown to people.
fn is_shown(attributes: &[syn::Attribute]) -> bool {
    let shows = |name: &syn::Ident| SHOWN.iter().any(|shown| name == shown);
    attributes.iter().any(|attribute| {
        let derives = matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("derive")
        && list.tokens.clone().into_iter().any(|token| {
            matches!(token, proc_macro2::TokenTree::Ident(name) if shows(&name))
        }));
        derives || attribute.path().get_ident().is_some_and(shows)
    })
}

impl<'ast> Visit<'ast> for Comments {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        if self.look(&name, &item.attrs) {
            self.within(name, |comments| syn::visit::visit_item_mod(comments, item));
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let name = item.ident.to_string();
        if self.look(&name, &item.attrs) {
            self.within(name, |comments| comments.fields(&item.fields));
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        let name = item.ident.to_string();
        if !self.look(&name, &item.attrs) {
            return;
        }
        self.within(name.clone(), |comments| {
            for variant in &item.variants {
                if comments.look(&variant.ident.to_string(), &variant.attrs) {
                    comments.within(format!("{name}_{}", variant.ident), |comments| comments.fields(&variant.fields));
                }
            }
        });
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let name = item.ident.to_string();
        if self.look(&name, &item.attrs) {
            self.within(name, |comments| syn::visit::visit_item_trait(comments, item));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let owner = match &*item.self_ty {
            syn::Type::Path(of) => of.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.within(owner.unwrap_or_default(), |comments| syn::visit::visit_item_impl(comments, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if self.look(&item.sig.ident.to_string(), &item.attrs) {
            self.within(String::new(), |comments| syn::visit::visit_item_fn(comments, item));
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.look(&item.sig.ident.to_string(), &item.attrs);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.look(&item.sig.ident.to_string(), &item.attrs);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.look(&item.ident.to_string(), &item.attrs);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.look(&item.ident.to_string(), &item.attrs);
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.look(&item.ident.to_string(), &item.attrs);
    }

    fn visit_trait_item_type(&mut self, item: &'ast syn::TraitItemType) {
        self.look(&item.ident.to_string(), &item.attrs);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.look(&item.ident.to_string(), &item.attrs);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.look(&item.ident.to_string(), &item.attrs);
    }
}

#[test]
fn no_comment_repeats_the_name_below_it() {
    let (production, _) = crate::support::rust_files();
    let mut found: BTreeMap<String, Finding> = BTreeMap::new();
    for file in &production {
        let Some((folder, _)) = place(file) else { continue };
        let mut comments = Comments::default();
        comments.visit_file(&crate::support::parsed(file));
        for (line, comment, name) in comments.found {
            let place = format!("{}:{line}: /// {comment} ({name})", file.display());
            found.entry(folder.display().to_string()).or_default().add(place);
        }
    }
    only_shrinks(
        "comments.txt",
        &found,
        "these comments repeat the names below them. Let a comment give a unit, a shape or a reason; where nothing is to be \
         said and the item is not public, take it out",
    );
}

#[test]
fn a_comment_that_says_more_than_the_name_stays() {
    for (comment, name) in [
        ("The version.", "version"),
        ("Its versions", "Release_version"),
        ("The agent's name.", "Agent_name"),
        ("Bytes of a body.", "BODY_BYTES_MAX"),
        ("Reads a token.", "Token_read"),
        ("The NodeId.", "node_id"),
        ("A.", "anything"),
    ] {
        assert!(repeats(comment, name), "{comment} of {name}");
    }
    for (comment, name) in [
        ("Milliseconds.", "timeout"),
        ("Newest first.", "versions"),
        ("`[node]`", "Node"),
        ("The version that was asked.", "version_that_was_asked"),
        ("Who asks.", "caller"),
        ("", "version"),
        ("Why.", "reason"),
        ("The class.", "clas"),
    ] {
        assert!(!repeats(comment, name), "{comment} of {name}");
    }
}

#[test]
fn comments_are_seen_at_everything_that_has_a_name() {
    let text = "/// A store.
        struct Store {
            /// The store's rows.
            rows: u8,
            /// Newest first.
            names: u8,
            #[doc = \"The\"] // in parts
            /// state
            state: u8,
        }
        /// Refused.
        enum Error { /// The version.
            Refused, Version { /// Version of it, first.
            at: u8, /// The error's version.
            of: u8 } }
        impl Store { /// Opens the store.
            fn open() {} /// Most.
            const MOST: u8 = 1; }
        trait Port { /// Ports.
            fn port(); }
        #[derive(Debug, clap::Args)] struct Flags { /// The port.
            port: u8 }
        mod inner { /// The inner place.
            static PLACE: u8 = 1; }
        #[cfg(test)] mod tests { /// The test.
            fn test() {} }
        fn outer() { /// Type.
            type Type = u8; }";
    let mut comments = Comments::default();
    comments.visit_file(&syn::parse_file(text).expect("it parses"));
    let names: Vec<&str> = comments.found.iter().map(|(.., name)| name.as_str()).collect();
    assert_eq!(names, ["Store", "rows", "state", "of", "open", "MOST", "port", "PLACE", "Type"]);
    assert_eq!(comments.found[1], (3, "The store's rows.".to_owned(), "rows".to_owned()));
}
