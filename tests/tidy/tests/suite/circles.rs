//! Modules that import each other in a circle, also where macros do, and modules that a container and what it contains tie
//! together.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::visit::Visit;

use crate::support::{Finding, Source, absolute, crates, is_test, only_shrinks, parts};

/// Modules of one crate that import each other in a circle: folder of the crate's sources, and its members. The list may only
/// shrink. What a module and those that it contains do with each other is in `lists/circles.txt`.
const CYCLES: &[(&str, &[&str])] = &[];

/// What a file names of its own crate outside tests, in `use` declarations and in paths, from the root of the crate; and what
/// it re-exports, by name.
#[derive(Default)]
struct Uses {
    module: Vec<String>,
    found: BTreeSet<Vec<String>>,
    exported: BTreeMap<String, Vec<String>>,
}

impl Uses {
    fn of(source: &Source) -> Uses {
        let mut uses = Uses { module: parts(&source.module), ..Uses::default() };
        uses.visit_file(&source.file);
        uses
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &[String], exports: bool) {
        let and = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&path.tree, &and(&path.ident), exports),
            syn::UseTree::Name(name) => self.import(&and(&name.ident), exports.then(|| name.ident.to_string())),
            syn::UseTree::Rename(name) => self.import(&and(&name.ident), exports.then(|| name.rename.to_string())),
            syn::UseTree::Glob(_) if exports && !leaves(before) => {}
            syn::UseTree::Glob(_) => self.note(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(item, before, exports)),
        }
    }

    /// That a module re-exports what it contains is no arrow.
    fn import(&mut self, path: &[String], exported: Option<String>) {
        if let Some(name) = exported {
            self.exported.insert(name, absolute(&self.module, path));
            if !leaves(path) {
                return;
            }
        }
        self.note(path);
    }

    fn note(&mut self, path: &[String]) {
        self.found.insert(absolute(&self.module, path));
    }

    /// Notes a path of code. A single word is a type's name, or that of a variable, which names nothing.
    fn path(&mut self, words: &[String]) {
        if words.len() > 1 || words.first().is_some_and(|word| word.starts_with(char::is_uppercase)) {
            self.note(words);
        }
    }

    /// Notes the paths among tokens that nobody has parsed: those of macros, and of attributes, whose texts may be paths too
    /// (`with = "super::at"`).
    fn tokens(&mut self, tokens: TokenStream, with_texts: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(first) if begins(&tokens, at) => {
                    let mut words = vec![first.to_string()];
                    while is_joint(&tokens, at + 1)
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                    {
                        words.push(next.to_string());
                        at += 3;
                    }
                    let is_call = matches!(tokens.get(at + 1), Some(TokenTree::Group(arguments))
                        if arguments.delimiter() == Delimiter::Parenthesis);
                    if is_call { self.note(&words) } else { self.path(&words) }
                }
                TokenTree::Literal(literal) if with_texts => {
                    let text = literal.to_string();
                    let words: Vec<String> = text.trim_matches('"').split("::").map(str::to_owned).collect();
                    let is_name = |word: &String| {
                        !word.is_empty() && word.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
                    };
                    if words.len() > 1 && words.iter().all(is_name) {
                        self.note(&words);
                    }
                }
                TokenTree::Group(group) => self.tokens(group.stream(), with_texts),
                _ => {}
            }
            at += 1;
        }
    }
}

/// Whether a path may name what lies outside of its module, and whatever the module does not contain.
fn leaves(path: &[String]) -> bool {
    path.first().is_some_and(|first| ["crate", "super", "self"].contains(&first.as_str()))
}

fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(found)) if found.as_char() == mark)
}

/// Whether `::` stands at a place among tokens.
fn is_joint(tokens: &[TokenTree], at: usize) -> bool {
    let is_first = matches!(tokens.get(at), Some(TokenTree::Punct(colon))
        if colon.as_char() == ':' && colon.spacing() == Spacing::Joint);
    is_first && is_mark(tokens.get(at + 1), ':')
}

