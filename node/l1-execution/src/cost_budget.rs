//! The cost budget of a delay-tolerant agent in a period, and its usage.

use std::sync::{Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use althing_protocol::Contract;
use althing_protocol::contract::{Class, Cost, Dt};
use tokio::time::Instant;

use crate::agent::AgentError;
use crate::realtime::ran_ns;

/// Prices are millionths of a currency for a million tokens, so costs are counted in millionths of millionths.
const MICROS: u128 = 1_000_000;

/// The budget is exhausted for now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its cost budget is exhausted (class.cost.{what}: {most} in {per_s} s); it may continue in {again_s} s")]
pub struct Exhausted {
    /// `cpu_ms`, `tokens` or `spend`.
    pub what: &'static str,
    /// The limit.
    pub most: u64,
    /// The period, seconds.
    pub per_s: u64,
    /// Seconds until the next period.
    pub again_s: u64,
}

/// The usage in a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Processor time, nanoseconds.
    pub cpu_ns: u64,
    /// Tokens of prompts and answers.
    pub tokens: u64,
    /// Their cost, millionths of millionths of a currency.
    pub spend: u128,
}

#[derive(Debug, Default)]
struct Usage {
    begun: Option<Instant>,
    spent: Spent,
}

/// The tokens reserved for one request until its usage is known.
pub struct TokenReservation<'a> {
    budget: &'a CostBudget,
    tokens: u64,
    price: Option<u64>,
}

impl TokenReservation<'_> {
    /// Replaces the reservation by the actual usage.
    pub fn settle(self, tokens: u64) {
        self.budget.count(self.tokens, self.price, false);
        self.budget.count(tokens, self.price, true);
    }
}

/// The cost budget of one agent.
#[derive(Debug, Default)]
pub struct CostBudget {
    cost: Option<Cost>,
    now: Mutex<Usage>,
}

impl CostBudget {
    /// The budget of a contract; unlimited if it has none.
    #[must_use]
    pub fn of(contract: &Contract) -> CostBudget {
        let cost = match &contract.class {
            Class::Dt(Dt { cost }) => cost.clone(),
            Class::Hrt(_) | Class::Srt(_) => None,
        };
        CostBudget { cost, now: Mutex::default() }
    }

