//! What one node has promised: the guarantees of its hard real-time agents, and the reservations of agents that are not here yet.
//!
//! Starts no thread and reads no clock: the scheduler hands in its own, a simulation a virtual one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_protocol::contract::{Class, Hrt};
use althing_protocol::{Contract, PublicKey};
use tokio::sync::watch;

use super::AdmitError;
use super::machine::{self, Guarantee, Plan};
use super::reservations::{LeaseError, Reservations, plan_name};
use crate::admission::{AdmissionProof, Admitted, Config, Policy, Preemption};
use crate::realtime::HardwareProfile;

/// The share of a core that may be guaranteed: the rest belongs to the fair server of the Linux kernel.
pub const CAP_PPM: u64 = 900_000;

/// Why a reservation fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The contract has no guarantee to reserve.
    #[error("only hard real-time contracts can be reserved: the others have no guarantee")]
    NothingToHold,
    /// The contract is not admitted.
    #[error(transparent)]
    Admission(#[from] AdmitError),
    /// The reservation does not exist or may not be used.
    #[error(transparent)]
    Lease(#[from] LeaseError),
}

/// Time of a core that is promised to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorePromise {
    /// The core, counted from 0 among those for hard real-time.
    pub core: usize,
    /// Why its deadlines are kept, as of now; none where the core has more tasks than a proof has.
    pub proof: Option<AdmissionProof>,
}

/// What one node has promised.
pub struct Promises {
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    hardware: watch::Sender<Option<HardwareProfile>>,
    plan: Mutex<Plan>,
    /// Guarantees reserved for agents that are not here yet. Locked after the plan.
    reservations: Mutex<Reservations>,
    /// Which agents will take which reservations.
    claims: Mutex<BTreeMap<String, String>>,
}

impl Promises {
    /// Nothing is promised on that many cores before the hardware is known. `clock` gives nanoseconds, and never goes back.
    #[must_use]
    pub fn new(policy: Policy, cores: usize, clock: Arc<dyn Fn() -> u64 + Send + Sync>) -> Promises {
        let proofs = Config { policy, preemption: Preemption::Limited, cap_ppm: CAP_PPM, platform_ns: 0 };
        Promises {
            clock,
            hardware: watch::Sender::new(None),
            plan: Mutex::new(Plan::new(proofs, cores)),
            reservations: Mutex::default(),
            claims: Mutex::default(),
        }
    }

    /// The hardware was probed; promises that were made stay.
    pub fn set_hardware(&self, hardware: HardwareProfile) {
        self.hardware.send_replace(Some(hardware));
    }

    /// The probed hardware, once it is known.
    #[must_use]
    pub fn hardware(&self) -> Option<HardwareProfile> {
        *self.hardware.borrow()
    }

    /// Waits until the machine was probed.
    pub async fn probed(&self) -> Option<HardwareProfile> {
        let mut hardware = self.hardware.subscribe();
        hardware.wait_for(Option::is_some).await.ok().and_then(|hardware| *hardware)
    }

    /// The guarantee of an agent as it is now.
    #[must_use]
    pub fn guarantee(&self, name: &str) -> Option<Guarantee> {
        self.plan().guarantee(name)
    }

    /// Why an agent keeps its deadlines as of now; none where it is promised none, or its core has more tasks than a proof has.
    #[must_use]
    pub fn proof(&self, name: &str) -> Option<AdmissionProof> {
        self.plan().proof(name)
    }

    /// On which core time is promised to an agent, and why it is, both as of now.
    #[must_use]
    pub fn core_promise(&self, name: &str) -> Option<CorePromise> {
        let plan = self.plan();
        let Guarantee { core, .. } = plan.guarantee(name)?;
        Some(CorePromise { core, proof: plan.proof(name) })
    }

    /// The guaranteed share of each hard real-time core, parts per million.
    #[must_use]
    pub fn shares_ppm(&self) -> Vec<u64> {
        self.current_plan().shares_ppm()
    }

