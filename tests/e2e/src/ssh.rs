//! OpenSSH's keys and signatures, with which people sign.

use std::path::{Path, PathBuf};
use std::process::Command;

use althing_testing::{remedy, skip};

use crate::{COMMAND_MAX, Machine, Outcome, Running};

/// Is there no `ssh-keygen`? Then the test is skipped, and says so.
#[track_caller]
pub fn is_missing() -> bool {
    let is_missing = Command::new("ssh-keygen").arg("-?").output().is_err();
    if is_missing {
        skip("there is no ssh-keygen", remedy::OPENSSH);
    }
    is_missing
}

/// Runs it in the folder of a machine, to its end.
pub fn keygen(machine: &Machine, arguments: &[&str]) -> Outcome {
    let ended = Running::start(machine.command(Path::new("ssh-keygen")).args(arguments)).end(COMMAND_MAX);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended
}

/// Makes a key of that kind in the folder of the machine; gives the line of its public half, which is in `NAME.pub`.
pub fn key(machine: &Machine, name: &str, kind: &str) -> String {
    keygen(machine, &["-q", "-t", kind, "-N", "", "-C", name, "-f", name]);
    let public = std::fs::read_to_string(machine.folder().join(format!("{name}.pub"))).expect("the public half");
    public.trim().to_owned()
}

/// Signs a file in the folder of the machine for this use; gives the file with the signature.
pub fn signature(machine: &Machine, key: &str, namespace: &str, file: &str) -> PathBuf {
    let signature = machine.folder().join(format!("{file}.sig"));
    if signature.exists() {
        std::fs::remove_file(&signature).expect("our own");
    }
    keygen(machine, &["-q", "-Y", "sign", "-f", key, "-n", namespace, file]);
    signature
}

/// The same; gives the text of the signature.
pub fn signed(machine: &Machine, key: &str, namespace: &str, file: &str) -> String {
    std::fs::read_to_string(signature(machine, key, namespace, file)).expect("the signature")
}
