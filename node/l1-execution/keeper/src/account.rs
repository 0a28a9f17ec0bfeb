//! An account of a program's own: its folder for temporary files, how a process takes the account, and what is looked at then.
//!
//! Nothing of the machine is opened for it: what other accounts may not reach, the program does not reach.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, fchmod, fstat, mkdirat};
use nix::unistd::{
    AccessFlags, Gid, Uid, UnlinkatFlags, access, fchown, geteuid, mkdtemp, setfsgid, setfsuid, setgroups, setresgid,
    setresuid, unlinkat,
};

use crate::failure::Failure;
use crate::job::Account;
use crate::linux::capabilities::drop_bounding;
use crate::machine::accounts::{account_of, lacking, prefix};
use crate::removal::{empty, hold};

/// Where every account may have files.
const PLACE: &str = "/tmp";
/// The folder of the program in the one around it.
const OWN: &str = "tmp";
/// What every account may do with the folder around that: pass it, and nothing else.
const PASSED: Mode = Mode::from_bits_truncate(0o711);
/// Entries of a place that are looked at for what killed keepers left.
const LEFT_MAX: usize = 65_536;
/// Attempts to make a folder that another keeper takes for one of a killed keeper before it is locked.
const TRIES_MAX: usize = 16;
/// The step of failures.
const STEP: &str = "give it an account of its own";

/// A folder for the temporary files of a program that has an account of its own. It lies in one of the node's account with a name that
/// nobody foresees, so that no other account puts anything in its place; that one is locked for as long as it is used.
pub(crate) struct TemporaryFolder {
    around: PathBuf,
    held: File,
    path: PathBuf,
    account: u32,
}

