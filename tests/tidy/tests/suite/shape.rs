//! What file and function sizes do not show: modules that import each other in a circle, types that are spread over many
//! files, and documents that name what is not there any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::Visit;

/// Lines of a type's inherent methods, in all files of its crate.
const TYPE_LINES_MAX: usize = 400;

/// Types over the limit, each with why: folder, type, lines at most. The numbers may only shrink.
const LARGE_TYPES: &[(&str, &str, usize, &str)] = &[
    ("node/l1-execution/src", "Host", 481, "starts, binds, runs and stops agents of five runtimes"),
    ("node/l3-discovery/src", "Catalogue", 515, "one table and its indexes, which change together"),
];

/// The folder of a file's crate, and the file's module path there: `""` is the root.
fn place(file: &Path) -> Option<(PathBuf, String)> {
    let source = file.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "src"))?;
    let inside = file.strip_prefix(source).ok()?.with_extension("");
    let mut parts: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    Some((source.to_owned(), parts.join("::")))
}

/// With what a path begins that leads from the root, or from a module around.
const STARTS: [&str; 3] = ["crate", "super", "self"];

/// What a file names of its own crate outside tests, in `use` declarations, in paths and among the tokens of macros and
/// attributes, from the root of the crate; and what it re-exports, by name.
#[derive(Default)]
struct Uses {
    module: Vec<String>,
    found: BTreeSet<Vec<String>>,
    exported: BTreeMap<String, Vec<String>>,
}

