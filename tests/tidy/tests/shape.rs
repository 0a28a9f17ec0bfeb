//! What file and function sizes do not show: modules that import each other in a circle, types that are spread over many
//! files, and documents that name what is not there any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::spanned::Spanned as _;
use syn::visit::Visit;

mod support;

/// Modules of one crate that import each other in a circle: folder of the crate's sources, and its members. The list may only
/// shrink.
const CYCLES: &[(&str, &[&str])] = &[];

/// Lines of a type's inherent methods, in all files of its crate.
const TYPE_LINES_MAX: usize = 400;

/// Types over the limit, each with why: folder, type, lines at most. The numbers may only shrink.
const LARGE_TYPES: &[(&str, &str, usize, &str)] = &[
    ("node/l1-execution/src", "Host", 484, "starts, binds, runs and stops agents of five runtimes"),
    ("node/l3-discovery/src", "Catalogue", 514, "one table and its indexes, which change together"),
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

/// What the `use` declarations of a file name, outside tests, from the root of its crate.
struct Uses {
    module: Vec<String>,
    found: BTreeSet<Vec<String>>,
}

impl Uses {
    fn tree(&mut self, tree: &syn::UseTree, before: &[String]) {
        match tree {
            syn::UseTree::Path(path) => self.tree(&path.tree, &[before, &[path.ident.to_string()]].concat()),
            syn::UseTree::Name(name) => self.note(&[before, &[name.ident.to_string()]].concat()),
            syn::UseTree::Rename(name) => self.note(&[before, &[name.ident.to_string()]].concat()),
            syn::UseTree::Glob(_) => self.note(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(item, before)),
        }
    }

    fn note(&mut self, path: &[String]) {
        let (first, mut rest) = (path.first().map(String::as_str), path);
        let mut from = match first {
            Some("crate") => Vec::new(),
            Some("super" | "self") => self.module.clone(),
            _ => return,
        };
        while let Some((word, left)) = rest.split_first() {
            match word.as_str() {
                "crate" | "self" => {}
                "super" => drop(from.pop()),
                _ => break,
            }
            rest = left;
        }
        from.extend(rest.iter().cloned());
        self.found.insert(from);
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !support::is_test(&item.attrs) {
            self.tree(&item.tree, &[]);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !support::is_test(&item.attrs) && item.content.is_some() {
            self.module.push(item.ident.to_string());
            syn::visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }
}

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Which module of each crate imports which. What the root re-exports is nobody's.
fn graphs() -> BTreeMap<PathBuf, Graph> {
    let (production, _) = support::rust_files();
    let mut graphs: BTreeMap<PathBuf, Graph> = BTreeMap::new();
    for file in &production {
        if let Some((folder, module)) = place(file) {
            graphs.entry(folder).or_default().insert(module, BTreeSet::new());
        }
    }
    for file in &production {
        let Some((folder, module)) = place(file) else { continue };
        let path = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let mut uses = Uses { module: path, found: BTreeSet::new() };
        uses.visit_file(&support::parsed(file));
        let graph = graphs.get_mut(&folder).expect("its folder is there");
        for used in uses.found {
            let prefixes = (1..=used.len()).rev().map(|length| used[..length].join("::"));
            let imported = prefixes.into_iter().find(|prefix| graph.contains_key(prefix));
            if let Some(imported) = imported.filter(|imported| *imported != module) {
                graph.get_mut(&module).expect("it was put in").insert(imported);
            }
        }
    }
    graphs
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
fn no_modules_import_each_other_but_those_that_are_listed() {
    let mut new = Vec::new();
    let mut listed: BTreeSet<(&str, Vec<&str>)> =
        CYCLES.iter().map(|(folder, members)| (*folder, members.to_vec())).collect();
    let graphs = graphs();
    for (folder, graph) in &graphs {
        for circle in cycles(graph) {
            let folder = folder.to_str().expect("UTF-8");
            if !listed.remove(&(folder, circle.clone())) {
                new.push(format!("    (\"{folder}\", &{circle:?}),"));
            }
        }
    }
    assert!(new.is_empty(), "these modules import each other; move what both need below them:\n{}", new.join("\n"));
    assert!(listed.is_empty(), "no circles any more, take them out of CYCLES: {listed:?}");
}

/// Lines of inherent methods of each type of each crate, without their tests.
fn type_lines() -> BTreeMap<(PathBuf, String), usize> {
    let (production, _) = support::rust_files();
    let mut lines = BTreeMap::new();
    for file in &production {
        let Some((folder, _)) = place(file) else { continue };
        for item in &support::parsed(file).items {
            let syn::Item::Impl(block) = item else { continue };
            let syn::Type::Path(of) = &*block.self_ty else { continue };
            if block.trait_.is_some() || support::is_test(&block.attrs) {
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
    let all = support::files("");
    let mut missing = Vec::new();
    for document in ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"] {
        for named in quoted(&support::text(Path::new(document))) {
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
    let text = support::text(Path::new("protocol/SPEC.md"));
    let numbers = text.split("**[P-").skip(1).filter_map(|rest| rest.split_once(']')?.0.parse::<u32>().ok());
    let last = numbers.max().expect("it has rules");
    let said = format!("`[P-1]` to `[P-{last}]`");
    assert!(text.contains(&said), "it has rules up to P-{last}, and its introduction says otherwise");
}
