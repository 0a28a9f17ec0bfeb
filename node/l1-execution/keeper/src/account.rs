//! An account of a program's own: its folder for temporary files, how a process takes the account, and what is looked at then.
//!
//! Nothing of the machine is opened for it: what other accounts may not reach, the program does not reach.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::fstat;
use nix::unistd::{
    AccessFlags, Gid, Pid, Uid, access, chown, fchown, getpid, mkdtemp, setgroups, setresgid, setresuid,
};

use crate::failure::Failure;
use crate::job::Account;
use crate::linux::capabilities::drop_bounding;
use crate::machine::accounts::{keeper_of, lacking, prefix};
use crate::removal::remove_all;

/// Where every account may have files.
const PLACE: &str = "/tmp";
/// Entries of it that are looked at for what killed keepers left.
const LEFT_MAX: usize = 4_096;
/// The step of failures.
const STEP: &str = "give it an account of its own";

/// A folder for the temporary files of a program that has an account of its own.
pub(crate) struct TemporaryFolder {
    path: PathBuf,
    account: u32,
}

impl TemporaryFolder {
    /// Makes the folder, and gives it to the account.
    ///
    /// # Errors
    /// This process may not start another under that account, or no folder can be made.
    pub fn make(account: u32) -> Result<TemporaryFolder, Failure> {
        let missing = lacking(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        if !missing.is_empty() {
            let why = format!("the node may not (as root it may): it lacks {}", missing.join(", "));
            return Err(Failure::lacking(STEP, why));
        }
        let template = Path::new(PLACE).join(prefix(account, getpid().as_raw()) + "XXXXXX");
        let path = mkdtemp(template.as_path()).map_err(|why| match why {
            // A disk that is full is no reason to let it reach more.
            Errno::EROFS | Errno::ENOENT => Failure::lacking(STEP, format!("nothing can be written to {PLACE}: {why}")),
            why => Failure::of(format!("make a folder in {PLACE} for its temporary files"), why.desc()),
        })?;
        let (uid, gid) = (Uid::from_raw(account), Gid::from_raw(account));
        if let Err(why) = chown(path.as_path(), Some(uid), Some(gid)) {
            let _ = fs::remove_dir(&path);
            return Err(refused(account, why));
        }
        Ok(TemporaryFolder { path, account })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder of a program that was not started.
    pub fn discard(self) {
        // An error leaves an empty folder, until the account is used again.
        let _ = fs::remove_dir(&self.path);
    }

    /// Removes the folder with all in it, and those of keepers of the same account that were killed; last of all, since this process
    /// takes the account for that. Anybody may put something of such a name there: only folders of this account count.
    pub fn clear(self) {
        if take(self.account).is_err() {
            return;
        }
        // An error leaves it, until the account is used again.
        let _ = remove_all(&self.path);
        for entry in fs::read_dir(PLACE).into_iter().flatten().flatten().take(LEFT_MAX) {
            let keeper = keeper_of(&entry.file_name().to_string_lossy(), self.account).map(Pid::from_raw);
            // Of a link this is the link itself.
            let is_own = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == self.account);
            if is_own && keeper.is_some_and(|keeper| kill(keeper, None::<Signal>) == Err(Errno::ESRCH)) {
                let _ = remove_all(&entry.path());
            }
        }
    }
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
    let (id, written) = (account.id, &account.written);
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
    use std::os::unix::fs::PermissionsExt as _;

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
            let taken = take(account.id).map(|()| check(account, hidden));
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
            let account = Account { id: ACCOUNT, needed: all(needed), written: all(written) };
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
}