/// Whether the identifier at a place begins a path: neither a field, nor what follows a `::`.
fn begins(tokens: &[TokenTree], at: usize) -> bool {
    let before = |steps: usize| at.checked_sub(steps).and_then(|place| tokens.get(place));
    let is_field = is_mark(before(1), '.') && !is_mark(before(2), '.');
    let follows = at >= 2 && is_joint(tokens, at - 2);
    !is_field && !follows
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) && item.leading_colon.is_none() {
            self.tree(&item.tree, &[], !matches!(item.vis, syn::Visibility::Inherited));
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) && item.content.is_some() {
            self.module.push(item.ident.to_string());
            syn::visit::visit_item_mod(self, item);
            self.module.pop();
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

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_macro(self, item);
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone(), false);
        syn::visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone(), true);
        }
        syn::visit::visit_attribute(self, attribute);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func
            && let Some(name) = function.path.get_ident()
        {
            self.note(&[name.to_string()]);
        }
        syn::visit::visit_expr_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.path(&words);
        }
        syn::visit::visit_path(self, path);
    }
}

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Which module of a crate imports which. What a module re-exports counts as imported from where it is; that a module
/// contains others, and re-exports them, is no arrow.
fn graph(sources: &[Source]) -> Graph {
    let uses: BTreeMap<&str, Uses> = sources.iter().map(|source| (source.module.as_str(), Uses::of(source))).collect();
    // The longest prefix that is a module, and whether the next word is re-exported there.
    let home = |path: &[String]| {
        let (mut path, mut exported) = (path.to_vec(), false);
        for _ in 0..8 {
            let length =
                (0..=path.len()).rev().find(|length| uses.contains_key(path[..*length].join("::").as_str()))?;
            let module = path[..length].join("::");
            let next = path.get(length);
            match next.and_then(|name| uses[module.as_str()].exported.get(name)) {
                Some(origin) if origin.len() > 1 && *origin != path => path = origin.clone(),
                // What is re-exported is of another crate, or else a type's variant.
                _ if exported && next.is_some_and(|name| name.starts_with(char::is_lowercase)) => return None,
                _ => return Some(module),
            }
            exported = true;
        }
        None
    };
    let mut graph = Graph::new();
    for (module, uses) in &uses {
        let imported = uses.found.iter().filter_map(|path| home(path)).filter(|other| other != module);
        graph.insert((*module).to_owned(), imported.collect());
    }
    graph
}

fn reachable<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = graph[from].iter().map(String::as_str).collect();
    while let Some(next) = open.pop() {
        if seen.insert(next) {
            open.extend(graph[next].iter().map(String::as_str));
        }
    }
    seen
}

/// Whether a module lies in a container, at any depth.
fn is_below(module: &str, container: &str) -> bool {
    let begins = module.strip_prefix(container).is_some_and(|rest| rest.starts_with("::"));
    begins || (container.is_empty() && !module.is_empty())
}

/// The circles of a crate's modules, but for those in which a module uses what it contains.
fn cycles(graph: &Graph) -> BTreeSet<Vec<String>> {
    let without_inner = |(module, imported): (&String, &BTreeSet<String>)| {
        let outward = imported.iter().filter(|other| !other.is_empty() && !is_below(other, module));
        (module.clone(), outward.cloned().collect::<BTreeSet<String>>())
    };
    let graph: Graph = graph.iter().filter(|(module, _)| !module.is_empty()).map(without_inner).collect();
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (module.as_str(), reachable(&graph, module))).collect();
    let of = |module: &str| -> Vec<String> {
        let back = reach[module].iter().filter(|other| reach[*other].contains(module));
        back.map(|other| (*other).to_owned()).collect()
    };
    graph.keys().map(|module| of(module)).filter(|circle| !circle.is_empty()).collect()
}

/// For each module that uses what it contains and is used by it: the modules in it that are in a circle with it.
fn tied(graph: &Graph) -> BTreeMap<&str, Vec<&str>> {
    let mut tied = BTreeMap::new();
    for container in graph.keys() {
        let lies_in = |module: &String| module == container || is_below(module, container);
        let inside: Graph = graph
            .iter()
            .filter(|(module, _)| lies_in(module))
            .map(|(module, imported)| {
                (module.clone(), imported.iter().filter(|other| lies_in(other)).cloned().collect())
            })
            .collect();
        let used = reachable(&inside, container);
        let members: Vec<&str> = graph
            .keys()
            .map(String::as_str)
            .filter(|module| used.contains(module) && reachable(&inside, module).contains(container.as_str()))
            .filter(|module| *module != container)
            .collect();
        if !members.is_empty() {
            tied.insert(container.as_str(), members);
        }
    }
    tied
}

