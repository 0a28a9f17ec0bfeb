//! What a script imports: its package, and the libraries in the folders above it.

use std::path::{Path, PathBuf};

use super::Kind;
use super::scope::Scope;

/// How the names of scripts end that import what lies in their package.
const SCRIPTS: [&str; 9] = ["cjs", "cts", "js", "jsx", "mjs", "mts", "py", "ts", "tsx"];
/// Files at the root of a package.
const MANIFESTS: [&str; 2] = ["package.json", "pyproject.toml"];
/// The folder of a package's libraries; scripts look for it in all folders above them.
const MODULES: &str = "node_modules";

/// The package that a script lies in, because its imports lead up: the outermost folder of libraries, or the nearest folder
/// with a manifest.
pub fn package(scope: &Scope<'_>, file: &Path) -> Option<PathBuf> {
    let libraries = above(scope, file).filter(|folder| folder.file_name().is_some_and(|name| name == MODULES)).last();
    if libraries.is_some() {
        return libraries.map(Path::to_owned);
    }
    if !is_script(file) {
        return None;
    }
    let is_package =
        |folder: &&Path| MANIFESTS.iter().any(|manifest| scope.files.kind(&folder.join(manifest)) == Kind::File);
    above(scope, file).find(is_package).map(Path::to_owned)
}

/// Grants the libraries in the folders above a script.
pub fn modules(scope: &mut Scope<'_>, file: &Path) {
    if !is_script(file) || file.extension().is_some_and(|ending| ending == "py") {
        return;
    }
    let folders: Vec<PathBuf> = above(scope, file).map(|folder| folder.join(MODULES)).collect();
    for folder in folders {
        if matches!(scope.files.kind(&folder), Kind::Folder | Kind::Link) {
            scope.read_through(&folder);
        }
    }
}

/// The folders that a file lies in, the nearest first, up to one that holds what belongs to many.
fn above<'f>(scope: &'f Scope<'_>, file: &'f Path) -> impl Iterator<Item = &'f Path> {
    file.ancestors().skip(1).take_while(move |folder| !scope.is_wide(folder))
}

fn is_script(file: &Path) -> bool {
    file.extension().is_some_and(|ending| SCRIPTS.iter().any(|script| ending == *script))
}