    /// Checks that the budget is not exhausted.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn check(&self) -> Result<(), Exhausted> {
        let Some(cost) = &self.cost else { return Ok(()) };
        let (now, period) = (Instant::now(), Duration::from_secs(cost.per_s));
        let mut held = self.lock();
        let begun = *held.begun.get_or_insert(now);
        if now.duration_since(begun) >= period {
            // A new period begins with this turn.
            *held = Usage { begun: Some(now), spent: Spent::default() };
        }
        let spent = held.spent;
        let over = [
            ("cpu_ms", cost.cpu_ms, u128::from(spent.cpu_ns / 1_000_000)),
            ("tokens", cost.tokens, u128::from(spent.tokens)),
            ("spend", cost.spend, spent.spend / MICROS),
        ];
        let used = over.into_iter().find_map(|(what, most, spent)| {
            let most = most.filter(|most| spent >= u128::from(*most))?;
            Some((what, most))
        });
        let Some((what, most)) = used else { return Ok(()) };
        let again = period.saturating_sub(now.duration_since(held.begun.unwrap_or(now)));
        Err(Exhausted { what, most, per_s: cost.per_s, again_s: again.as_secs() + 1 })
    }

    /// Seconds until the next period.
    #[must_use]
    pub fn again_s(&self) -> u64 {
        let (Some(cost), Some(begun)) = (&self.cost, self.lock().begun) else { return 0 };
        Duration::from_secs(cost.per_s).saturating_sub(begun.elapsed()).as_secs() + 1
    }

    /// Charges processor time.
    pub fn charge_cpu(&self, ns: u64) {
        let mut now = self.lock();
        now.spent.cpu_ns = now.spent.cpu_ns.saturating_add(ns);
    }

    /// Runs a turn and charges its processor time; stops it when the budget is exhausted.
    pub async fn run(&self, work: impl Future<Output = Result<(), AgentError>>) -> Result<(), AgentError> {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|cx| {
            let before = ran_ns();
            let polled = work.as_mut().poll(cx);
            // One poll is on one thread.
            self.charge_cpu(ran_ns().saturating_sub(before));
            match (polled, self.overrun()) {
                (Poll::Pending, Some(exhausted)) => {
                    Poll::Ready(Err(AgentError::Failed(format!("it was stopped: {exhausted}"))))
                }
                (polled, _) => polled,
            }
        })
        .await
    }

    /// The exhausted processor time, if it is.
    fn overrun(&self) -> Option<Exhausted> {
        self.cost.as_ref()?.cpu_ms?;
        self.check().err().filter(|exhausted| exhausted.what == "cpu_ms")
    }

    /// Reserves `tokens` for a request to a model of which a million tokens cost `price` millionths. They stay charged if the
    /// request fails before its usage is known.
    #[must_use]
    pub fn reserve(&self, tokens: u64, price: Option<u64>) -> TokenReservation<'_> {
        self.count(tokens, price, true);
        TokenReservation { budget: self, tokens, price }
    }

    /// Charges tokens that a turn spent before it was resumed, at a model of which a million tokens cost `price` millionths. They
    /// count in the period in which the turn goes on.
    pub fn charge_tokens(&self, tokens: u64, price: Option<u64>) {
        self.count(tokens, price, true);
    }

    fn count(&self, tokens: u64, price: Option<u64>, more: bool) {
        let mut now = self.lock();
        let cost = u128::from(tokens) * u128::from(price.unwrap_or_default());
        let Spent { tokens: all, spend, .. } = &mut now.spent;
        (*all, *spend) = match more {
            true => (all.saturating_add(tokens), spend.saturating_add(cost)),
            false => (all.saturating_sub(tokens), spend.saturating_sub(cost)),
        };
    }

    /// The remaining tokens at a model of that price; none if there is no limit.
    #[must_use]
    pub fn tokens_left(&self, price: Option<u64>) -> Option<u64> {
        let cost = self.cost.as_ref()?;
        let spent = self.lock().spent;
        let tokens = cost.tokens.map(|most| most.saturating_sub(spent.tokens));
        let affordable = cost.spend.zip(price.filter(|price| *price > 0)).map(|(most, price)| {
            let left = (u128::from(most) * MICROS).saturating_sub(spent.spend);
            u64::try_from(left / u128::from(price)).unwrap_or(u64::MAX)
        });
        [tokens, affordable].into_iter().flatten().min()
    }

    /// The usage in the current period.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.lock().spent
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.now.lock().expect("no holder of a budget panics")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn budget(cost: serde_json::Value) -> CostBudget {
        let contract = json!({ "class": { "latency": "dt", "cost": cost } });
        CostBudget::of(&Contract::from_value(&contract).expect("a contract"))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_used_up_comes_back_with_time() {
        let budget = budget(json!({ "cpu_ms": 100, "per_s": 60 }));
        assert_eq!(budget.check(), Ok(()));
        budget.charge_cpu(99_999_999);
        assert_eq!(budget.check(), Ok(()));
        budget.charge_cpu(1);
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(budget.check(), Err(Exhausted { what: "cpu_ms", most: 100, per_s: 60, again_s: 41 }));
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(budget.check(), Ok(()));
        assert_eq!(budget.spent(), Spent::default());
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_and_money_are_bounded_each() {
        let budget = budget(json!({ "tokens": 1_000, "spend": 300 }));
        assert_eq!(budget.tokens_left(None), Some(1_000));
        // A million tokens for half a currency: 300 millionths buy 600 tokens.
        assert_eq!(budget.tokens_left(Some(500_000)), Some(600));
        budget.reserve(900, Some(500_000)).settle(500);
        assert_eq!(budget.tokens_left(Some(500_000)), Some(100));
        assert_eq!(budget.tokens_left(Some(1)), Some(500));
        assert_eq!(budget.check(), Ok(()));
        drop(budget.reserve(100, Some(500_000)));
        assert_eq!(budget.check().expect_err("spent").what, "spend");
        budget.reserve(400, None).settle(400);
        assert_eq!(budget.check().expect_err("spent").what, "tokens");
    }

    #[tokio::test]
    async fn a_turn_is_stopped_when_it_ran_for_long_enough() {
        let budget = budget(json!({ "cpu_ms": 5 }));
        let spins = async {
            loop {
                std::hint::black_box((0..10_000).sum::<u64>());
                tokio::task::yield_now().await;
            }
        };
        let ended = budget.run(spins).await.expect_err("stopped").to_string();
        assert!(ended.contains("class.cost.cpu_ms"), "{ended}");
        assert!(budget.check().is_err());
    }

    /// Of 50 ms, two turns run 40 and 20, and ask for 60 and 40 of 100 tokens.
    #[tokio::test(start_paused = true)]
    async fn turns_share_what_there_is_for_their_time() {
        let budget = budget(json!({ "cpu_ms": 50, "tokens": 100, "per_s": 60 }));
        let runs = |ms: u64| {
            budget.charge_cpu(ms * 1_000_000);
            std::future::ready(Ok(()))
        };
        assert_eq!(budget.check(), Ok(()));
        let first = budget.run(async { runs(40).await }).await;
        assert_eq!(first, Ok(()));
        budget.reserve(60, None).settle(60);
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(budget.check(), Ok(()), "there is some left for the second");
        assert_eq!(budget.tokens_left(None), Some(40), "the first one's count");
        assert!(budget.spent().cpu_ns >= 40_000_000);
        let second = async {
            runs(20).await?;
            std::future::pending().await
        };
        let stopped = budget.run(second).await.expect_err("both together ran for too long").to_string();
        assert!(stopped.contains("class.cost.cpu_ms"), "{stopped}");
        assert_eq!(budget.check().expect_err("nothing is left for a third").what, "cpu_ms");
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!((budget.check(), budget.tokens_left(None)), (Ok(()), Some(100)), "another time begins");
    }

    #[test]
    fn without_a_word_there_is_no_bound() {
        let budget = CostBudget::default();
        budget.charge_cpu(u64::MAX);
        drop(budget.reserve(u64::MAX, Some(u64::MAX)));
        assert_eq!((budget.check(), budget.tokens_left(Some(1))), (Ok(()), None));
    }
}