#[test]
fn no_modules_import_each_other_but_those_that_are_listed() {
    let mut new = Vec::new();
    let mut listed: BTreeSet<(&str, Vec<String>)> = CYCLES
        .iter()
        .map(|(folder, members)| (*folder, members.iter().map(|member| (*member).to_owned()).collect()))
        .collect();
    let graphs: BTreeMap<String, Graph> =
        crates().iter().map(|(folder, sources)| (folder.display().to_string(), graph(sources))).collect();
    let mut ties: BTreeMap<String, Finding> = BTreeMap::new();
    for (folder, graph) in &graphs {
        for circle in cycles(graph) {
            if !listed.remove(&(folder.as_str(), circle.clone())) {
                new.push(format!("    (\"{folder}\", &{circle:?}),"));
            }
        }
        for (container, members) in tied(graph) {
            let name = if container.is_empty() { "crate" } else { container };
            let places = members.iter().map(|member| (*member).to_owned()).collect();
            ties.insert(format!("{folder} {name}"), Finding { number: members.len(), places });
        }
    }
    assert!(new.is_empty(), "these modules import each other; move what both need below them:\n{}", new.join("\n"));
    assert!(listed.is_empty(), "no circles any more, take them out of CYCLES: {listed:?}");
    only_shrinks(
        "circles.txt",
        &ties,
        "a module uses what it contains, and that uses the module: move what both need (a trait, an error, a struct's fields) \
         into a module beside the one that needs it",
    );
}

fn sources(modules: &[(&str, &str)]) -> Vec<Source> {
    modules.iter().map(|(name, text)| Source::of(name, (*text).to_owned()).expect("it parses")).collect()
}

#[test]
fn circles_are_seen_behind_re_exports_and_inside_of_functions() {
    let graph = graph(&sources(&[
        ("", "mod a; mod b; mod c; mod d; pub use b::Thing; pub use std::fmt;"),
        ("a", "use crate::Thing; use crate::fmt;"),
        ("b", "mod inner; pub use inner::Thing;"),
        ("b::inner", "pub struct Thing; fn f() { crate::c::g() }"),
        ("c", "pub fn g() { super::a::h() }"),
        ("d", "use super::a::h; #[cfg(test)] mod tests { use crate::b; } #[test] fn t() { crate::c::g() }"),
    ]));
    assert_eq!(cycles(&graph).into_iter().collect::<Vec<_>>(), [["a", "b::inner", "c"]]);
    assert_eq!(graph["d"].iter().collect::<Vec<_>>(), ["a"]);
    assert!(tied(&graph).is_empty(), "a module that re-exports what it contains does not use it");
}

#[test]
fn circles_are_seen_through_macros_and_attributes() {
    let graph = graph(&sources(&[
        ("a", "fn f() -> Value { json!({ \"of\": [super::b::NAME] }) }"),
        ("b", "macro_rules! made { ($of:ident) => { $crate::c::$of(1.0..2.0) } }"),
        ("c", "struct S { #[serde(rename = \"x::\", with = \"crate::d::text\")] s: u8 }"),
        ("d", "#[arg(value_parser = super::e::parse)] struct T;"),
        ("e", "thread_local! { static A: u8 = self::own() + x.super_::y + crate::a::f(); }"),
        ("f", "#[cfg(test)] made! { crate::a::f } fn g() { json!({ \"crate::a::f\": \"super::a\" }) }"),
    ]));
    assert_eq!(cycles(&graph).into_iter().collect::<Vec<_>>(), [["a", "b", "c", "d", "e"]]);
    assert!(graph["f"].is_empty(), "neither tests nor texts name a module");
}

#[test]
fn circles_are_seen_between_a_module_and_what_it_contains() {
    let graph = graph(&sources(&[
        ("", "mod plain; mod shared; pub const MOST: u8 = 1; pub fn run() { plain::run() }"),
        ("plain", "mod leaf; pub use leaf::Leaf; use shared::X; fn f() -> u8 { crate::MOST }"),
        ("plain::leaf", "use super::super::shared::Y; pub struct Leaf;"),
        ("shared", "mod kind; mod one; mod two; pub use kind::Kind; fn all() -> Kind { one::new() }"),
        ("shared::kind", "pub struct Kind; pub mod deep;"),
        ("shared::kind::deep", "use super::super::two;"),
        ("shared::one", "use super::Kind; fn new() { super::two::go() }"),
        ("shared::two", "fn go() { super::all()  }"),
    ]));
    assert!(cycles(&graph).is_empty());
    let tied = tied(&graph);
    assert_eq!(tied.keys().copied().collect::<Vec<_>>(), ["", "shared"]);
    assert_eq!(tied[""], ["plain"]);
    assert_eq!(tied["shared"], ["shared::one", "shared::two"]);
}
