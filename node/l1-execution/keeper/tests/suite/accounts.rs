//! Programs have an account of their own where nothing else encloses them.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use althing_keeper::job::{Account, Job, Level, Told};
use althing_testing::{BARE, remedy, skip};

use crate::enclosing::enclosed;
use crate::support::{KEEPER, Kept, kept_by, runs};

/// The account of these tests' programs, which nobody has.
const ACCOUNT: u32 = 1_900_000_002;

/// A keeper where nobody makes namespaces and the kernel has no Landlock; none, and a word about it, where that takes what this
/// account may not.
fn bare() -> Option<Command> {
    let tried = Command::new("/usr/bin/python3").args(["-c", BARE, "true"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        skip("this account cannot do without namespaces and Landlock", remedy::ROOT);
        return None;
    }
    let mut keeper = Command::new("/usr/bin/python3");
    keeper.args(["-c", BARE, KEEPER]);
    Some(keeper)
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// A place that every account may enter, with a folder of a program's, and the node's data, which is closed.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir_in("/tmp").expect("a folder");
    mode(place.path(), 0o755);
    for (name, closed) in [("agent", 0o755), ("data", 0o700)] {
        fs::create_dir(place.path().join(name)).expect("a folder");
        mode(&place.path().join(name), closed);
    }
    fs::write(place.path().join("data/node.key"), "secret").expect("a file");
    place
}

/// A job whose program starts in `agent` of a place, under an account of its own.
fn job(words: &[&str], place: &Path) -> Job {
    let (folder, data) = (place.join("agent"), place.join("data"));
    let mut job = enclosed(words, &folder);
    let enclosure = job.enclosure.as_mut().expect("it is enclosed");
    enclosure.grants.hidden.push(data);
    enclosure.account = Some(Account { id: Ok(ACCOUNT), needed: vec![folder], written: Vec::new() });
    job
}

/// Why it is enclosed by no more than an account; none, and a word about it, where it is not even by that.
fn by_account(kept: &mut Kept) -> Option<String> {
    match kept.told() {
        Told::Started { level: Level::Account, why, .. } => Some(why),
        Told::Started { level: Level::None, why, .. } if why.contains("account") => {
            skip(&format!("programs cannot have accounts of their own: {why}"), remedy::ROOT);
            None
        }
        told => panic!("{told:?}"),
    }
}

#[test]
fn a_program_has_an_account_and_a_temporary_folder_of_its_own_and_nothing_of_the_nodes() {
    let Some(mut keeper) = bare() else { return };
    let place = place();
    let says = "id -u; id -G; grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; cat ../data/node.key 2>&1; \
                ls ../data 2>&1; echo t >$TMPDIR/t && cat $TMPDIR/t; echo $TMPDIR; (echo w >made) 2>&1; echo by path >/dev/stdout; \
                python3 -c 'import socket; socket.socket(socket.AF_UNIX)' 2>&1 | tail -1";
    let mut kept = kept_by(&job(&["sh", "-c", says], place.path()), &mut keeper);
    let Some(why) = by_account(&mut kept) else { return };
    assert!(why.contains("namespaces") && why.contains("Landlock"), "{why}");
    let mut said = String::new();
    kept.output.read_to_string(&mut said).expect("it is read");
    let all: Vec<&str> = said.lines().collect();
    let own = ACCOUNT.to_string();
    assert_eq!(all[..2], [own.as_str(), own.as_str()], "{said}");
    assert_eq!(all[2..5].iter().filter(|line| line.ends_with("\t0000000000000000")).count(), 3, "{said}");
    assert_eq!(all[5..7], ["NoNewPrivs:\t1", "Seccomp:\t2"], "{said}");
    assert_eq!(all.iter().filter(|line| line.contains("Permission denied")).count(), 3, "{said}");
    assert!(!said.contains("secret") && said.contains("Address family not supported"), "{said}");
    assert!(all.contains(&"by path"), "its pipes are its own: {said}");
    let temporary = all.iter().find(|line| line.starts_with("/tmp/althing-")).expect("its folder");
    kept.keeper.wait().expect("it ends");
    let around = Path::new(temporary).parent().expect("it is in one of the node's");
    assert!(!around.exists(), "{temporary} goes with it");
    assert!(!place.path().join("agent/made").exists(), "what is the owner's stays as it is");
}

#[test]
fn what_it_is_given_it_writes_and_its_processes_are_counted_for_it_alone() {
    let Some(mut keeper) = bare() else { return };
    let place = place();
    let folder = place.path().join("agent");
    let says = "echo w >made; python3 -c 'import resource; print(resource.getrlimit(resource.RLIMIT_NPROC)[0])'";
    let mut job = job(&["sh", "-c", says], place.path());
    job.limits.processes = 77;
    let enclosure = job.enclosure.as_mut().expect("it is enclosed");
    enclosure.account.as_mut().expect("it has one").written.push(folder.clone());
    let Told::Failed { step, why } = kept_by(&job, &mut keeper).told() else {
        return skip("programs cannot have accounts of their own", remedy::ROOT);
    };
    assert_eq!(step, format!("write {} under an account of its own ({ACCOUNT})", folder.display()));
    assert!(why.contains(&format!("`chown -R {ACCOUNT}:{ACCOUNT} {}`", folder.display())), "{why}");
    std::os::unix::fs::chown(&folder, Some(ACCOUNT), Some(ACCOUNT)).expect("root gives it away");
    let mut kept = kept_by(&job, &mut keeper);
    by_account(&mut kept).expect("it has one by now");
    let processes = kept.bounds.processes;
    let said = kept.line();
    assert!(said == "77" || processes == althing_keeper::job::Bound::Group, "{said}: {processes:?}");
    assert_eq!(fs::metadata(folder.join("made")).expect("it wrote it").uid(), ACCOUNT);
}

#[test]
fn what_no_other_account_reaches_is_named_and_what_every_account_reaches_of_the_nodes_is_too() {
    let Some(mut keeper) = bare() else { return };
    let place = place();
    let job = job(&["true"], place.path());
    mode(place.path(), 0o700);
    let Told::Failed { step, why } = kept_by(&job, &mut keeper).told() else {
        return skip("programs cannot have accounts of their own", remedy::ROOT);
    };
    let at = place.path().display();
    assert_eq!(step, format!("reach {at}/agent under an account of its own ({ACCOUNT})"));
    assert!(why.starts_with(&format!("{at} lets no other account in.")), "{why}");
    mode(place.path(), 0o755);
    mode(&place.path().join("data"), 0o755);
    let Told::Failed { step, why } = kept_by(&job, &mut keeper).told() else { panic!("the data are open") };
    assert_eq!(step, format!("keep {at}/data from it"));
    assert!(why.contains(&format!("`chmod go= {at}/data`")), "{why}");
}

#[test]
fn a_program_that_is_required_to_be_contained_is_not_started_with_an_account_alone_whose_network_is_open() {
    let Some(mut keeper) = bare() else { return };
    let place = place();
    let mut job = job(&["true"], place.path());
    if by_account(&mut kept_by(&job, &mut keeper)).is_none() {
        return;
    }
    job.enclosure.as_mut().expect("it is enclosed").required = true;
    let Told::Failed { step, why } = kept_by(&job, &mut keeper).told() else { panic!("its network is open") };
    assert!(step.starts_with("contain it") && why.contains("Landlock"), "{step}: {why}");
    assert!(why.ends_with("an account of its own would leave its network open"), "{why}");
}

#[test]
fn a_program_for_which_there_is_no_account_is_not_started_where_nothing_else_encloses_it() {
    let Some(mut keeper) = bare() else { return };
    let place = place();
    let mut job = job(&["true"], place.path());
    if by_account(&mut kept_by(&job, &mut keeper)).is_none() {
        return;
    }
    let enclosure = job.enclosure.as_mut().expect("it is enclosed");
    enclosure.account.as_mut().expect("it has one").id = Err("all 8 have programs".to_owned());
    let Told::Failed { step, why } = kept_by(&job, &mut keeper).told() else { panic!("it would reach all") };
    assert_eq!((step.as_str(), why.as_str()), ("give it an account of its own", "all 8 have programs"));
}

#[test]
fn programs_of_two_accounts_read_nothing_of_each_other() {
    let Some(mut keeper) = bare() else { return };
    let place = place();
    let says = "cd $TMPDIR && echo mine >file && chmod 644 file && pwd; exec sleep 300";
    let mut first = kept_by(&job(&["sh", "-c", says], place.path()), &mut keeper);
    if by_account(&mut first).is_none() {
        return;
    }
    let at = first.line();
    let around = Path::new(&at).parent().expect("it is in one of the node's").display();
    let says = format!("cat {at}/file 2>&1; ls {at} 2>&1; ls {around} 2>&1; touch {around}/made 2>&1");
    let mut job = job(&["sh", "-c", says.as_str()], place.path());
    let account = job.enclosure.as_mut().and_then(|enclosure| enclosure.account.as_mut()).expect("it has one");
    account.id = Ok(ACCOUNT + 1);
    let mut second = kept_by(&job, &mut keeper);
    by_account(&mut second).expect("as before");
    let mut said = String::new();
    second.output.read_to_string(&mut said).expect("it is read");
    assert_eq!(said.lines().filter(|line| line.contains("Permission denied")).count(), 4, "{said}");
    // What is everybody's in its folder is not read either: nobody else passes that.
    assert!(!said.contains("mine"), "{said}");
}

#[test]
fn a_killed_keeper_takes_a_program_of_another_account_with_it() {
    let Some(mut keeper) = bare() else { return };
    let place = place();
    let mut kept = kept_by(&job(&["sh", "-c", "echo $$; exec sleep 300"], place.path()), &mut keeper);
    if by_account(&mut kept).is_none() {
        return;
    }
    let id = kept.line();
    assert!(runs(&id), "{id}");
    kept.keeper.kill().expect("it is killed");
    kept.keeper.wait().expect("it ended");
    // The end of the pipe is the beginning of the end of its last holder.
    kept.output.read_to_string(&mut String::new()).expect("the end");
    while runs(&id) {
        std::thread::yield_now();
    }
}
