//! Signals: numbers that the agents of a node share, such as sensor readings and actuator setpoints; here as jobs read and write
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use althing_protocol::contract::{Fallback, SignalLimit, Signals as Names};
use serde_json::Number;

use super::fiber::{SIGNALS_MAX, Values};
use crate::signals::Seat;

/// What is counted of a job that put out what breaks its limits.
pub const OUTPUT_OUT_OF_LIMITS: &str = "output-out-of-limits";

/// One signal; reading and writing never wait.
#[derive(Debug, Default)]
pub struct Signal {
    value: AtomicU64,
    /// When it was set, nanoseconds of the machine's clock; 0 for never.
    set_ns: AtomicU64,
}

impl Signal {
    /// Its value.
    #[must_use]
    pub fn get(&self) -> f64 {
        f64::from_bits(self.value.load(Ordering::Acquire))
    }

    /// Sets its value at `now_ns`.
    pub fn set(&self, value: f64, now_ns: u64) {
        self.value.store(value.to_bits(), Ordering::Release);
        self.set_ns.store(now_ns, Ordering::Release);
    }
}

/// A signal as one agent reads it.
#[derive(Debug, Clone)]
pub struct Input {
    /// The signal.
    pub signal: Arc<Signal>,
    /// The age in nanoseconds after which the fallback applies, and its value; none: the last value.
    pub fallback: Option<(u64, Option<f64>)>,
}

impl Input {
    /// The inputs of a contract.
    #[must_use]
    pub fn of(names: &Names, signals: Vec<Arc<Signal>>) -> Vec<Input> {
        let with = |(name, signal)| {
            let fallback = names.fallback.get(name).map(|fallback: &Fallback| {
                let value = fallback.value.as_ref().and_then(serde_json::Number::as_f64);
                (fallback.after_us.saturating_mul(1_000), value)
            });
            Input { signal, fallback }
        };
        names.inputs.iter().zip(signals).map(with).collect()
    }
}

/// The inputs of a job, and whether one of them is a fallback value.
#[must_use]
pub fn read(inputs: &[Input], now_ns: u64) -> (Values, bool) {
    let (mut values, mut fell_back) = ([0.0; SIGNALS_MAX], false);
    for (value, input) in values.iter_mut().zip(inputs) {
        // The time is read before the value, so that a concurrent update can only look older than it is.
        let set_ns = input.signal.set_ns.load(Ordering::Acquire);
        *value = input.signal.get();
        let Some((after_ns, instead)) = input.fallback else { continue };
        if set_ns == 0 || now_ns.saturating_sub(set_ns) > after_ns {
            *value = instead.unwrap_or(*value);
            fell_back = true;
        }
    }
    (values, fell_back)
}

/// What a value of an output is held to.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    min: f64,
    max: f64,
    step: f64,
}

impl Bounds {
    fn of(limit: &SignalLimit) -> Bounds {
        let or = |bound: &Option<Number>, none: f64| bound.as_ref().and_then(Number::as_f64).unwrap_or(none);
        Bounds {
            min: or(&limit.min, f64::NEG_INFINITY),
            max: or(&limit.max, f64::INFINITY),
            step: or(&limit.step, f64::INFINITY),
        }
    }

    /// Whether a value may follow the last one that was shown.
    fn holds(self, value: f64, last: Option<f64>) -> bool {
        value.is_finite()
            && (self.min..=self.max).contains(&value)
            && last.is_none_or(|last| (value - last).abs() <= self.step)
    }
}

/// A signal as the one agent that may writes it.
#[derive(Debug)]
pub struct OutputSignal {
    signal: Arc<Signal>,
    bounds: Option<Bounds>,
    /// Whether the agent has shown a value of it.
    is_shown: AtomicBool,
    /// Whose turn it is to show, where the agent is here in several versions.
    seat: Option<Seat>,
}

impl OutputSignal {
    /// The outputs of a contract.
    #[must_use]
    pub fn of(names: &Names, signals: Vec<Arc<Signal>>) -> Vec<OutputSignal> {
        let with = |(name, signal): (&String, Arc<Signal>)| OutputSignal {
            signal,
            bounds: names.limits.get(name).map(Bounds::of),
            is_shown: AtomicBool::new(false),
            seat: None,
        };
        names.outputs.iter().zip(signals).map(with).collect()
    }

    /// Those of one of the versions of an agent: a step is one from what another version showed, too.
    #[must_use]
    pub fn of_version(names: &Names, signals: Vec<Arc<Signal>>, seat: &Seat) -> Vec<OutputSignal> {
        let mut all = OutputSignal::of(names, signals);
        for output in &mut all {
            let was_shown = !seat.is_held() && output.signal.set_ns.load(Ordering::Acquire) != 0;
            output.is_shown = AtomicBool::new(was_shown);
            output.seat = Some(seat.clone());
        }
        all
    }
}

