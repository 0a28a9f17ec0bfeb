//! Modules compiled in a process with limits: this very test program, run again as that process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use althing_execution::tools::{ContractGate, Tools};
use althing_execution::{Loaded, Ports, SoftRuntime as _, SystemCalls};
use althing_protocol::Contract;
use althing_wasm::{CompileError, Compiler, Hard, JOB, Limits, ModuleError, Soft, compile_here};
use serde_json::json;

const MIB: u64 = 1 << 20;
const ECHO: &str = include_str!("../../../../../tests/bench/src/echo.wat");
const GOOD: &str = r#"(module (func (export "turn")))"#;
const OTHER: &str =
    r#"(module (memory (export "memory") 1) (func (export "turn") (i32.store (i32.const 0) (i32.const 7))))"#;

/// Not a test of its own: the process.
#[test]
fn process() {
    if std::env::var_os(JOB).is_some() {
        std::process::exit(compile_here().map_or(70, i32::from));
    }
}

fn compiler(folder: &Path) -> Compiler {
    let program = std::env::current_exe().expect("a test knows where it is");
    let arguments = ["--exact", "compile::process", "--nocapture"].map(OsString::from).to_vec();
    Compiler::in_child(program, arguments, folder.join("compiled"), [7; 32])
}

fn hard(compiler: Compiler) -> Hard {
    Hard::compiled_by(compiler).expect("an engine")
}

/// One function in which each of many values may be set in each of many branches: small to write, and more than
/// quadratic to compile.
fn bomb() -> String {
    let (locals, branches) = (1_500, 6_000);
    let mut text = "(module (func (export \"turn\")".to_owned();
    for _ in 0..locals {
        text.push_str(" (local i64)");
    }
    for branch in 0..branches {
        let (set, get) = (branch * 7 % locals, branch * 13 % locals);
        write!(
            text,
            "(if (i64.eqz (local.get {get})) (then (local.set {set} (i64.add (local.get {get}) (local.get {})))))",
            branch * 31 % locals
        )
        .expect("a text takes text");
    }
    for local in 0..locals {
        write!(text, "(local.set 0 (i64.add (local.get 0) (local.get {local})))").expect("a text takes text");
    }
    text.push_str("))");
    text
}

#[test]
fn what_a_process_made_runs_as_what_was_made_here() {
    let folder = tempfile::tempdir().expect("a folder");
    let hard = hard(compiler(folder.path()));
    for module in [GOOD, OTHER] {
        hard.template(module.as_bytes(), MIB).expect("a module").make().expect("a guest");
    }
    let refused = hard.template(b"(module (func (export \"turn\") drop))", MIB).err().expect("it is no module");
    assert!(matches!(refused, ModuleError::Compile(_)), "{refused:?}");
    let text = hard.template(b"nonsense", MIB).err().expect("it is no text");
    assert!(matches!(text, ModuleError::Compile(_)), "{text:?}");
}

#[test]
fn a_component_that_a_process_made_is_taken_by_the_engine_with_a_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let contract = Contract::from_value(&json!({ "class": { "latency": "srt" } })).expect("a contract");
    let guest = Ports::none().agent_ref("guest", "1.0.0").expect("a name");
    let tools = Arc::new(Tools::new(guest, BTreeMap::new(), Arc::new(ContractGate::of(&contract))));
    let calls = SystemCalls { tools, memory: None, budget: Arc::default() };
    for _ in 0..2 {
        // The second time from what is kept.
        let soft = Soft::compiled_by(compiler(folder.path()));
        let loaded = soft.load(ECHO.as_bytes(), &contract, &calls).map(|loaded| matches!(loaded, Loaded::Agent(_)));
        assert_eq!(loaded, Ok(true));
    }
    assert_eq!(fs::read_dir(folder.path().join("compiled")).expect("a folder").count(), 1);
}

