//! The rules of scenario files beyond their form.

use super::{EventKind, FOR_MAX_MS, NODES_MAX, Scenario};

impl Scenario {
    /// A field whose event would begin after the end, and its time.
    fn too_late(&self) -> Option<(&'static str, u64)> {
        let at = self.at.iter().map(|at| ("at.ms", at.ms));
        let adversaries = self.adversary.iter().map(|adversary| ("adversary.from_ms", adversary.from_ms));
        let churn = self.churn.iter().map(|churn| ("churn.from_ms", churn.from_ms));
        let calls = self.calls.iter().map(|calls| ("calls.from_ms", calls.from_ms));
        let mut all = at.chain(adversaries).chain(churn).chain(calls).chain([("finds.from_ms", self.finds.from_ms)]);
        all.find(|(_, ms)| *ms >= self.for_ms)
    }

    /// Whether something of that kind happens.
    pub(crate) fn has(&self, what: EventKind) -> bool {
        self.at.iter().any(|at| at.what == what)
    }

    /// Why agents cannot ask each other as the scenario says.
    fn asks_invalid(&self) -> Option<String> {
        let (asks, agents) = (self.agents.asks, self.nodes.div_ceil(self.agents.each));
        if asks > 0 && asks * 2 >= agents {
            return Some(format!("is less than half of the {agents} agents, so that nobody is asked by itself"));
        }
        (self.has(EventKind::Ask) && asks == 0).then(|| "is at least 1 where agents ask each other".to_owned())
    }

    /// A field with a value out of range, and the rule that it breaks.
    pub(super) fn invalid(&self) -> Option<(&'static str, String)> {
        let share = |share: f64| (0.0..=1.0).contains(&share);
        if !(2..=NODES_MAX).contains(&self.nodes) {
            return Some(("nodes", format!("is 2 to {NODES_MAX}")));
        }
        if self.for_ms == 0 || self.for_ms > FOR_MAX_MS {
            return Some(("for_ms", format!("is 1 to {FOR_MAX_MS}")));
        }
        if self.seeds.is_empty() {
            return Some(("seeds", "names one at least".to_owned()));
        }
        if !share(self.link.loss) || self.link.loss > 0.9 {
            return Some(("link.loss", "is 0 to 0.9".to_owned()));
        }
        if self.join.through == 0 || self.join.through >= self.nodes {
            return Some(("join.through", "is at least 1, and less than all nodes".to_owned()));
        }
        if self.agents.each == 0 || self.agents.capabilities == 0 || self.agents.owners == 0 {
            return Some(("agents", "has `each`, `capabilities` and `owners` of at least 1".to_owned()));
        }
        if let Some(rule) = self.asks_invalid() {
            return Some(("agents.asks", rule));
        }
        let intervals =
            [self.churn.as_ref().map(|churn| churn.every_ms), self.calls.as_ref().map(|calls| calls.every_ms)];
        if self.finds.every_ms == 0 || intervals.contains(&Some(0)) {
            return Some(("every_ms", "is at least 1".to_owned()));
        }
        if !share(self.finds.share) {
            return Some(("finds.share", "is 0 to 1".to_owned()));
        }
        if !share(self.finds.share_max) || self.finds.share_max < self.finds.share {
            return Some(("finds.share_max", "is 0 to 1, and no less than `finds.share`".to_owned()));
        }
        let nth = |capability: &str| capability.strip_prefix("doing.thing-")?.parse::<u32>().ok();
        if let Some(only) = &self.finds.only
            && nth(only).is_none_or(|number| number >= self.agents.capabilities)
        {
            return Some(("finds.only", format!("is doing.thing-0 to doing.thing-{}", self.agents.capabilities - 1)));
        }
        if self.at.iter().any(|at| !share(at.share)) {
            return Some(("at.share", "is 0 to 1".to_owned()));
        }
        if let Some((field, ms)) = self.too_late() {
            return Some((
                field,
                format!("is less than `for_ms`, {}, and not {ms}: it would never happen", self.for_ms),
            ));
        }
        let known = crate::invariant::names();
        if let Some(unknown) = self.invariants.iter().find(|name| !known.contains(&name.as_str())) {
            return Some(("invariants", format!("has {unknown:?}; there are {}", known.join(", "))));
        }
        if self.adversary.iter().any(|adversary| adversary.networks == 0 || adversary.networks > 200) {
            return Some(("adversary.networks", "is 1 to 200".to_owned()));
        }
        let known = crate::adversary::names();
        if let Some(unknown) = self.adversary.iter().find(|adversary| !known.contains(&adversary.is.as_str())) {
            return Some(("adversary.is", format!("is {:?}; there are {}", unknown.is, known.join(", "))));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "about = \"x\"\nnodes = 2\nfor_ms = 60000\nseeds = [1]\ninvariants = []\njoin.through = 1\n";

    #[test]
    fn an_invalid_scenario_is_refused_with_the_field() {
        assert!(Scenario::parse(SMALL, "x").is_ok());
        for (more, expected) in [
            ("link.loss = 2.0", "link.loss"),
            ("link.latncy_ms = 1", "latncy_ms"),
            ("[[adversary]]\nis = \"poisner\"\ncount = 1", "there are"),
            ("[[at]]\nms = 1\ndo = \"heel\"", "heel"),
            ("agents.each = 0", "agents"),
            ("agents.asks = 1", "agents.asks"),
            ("[[at]]\nms = 1\ndo = \"ask\"", "agents.asks"),
            ("finds.share = 1.1", "finds.share"),
            ("finds.share_max = 0.9", "finds.share_max"),
            ("finds.from_ms = 60000", "finds.from_ms"),
            ("[[at]]\nms = 60001\ndo = \"heal\"", "at.ms"),
            ("finds.only = \"doing.thing-50\"", "doing.thing-49"),
        ] {
            let error = Scenario::parse(&format!("{SMALL}{more}"), "x.toml").expect_err(more).to_string();
            assert!(error.contains(expected) && error.starts_with("x.toml"), "{error}");
        }
        let unknown = SMALL.replace("invariants = []", "invariants = [\"none\"]");
        assert!(Scenario::parse(&unknown, "x").expect_err("unknown").to_string().contains("there are"));
    }
}
