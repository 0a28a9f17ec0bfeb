//! Why a store takes no writes, read from what RocksDB says of it. Pure.

/// What keeps a store from writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Bytes on disk are not what was written.
    Damage,
    /// A file or a directory is not there: it was lost, or its volume was unmounted.
    Missing,
    /// The disk is full.
    Full,
    /// This user may not take more of the disk.
    Quota,
    /// Too many files are open.
    Descriptors,
    /// The file system takes no writes.
    ReadOnly,
    /// The disk, or the way to it, fails.
    Device,
    /// This user may not write there.
    Access,
    /// The machine has no memory left for it.
    Memory,
    /// A file would become larger than it may.
    Length,
    /// Something else.
    Other,
}

/// What the C libraries say of errors, and what that means here.
const SIGNS: [(&str, Cause); 23] = [
    ("No such file or directory", Cause::Missing),
    ("No space left on device", Cause::Full),
    ("Max allowed space was reached", Cause::Full),
    ("Disk quota exceeded", Cause::Quota),
    ("Quota exceeded", Cause::Quota),
    ("Too many open files", Cause::Descriptors),
    ("No file descriptors available", Cause::Descriptors),
    ("Read-only file system", Cause::ReadOnly),
    ("Input/output error", Cause::Device),
    ("I/O error", Cause::Device),
    ("Remote I/O error", Cause::Device),
    ("No such device", Cause::Device),
    ("Stale file handle", Cause::Device),
    ("Connection timed out", Cause::Device),
    ("Operation timed out", Cause::Device),
    ("Transport endpoint is not connected", Cause::Device),
    ("Structure needs cleaning", Cause::Device),
    ("Host is down", Cause::Device),
    ("Permission denied", Cause::Access),
    ("Operation not permitted", Cause::Access),
    ("Cannot allocate memory", Cause::Memory),
    ("Out of memory", Cause::Memory),
    ("File too large", Cause::Length),
];

impl Cause {
    /// The cause that a message of RocksDB tells, which may begin with the family that it is about.
    #[must_use]
    pub fn of(message: &str) -> Cause {
        let said = message.strip_prefix("column family \"").and_then(|rest| rest.split_once("\": "));
        let said = said.map_or(message, |(_, rest)| rest);
        if said.starts_with("Corruption") {
            return Cause::Damage;
        }
        SIGNS.iter().find(|(sign, _)| said.contains(sign)).map_or(Cause::Other, |(_, cause)| *cause)
    }

    /// What a person does about it. All but damage and lost files pass by themselves, and then the store is opened again.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Cause::Damage => "check the disk, then put back a copy of the directory and start again",
            Cause::Missing => {
                "if the volume of that directory was unmounted, mount it again, and writes resume by themselves; if files were \
                 deleted there, put back a copy of the directory and start again"
            }
            Cause::Full => "free space on that disk; then writes resume by themselves",
            Cause::Quota => "free space of this user, or raise its quota; then writes resume by themselves",
            Cause::Descriptors => {
                "end programs that hold many files open, or raise the limit (`ulimit -n`, LimitNOFILE= in a unit); then writes \
                 resume by themselves"
            }
            Cause::ReadOnly => {
                "look why the file system is read-only (`dmesg`: a failing disk makes it so), and mount it for writing; then \
                 writes resume by themselves"
            }
            Cause::Device => {
                "check the disk and the way to it (`dmesg`, `smartctl`, the network of a mount); when it is well, writes resume \
                 by themselves"
            }
            Cause::Access => "give this user the directory and what is in it; then writes resume by themselves",
            Cause::Memory => {
                "end programs that take much memory, or raise the limit (`ulimit -v`, MemoryMax= in a unit); then writes resume by \
                 themselves"
            }
            Cause::Length => {
                "raise the limit of a file's size (`ulimit -f`, LimitFSIZE= in a unit), or move the directory to a file system that \
                 takes larger files; then writes resume by themselves"
            }
            Cause::Other => "check the disk; when it is well, writes resume by themselves",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_operating_system_has_its_cause() {
        let io = |what: &str| format!("IO error: While appending to file: /data/store/db/000012.log: {what}");
        for (what, cause) in [
            ("No space left on device", Cause::Full),
            ("Disk quota exceeded", Cause::Quota),
            ("Too many open files", Cause::Descriptors),
            ("Too many open files in system", Cause::Descriptors),
            ("Read-only file system", Cause::ReadOnly),
            ("Input/output error", Cause::Device),
            ("Stale file handle", Cause::Device),
            ("Permission denied", Cause::Access),
            ("No such file or directory", Cause::Missing),
            ("Cannot allocate memory", Cause::Memory),
            ("File too large", Cause::Length),
            ("Resource temporarily unavailable", Cause::Other),
        ] {
            assert_eq!(Cause::of(&io(what)), cause, "{what}");
            assert_eq!(Cause::of(&format!("column family \"tasks\": {}", io(what))), cause, "{what}");
            assert!(cause == Cause::Damage || cause.remedy().contains("by themselves"), "{what}");
        }
        // It may be either.
        assert!(["mount it again", "put back a copy"].iter().all(|advice| Cause::Missing.remedy().contains(advice)));
        assert!(Cause::Memory.remedy().contains("memory") && Cause::Length.remedy().contains("ulimit -f"));
        assert_eq!(Cause::of("Corruption: block checksum mismatch: Input/output error"), Cause::Damage);
        assert_eq!(Cause::of("column family \"tasks\": Corruption: bad block"), Cause::Damage);
        assert_eq!(Cause::of("Shutdown in progress"), Cause::Other);
    }
}