    /// Admits an agent that is about to start, with the reservation that it claimed, if any, whose id is given.
    pub(super) fn admit(
        &self,
        name: &str,
        contract: &Contract,
        hrt: &Hrt,
    ) -> Result<(Admitted, Option<String>), AdmitError> {
        let hardware = self.hardware_for(contract)?;
        let claim = self.claims().remove(name);
        let mut plan = self.current_plan();
        // The reserved guarantee becomes its own in one step, as it was proved.
        let claimed = claim.as_ref().filter(|id| plan.rename(&plan_name(id), name));
        let admitted = match claimed.and_then(|_| plan.guarantee(name)) {
            Some(Guarantee { core, response_bound_ns, jitter_bound_ns }) => {
                Admitted { core, response_bound_ns, jitter_bound_ns, test: "reserved" }
            }
            None => plan.admit(name, contract, hrt, hardware.wake_ns()).map_err(AdmitError::Refused)?,
        };
        Ok((admitted, claim))
    }

    /// The agent started, or did not.
    pub(super) fn settle(&self, name: &str, claim: Option<String>, started: bool) {
        let mut plan = self.plan();
        match (started, claim) {
            (true, Some(id)) => self.reservations().consume(&id),
            (true, None) => {}
            // The reservation stays until it expires.
            (false, Some(id)) if self.reservations().holds(&id, (self.clock)()) => {
                plan.rename(name, &plan_name(&id));
            }
            (false, _) => {
                plan.release(name);
            }
        }
    }

    /// Releases the guarantee of an agent.
    pub(super) fn release(&self, name: &str) {
        self.plan().release(name);
    }

    /// Reserves for `holder` what a hard real-time contract needs, for `lease`; the first of two phases.
    ///
    /// # Errors
    /// See [`ReserveError`].
    pub fn reserve(
        &self,
        id: &str,
        holder: PublicKey,
        contract: &Contract,
        lease: Duration,
    ) -> Result<Admitted, ReserveError> {
        let Class::Hrt(class) = &contract.class else { return Err(ReserveError::NothingToHold) };
        let hardware = self.hardware_for(contract)?;
        let mut plan = self.current_plan();
        let mut reservations = self.reservations();
        reservations.check_capacity(holder)?;
        let admitted = plan.admit(&plan_name(id), contract, class, hardware.wake_ns()).map_err(AdmitError::Refused)?;
        reservations.prepare(id, holder, contract.digest(), (self.clock)(), lease);
        Ok(admitted)
    }

    /// The second phase, and each renewal: the reservation lasts for `lease` from now.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`].
    pub fn confirm(&self, id: &str, holder: PublicKey, lease: Duration) -> Result<(), LeaseError> {
        self.reservations().confirm(id, holder, (self.clock)(), lease)
    }

    /// Cancels a reservation.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`].
    pub fn cancel(&self, id: &str, holder: PublicKey) -> Result<(), LeaseError> {
        let mut plan = self.plan();
        self.reservations().cancel(id, holder, (self.clock)())?;
        plan.release(&plan_name(id));
        Ok(())
    }

    /// The agent of that name will take a confirmed reservation when it starts with that contract. The reservation stays if
    /// the agent does not start.
    ///
    /// # Errors
    /// See [`LeaseError`].
    pub fn claim(&self, id: &str, name: &str, contract: &Contract) -> Result<(), LeaseError> {
        self.reservations().check_claim(id, &contract.digest(), (self.clock)())?;
        self.claims().insert(name.to_owned(), id.to_owned());
        Ok(())
    }

    /// Undoes [`Kernel::claim`] for an agent that does not start.
    pub fn unclaim(&self, name: &str) {
        self.claims().remove(name);
    }

    /// The number of reservations.
    #[must_use]
    pub fn reserved(&self) -> usize {
        drop(self.current_plan());
        self.reservations().len()
    }

    /// The plan without expired reservations.
    fn current_plan(&self) -> MutexGuard<'_, Plan> {
        let mut plan = self.plan();
        for id in self.reservations().expire((self.clock)()) {
            plan.release(&plan_name(&id));
        }
        plan
    }

    /// Locked after the plan where both are locked.
    fn reservations(&self) -> MutexGuard<'_, Reservations> {
        self.reservations.lock().expect("no holder of the reservations panics")
    }

    /// The hardware, if it is good enough for a contract.
    fn hardware_for(&self, contract: &Contract) -> Result<HardwareProfile, AdmitError> {
        let hardware = self.hardware().ok_or(AdmitError::NotProbed)?;
        let wanted = machine::grade_wanted(contract);
        if hardware.grade > wanted {
            return Err(AdmitError::Grade { wanted, has: hardware.grade, why: hardware.grade_reason() });
        }
        Ok(hardware)
    }

    fn claims(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.claims.lock().expect("no holder of the claims panics")
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no holder of the plan panics")
    }
}
