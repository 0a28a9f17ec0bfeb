//! Which type of its crate a name names.

use std::collections::BTreeMap;

use crate::support::{absolute, parts};

/// A type: its module, and its name there.
pub type Name = (String, String);

/// Steps from name to name, after which something re-exports itself.
const STEPS_MAX: usize = 8;

/// What holds one value, or leads to it: what has the wrapper reaches the value.
const WRAPPERS: &[&str] =
    &["Box", "ManuallyDrop", "Mutex", "Option", "Pin", "RefCell", "RwLock", "UnsafeCell", "OnceCell", "OnceLock"];

/// Those that do not own it alone.
const POINTERS: &[&str] =
    &["Arc", "Cow", "MutexGuard", "NonNull", "Rc", "Ref", "RefMut", "RwLockReadGuard", "RwLockWriteGuard", "Weak"];

/// What the modules of a crate define and import.
#[derive(Default)]
pub struct Names<'a> {
    modules: BTreeMap<String, Scope<'a>>,
}

#[derive(Default)]
struct Scope<'a> {
    /// An alias with what it stands for.
    types: BTreeMap<String, Option<&'a syn::Type>>,
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

impl<'a> Names<'a> {
    /// A module that defines a type, which is an alias `of` another one or a type of its own.
    pub fn define(&mut self, module: &str, name: &syn::Ident, of: Option<&'a syn::Type>) {
        self.modules.entry(module.to_owned()).or_default().types.insert(name.to_string(), of);
    }

    /// A module that imports what a tree names, where `before` stands before it.
    pub fn import(&mut self, module: &str, tree: &syn::UseTree, before: &[String]) {
        let and = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        let (path, name) = match tree {
            syn::UseTree::Path(path) => return self.import(module, &path.tree, &and(&path.ident)),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|item| self.import(module, item, before));
            }
            syn::UseTree::Glob(_) => {
                let glob = absolute(&parts(module), before);
                return self.modules.entry(module.to_owned()).or_default().globs.push(glob);
            }
            syn::UseTree::Name(name) if name.ident == "self" => (before.to_vec(), before.last().cloned()),
            syn::UseTree::Name(name) => (and(&name.ident), Some(name.ident.to_string())),
            syn::UseTree::Rename(name) if name.ident == "self" => (before.to_vec(), Some(name.rename.to_string())),
            syn::UseTree::Rename(name) => (and(&name.ident), Some(name.rename.to_string())),
        };
        if let Some(name) = name {
            let path = absolute(&parts(module), &path);
            self.modules.entry(module.to_owned()).or_default().imports.insert(name, path);
        }
    }

    /// The types of the crate that a value of a type is, wraps or leads to, each with whether there is a pointer between.
    pub fn held(&self, module: &str, of: &syn::Type) -> Vec<(Name, bool)> {
        let mut held = Vec::new();
        self.hold(module, of, false, &mut held);
        held
    }

    fn hold(&self, module: &str, of: &syn::Type, behind: bool, held: &mut Vec<(Name, bool)>) {
        let path = match of {
            syn::Type::Reference(to) => return self.hold(module, &to.elem, true, held),
            syn::Type::Ptr(to) => return self.hold(module, &to.elem, true, held),
            syn::Type::Paren(around) => return self.hold(module, &around.elem, behind, held),
            syn::Type::Group(around) => return self.hold(module, &around.elem, behind, held),
            syn::Type::Path(of) => &of.path,
            _ => return,
        };
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_none()
            && let Some(name) = self.find(module, &words, STEPS_MAX)
        {
            let alias = self.modules[&name.0].types[&name.1];
            match alias {
                Some(alias) => self.hold(&name.0, alias, behind, held),
                None => held.push((name, behind)),
            }
            return;
        }
        let Some(last) = path.segments.last() else { return };
        let is_pointer = POINTERS.iter().any(|pointer| last.ident == pointer);
        let wraps = is_pointer || WRAPPERS.iter().any(|wrapper| last.ident == wrapper);
        if let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
            && wraps
        {
            for argument in &arguments.args {
                if let syn::GenericArgument::Type(of) = argument {
                    self.hold(module, of, behind || is_pointer, held);
                }
            }
        }
    }

    /// The type that a path names in a module.
    fn find(&self, module: &str, path: &[String], steps: usize) -> Option<Name> {
        let steps = steps.checked_sub(1)?;
        let first = path.first()?;
        if ["crate", "super", "self"].contains(&first.as_str()) {
            return self.at(&absolute(&parts(module), path), steps);
        }
        let scope = self.modules.get(module)?;
        if path.len() == 1 && scope.types.contains_key(first) {
            return Some((module.to_owned(), first.clone()));
        }
        if let Some(import) = scope.imports.get(first) {
            return self.at(&[import.as_slice(), &path[1..]].concat(), steps);
        }
        let inner = if path.len() > 1 { self.at(&[parts(module).as_slice(), path].concat(), steps) } else { None };
        inner.or_else(|| scope.globs.iter().find_map(|glob| self.at(&[glob.as_slice(), path].concat(), steps)))
    }

    /// The type at a path from the root of the crate.
    fn at(&self, path: &[String], steps: usize) -> Option<Name> {
        let (name, module) = path.split_last()?;
        self.find(&module.join("::"), std::slice::from_ref(name), steps)
    }
}
