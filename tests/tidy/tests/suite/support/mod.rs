//! The tree as text: which files there are, and which of their lines are tests.
use std::{
    collections::BTreeSet,
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use syn::{spanned::Spanned, visit::Visit};

mod code;
mod functions;
mod lists;
mod modules;
mod words;

pub use code::code_lines;
pub use functions::{functions_in, test_functions};
pub use lists::{Finding, only_shrinks};
pub use modules::{Source, absolute, crates, parts, place};
pub use words::words_of_name;

/// What the walk does not enter, besides hidden directories: what others wrote or a program made.
const SKIPPED: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// The root of the workspace.
pub fn root() -> PathBuf {
    let tidy = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    tidy.ancestors().nth(2).expect("tidy lies in tests/tidy").to_owned()
}

/// Every file of the tree below `dir` (relative to the root), as sorted paths relative to the root.
pub fn files(dir: &str) -> Vec<PathBuf> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.join(dir)];
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries {
            let entry = entry.expect("a readable directory");
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().expect("it has a type");
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                open.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path().strip_prefix(&root).expect("below the root").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The files below `dir` whose name ends with one of the extensions.
pub fn with_extension(dir: &str, extensions: &[&str]) -> Vec<PathBuf> {
    let mut files = files(dir);
    files.retain(|file| file.extension().is_some_and(|found| extensions.iter().any(|wanted| found == *wanted)));
    files
}

/// The text of a file, given relative to the root.
pub fn text(file: &Path) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A Rust file, parsed.
pub fn parsed(file: &Path) -> syn::File {
    syn::parse_file(&text(file))
        .unwrap_or_else(|error| panic!("{}:{}: {error}", file.display(), error.span().start().line))
}

/// Whether everything in the file is there for tests only because of where it lies.
fn lies_among_tests(file: &Path) -> bool {
    let is_test_dir = |part: &std::ffi::OsStr| part == "tests" || part == "benches" || part == "fuzz";
    file.parent().is_some_and(|dir| dir.iter().any(is_test_dir))
}

/// The Rust files that production code consists of, and those that are tests throughout, also as the body of a
/// `#[cfg(test)] mod name;`.
pub fn rust_files() -> (Vec<PathBuf>, Vec<PathBuf>) {
    // Each test asks, and each answer parses the whole tree.
    static FILES: OnceLock<(Vec<PathBuf>, Vec<PathBuf>)> = OnceLock::new();
    FILES.get_or_init(sorted_rust_files).clone()
}

fn sorted_rust_files() -> (Vec<PathBuf>, Vec<PathBuf>) {
    let all = with_extension("", &["rs"]);
    let mut bodies = BTreeSet::new();
    for file in all.iter().filter(|file| !lies_among_tests(file)) {
        for item in &parsed(file).items {
            if let syn::Item::Mod(module) = item
                && module.content.is_none()
                && is_test(&module.attrs)
            {
                bodies.extend(module_files(file, module));
            }
        }
    }
    let in_test_module =
        |file: &PathBuf| bodies.iter().any(|body| file == body || file.starts_with(body.with_extension("")));
    all.into_iter().partition(|file| !lies_among_tests(file) && !in_test_module(file))
}

/// Where the body of `mod name;` in `file` may lie.
fn module_files(file: &Path, module: &syn::ItemMod) -> Vec<PathBuf> {
    let dir = file.parent().expect("a file lies in a directory");
    let named = module.attrs.iter().find_map(|attr| match &attr.meta {
        syn::Meta::NameValue(syn::MetaNameValue { path, value: syn::Expr::Lit(value), .. })
            if path.is_ident("path") =>
        {
            if let syn::Lit::Str(text) = &value.lit {
                Some(dir.join(text.value()))
            } else {
                None
            }
        }
        _ => None,
    });
    if let Some(named) = named {
        return vec![named];
    }
    let stem = file.file_stem().expect("a file has a name");
    let dir = if ["lib", "main", "mod"].iter().any(|root| stem == *root) { dir.to_owned() } else { dir.join(stem) };
    let name = module.ident.to_string();
    vec![dir.join(format!("{name}.rs")), dir.join(name).join("mod.rs")]
}

/// Whether the item is compiled for tests only.
pub fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        syn::Meta::Path(path) => path.segments.last().is_some_and(|last| last.ident == "test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => mentions(list.tokens.clone(), "test"),
        syn::Meta::List(list) => list.path.segments.last().is_some_and(|last| last.ident == "test"),
        syn::Meta::NameValue(_) => false,
    })
}

/// Whether the identifier is among the tokens, at any depth, but not behind a `not`.
fn mentions(tokens: proc_macro2::TokenStream, wanted: &str) -> bool {
    let mut negated = false;
    tokens.into_iter().any(|token| {
        let behind_not = std::mem::take(&mut negated);
        match token {
            proc_macro2::TokenTree::Ident(ident) => {
                negated = ident == "not";
                ident == wanted
            }
            proc_macro2::TokenTree::Group(group) => !behind_not && mentions(group.stream(), wanted),
            _ => false,
        }
    })
}

/// Every identifier of the file outside comments, with its line; those inside macros too.
pub fn idents(file: &Path) -> Vec<(String, usize)> {
    fn walk(tokens: proc_macro2::TokenStream, found: &mut Vec<(String, usize)>) {
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(ident) => found.push((ident.to_string(), ident.span().start().line)),
                proc_macro2::TokenTree::Group(group) => walk(group.stream(), found),
                _ => {}
            }
        }
    }
    let tokens = text(file).parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut found = Vec::new();
    walk(tokens, &mut found);
    found
}

/// The lines of the file's test modules and test functions, attributes and comments inside included.
pub fn test_lines(file: &Path) -> Vec<RangeInclusive<usize>> {
    #[derive(Default)]
    struct Tests(Vec<RangeInclusive<usize>>);
    impl<'ast> Visit<'ast> for Tests {
        fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
            if is_test(&item.attrs) { self.add(item.span()) } else { syn::visit::visit_item_mod(self, item) }
        }
        fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
            if is_test(&item.attrs) {
                self.add(item.span());
            }
        }
    }
    impl Tests {
        fn add(&mut self, span: proc_macro2::Span) {
            self.0.push(span.start().line..=span.end().line);
        }
    }
    let mut tests = Tests::default();
    tests.visit_file(&parsed(file));
    tests.0
}
