//! Data of public projects: it may not be copied into the repository, so it lies beside the checkout.

use std::path::{Path, PathBuf};

use super::skip;

/// Names another folder than `../shared/vectors` beside the checkout.
const ELSEWHERE: &str = "ALTHING_VECTORS";

/// A folder, what it holds, and where that is to be had.
static PROJECTS: [(&str, &str, &str); 3] = [
    (
        "cedar",
        "policies with the decisions of Cedar's formal model (project cedar-integration-tests)",
        "put corpus-tests.tar.gz of https://github.com/cedar-policy/cedar-integration-tests there",
    ),
    (
        "jsonpath",
        "the compliance suite of RFC 9535 (project jsonpath-compliance-test-suite)",
        "put cts.json of https://github.com/jsonpath-standard/jsonpath-compliance-test-suite there",
    ),
    (
        "td",
        "public Thing Descriptions (projects wot-testing and playground) and schemas (project wot-thing-description)",
        "put valid/ of https://github.com/w3c/wot-testing, invalid/ of https://github.com/eclipse-thingweb/playground \
         and schema/ of https://github.com/w3c/wot-thing-description there",
    ),
];

/// The folder of data of a public project. `None`, with the project and where it is to be had printed, where it is
/// absent.
///
/// # Panics
/// Where CI runs, if it is absent; and for a folder of no project.
#[track_caller]
pub fn public_vectors(folder: &str) -> Option<PathBuf> {
    let place = match std::env::var_os(ELSEWHERE) {
        Some(elsewhere) => PathBuf::from(elsewhere),
        None => beside_checkout(),
    };
    match found(&place, folder) {
        Ok(found) => Some(found),
        Err((what, remedy)) => {
            skip(&what, &remedy);
            None
        }
    }
}

/// Asked at run time: checkouts may share a build.
fn beside_checkout() -> PathBuf {
    let tested = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    let checkout = tested.ancestors().find(|folder| folder.join("Cargo.lock").exists()).expect("a workspace is locked");
    checkout.join("../shared/vectors")
}

/// The folder, or what is missing, and what to do about it.
fn found(place: &Path, folder: &str) -> Result<PathBuf, (String, String)> {
    let of = |name: &str| Path::new(folder).starts_with(name);
    let project = PROJECTS.iter().find(|(name, ..)| of(name));
    let (name, what, source) = project.unwrap_or_else(|| panic!("{folder} is of no project that is listed here"));
    let path = place.join(folder);
    if path.is_dir() {
        return Ok(path);
    }
    let at = place.join(name);
    let what = format!("{} is absent, which holds {what}", at.display());
    Err((what, format!("{source}, or set {ELSEWHERE} to the folder that holds {name}/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_that_are_there_are_found_and_others_are_named_with_their_project() {
        let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
        let made = std::env::temp_dir().join(format!("althing-testing-{}", std::process::id()));
        std::fs::create_dir_all(made.join("td/valid")).expect("a folder");
        let there = found(&made, "td/valid");
        std::fs::remove_dir_all(&made).expect("it is ours");
        assert_eq!(there, Ok(made.join("td/valid")));
        for (folder, owner, project) in
            [("jsonpath", "jsonpath-standard", "jsonpath-compliance-test-suite"), ("td/valid", "w3c", "wot-testing")]
        {
            let (what, remedy) = found(&here, folder).expect_err("they are not in this crate");
            assert!(what.contains("is absent, which holds") && what.contains(project), "{what}");
            assert!(remedy.contains(&format!("https://github.com/{owner}/{project}")), "{remedy}");
            assert!(remedy.contains(ELSEWHERE), "{remedy}");
        }
    }

    #[test]
    #[should_panic(expected = "tdx is of no project")]
    fn a_folder_of_no_project_is_refused() {
        let _ = found(Path::new("/"), "tdx");
    }
}
