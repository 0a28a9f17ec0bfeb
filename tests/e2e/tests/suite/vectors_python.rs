//! O5: the protocol can be implemented from its specification: a Python client of at most 200 lines decides as the vectors say.

use std::path::Path;
use std::process::Command;

/// Lines of the client.
const LINES_MAX: usize = 200;
/// Vectors that it reads.
const READ_MIN: usize = 332;

#[test]
fn a_python_client_of_few_lines_decides_as_the_vectors_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("examples/python-client");
    let client = std::fs::read_to_string(folder.join("althing.py")).expect("the client");
    assert!(client.lines().count() <= LINES_MAX, "it has {} lines", client.lines().count());
    if Command::new("python3").arg("--version").output().is_err() {
        return althing_testing::skip("there is no python3", althing_testing::remedy::PYTHON);
    }
    let ran = Command::new("python3")
        .args(["-B", "vectors.py"])
        .arg(root.join("protocol/vectors"))
        .current_dir(&folder)
        .output()
        .expect("python3 runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let read = |line: &str| line.strip_suffix(" vectors")?.rsplit(' ').next()?.parse::<usize>().ok();
    let read: usize = said.lines().filter_map(read).sum();
    assert!(read >= READ_MIN, "only {read} vectors: {said}");
}
