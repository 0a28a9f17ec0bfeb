//! What starting a node leaves behind.

use std::fs;
use std::time::Duration;

use nix::sys::mman::{MmapAdvise, madvise};

/// How long after it is ready a node has done what it does once only, such as the first look-up of itself.
const SETTLED: Duration = Duration::from_secs(3);

/// Gives the pages of code that only starting needed back to the system, once the node has settled: near half of
/// what an idle node would otherwise keep resident. Code that runs again is read again, from the page cache.
pub async fn give_back_code() {
    tokio::time::sleep(SETTLED).await;
    for (start, bytes) in code() {
        give_back(start, bytes);
    }
}

/// Where the program's code is mapped: address and bytes.
fn code() -> Vec<(usize, usize)> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Ok(program) = fs::read_link("/proc/self/exe") else { return Vec::new() };
    let of_line = |line: &str| code_of(line, &program.to_string_lossy());
    maps.lines().filter_map(of_line).collect()
}

/// The mapping of a line of `/proc/self/maps`, if it is code of the program. Other mappings may hold what the loader changed.
fn code_of(line: &str, program: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (range, mode) = (words.next()?, words.next()?);
    let path = words.nth(3)?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    (mode == "r-xp" && path == program && end > start).then(|| (start, end - start))
}

#[expect(unsafe_code, reason = "madvise takes an address")]
fn give_back(start: usize, bytes: usize) {
    let Some(start) = std::ptr::NonNull::new(std::ptr::without_provenance_mut(start)) else { return };
    // SAFETY: the pages are code, mapped from the file of the program and never written, so that each is read again from that
    // file, with the same bytes, when it is needed.
    if let Err(error) = unsafe { madvise(start, bytes, MmapAdvise::MADV_DONTNEED) } {
        tracing::debug!(%error, bytes, "the pages of start-up code stay resident");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_is_given_back() {
        let line = |mode: &str, path: &str| format!("1000-3000 {mode} 0000a000 fe:00 12    {path}");
        assert_eq!(code_of(&line("r-xp", "/bin/althing"), "/bin/althing"), Some((0x1000, 0x2000)));
        for mode in ["r--p", "rw-p", "rwxp", "r-xs"] {
            assert_eq!(code_of(&line(mode, "/bin/althing"), "/bin/althing"), None, "{mode}");
        }
        assert_eq!(code_of(&line("r-xp", "/lib/other.so"), "/bin/althing"), None);
        for bad in
            ["", "x", "1000-3000 r-xp 0 0 0", "zz-3000 r-xp 0 0 0 /bin/althing", "3000-1000 r-xp 0 0 0 /bin/althing"]
        {
            assert_eq!(code_of(bad, "/bin/althing"), None, "{bad}");
        }
    }

    #[test]
    fn the_program_goes_on_without_its_pages() {
        let found = code();
        assert!(!found.is_empty(), "a program has code");
        for (start, bytes) in found {
            give_back(start, bytes);
        }
        assert_eq!("1+1".split('+').count(), 2, "code is read again");
    }
}