/// Shows what a job put out, but for what breaks its limits: `values` has in its place what stays, the last value that was shown,
/// or NaN where there is none yet. Gives the places of what broke them, a bit for each. Of a version whose turn it is not, nothing is
/// shown, and all the same is told. Neither waits nor allocates.
pub fn show(outputs: &[OutputSignal], values: &mut Values, now_ns: u64) -> u32 {
    let mut broken = 0;
    // Once for all of them: what one job puts out is shown whole, or not at all.
    let is_shown = outputs.first().and_then(|output| output.seat.as_ref()).is_none_or(Seat::is_held);
    for (place, (output, value)) in outputs.iter().zip(values.iter_mut()).enumerate() {
        if !is_shown && output.signal.set_ns.load(Ordering::Acquire) != 0 {
            // Another version shows it, and this one may have been here before that began to.
            output.is_shown.store(true, Ordering::Relaxed);
        }
        let last = output.is_shown.load(Ordering::Relaxed).then(|| output.signal.get());
        if output.bounds.is_none_or(|bounds| bounds.holds(*value, last)) {
            if is_shown {
                output.signal.set(*value, now_ns);
                output.is_shown.store(true, Ordering::Relaxed);
            }
        } else {
            *value = last.unwrap_or(f64::NAN);
            broken |= 1_u32 << place;
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    // T9 (requirements): what is not there in time is stood in for, and counted.
    #[test]
    fn what_nobody_set_lately_is_stood_in_for() {
        let of = |value: Option<f64>| {
            let value = value.and_then(serde_json::Number::from_f64);
            let fallback = [("advice".to_owned(), Fallback { after_us: 1, value })].into();
            let names = Names { inputs: names(&["advice", "angle"]), fallback, ..Names::default() };
            Input::of(&names, vec![Arc::default(), Arc::default()])
        };
        let (rule, last) = (of(Some(-1.0)), of(None));
        for inputs in [&rule, &last] {
            inputs[1].signal.set(7.0, 1);
        }
        assert_eq!((read(&rule, 500).0[..2].to_vec(), read(&rule, 500).1), (vec![-1.0, 7.0], true), "never set");
        for inputs in [&rule, &last] {
            inputs[0].signal.set(0.4, 1_000);
            assert_eq!((read(inputs, 2_000).0[0], read(inputs, 2_000).1), (0.4, false), "young enough");
        }
        assert_eq!((read(&rule, 2_001).0[0], read(&rule, 2_001).1), (-1.0, true));
        assert_eq!((read(&last, 2_001).0[0], read(&last, 2_001).1), (0.4, true), "the last good one");
    }

    fn outputs(limits: &serde_json::Value) -> Vec<OutputSignal> {
        let limits = serde_json::from_value(limits.clone()).expect("limits");
        let names = Names { outputs: names(&["torque", "free"]), limits, ..Names::default() };
        OutputSignal::of(&names, vec![Arc::default(), Arc::default()])
    }

    /// What is told and shown of one value of the first output, and whether it broke its limits.
    fn shows(outputs: &[OutputSignal], value: f64) -> (f64, f64, bool) {
        let mut values = [0.0; SIGNALS_MAX];
        values[0] = value;
        let broken = show(outputs, &mut values, 1);
        assert!(broken <= 1, "the other one has no limits: {broken:b}");
        (values[0], outputs[0].signal.get(), broken == 1)
    }

    #[test]
    fn what_breaks_its_limits_is_not_shown_and_the_last_good_value_stays() {
        let all = outputs(&serde_json::json!({ "torque": { "min": -10, "max": 10, "step": 2.5 } }));
        let first = shows(&all, 11.0);
        assert!(first.0.is_nan() && first.1 == 0.0 && first.2, "nothing was good yet: {first:?}");
        assert_eq!(shows(&all, 9.0), (9.0, 9.0, false), "the first one is a step from nothing");
        for bad in [10.1, -10.1, 6.4, -9.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -f64::MAX] {
            assert_eq!(shows(&all, bad), (9.0, 9.0, true), "{bad}");
        }
        for good in [10.0, 7.5, 5.0] {
            assert_eq!(shows(&all, good), (good, good, false));
        }
        // Each member alone; one that is not written is no bound, but what is no number is none of any.
        for (limit, good, bad) in [("min", 1e300, 0.0), ("max", -1e300, 2.0), ("step", 1e300, f64::NAN)] {
            let one = outputs(&serde_json::json!({ "torque": { limit: 1 } }));
            assert_eq!(shows(&one, good), (good, good, false), "{limit}");
            assert_eq!(shows(&one, bad), (good, good, true), "{limit}");
        }
    }

    #[test]
    fn one_output_that_breaks_its_limits_keeps_no_other_one_back() {
        let all = outputs(&serde_json::json!({ "torque": { "max": 1 } }));
        let mut values = [0.0; SIGNALS_MAX];
        (values[0], values[1]) = (5.0, 1e9);
        assert_eq!(show(&all, &mut values, 7), 0b01);
        assert_eq!((all[1].signal.get(), values[1], values[2]), (1e9, 1e9, 0.0));
        assert_eq!(all[0].signal.set_ns.load(Ordering::Acquire), 0, "who reads it sees that it grows old");
        let free = outputs(&serde_json::json!({}));
        let mut values = [f64::INFINITY; SIGNALS_MAX];
        assert_eq!((show(&free, &mut values, 7), free[0].signal.get()), (0, f64::INFINITY));
    }
}
