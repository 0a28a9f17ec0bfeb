//! How the program is linked: the addresses that the loader has to set right are written down in two or three
//! bits each (DT_RELR) and not in 24 bytes. It reads all of them at each start: they were 3 MiB of the program.

use std::process::Command;

/// The first glibc whose loader can read them.
const SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let linux = |name: &str, wanted: &str| std::env::var(name).is_ok_and(|found| found == wanted);
    let glibc = linux("CARGO_CFG_TARGET_OS", "linux") && linux("CARGO_CFG_TARGET_ENV", "gnu");
    let here = std::env::var("HOST").is_ok() && std::env::var("HOST") == std::env::var("TARGET");
    // The program runs where it is built, or where the C library is as new: its loader says so otherwise.
    if glibc && here && version().is_some_and(|version| version >= SINCE) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Of the C library here, as in `glibc 2.36`.
fn version() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
