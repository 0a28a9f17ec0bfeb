//! Changes of the gateway's tokens on record, whoever made them: commands change the file too, whether the node runs or not.

use std::path::Path;
use std::time::Duration;

use althing_governance::{Governance, records};
use althing_node::NodeError;
use tokio::sync::Mutex;

use crate::tokens::{TokenFile, TokenStamp};

/// What is recorded of them is called so.
const TOKENS: &str = "tokens";
/// Between two looks at the file.
const LOOK: Duration = Duration::from_secs(1);

/// A version of the file; none where it is not there.
type Version = Option<TokenStamp>;

/// Puts on record what the file of tokens says: their names, scopes, agents and digests.
pub struct TokenRecords {
    /// None where the node has no folder, and so no tokens.
    file: Option<TokenFile>,
    seen: Mutex<Versions>,
}

/// Those of the file that were looked at; none before the first look.
#[derive(Default)]
struct Versions {
    /// The one that is on record, or cannot be read.
    last: Option<Version>,
    /// The one of which the log says that it is not on record yet: once, and not with each look.
    told: Option<Version>,
}

impl TokenRecords {
    /// Of that data folder.
    pub(crate) fn of(data: Option<&Path>) -> TokenRecords {
        TokenRecords { file: data.map(TokenFile::of), seen: Mutex::default() }
    }

    /// Whether a token may be made: that could be recorded.
    ///
    /// # Errors
    /// [`NodeError::Unrecorded`].
    pub async fn check(governance: &Governance) -> Result<(), NodeError> {
        Ok(records::check(governance).await?)
    }

    /// Puts on record what the file says by now, if that is something else. What cannot be recorded is tried again.
    pub async fn note(&self, governance: &Governance) {
        let Some(file) = &self.file else { return };
        let mut seen = self.seen.lock().await;
        // Before it is read: what is written meanwhile is another version.
        let stamp = file.stamp();
        if seen.last == Some(stamp) {
            return;
        }
        let said = match (stamp, file.all()) {
            // Not even the last token was taken back: the gateway is open.
            (None, _) => Ok(String::new()),
            (Some(_), Ok(all)) => serde_json::to_string(&all).map_err(|error| error.to_string()),
            (Some(_), Err(error)) => Err(error.to_string()),
        };
        let said = match said {
            Ok(said) => said,
            Err(why) => {
                tracing::error!(why, "what the gateway's tokens are by now is not on record");
                seen.last = Some(stamp);
                return;
            }
        };
        match records::setting(governance, TOKENS, "", &said).await {
            Ok(()) => seen.last = Some(stamp),
            Err(_) if seen.told == Some(stamp) => {}
            Err(error) => {
                tracing::warn!(%error, "a change of the gateway's tokens is not on record yet");
                seen.told = Some(stamp);
            }
        }
    }

    /// Does so for as long as the node runs.
    pub(crate) async fn run(&self, governance: &Governance) {
        if self.file.is_none() {
            return;
        }
        loop {
            self.note(governance).await;
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use althing_governance::audit::{AuditFilter, RecordBody};

    use super::*;
    use crate::tests::started;

    #[tokio::test(flavor = "multi_thread")]
    async fn tokens_that_are_made_and_withdrawn_are_on_record_and_none_of_their_secrets() {
        let folder = tempfile::tempdir().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        let (tokens, records) = (TokenFile::of(folder.path()), TokenRecords::of(Some(folder.path())));
        let governance = &node.governance;
        TokenRecords::check(governance).await.expect("it can be recorded");
        records.note(governance).await;
        let token = tokens.add("maria", vec!["read".to_owned()], &[], [1; 32]).expect("a token");
        records.note(governance).await;
        records.note(governance).await;
        tokens.remove("maria").expect("there is one");
        records.note(governance).await;
        tokens.open().expect("there is none left");
        TokenRecords::of(Some(folder.path())).note(governance).await;
        let filter = AuditFilter { action: Some(TOKENS.to_owned()), ..AuditFilter::default() };
        let page = governance.audit().query(&filter, 10).await.expect("it is read");
        assert_eq!(page.records.len(), 3, "made, withdrawn, opened: {:?}", page.records);
        let made = &page.records[2];
        let details = governance.audit().record_at(made.log, made.index).expect("it is there");
        let [RecordBody::Whole(after)] = details.bodies.as_slice() else { panic!("{:?}", details.bodies) };
        let told = String::from_utf8_lossy(&after.body);
        assert!(told.contains("maria") && !told.contains(&token), "{told}");
        node.shut_down().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_that_others_could_read_is_on_record_as_soon_as_its_mode_is_mended() {
        let folder = tempfile::tempdir().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        let (tokens, records) = (TokenFile::of(folder.path()), TokenRecords::of(Some(folder.path())));
        let recorded = || async {
            records.note(&node.governance).await;
            let filter = AuditFilter { action: Some(TOKENS.to_owned()), ..AuditFilter::default() };
            node.governance.audit().query(&filter, 10).await.expect("it is read").records.len()
        };
        let mode =
            |bits: u32| std::fs::set_permissions(tokens.path(), Permissions::from_mode(bits)).expect("it is ours");
        tokens.add("maria", vec!["read".to_owned()], &[], [1; 32]).expect("a token");
        mode(0o644);
        assert_eq!(recorded().await, 0, "it is not read");
        mode(0o600);
        assert_eq!(recorded().await, 1, "nothing but its mode is another");
        node.shut_down().await;
    }
}
