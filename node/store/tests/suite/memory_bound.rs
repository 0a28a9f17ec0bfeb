//! A store stays small: memory of a process of its own, after more rows than its buffers hold.
#![cfg(target_os = "linux")]

use crate::support::{CHILD, key, wait};
use althing_store::{Batch, Durability, Family, Range, RocksStore, Store, StoreConfig};
use std::{fs, path::Path, process::Command};

/// As many families as a node has concerns.
const FAMILIES: [Family; 12] = [
    Family("a"),
    Family("b"),
    Family("c"),
    Family("d"),
    Family("e"),
    Family("f"),
    Family("g"),
    Family("h"),
    Family("i"),
    Family("j"),
    Family("k"),
    Family("l"),
];
/// Of the 40 MiB that an idle node may take.
const OPENED_MIB_MAX: u64 = 16;
/// Write buffers, cache and what the allocator keeps, after a load.
const LOADED_MIB_MAX: u64 = 48;

/// Without pages of files, which the system takes and brings back as it likes.
fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("it is told");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}

/// Not a test: the process that `a_store_takes_little_memory` measures.
#[test]
fn child_that_is_measured() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let before = resident_mib();
    let store = RocksStore::open(Path::new(&dir), &FAMILIES, StoreConfig::default()).expect("a new store opens");
    println!("\nopened {}", resident_mib() - before);
    for number in 0..6_000u32 {
        let mut batch = Batch::new();
        let mut word = u64::from(number) + 1;
        let value: Vec<u8> = std::iter::repeat_with(|| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.to_be_bytes()
        })
        .take(1 << 10)
        .flatten()
        .collect();
        batch.put(FAMILIES[number as usize % FAMILIES.len()], key(number), value);
        wait(store.write(batch, Durability::Buffered)).expect("the write succeeds");
    }
    for family in FAMILIES {
        let mut range = Range::all(100);
        loop {
            let rows = store.scan(family, range.clone()).expect("the scan succeeds");
            let Some((last, _)) = rows.last() else { break };
            range = range.after(last.clone());
        }
    }
    println!("\nloaded {}", resident_mib() - before);
}

#[test]
fn a_store_takes_little_memory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "memory_bound::child_that_is_measured", "--nocapture"])
        .env(CHILD, dir.path())
        .output()
        .expect("this test runs again");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mib = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{text}"));
        line.trim().parse().expect("a number")
    };
    let (opened, loaded) = (mib("opened "), mib("loaded "));
    println!("opened {opened} MiB, after 48 MiB of rows {loaded} MiB");
    assert!(opened <= OPENED_MIB_MAX, "an open store takes {opened} MiB");
    assert!(loaded <= LOADED_MIB_MAX, "a loaded store takes {loaded} MiB");
}
