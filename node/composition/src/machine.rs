//! What this machine has, as its kernel says.

use std::path::Path;

/// A line of `/proc/meminfo`, such as `MemTotal` or `MemAvailable`, MiB; 0 if it is unknown.
#[must_use]
pub fn memory_mib(name: &str) -> u32 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default();
    u32::try_from(kib / 1_024).unwrap_or(u32::MAX)
}

/// Processor cores that this process may use.
#[must_use]
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// What is free on the file system of a folder, MiB; 0 if it is unknown.
#[must_use]
pub fn free_disk_mib(folder: &Path) -> u32 {
    nix::sys::statvfs::statvfs(folder).map_or(0, |disk| {
        let bytes = disk.blocks_available().saturating_mul(disk.fragment_size());
        u32::try_from(bytes >> 20).unwrap_or(u32::MAX)
    })
}

/// GPUs, as the kernel shows their render nodes.
#[must_use]
pub fn gpus() -> u32 {
    let devices = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten();
    let renders = devices.filter(|device| device.file_name().to_string_lossy().starts_with("renderD"));
    u32::try_from(renders.count()).unwrap_or(u32::MAX)
}