impl Uses {
    fn of(module: &str, file: &syn::File) -> Uses {
        let module = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let mut uses = Uses { module, ..Uses::default() };
        uses.visit_file(file);
        uses
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &[String], exports: bool) {
        let and = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&path.tree, &and(&path.ident), exports),
            syn::UseTree::Name(name) => self.note(&and(&name.ident), exports.then(|| name.ident.to_string())),
            syn::UseTree::Rename(name) => self.note(&and(&name.ident), exports.then(|| name.rename.to_string())),
            syn::UseTree::Glob(_) => self.note(before, None),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(item, before, exports)),
        }
    }

    fn note(&mut self, path: &[String], exported: Option<String>) {
        let (first, mut rest) = (path.first().map(String::as_str), path);
        // `x::Y` names a module within this one, if there is one; whatever contains it may name it.
        let own = first.is_none_or(|word| !STARTS.contains(&word));
        let mut from = if first == Some("crate") { Vec::new() } else { self.module.clone() };
        while let Some((word, left)) = rest.split_first() {
            match word.as_str() {
                "crate" | "self" => {}
                "super" => drop(from.pop()),
                _ => break,
            }
            rest = left;
        }
        from.extend(rest.iter().cloned());
        if let Some(name) = exported {
            self.exported.insert(name, from.clone());
        }
        if !own {
            self.found.insert(from);
        }
    }

    /// The paths among tokens that begin at the root or at a module around: nothing parses what a macro is given.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            let is_colon = matches!(&token, TokenTree::Punct(mark) if mark.as_char() == ':');
            let goes_on = is_colon || (colons == 2 && matches!(token, TokenTree::Ident(_)));
            if !goes_on {
                self.end(&mut path);
            }
            colons = if is_colon { colons + 1 } else { 0 };
            match token {
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    if !path.is_empty() || STARTS.contains(&word.as_str()) {
                        path.push(word);
                    }
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        self.end(&mut path);
    }

    /// Notes a path that was found among tokens, and begins the next.
    fn end(&mut self, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.note(path, None);
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !crate::support::is_test(&item.attrs) {
            self.tree(&item.tree, &[], !matches!(item.vis, syn::Visibility::Inherited));
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !crate::support::is_test(&item.attrs) && item.content.is_some() {
            self.module.push(item.ident.to_string());
            syn::visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !crate::support::is_test(&item.attrs) {
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if STARTS.contains(&words[0].as_str()) && words.len() > 1 {
            self.note(&words, None);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
        syn::visit::visit_macro(self, item);
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.tokens(list.tokens.clone());
        syn::visit::visit_meta_list(self, list);
    }
}

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Which module of a crate imports which. What a module re-exports counts as imported from where it is; that a module
/// contains others, and re-exports them, is no arrow.
fn graph(files: &[(String, syn::File)]) -> Graph {
    let uses: BTreeMap<&str, Uses> =
        files.iter().map(|(module, file)| (module.as_str(), Uses::of(module, file))).collect();
    // The longest prefix that is a module, and whether the next word is re-exported there.
    let home = |path: &[String]| {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let length =
                (0..=path.len()).rev().find(|length| uses.contains_key(path[..*length].join("::").as_str()))?;
            let module = path[..length].join("::");
            let next = path.get(length).and_then(|name| uses[module.as_str()].exported.get(name));
            match next {
                Some(origin) if origin.len() > 1 && *origin != path => path = origin.clone(),
                _ => return Some(module),
            }
        }
        None
    };
    let mut graph = Graph::new();
    for (module, uses) in &uses {
        let imported =
            uses.found.iter().filter_map(|path| home(path)).filter(|other| other != module && !other.is_empty());
        graph.insert((*module).to_owned(), imported.collect());
    }
    graph
}

/// The modules of each crate, and how they import each other.
fn graphs() -> BTreeMap<PathBuf, Graph> {
    let (production, _) = crate::support::rust_files();
    let mut crates: BTreeMap<PathBuf, Vec<(String, syn::File)>> = BTreeMap::new();
    for file in &production {
        if let Some((folder, module)) = place(file) {
            crates.entry(folder).or_default().push((module, crate::support::parsed(file)));
        }
    }
    crates.into_iter().map(|(folder, files)| (folder, graph(&files))).collect()
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

/// The circles of a crate's modules.
fn cycles(graph: &Graph) -> BTreeSet<Vec<&str>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (module.as_str(), reachable(graph, module))).collect();
    let of = |module: &str| {
        let back = reach[module].iter().copied().filter(|other| reach[other].contains(module));
        back.collect::<Vec<&str>>()
    };
    graph.keys().map(|module| of(module)).filter(|circle| !circle.is_empty()).collect()
}

#[test]
fn circles_are_seen_behind_re_exports_inside_of_functions_and_of_macros() {
    let module = |name: &str, text: &str| (name.to_owned(), syn::parse_file(text).expect("it parses"));
    let files = [
        module("", "mod a; mod b; mod c; mod d; mod e; pub use b::Thing; pub use std::fmt;"),
        module("a", "use crate::Thing; use crate::fmt;"),
        module("b", "mod inner; pub use inner::Thing;"),
        module("b::inner", "pub struct Thing; fn f() { crate::c::g() }"),
        module("c", "pub fn g() { super::a::h() }"),
        module("d", "use super::a::h; #[cfg(test)] mod tests { use crate::b; } #[test] fn t() { crate::c::g() }"),
        module("e", r#"fn f() -> V { json!([a::b, super::d::Y]) } #[error("{}", crate::b::name(.0))] struct E;"#),
    ];
    let graph = graph(&files);
    assert_eq!(cycles(&graph).into_iter().collect::<Vec<_>>(), [["a", "b::inner", "c"]]);
    assert_eq!(graph["d"].iter().collect::<Vec<_>>(), ["a"]);
    assert_eq!(graph["e"].iter().collect::<Vec<_>>(), ["b", "d"]);
}

/// A module and those that it contains are no circle.
#[test]
fn no_modules_import_each_other() {
    let mut circles = Vec::new();
    for (folder, graph) in &graphs() {
        circles.extend(cycles(graph).iter().map(|circle| format!("{}: {}", folder.display(), circle.join(", "))));
    }
    assert!(
        circles.is_empty(),
        "these modules import each other; move what both need below them:\n{}",
        circles.join("\n")
    );
}

/// What assembles a node, and who may call it: one composition root, and those who put parts of a node together on purpose.
const ROOT: &[(&str, &[&str])] = &[
    ("node/composition/src/assemble.rs", &["Communication", "Discovery", "Hosting", "Calls"]),
    // Adversaries speak by L2 alone.
    ("simulations/src/adversary/mod.rs", &["Communication"]),
    // Members of simulated groups have L2 and L5 alone, so that thousands of runs are possible.
    ("simulations/src/groups/member.rs", &["Communication"]),
];

#[test]
fn nodes_are_assembled_in_one_place() {
    let (production, _) = crate::support::rust_files();
    let starts = [("Communication", "start"), ("Discovery", "start"), ("Hosting", "open"), ("Calls", "new")];
    for file in production.iter().filter(|file| !file.starts_with("tests")) {
        let text: String = crate::support::text(file).split_whitespace().collect();
        for (layer, start) in starts.iter().filter(|(layer, start)| text.contains(&format!("{layer}::{start}("))) {
            let listed = ROOT.iter().any(|(at, layers)| file == Path::new(at) && layers.contains(layer));
            let own = text.contains(&format!("impl{layer}{{"));
            assert!(
                listed || own,
                "{} calls {layer}::{start}: `Node::assemble` does, for product, simulations and tests",
                file.display()
            );
        }
    }
    for (at, layers) in ROOT {
        let text: String = crate::support::text(Path::new(at)).split_whitespace().collect();
        for layer in *layers {
            assert!(
                starts.iter().any(|(of, start)| of == layer && text.contains(&format!("{of}::{start}("))),
                "{at} does not start {layer} any more"
            );
        }
    }
}

/// Lines of inherent methods of each type of each crate, without their tests.
fn type_lines() -> BTreeMap<(PathBuf, String), usize> {
    let (production, _) = crate::support::rust_files();
    let mut lines = BTreeMap::new();
    for file in &production {
        let Some((folder, _)) = place(file) else { continue };
        for item in &crate::support::parsed(file).items {
            let syn::Item::Impl(block) = item else { continue };
            let syn::Type::Path(of) = &*block.self_ty else { continue };
            if block.trait_.is_some() || crate::support::is_test(&block.attrs) {
                continue;
            }
            let name = of.path.segments.last().expect("a name").ident.to_string();
            let span = block.span();
            *lines.entry((folder.clone(), name)).or_default() += span.end().line - span.start().line + 1;
        }
    }
    lines
}

#[test]
fn no_type_is_larger_than_one_can_know() {
    let mut large = Vec::new();
    let mut excused = BTreeSet::new();
    for ((folder, name), lines) in type_lines().into_iter().filter(|(_, lines)| *lines > TYPE_LINES_MAX) {
        let excuse = LARGE_TYPES.iter().position(|(at, of, ..)| folder == Path::new(at) && name == *of);
        match excuse.filter(|excuse| lines <= LARGE_TYPES[*excuse].2) {
            Some(excuse) => drop(excused.insert(excuse)),
            None => large.push(format!("    (\"{}\", \"{name}\", {lines}, \"…\"),", folder.display())),
        }
    }
    assert!(large.is_empty(), "over {TYPE_LINES_MAX} lines, split them by what they decide:\n{}", large.join("\n"));
    for (at, (_, name, ..)) in LARGE_TYPES.iter().enumerate() {
        assert!(excused.contains(&at), "{name} is within the limit: take it out of LARGE_TYPES");
    }
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn what_documents_name_is_there() {
    let all = crate::support::files("");
    let mut missing = Vec::new();
    for document in ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"] {
        for named in quoted(&crate::support::text(Path::new(document))) {
            let is_path = named.contains('/') && !named.starts_with('/') && named.ends_with(".rs");
            let plain = named.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            if is_path && plain && !all.iter().any(|file| file.ends_with(named)) {
                missing.push(format!("{document}: `{named}`"));
            }
        }
    }
    assert!(missing.is_empty(), "not there: {}", missing.join(", "));
}

#[test]
fn the_specification_says_how_many_rules_it_has() {
    let text = crate::support::text(Path::new("protocol/SPEC.md"));
    let numbers = text.split("**[P-").skip(1).filter_map(|rest| rest.split_once(']')?.0.parse::<u32>().ok());
    let last = numbers.max().expect("it has rules");
    let said = format!("`[P-1]` to `[P-{last}]`");
    assert!(text.contains(&said), "it has rules up to P-{last}, and its introduction says otherwise");
}
