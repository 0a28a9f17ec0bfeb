//! The structs of a crate, its methods and functions, and which fields these use.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{spanned::Spanned as _, visit::Visit};

use super::names::{Name, Names};
use crate::support::{Source, absolute, code_lines, is_test, parts};

/// A field of a struct or of an enum's variant.
pub struct Field<'a> {
    /// A number, in a tuple.
    pub name: String,
    /// The module in which it is seen, with those below; `None` if it is public.
    pub seen_in: Option<String>,
    pub of: &'a syn::Type,
}

/// A struct or an enum.
pub struct Definition<'a> {
    pub fields: Vec<Field<'a>>,
    /// It has a lifetime.
    pub borrows: bool,
}

/// An `impl` block.
pub struct Block<'a> {
    pub module: String,
    pub of: &'a syn::Type,
    pub lines: usize,
    pub uses: Uses,
}

/// A function with a body.
pub struct Function<'a> {
    pub module: String,
    /// The block that it is a method in.
    pub block: Option<usize>,
    pub signature: &'a syn::Signature,
    pub lines: usize,
    pub uses: Uses,
}

/// The fields that some code uses: what stands before the last point, and what behind it: `store` and `rows` of
/// `self.store.rows`.
#[derive(Default)]
pub struct Uses(pub BTreeSet<(String, String)>);

impl Uses {
    /// Of macros, which nobody has parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for three in tokens.windows(3) {
            if matches!(&three[1], TokenTree::Punct(point) if point.as_char() == '.') {
                self.0.insert((three[0].to_string(), three[2].to_string()));
            }
        }
        for token in tokens {
            if let TokenTree::Group(group) = token {
                self.tokens(group.stream());
            }
        }
    }
}

/// What is left of an expression without parentheses, references and dereferences.
fn bare(expression: &syn::Expr) -> &syn::Expr {
    match expression {
        syn::Expr::Paren(around) => bare(&around.expr),
        syn::Expr::Reference(to) => bare(&to.expr),
        syn::Expr::Unary(of) => bare(&of.expr),
        plain => plain,
    }
}

fn member(member: &syn::Member) -> String {
    match member {
        syn::Member::Named(name) => name.to_string(),
        syn::Member::Unnamed(number) => number.index.to_string(),
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_expr_field(&mut self, field: &'ast syn::ExprField) {
        let before = match bare(&field.base) {
            syn::Expr::Field(inner) => Some(member(&inner.member)),
            syn::Expr::Path(name) => name.path.get_ident().map(syn::Ident::to_string),
            _ => None,
        };
        if let Some(before) = before {
            self.0.insert((before, member(&field.member)));
        }
        syn::visit::visit_expr_field(self, field);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }
}

/// The code of one crate.
#[derive(Default)]
pub struct Code<'a> {
    pub names: Names<'a>,
    pub definitions: BTreeMap<Name, Definition<'a>>,
    pub blocks: Vec<Block<'a>>,
    pub functions: Vec<Function<'a>>,
}

impl<'a> Code<'a> {
    pub fn of(sources: &'a [Source]) -> Code<'a> {
        let mut code = Code::default();
        for source in sources {
            let lines = code_lines(&source.text).expect("what is parsed consists of tokens");
            code.items(&source.module, &source.file.items, &lines);
        }
        code
    }

    fn items(&mut self, module: &str, items: &'a [syn::Item], lines: &BTreeSet<usize>) {
        for item in items {
            match item {
                syn::Item::Use(item) if !is_test(&item.attrs) && item.leading_colon.is_none() => {
                    self.names.import(module, &item.tree, &[]);
                }
                syn::Item::Mod(item) if !is_test(&item.attrs) => {
                    if let Some((_, items)) = &item.content {
                        let module = [parts(module), vec![item.ident.to_string()]].concat().join("::");
                        self.items(&module, items, lines);
                    }
                }
                syn::Item::Type(item) if !is_test(&item.attrs) => {
                    self.names.define(module, &item.ident, Some(&item.ty));
                }
                syn::Item::Struct(item) if !is_test(&item.attrs) => {
                    self.define(module, &item.ident, &item.generics, fields(module, &item.fields));
                }
                syn::Item::Enum(item) if !is_test(&item.attrs) => {
                    let of_variants = item.variants.iter().flat_map(|variant| fields(module, &variant.fields));
                    // Those of a variant are seen wherever the enum is.
                    let public = of_variants.map(|field| Field { seen_in: None, ..field }).collect();
                    self.define(module, &item.ident, &item.generics, public);
                }
                syn::Item::Impl(block) if !is_test(&block.attrs) => self.block(module, block, lines),
                syn::Item::Fn(function) if !is_test(&function.attrs) => {
                    let mut uses = Uses::default();
                    uses.visit_block(&function.block);
                    let lines = count(lines, function.span());
                    let (module, signature) = (module.to_owned(), &function.sig);
                    self.functions.push(Function { module, block: None, signature, lines, uses });
                }
                _ => {}
            }
        }
    }

    fn define(&mut self, module: &str, name: &syn::Ident, generics: &syn::Generics, fields: Vec<Field<'a>>) {
        let borrows = generics.lifetimes().next().is_some();
        self.names.define(module, name, None);
        self.definitions.insert((module.to_owned(), name.to_string()), Definition { fields, borrows });
    }

    fn block(&mut self, module: &str, block: &'a syn::ItemImpl, lines: &BTreeSet<usize>) {
        let mut of_block = Block {
            module: module.to_owned(),
            of: &block.self_ty,
            lines: count(lines, block.span()),
            uses: Uses::default(),
        };
        for item in &block.items {
            let syn::ImplItem::Fn(function) = item else { continue };
            let lines = count(lines, function.span());
            if is_test(&function.attrs) {
                of_block.lines -= lines;
                continue;
            }
            let mut uses = Uses::default();
            uses.visit_block(&function.block);
            of_block.uses.0.extend(uses.0.iter().cloned());
            let (module, signature) = (module.to_owned(), &function.sig);
            self.functions.push(Function { module, block: Some(self.blocks.len()), signature, lines, uses });
        }
        self.blocks.push(of_block);
    }
}

/// The fields of a struct or of a variant.
fn fields<'a>(module: &str, fields: &'a syn::Fields) -> Vec<Field<'a>> {
    let of_field = |(index, field): (usize, &'a syn::Field)| Field {
        name: field.ident.as_ref().map_or_else(|| index.to_string(), syn::Ident::to_string),
        seen_in: seen_in(module, &field.vis),
        of: &field.ty,
    };
    fields.iter().enumerate().map(of_field).collect()
}

/// The module in which something is seen, with those below; `None` if it is public.
fn seen_in(module: &str, visibility: &syn::Visibility) -> Option<String> {
    match visibility {
        syn::Visibility::Public(_) => None,
        syn::Visibility::Inherited => Some(module.to_owned()),
        syn::Visibility::Restricted(to) => {
            let words: Vec<String> = to.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            Some(absolute(&parts(module), &words).join("::"))
        }
    }
}

fn count(lines: &BTreeSet<usize>, span: Span) -> usize {
    lines.range(span.start().line..=span.end().line).count()
}
