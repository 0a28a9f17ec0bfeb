//! The modules of each crate, and the paths by which they name each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// One file of a crate.
pub struct Source {
    /// Its module, from the root of the crate, which is `""`.
    pub module: String,
    pub text: String,
    pub file: syn::File,
}

impl Source {
    /// The file of a module, parsed.
    pub fn of(module: &str, text: String) -> syn::Result<Source> {
        Ok(Source { module: module.to_owned(), file: syn::parse_file(&text)?, text })
    }
}

/// The folder of a file's crate, and the file's module path there: `""` is the root.
pub fn place(file: &Path) -> Option<(PathBuf, String)> {
    let source = file.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "src"))?;
    let inside = file.strip_prefix(source).ok()?.with_extension("");
    let mut parts: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    Some((source.to_owned(), parts.join("::")))
}

/// The production files of each crate, by the folder of its sources; a program beside a library is a crate of its own, by its
/// `main.rs`.
pub fn crates() -> BTreeMap<PathBuf, Vec<Source>> {
    let (production, _) = super::rust_files();
    let mut folders: BTreeMap<PathBuf, Vec<(bool, Source)>> = BTreeMap::new();
    for file in &production {
        if let Some((folder, module)) = place(file) {
            let source = Source::of(&module, super::text(file));
            let source =
                source.unwrap_or_else(|error| panic!("{}:{}: {error}", file.display(), error.span().start().line));
            let is_program = *file == folder.join("main.rs");
            folders.entry(folder).or_default().push((is_program, source));
        }
    }
    folders.into_iter().flat_map(|(folder, sources)| programs_apart(folder, sources)).collect()
}

/// A library, and the program in its folder with the modules that it alone declares. Each source with whether it is `main.rs`.
fn programs_apart(folder: PathBuf, sources: Vec<(bool, Source)>) -> Vec<(PathBuf, Vec<Source>)> {
    let declared = |of_program: bool| -> BTreeSet<String> {
        let roots = sources.iter().filter(|(is_program, source)| *is_program == of_program && source.module.is_empty());
        roots.flat_map(|(_, source)| &source.file.items).filter_map(module_name).collect()
    };
    let has_library = sources.iter().any(|(is_program, source)| !is_program && source.module.is_empty());
    if !has_library || !sources.iter().any(|(is_program, _)| *is_program) {
        return vec![(folder, sources.into_iter().map(|(_, source)| source).collect())];
    }
    let alone: BTreeSet<String> = &declared(true) - &declared(false);
    let (program, library): (Vec<_>, Vec<_>) = sources.into_iter().partition(|(is_program, source)| {
        *is_program || source.module.split("::").next().is_some_and(|first| alone.contains(first))
    });
    let plain = |sources: Vec<(bool, Source)>| sources.into_iter().map(|(_, source)| source).collect();
    vec![(folder.join("main.rs"), plain(program)), (folder, plain(library))]
}

/// The name of a module that is declared.
fn module_name(item: &syn::Item) -> Option<String> {
    if let syn::Item::Mod(module) = item { Some(module.ident.to_string()) } else { None }
}

/// The names of a module's path; the root has none.
pub fn parts(module: &str) -> Vec<String> {
    module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// What a path that is written in a module is from the root of the crate. One that begins with neither `crate`, `super` nor
/// `self` is taken for one of the module itself.
pub fn absolute(module: &[String], path: &[String]) -> Vec<String> {
    let mut from = if path.first().is_some_and(|first| first == "crate") { Vec::new() } else { module.to_vec() };
    let mut rest = path;
    while let Some((word, left)) = rest.split_first() {
        match word.as_str() {
            "crate" | "self" => {}
            "super" => drop(from.pop()),
            _ => break,
        }
        rest = left;
    }
    from.extend_from_slice(rest);
    from
}

#[test]
fn a_program_is_not_the_library_in_whose_folder_it_lies() {
    let source = |is_program: bool, module: &str, text: &str| {
        (is_program, Source::of(module, text.to_owned()).expect("it parses"))
    };
    let sources = vec![
        source(false, "", "mod shared; pub mod kernel;"),
        source(true, "", "mod shared; mod command;"),
        source(false, "shared", ""),
        source(false, "kernel", ""),
        source(false, "command", ""),
        source(false, "command::flags", ""),
    ];
    let found: Vec<(PathBuf, Vec<String>)> = programs_apart(PathBuf::from("src"), sources)
        .into_iter()
        .map(|(folder, sources)| (folder, sources.into_iter().map(|source| source.module).collect()))
        .collect();
    let modules = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        found,
        [
            (PathBuf::from("src/main.rs"), modules(&["", "command", "command::flags"])),
            (PathBuf::from("src"), modules(&["", "shared", "kernel"]))
        ]
    );
}
