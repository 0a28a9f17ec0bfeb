//! Files and functions that one can read at a sitting.

use std::path::Path;
use syn::{spanned::Spanned, visit::Visit};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Lines of production files without their tests: the median and the ninth decile, measured in 2026 as 128 and 334.
const MEDIAN_MAX: usize = 128;
/// See [`MEDIAN_MAX`].
const NINTH_DECILE_MAX: usize = 334;

/// Functions over the limit: (file, function, why it is better in one piece).
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

#[test]
fn no_file_is_over_the_limit() {
    for file in crate::support::with_extension("", &["rs", "py", "js", "sh"]) {
        let lines = crate::support::text(&file).lines().count();
        assert!(
            lines <= FILE_LINES_MAX,
            "{} has {lines} lines, over {FILE_LINES_MAX}: split it by what it decides",
            file.display()
        );
    }
}

#[test]
fn files_stay_as_short_as_they_were() {
    let (production, _) = crate::support::rust_files();
    let in_source = |file: &&std::path::PathBuf| file.iter().any(|part| part == "src");
    let lines = |file: &std::path::PathBuf| {
        let tests: usize = crate::support::test_lines(file).iter().map(|range| range.clone().count()).sum();
        crate::support::text(file).lines().count().saturating_sub(tests)
    };
    let mut sizes: Vec<usize> = production.iter().filter(in_source).map(lines).collect();
    sizes.sort_unstable();
    let (median, ninth_decile) = (sizes[sizes.len() / 2], sizes[sizes.len() * 9 / 10]);
    let (sum, most) = (sizes.iter().sum::<usize>(), sizes.last().copied().unwrap_or_default());
    println!("{} files, {sum} lines: median {median}, ninth decile {ninth_decile}, longest {most}", sizes.len());
    assert!(median <= MEDIAN_MAX, "the median file has {median} lines, over {MEDIAN_MAX}");
    assert!(
        ninth_decile <= NINTH_DECILE_MAX,
        "a tenth of the files have over {ninth_decile} lines ({NINTH_DECILE_MAX})"
    );
}

#[test]
fn no_function_is_over_the_limit() {
    let (production, _) = crate::support::rust_files();
    let mut excused = vec![false; LONG_FUNCTIONS.len()];
    let mut long = Vec::new();
    for file in &production {
        for (name, lines) in functions(file).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX) {
            match LONG_FUNCTIONS.iter().position(|(at, function, _)| file == Path::new(at) && name == *function) {
                Some(excuse) => excused[excuse] = true,
                None => long.push(format!("{}: fn {name} has {lines} lines", file.display())),
            }
        }
    }
    assert!(long.is_empty(), "over {FUNCTION_LINES_MAX} lines, split them by step:\n{}", long.join("\n"));
    for (used, (file, name, _)) in excused.iter().zip(LONG_FUNCTIONS) {
        assert!(used, "fn {name} in {file} is within the limit: take it out of LONG_FUNCTIONS");
    }
}

/// The functions outside tests, with their lines from `fn` to the closing brace.
fn functions(file: &Path) -> Vec<(String, usize)> {
    let mut functions = Functions::default();
    functions.visit_file(&crate::support::parsed(file));
    functions.0
}

#[derive(Default)]
struct Functions(Vec<(String, usize)>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let lines = block.span().end().line - signature.fn_token.span().start().line + 1;
        self.0.push((signature.ident.to_string(), lines));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !crate::support::is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !crate::support::is_test(&item.attrs) {
            self.add(&item.sig, &item.block);
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[test]
fn the_measure_sees_what_it_should() {
    let body = "    let _ = 1;\n".repeat(FUNCTION_LINES_MAX);
    let source = format!(
        "struct S;\nimpl S {{\n/// Doc.\nfn long(&self) {{\n{body}}}\nfn short() {{}}\n}}\n\
         #[cfg(test)] mod tests {{ fn long_test() {{\n{body}}} }}\n#[test] fn one() {{\n{body}}}\n\
         #[cfg(not(test))] fn real() {{\n{body}}}"
    );
    let mut functions = Functions::default();
    functions.visit_file(&syn::parse_file(&source).expect("it parses"));
    let long = FUNCTION_LINES_MAX + 2;
    assert_eq!(functions.0, [("long".to_owned(), long), ("short".to_owned(), 1), ("real".to_owned(), long)]);
}