#[test]
fn a_compile_bomb_is_killed_with_a_typed_error_and_the_next_module_is_compiled() {
    let folder = tempfile::tempdir().expect("a folder");
    let quick = |_| Limits { cpu_s: 1, memory_bytes: 4_096 * MIB, patience: Duration::from_secs(600) };
    let bomb = bomb();
    assert!(bomb.len() < 1 << 20, "it is no longer than a module may be: {}", bomb.len());
    let hard = hard(compiler(folder.path()).limited(quick));
    let killed = hard.template(bomb.as_bytes(), MIB).err().expect("it takes longer");
    assert_eq!(killed, ModuleError::Compiler(CompileError::Cpu(1)));
    hard.template(GOOD.as_bytes(), MIB).expect("the next module").make().expect("a guest");
    let left: Vec<_> = fs::read_dir(folder.path().join("compiled")).expect("it is there").collect();
    assert_eq!(left.len(), 1, "the good one is kept, and nothing of the other: {left:?}");
}

#[test]
fn one_that_takes_all_memory_is_killed_with_a_typed_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let narrow = |_| Limits { cpu_s: 600, memory_bytes: 160 * MIB, patience: Duration::from_secs(600) };
    let hard = hard(compiler(folder.path()).limited(narrow));
    let killed = hard.template(bomb().as_bytes(), MIB).err().expect("it takes more");
    assert_eq!(killed, ModuleError::Compiler(CompileError::Memory(160)));
}

#[test]
fn one_that_does_not_end_is_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = vec![OsString::from("600")];
    let sleeping = Compiler::in_child("/bin/sleep".into(), arguments, folder.path().join("compiled"), [7; 32]);
    let patience = Duration::from_millis(50);
    let hard = hard(sleeping.limited(|_| Limits { cpu_s: 9, memory_bytes: MIB, patience: Duration::from_millis(50) }));
    let late = hard.template(GOOD.as_bytes(), MIB).err().expect("it sleeps");
    assert_eq!(late, ModuleError::Compiler(CompileError::Late(patience)));
}

#[test]
fn what_is_kept_is_used_again_and_taken_from_nobody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("compiled");
    let binary = wat::parse_str(OTHER).expect("a module");
    hard(compiler(folder.path())).template(&binary, MIB).expect("a module");
    assert_eq!(fs::metadata(&kept).expect("a folder").permissions().mode() & 0o777, 0o700);
    // From now on nothing can be compiled.
    let nowhere = || Compiler::in_child("/nonexistent".into(), Vec::new(), kept.clone(), [7; 32]);
    hard(nowhere()).template(&binary, MIB).expect("it is kept").make().expect("a guest");
    let file = fs::read_dir(&kept).expect("a folder").next().expect("one").expect("a file").path();
    let good = fs::read(&file).expect("an artifact");
    let refused = |what: &str, compiler: Compiler| {
        let refused = hard(compiler).template(&binary, MIB).err().unwrap_or_else(|| panic!("{what} is run"));
        assert!(matches!(refused, ModuleError::Compiler(CompileError::NoProcess(_))), "{what}: {refused:?}");
    };
    // Every part of the file counts: a byte in each 97 is tried, and all of the beginning.
    let places = (0..64).chain((64..good.len()).step_by(good.len() / 97));
    for place in places {
        let mut changed = good.clone();
        changed[place] ^= 1;
        fs::write(&file, &changed).expect("it can be written");
        refused(&format!("byte {place}"), nowhere());
    }
    for length in [0, 31, 32, 33, good.len() - 1] {
        fs::write(&file, &good[..length]).expect("it can be written");
        refused(&format!("{length} bytes"), nowhere());
    }
    // Another node's, and another module's under its name.
    fs::write(&file, &good).expect("it can be written");
    refused("another key", Compiler::in_child("/nonexistent".into(), Vec::new(), kept.clone(), [8; 32]));
    let other = wat::parse_str(GOOD).expect("a module");
    hard(compiler(folder.path())).template(&other, MIB).expect("a module");
    let another = fs::read_dir(&kept).expect("a folder").map(|entry| entry.expect("a file").path());
    let another = another.into_iter().find(|path| *path != file).expect("two are kept");
    fs::copy(&another, &file).expect("it can be written");
    refused("another module's", nowhere());
    // And it is made anew where it can be.
    hard(compiler(folder.path())).template(&binary, MIB).expect("a module").make().expect("a guest");
}
