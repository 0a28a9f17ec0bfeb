//! The logs of a node, one after another: the last one goes on, and those before it can be read.

use std::sync::{Arc, RwLock};

use althing_protocol::hex;
use althing_store::{Batch, Durability, Range};

use super::error::AuditFault;
use super::families::STATE;
use super::ledger::{Ledger, of_log};
use super::ports::AuditPorts;
use super::rows::damaged;

/// The key in [`STATE`] of the number of the log that goes on.
const NUMBER: &[u8] = b"number";

/// All of them.
pub(super) struct Ledgers {
    ports: AuditPorts,
    /// The one that goes on.
    now: RwLock<Arc<Ledger>>,
}

impl Ledgers {
    /// Opens the log that goes on, or begins the first one.
    pub(super) async fn open(ports: AuditPorts) -> Result<Ledgers, AuditFault> {
        let (number, name) = match ports.store.read(STATE, NUMBER)? {
            Some(row) => {
                let number = u32::from_be_bytes(row.try_into().map_err(|_| damaged("the row", NUMBER))?);
                (number, name_of(&ports, number)?)
            }
            None if ports.store.keys(STATE, Range::all(1))?.is_empty() => {
                let (rows, name) = log_rows(&ports, 1);
                ports.store.write(rows, Durability::Synced).await?;
                (1, name)
            }
            // It was begun before: nothing is written over what is left of it.
            None => return Err(damaged("the row", NUMBER)),
        };
        let now = RwLock::new(Arc::new(ledger(&ports, number, &name)?));
        Ok(Ledgers { ports, now })
    }

    pub(super) fn now(&self) -> Arc<Ledger> {
        self.now.read().expect("no holder panics").clone()
    }

    /// One of them, by its number.
    pub(super) fn get(&self, number: u32) -> Result<Arc<Ledger>, AuditFault> {
        let now = self.now();
        if now.number() == number {
            return Ok(now);
        }
        let name = name_of(&self.ports, number)?;
        ledger(&self.ports, number, &name).map(Arc::new)
    }

    /// An empty log after the present one, and the rows that say so.
    pub(super) fn next(&self) -> Result<(Ledger, Batch), AuditFault> {
        let number = self.now().number() + 1;
        let (rows, name) = log_rows(&self.ports, number);
        Ok((ledger(&self.ports, number, &name)?, rows))
    }

    /// Goes on with another log, which is on disk.
    pub(super) fn turn_to(&self, ledger: Ledger) {
        *self.now.write().expect("no holder panics") = Arc::new(ledger);
    }
}

fn ledger(ports: &AuditPorts, number: u32, name: &str) -> Result<Ledger, AuditFault> {
    Ledger::open(ports.store.clone(), ports.sign.clone(), ports.node, number, name)
}

/// The rows of a log that begins, and its name: with random digits, so that no name is used for two histories.
fn log_rows(ports: &AuditPorts, number: u32) -> (Batch, String) {
    let random = hex(&ports.entropy.bytes::<4>());
    let name = format!("audit/{}/{}/{number}-{random}", ports.owner.multibase(), hex(ports.node.as_bytes()));
    let mut rows = Batch::new();
    rows.put(STATE, NUMBER, number.to_be_bytes());
    rows.put(STATE, of_log("name", number), name.as_bytes());
    (rows, name)
}

fn name_of(ports: &AuditPorts, number: u32) -> Result<String, AuditFault> {
    let key = of_log("name", number);
    let row = ports.store.read(STATE, &key)?.and_then(|row| String::from_utf8(row).ok());
    row.ok_or_else(|| damaged("the row", &key))
}
