//! What a bundle holds: the file of an agent or of a workflow, as its release says.

use althing_protocol::AgentId;
use althing_protocol::registry::{BundleFiles, Version};
use althing_td::{SharedFile, is_workflow};

use super::RegistriesError;

/// The file of an installed workflow, in its folder.
pub(super) const WORKFLOW_FILE: &str = "workflow.yaml";

/// The name of the file that is written for what was installed.
pub(super) fn file_name(shared: &SharedFile) -> &'static str {
    match shared {
        SharedFile::Agent(_) => "agent.yaml",
        SharedFile::Workflow(_) => WORKFLOW_FILE,
    }
}

/// The file of a bundle, if it can be one of a release.
pub(super) fn unpacked(bundle: &BundleFiles) -> Result<SharedFile, RegistriesError> {
    let shared = SharedFile::parse(&bundle.agent)?;
    match &shared {
        SharedFile::Agent(file) if file.role.is_some() => Err(RegistriesError::Role),
        SharedFile::Workflow(_) if !bundle.files.is_empty() => {
            Err(RegistriesError::FilesOfWorkflow(bundle.files.len()))
        }
        _ => Ok(shared),
    }
}

/// The file of a bundle, if it is the one of that release: of its name and version, and of the kind that the release's
/// description, `td`, says.
pub(super) fn of_release(
    bundle: &BundleFiles,
    (agent, version): (&AgentId, &Version),
    td: &[u8],
) -> Result<SharedFile, RegistriesError> {
    let shared = unpacked(bundle)?;
    let (agent, version) = (agent.clone(), version.clone());
    if shared.name() != agent.name() || shared.version() != version.to_string() {
        let found = format!("{} {}", shared.name(), shared.version());
        return Err(RegistriesError::OtherAgent { agent, version, found });
    }
    let described = kind(is_workflow(td));
    let found = kind(matches!(shared, SharedFile::Workflow(_)));
    if described != found {
        return Err(RegistriesError::OtherKind { agent: Box::new(agent), version, described, found });
    }
    Ok(shared)
}

fn kind(is_workflow: bool) -> &'static str {
    if is_workflow { "a workflow" } else { "an agent" }
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::*;

    const WORKFLOW: &str = "name: review\nsteps: [{ id: a, capability: text.read }]\n";

    fn bundle(text: &str, files: &[&str]) -> BundleFiles {
        let files = files.iter().map(|path| ((*path).to_owned(), vec![1].into())).collect();
        BundleFiles { agent: text.to_owned(), files }
    }

    /// P-181
    #[test]
    fn a_bundle_is_of_its_release_and_of_the_kind_that_is_described() {
        let agent = "name: review\ndescription: Says it.\nruntime: { native: { builtin: echo } }\n";
        let id = AgentId::new(PublisherId::from_digest([1; 32]), "review").expect("an id");
        let (one, two): (Version, Version) = ("1.0.0".parse().expect("a version"), "2.0.0".parse().expect("a version"));
        let td = |text: &str| SharedFile::parse(text).expect("a good file").describe(&id.to_string()).bytes().to_vec();
        for text in [WORKFLOW, agent] {
            assert!(of_release(&bundle(text, &[]), (&id, &one), &td(text)).is_ok(), "{text}");
            let later = of_release(&bundle(text, &[]), (&id, &two), &td(text)).expect_err("another version");
            assert!(matches!(later, RegistriesError::OtherAgent { .. }), "{later}");
        }
        for (held, described) in [(WORKFLOW, agent), (agent, WORKFLOW)] {
            let other = of_release(&bundle(held, &[]), (&id, &one), &td(described)).expect_err("of another kind");
            assert!(matches!(other, RegistriesError::OtherKind { .. }), "{other}");
        }
        let renamed = WORKFLOW.replace("review", "report");
        let other = of_release(&bundle(&renamed, &[]), (&id, &one), &td(WORKFLOW)).expect_err("another name");
        assert!(matches!(other, RegistriesError::OtherAgent { .. }), "{other}");
    }

    #[test]
    fn a_bundle_of_a_workflow_is_its_file_alone() {
        assert!(matches!(unpacked(&bundle(WORKFLOW, &[])), Ok(SharedFile::Workflow(_))));
        let more = unpacked(&bundle(WORKFLOW, &["run.sh", "b"])).expect_err("files that nothing runs");
        assert!(matches!(more, RegistriesError::FilesOfWorkflow(2)), "{more}");
        for text in ["name: a\nsteps: []\n", "name: a\n", "name: a\ngroup: g\nagents: []\n", "\u{0}"] {
            assert!(matches!(unpacked(&bundle(text, &[])), Err(RegistriesError::File(_))), "{text:?}");
        }
    }
}
