//! What a program is refused is in the status of its agent.

use althing_execution::{Access, Containment, Lack, Level, Refusal};

use super::*;

#[tokio::test]
async fn what_a_program_is_refused_is_named_once_while_it_runs() {
    provide();
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let secret = other.path().canonicalize().expect("it is there").join("secret");
    std::fs::write(&secret, "of somebody else").expect("a file");
    let mut file = file(folder.path(), "honest", 20_000);
    if let althing_td::RuntimeSpec::Process { command, .. } = &mut file.runtime {
        let says =
            format!("cat {secret}; touch tried; read line <{secret}; exec sleep 1000", secret = secret.display());
        *command = ["sh", "-c", says.as_str()].map(str::to_owned).to_vec();
    }
    let host = Host::new(Builtins::new(), ProcessConfig::default());
    host.start(&file, folder.path()).expect("it starts");
    let now = || -> Option<Containment> { host.status()[0].containment.get("runtime").cloned() };
    until("it runs", || now().is_some()).await;
    if now().is_some_and(|contained| contained.level == Level::None) {
        return skip("nothing contains programs here", remedy::ROOT);
    }
    until("it is named", || now().is_some_and(|contained| !contained.lacks.refused.is_empty())).await;
    until("it was tried", || folder.path().join("tried").exists()).await;
    let path = secret.display().to_string();
    let of_secret = |contained: Containment| {
        let refused = contained.lacks.refused.into_iter();
        refused.filter(|advice| advice.refusal.path == path).collect::<Vec<_>>()
    };
    let refusal = Refusal { access: Access::Read, path: path.clone(), lack: Lack::Read };
    let is_named_once = |contained: Containment| match of_secret(contained).as_slice() {
        // Nothing on its command line names it as a path: it is shown, and not offered.
        [advice] => advice.refusal == refusal && advice.block().is_none(),
        _ => false,
    };
    until("each is named once", || now().is_some_and(is_named_once)).await;
    assert!(host.stop("program").await);
}
