//! The functions of a file outside tests, and what each calls, in macros too.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::Visit;

use crate::support::is_test;

/// A call, or a function that is handed on by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    /// On what: the last name of what stands before it, such as `calls` of `self.calls().ask()`, or `Server` of `Server::ask`.
    pub on: Option<String>,
}

/// A function with a body.
#[derive(Debug)]
pub struct Function {
    pub name: String,
    /// What it calls, those in closures and in functions within it too.
    pub calls: Vec<Call>,
}

/// The functions of a file, but for those of tests.
pub fn functions(file: &syn::File) -> Vec<Function> {
    let mut all = Functions(Vec::new());
    all.visit_file(file);
    all.0
}

/// Whether a trait of that name is implemented in the file, outside tests.
pub fn implements(file: &syn::File, of: &str) -> bool {
    file.items.iter().any(|item| match item {
        syn::Item::Impl(block) if !is_test(&block.attrs) => {
            let path = block.trait_.as_ref().map(|(_, path, _)| path);
            path.and_then(|path| path.segments.last()).is_some_and(|last| last.ident == of)
        }
        _ => false,
    })
}

struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, name: &syn::Ident, body: &syn::Block) {
        let mut calls = Calls(Vec::new());
        calls.visit_block(body);
        self.0.push(Function { name: name.to_string(), calls: calls.0 });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.add(&item.sig.ident, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.add(&item.sig.ident, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = item.default.as_ref().filter(|_| !is_test(&item.attrs)) {
            self.add(&item.sig.ident, body);
        }
    }
}

struct Calls(Vec<Call>);

impl Calls {
    fn add(&mut self, name: &syn::Ident, on: Option<String>) {
        self.0.push(Call { name: name.to_string(), on });
    }

    /// Those among tokens that nobody has parsed: a name before parentheses, and what stands before it.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(name) if is_arguments(tokens.get(at + 1)) => self.add(name, before(&tokens[..at])),
                _ => {}
            }
        }
    }
}

fn is_arguments(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

/// The last name of what tokens end with, where a point or a double colon follows it.
fn before(tokens: &[TokenTree]) -> Option<String> {
    let is_mark = |token: &TokenTree, mark: char| matches!(token, TokenTree::Punct(found) if found.as_char() == mark);
    let rest = match tokens {
        [rest @ .., first, second] if is_mark(first, ':') && is_mark(second, ':') => rest,
        [rest @ .., point] if is_mark(point, '.') => rest,
        _ => return None,
    };
    let mut names = rest.iter().rev().skip_while(|token| matches!(token, TokenTree::Group(_)) || is_mark(token, '?'));
    match names.next() {
        Some(TokenTree::Ident(name)) => Some(name.to_string()),
        _ => None,
    }
}

/// The last name of an expression.
fn last_name(expression: &syn::Expr) -> Option<String> {
    match expression {
        syn::Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        syn::Expr::Field(field) => match &field.member {
            syn::Member::Named(name) => Some(name.to_string()),
            syn::Member::Unnamed(number) => Some(number.index.to_string()),
        },
        syn::Expr::MethodCall(call) => Some(call.method.to_string()),
        syn::Expr::Call(call) => last_name(&call.func),
        syn::Expr::Await(inner) => last_name(&inner.base),
        syn::Expr::Try(inner) => last_name(&inner.expr),
        syn::Expr::Paren(inner) => last_name(&inner.expr),
        syn::Expr::Reference(inner) => last_name(&inner.expr),
        syn::Expr::Unary(inner) => last_name(&inner.expr),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.add(&call.method, last_name(&call.receiver));
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        match &*call.func {
            syn::Expr::Path(function) => {
                if let Some(name) = function.path.get_ident() {
                    self.add(name, None);
                }
            }
            // A closure that is a field.
            function => self.0.extend(last_name(function).map(|name| Call { name, on: None })),
        }
        syn::visit::visit_expr_call(self, call);
    }

    // `Server::ask`, called or handed on.
    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let mut names = path.path.segments.iter().rev().map(|segment| &segment.ident);
        if let (Some(last), Some(owner)) = (names.next(), names.next()) {
            self.add(last, Some(owner.to_string()));
        }
        syn::visit::visit_expr_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }
}