impl TemporaryFolder {
    /// Makes the folder, and gives it to the account.
    ///
    /// # Errors
    /// This process may not start another under that account, there is none for the program, or no folder can be made.
    pub fn make(account: &Account) -> Result<TemporaryFolder, Failure> {
        let missing = lacking(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        if !missing.is_empty() {
            let why = format!("the node may not (as root it may): it lacks {}", missing.join(", "));
            return Err(Failure::lacking(STEP, why));
        }
        TemporaryFolder::make_in(Path::new(PLACE), number(account)?)
    }

    fn make_in(place: &Path, account: u32) -> Result<TemporaryFolder, Failure> {
        let shown = place.display();
        let step = || format!("make a folder in {shown} for its temporary files");
        let failed = |why: Errno| match why {
            // A disk that is full is no reason to let it reach more.
            Errno::EROFS | Errno::ENOENT => Failure::lacking(STEP, format!("nothing can be written to {shown}: {why}")),
            why => Failure::of(step(), why.desc()),
        };
        for _ in 0..TRIES_MAX {
            let around = mkdtemp(&place.join(prefix(account) + "XXXXXX")).map_err(failed)?;
            // Nothing of that name was there, and no other account renames it: what is opened is what was made.
            let held = match hold(AT_FDCWD, &around) {
                // Another keeper saw it unlocked, and removed it.
                Err(Errno::ENOENT) => continue,
                held => File::from(held.map_err(failed)?),
            };
            held.lock().map_err(|why| Failure::of(step(), why))?;
            let path = around.join(OWN);
            let folder = TemporaryFolder { around, held, path, account };
            match mkdirat(&folder.held, OWN, Mode::S_IRWXU) {
                Ok(()) => {}
                Err(Errno::ENOENT) => continue,
                Err(why) => {
                    folder.discard();
                    return Err(failed(why));
                }
            }
            return match folder.give() {
                Ok(()) => Ok(folder),
                Err(why) => {
                    folder.discard();
                    Err(refused(account, why))
                }
            };
        }
        Err(Failure::of(step(), "whatever is made there is removed at once"))
    }

    /// Gives what is in it to the account, and lets it pass.
    fn give(&self) -> nix::Result<()> {
        let own = hold(&self.held, OWN)?;
        fchown(&own, Some(Uid::from_raw(self.account)), Some(Gid::from_raw(self.account)))?;
        fchmod(&self.held, PASSED)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder of a program that was not started.
    pub fn discard(self) {
        remove(&self.around, &self.held, self.account);
    }

    /// Removes the folder with all in it, and those of keepers that were killed.
    pub fn clear(self) {
        remove(&self.around, &self.held, self.account);
        if let Some(place) = self.around.parent() {
            sweep(place);
        }
    }
}

/// The number of the account that a program is to have.
///
/// # Errors
/// There is none for it.
pub(crate) fn number(account: &Account) -> Result<u32, Failure> {
    account.id.clone().map_err(|why| Failure::of(STEP, why))
}

/// Removes the folder of a program of that account, with no more rights than it has, and then the one around it.
fn remove(around: &Path, held: &File, account: u32) {
    // An error leaves it, until a program ends that has an account too.
    let _ = with_rights_of(account, || hold(held, OWN).and_then(|own| empty(own, u64::MAX)));
    let _ = unlinkat(held, OWN, UnlinkatFlags::RemoveDir);
    let _ = fs::remove_dir(around);
}

/// Removes what keepers that were killed left in a place. Anybody may put something of such a name there: only a folder of this
/// process's own account counts, and none that a keeper has locked.
fn sweep(place: &Path) {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    for entry in fs::read_dir(place).into_iter().flatten().flatten().take(LEFT_MAX) {
        let Some(account) = account_of(&entry.file_name().to_string_lossy()) else { continue };
        let around = entry.path();
        let Ok(held) = open(&around, flags, Mode::empty()) else { continue };
        let is_own = fstat(&held).is_ok_and(|found| found.st_uid == geteuid().as_raw());
        let held = File::from(held);
        if is_own && held.try_lock().is_ok() {
            remove(&around, &held, account);
        }
    }
}

/// Does something with the rights for files that an account has. This thread keeps its further groups meanwhile.
fn with_rights_of<T>(account: u32, act: impl FnOnce() -> nix::Result<T>) -> nix::Result<T> {
    let (uid, gid) = (Uid::from_raw(account), Gid::from_raw(account));
    let before = (setfsuid(uid), setfsgid(gid));
    // Each answers what was before: asked again, whether it was done.
    let done = if setfsuid(uid) == uid && setfsgid(gid) == gid { act() } else { Err(Errno::EPERM) };
    let _ = (setfsgid(before.1), setfsuid(before.0));
    done
}

/// Takes an account, for this process and whatever it becomes, with no other groups. The capabilities of another account than
/// root's stay until they are dropped. Whoever's end this process's was bound to, it is not any more.
///
/// # Errors
/// This process may not, or there is no such account.
pub(crate) fn take(account: u32) -> Result<(), Failure> {
    // Another account than root may not any more.
    drop_bounding().map_err(|why| Failure::of("drop capabilities", why))?;
    let (uid, gid) = (Uid::from_raw(account), Gid::from_raw(account));
    let taken = setgroups(&[]).and_then(|()| setresgid(gid, gid, gid)).and_then(|()| setresuid(uid, uid, uid));
    taken.map_err(|why| refused(account, why))
}

/// Gives a pipe to an account, so that a program may open it by its path (`/dev/stdout`); nothing else is given away.
///
/// # Errors
/// The system's.
pub(crate) fn give_pipe(pipe: impl std::os::fd::AsFd, account: u32) -> nix::Result<()> {
    if fstat(&pipe)?.st_mode & libc::S_IFMT != libc::S_IFIFO {
        return Ok(());
    }
    fchown(&pipe, Some(Uid::from_raw(account)), Some(Gid::from_raw(account)))
}

fn refused(account: u32, why: Errno) -> Failure {
    match why {
        // In a container, say, whose accounts end before.
        Errno::EINVAL => {
            let why = format!(
                "there is no account {account} here: name some that there are (`accounts` under `[sandbox]` in althing.toml)"
            );
            Failure::lacking(STEP, why)
        }
        why => Failure::by(STEP, why),
    }
}

/// In a process that took the account: that it reaches nothing that is hidden, and all that it needs.
///
/// # Errors
/// What is open to it, or closed, and what to do.
pub(crate) fn check(account: &Account, hidden: &[PathBuf]) -> Result<(), Failure> {
    if let Some(open) = hidden.iter().find(|path| is_open(path)) {
        let (step, open) = (format!("keep {} from it", open.display()), open.display());
        let why =
            format!("other accounts may use that: `chmod go= {open}` closes it, and nothing is started until then");
        return Err(Failure::of(step, why));
    }
    let (id, written) = (number(account)?, &account.written);
    for path in account.needed.iter().chain(written) {
        let shown = path.display();
        if let Some(closed) = closed(path) {
            let closed = closed.display();
            let why = format!(
                "{closed} lets no other account in. Move what the program needs to where others may go, such as below /srv, or let \
                 them in (`chmod o+x {closed}`), or let this machine have user namespaces or Landlock"
            );
            return Err(Failure::of(format!("reach {shown} under an account of its own ({id})"), why));
        }
        let is_refused = |flags| access(path.as_path(), flags) == Err(Errno::EACCES);
        // A program may be executed that cannot be read.
        if is_refused(AccessFlags::X_OK) && (path.is_dir() || is_refused(AccessFlags::R_OK)) {
            let why = format!("other accounts may not: `chmod -R o+rX {shown}` lets them");
            return Err(Failure::of(format!("read {shown} under an account of its own ({id})"), why));
        }
        if written.contains(path) && is_refused(AccessFlags::W_OK) {
            let why = format!("it is not that account's: `chown -R {id}:{id} {shown}` gives it that");
            return Err(Failure::of(format!("write {shown} under an account of its own ({id})"), why));
        }
    }
    Ok(())
}

/// Whether this process can do anything with what is at a path.
fn is_open(path: &Path) -> bool {
    let all = [AccessFlags::R_OK, AccessFlags::W_OK, AccessFlags::X_OK];
    all.into_iter().any(|flags| access(path, flags).is_ok())
}

/// The first folder on the way to a path that this process may not enter.
fn closed(path: &Path) -> Option<&Path> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    above.into_iter().find(|folder| access(*folder, AccessFlags::X_OK) == Err(Errno::EACCES))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    use althing_testing::{remedy, skip};
    use nix::sched::CloneFlags;
    use nix::sys::wait::waitpid;

    use super::*;
    use crate::linux::sys;

    const ACCOUNT: u32 = 1_900_000_001;

    /// What is found under another account; none, and a word about it, where no process may take one.
    fn found(account: &Account, hidden: &[PathBuf]) -> Option<Result<(), Failure>> {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let Some(child) = sys::fork(CloneFlags::empty()).expect("a child") else {
            let taken = number(account).and_then(take).map(|()| check(account, hidden));
            let _ = serde_json::to_writer(writer, &taken);
            sys::leave(0)
        };
        drop(writer);
        let told: Result<Result<(), Failure>, Failure> = serde_json::from_reader(&mut reader).expect("it is told");
        waitpid(child, None).expect("it ended");
        told.map_err(|why| skip(&format!("no account can be taken: {why}"), remedy::ROOT)).ok()
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    #[test]
    fn what_is_closed_to_an_account_is_named_with_what_opens_it_and_what_is_open_with_what_closes_it() {
        let place = tempfile::tempdir().expect("a folder");
        let at = place.path().canonicalize().expect("it is there");
        let (folder, data) = (at.join("agents"), at.join("data"));
        for made in [&folder, &data] {
            fs::create_dir(made).expect("a folder");
        }
        let file = folder.join("agent.py");
        fs::write(&file, "").expect("a file");
        mode(&at, 0o700);
        mode(&data, 0o700);
        let told = |needed: &[&Path], written: &[&Path]| {
            let all = |paths: &[&Path]| -> Vec<PathBuf> { paths.iter().map(|path| path.to_path_buf()).collect() };
            let account = Account { id: Ok(ACCOUNT), needed: all(needed), written: all(written) };
            found(&account, &[data.clone(), at.join("none")]).map(|found| found.map_err(|why| why.to_string()))
        };
        let Some(closed) = told(&[&file], &[]) else { return };
        let closed = closed.expect_err("the place is closed");
        assert!(closed.contains(&format!("`chmod o+x {}`", at.display())), "{closed}");
        mode(&at, 0o711);
        mode(&folder, 0o755);
        mode(&file, 0o600);
        let unread = told(&[&file], &[]).expect("as before").expect_err("it is ours alone");
        assert!(unread.contains(&format!("`chmod -R o+rX {}`", file.display())), "{unread}");
        mode(&file, 0o644);
        assert_eq!(told(&[&file, &folder, &at.join("gone")], &[]), Some(Ok(())));
        let unwritten = told(&[], &[&folder]).expect("as before").expect_err("it is ours");
        assert!(unwritten.contains(&format!("`chown -R {ACCOUNT}:{ACCOUNT} {}`", folder.display())), "{unwritten}");
        mode(&data, 0o701);
        let open = told(&[&file], &[]).expect("as before").expect_err("anybody may enter it");
        assert!(open.contains(&format!("`chmod go= {}`", data.display())), "{open}");
    }

    /// A folder that a program of that account has in a place; none, and a word about it, where none can be given to it.
    fn given(place: &Path, account: u32) -> Option<TemporaryFolder> {
        let made = TemporaryFolder::make_in(place, account);
        made.map_err(|why| skip(&format!("nothing can be given to another account: {why}"), remedy::ROOT)).ok()
    }

    #[test]
    fn a_program_is_given_a_folder_in_one_that_no_other_account_writes() {
        let place = tempfile::tempdir().expect("a folder");
        let Some(folder) = given(place.path(), ACCOUNT) else { return };
        let facts =
            |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.mode() & 0o7777)).expect("it is there");
        assert_eq!(facts(&folder.around), (geteuid().as_raw(), 0o711));
        assert_eq!(facts(folder.path()), (ACCOUNT, 0o700));
        folder.discard();
        assert_eq!(fs::read_dir(place.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn what_killed_keepers_left_is_removed_and_neither_what_is_used_nor_what_another_account_planted() {
        let place = tempfile::tempdir().expect("a folder");
        let at = place.path();
        // Neither is a link of a program's followed: the keeper may more than its account.
        let (other, file) = (at.join("other"), at.join("other/file"));
        fs::create_dir(&other).expect("a folder");
        fs::write(&file, "another's").expect("a file");
        let Some(left) = given(at, ACCOUNT) else { return };
        fs::create_dir(left.path().join("in")).expect("a folder");
        chown(left.path().join("in"), Some(ACCOUNT), Some(ACCOUNT)).expect("root gives it away");
        for link in [left.path().join("link"), left.path().join("in/link")] {
            symlink(&other, link).expect("a link");
        }
        let around = left.around.clone();
        // Its keeper was killed.
        drop(left);
        let used = given(at, ACCOUNT + 1).expect("as before");
        let (link, folder) = (at.join(prefix(ACCOUNT) + "linked"), at.join(prefix(ACCOUNT) + "folder"));
        symlink(&other, &link).expect("a link");
        fs::create_dir_all(folder.join(OWN)).expect("folders");
        chown(&folder, Some(ACCOUNT), Some(ACCOUNT)).expect("root gives it away");
        given(at, ACCOUNT).expect("as before").clear();
        assert!(!around.exists(), "what was left is gone");
        assert!(used.path().exists(), "what is used stays");
        assert!(fs::symlink_metadata(&link).is_ok() && folder.join(OWN).exists(), "so does what is not the node's");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "another's");
        used.discard();
    }

    #[test]
    fn a_program_for_which_there_is_no_account_is_told_why() {
        let account = Account { id: Err("all are used".to_owned()), needed: Vec::new(), written: Vec::new() };
        let why = number(&account).expect_err("there is none");
        assert_eq!(why.to_string(), "cannot give it an account of its own: all are used");
        assert!(!why.is_lacking, "no weaker level takes its place");
    }
}
