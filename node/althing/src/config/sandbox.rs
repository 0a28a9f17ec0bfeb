//! What is configured of programs' sandboxes.

use super::*;

/// `[sandbox]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sandbox {
    /// Private nets that hosts of agent files may lead into, each as `192.168.7.0/24`.
    pub nets: Vec<String>,
    /// The first number of an account, and how many: each program gets one where nothing else contains it.
    pub accounts: Vec<u32>,
}

impl Sandbox {
    /// Its networks; invalid ones were refused when the configuration was read.
    pub fn nets(&self) -> Vec<Net> {
        self.nets.iter().filter_map(|net| net.parse().ok()).collect()
    }

    /// Its accounts, as for its networks.
    pub fn accounts(&self) -> AccountRange {
        match self.accounts[..] {
            [first, count] => AccountRange { first, count },
            _ => AccountRange::default(),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if let [first, count] = self.accounts[..]
            && first > 0
            && count > 0
            // The last number of all says that there is none.
            && first.checked_add(count).is_some()
        {
            return Ok(());
        }
        Err(format!(
            "`sandbox.accounts` is the first number of an account and how many, such as [70000, 1000], none of them root's; \
             not {:?}",
            self.accounts
        ))
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        let AccountRange { first, count } = AccountRange::default();
        Sandbox { nets: Vec::new(), accounts: vec![first, count] }
    }
}
