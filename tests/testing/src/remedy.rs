//! What to do where something is missing. `scripts/setup.sh` installs every package that these name.

/// Node.js and the packages of npm.
pub const NODE: &str = "apt-get install nodejs npm (scripts/setup.sh does), where npm can reach its registry";
/// Python, and its packages in an environment of their own.
pub const PYTHON: &str = "apt-get install python3-venv (scripts/setup.sh does), where pip can reach its index";
/// The target that guests in Rust are built for.
pub const WASM: &str = "rustup target add wasm32-wasip2 (scripts/setup.sh does)";
/// The compiler of protocol buffers.
pub const PROTOC: &str = "apt-get install protobuf-compiler (scripts/setup.sh does)";
/// Go, and the sources of its checksum database.
pub const GO: &str = "apt-get install golang-go golang-golang-x-mod-dev (scripts/setup.sh does)";
/// The lints.
pub const CLIPPY: &str = "rustup component add clippy";
/// Libraries of Rust that the workspace does not have.
pub const CRATES: &str = "run it once where cargo can reach crates.io: what is built is kept";
/// Networks of their own.
pub const NAMESPACES: &str =
    "apt-get install iproute2 iptables (scripts/setup.sh does), and run the tests as root with all capabilities";
/// Mounts, priorities and other accounts.
pub const ROOT: &str = "run the tests as root with all capabilities";
/// A browser of services on a LAN that is not ours.
pub const AVAHI: &str = "apt-get install avahi-daemon avahi-utils dbus (scripts/setup.sh does)";
/// A proxy that is not ours.
pub const NGINX: &str = "apt-get install nginx-light (scripts/setup.sh does)";
/// `ssh-keygen`, with which people sign.
pub const OPENSSH: &str = "apt-get install openssh-client (scripts/setup.sh does)";
/// What watches the system calls of a process, and ends it at one.
pub const STRACE: &str =
    "apt-get install strace (scripts/setup.sh does), and run the tests as root with all capabilities";
/// What programs fill.
pub const MEMORY: &str = "run the tests where 2 GiB of memory are free";
/// What a kernel has not.
pub const KERNEL: &str = "run the tests on Linux 6.12 or later";

/// All of them.
#[cfg(test)]
pub(crate) const ALL: [&str; 15] =
    [NODE, PYTHON, WASM, PROTOC, GO, CLIPPY, CRATES, NAMESPACES, ROOT, AVAHI, NGINX, OPENSSH, STRACE, MEMORY, KERNEL];
