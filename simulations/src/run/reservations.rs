//! Reservations that nodes make on others: some are forgotten, some renewed, some cancelled.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{Reservation, ReservationError, reserve};
use althing_communication::Communication;
use althing_execution::kernel::Promises;
use althing_protocol::{Contract, PublicKey};
use rand::Rng as _;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::{Ended, World, pick};
use crate::invariant::Reserved;
use crate::scenario::{EventKind, Scenario};

/// On so many nodes of an owner the others reserve.
const HOSTS: usize = 3;
/// The lease of a reservation that is not confirmed, and of a confirmed one.
const LEASES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(8)];
/// It is confirmed, renewed or cancelled so long after the last time.
const NEXT_AFTER: Duration = Duration::from_secs(3);
/// It is asked for so long after it was over.
const ASKED_AFTER: Duration = Duration::from_millis(100);
/// The shares that are reserved, thousandths of a core.
const SHARES: [u64; 3] = [200, 400, 600];

/// What a holder does with a reservation.
#[derive(Clone, Copy)]
struct Wish {
    /// How often it confirms it.
    confirms: usize,
    /// Whether it cancels it then.
    cancels: bool,
}

/// A contract that needs a share of a core.
fn contract(share_permille: u64) -> Contract {
    let budget_us = share_permille * 100;
    let class = json!({ "latency": "hrt", "period_us": 100_000, "deadline_us": 100_000, "budget_us": budget_us });
    Contract::from_value(&json!({ "class": class })).expect("a contract")
}

fn said(answer: Result<Reservation, ReservationError>) -> Result<(), String> {
    match answer {
        Ok(_) => Ok(()),
        Err(ReservationError::Refused { reason, message }) => Err(format!("{reason}: {message}")),
        Err(error) => Err(error.to_string()),
    }
}

/// One holder's dealings with one host.
struct Dealings {
    communication: Communication,
    host: PublicKey,
    begun: Instant,
}

impl Dealings {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that what was asked at `asked_ms`, and answered now, holds for `lease`, and from then on no longer.
    fn lasts(&self, one: &mut Reserved, asked_ms: u64, lease: Duration) {
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        (one.held_ms, one.over_ms) = (asked_ms + lease_ms, self.now_ms() + lease_ms);
    }

    /// Reserves and does as `wish` says, until the reservation is over.
    async fn run(&self, one: &mut Reserved, wish: Wish) {
        let (communication, host, [prepared, confirmed]) = (&self.communication, self.host, LEASES);
        let contract = contract(one.share_permille);
        let answer = reserve::prepare(communication, host, &contract, prepared).await;
        one.answered_ms = self.now_ms();
        self.lasts(one, one.began_ms, prepared);
        let id = match answer {
            Ok(made) => made.id,
            refused => {
                one.prepared = said(refused);
                return;
            }
        };
        for _ in 0..wish.confirms {
            sleep(NEXT_AFTER).await;
            let asked_ms = self.now_ms();
            one.kept = said(reserve::confirm(communication, host, &id, confirmed).await);
            // Without an answer it may have been confirmed.
            self.lasts(one, asked_ms, confirmed);
            if one.kept.is_err() {
                break;
            }
        }
        if wish.cancels && one.kept.is_ok() {
            sleep(NEXT_AFTER).await;
            one.held_ms = self.now_ms();
            one.kept = said(reserve::cancel(communication, host, &id).await);
            if one.kept.is_ok() {
                one.over_ms = self.now_ms();
            }
        }
        let rest_ms = one.over_ms.saturating_sub(self.now_ms());
        sleep(Duration::from_millis(rest_ms) + ASKED_AFTER).await;
        one.after = said(reserve::confirm(communication, host, &id, confirmed).await);
    }
}

/// A node reserves capacity on another: of its owner, as a rule.
pub(super) fn start(world: &mut World<'_>, holder: u32, ended: mpsc::Sender<Ended>) {
    let (owners, own_owner) = (world.scenario.agents.owners, world.nodes.owner_of(holder));
    let owner = if world.rng.random_ratio(1, 6) { world.rng.random_range(0..owners) } else { own_owner as u32 };
    let hosts = world.nodes.of_owner(owner).into_iter().filter(|host| *host != holder).take(HOSTS);
    let hosts: Vec<u32> = hosts.collect();
    let Some(host) = pick(&mut world.rng, &hosts) else { return };
    let share_permille = SHARES[world.rng.random_range(0..SHARES.len())];
    let wish = Wish { confirms: world.rng.random_range(0..=2), cancels: world.rng.random() };
    let now_ms = world.now_ms();
    let nodes = [holder, host];
    let (Some(from), Some(to)) = (&world.nodes.slot(holder).node, &world.nodes.slot(host).node) else { return };
    let mut one = Reserved {
        began_ms: now_ms,
        answered_ms: now_ms,
        held_ms: now_ms,
        over_ms: now_ms,
        holder,
        host,
        own: owner as usize == own_owner,
        share_permille,
        prepared: Ok(()),
        kept: Ok(()),
        after: Err("it was not asked for".to_owned()),
        undisturbed: world.is_settled(&nodes, now_ms),
    };
    let dealings = Dealings { communication: from.communication.clone(), host: to.id(), begun: world.begun };
    let (discovery, number) = (from.discovery.clone(), world.judge.call_begins(now_ms));
    tokio::spawn(async move {
        discovery.reconnect(dealings.host).await;
        dealings.run(&mut one, wish).await;
        // The run may be over.
        let _ = ended.send(Ended::Reserved(number, nodes, one)).await;
    });
}

pub(super) fn judge(world: &mut World<'_>, nodes: &[u32], mut one: Reserved) {
    one.undisturbed &= world.is_steady(nodes, one.began_ms);
    world.judge.reserved(one);
}

/// Where the owner's other nodes reserve, if any do in this scenario.
pub(super) fn promises(scenario: &Scenario) -> Option<Arc<Promises>> {
    scenario.has(EventKind::Reserve).then(crate::mesh::promises)
}
