//! What file and function sizes do not show: types that are spread over many files, nodes that are put together in many
//! places, and documents that name what is not there any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::spanned::Spanned as _;

/// Lines of a type's inherent methods, in all files of its crate.
const TYPE_LINES_MAX: usize = 400;

/// Types over the limit, each with why: folder, type, lines at most. The numbers may only shrink.
const LARGE_TYPES: &[(&str, &str, usize, &str)] =
    &[("node/l3-discovery/src", "Catalogue", 471, "one table and its indexes, which change together")];

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
        let Some((folder, _)) = crate::support::place(file) else { continue };
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
