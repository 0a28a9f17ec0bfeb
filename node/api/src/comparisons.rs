//! Two agents, or two versions of one, that run the same cases.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trials::LiveTest;

/// Compares two versions on the cases of a file: what `POST /comparisons` is sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComparisonRequest {
    /// The older version, an agent of this node: its name, `NAME@VERSION`, or its id.
    pub before: String,
    /// The newer one, of which it is told whether it is worse.
    pub after: String,
    /// The cases: a line of JSON for each, in the form of Inspect's samples.
    pub cases: String,
    /// How often each case is run by both [default: 1]; from a tape, once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// The loss that is accepted, of the share of passes or of the mean score, from 0 to below 1 [default: 0.05].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// Of what draws are made where scores are compared: the same seed, the same figures [default: 0].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Keys of the cases' `metadata` whose values make slices, each of which is compared by itself too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<String>,
    /// Whether scores are compared, the shares of what each case names that is right, in place of passes.
    #[serde(default)]
    pub scores: bool,
    /// How texts are compared: `includes` (the default), `match`, `match:begin`, `match:any` or `match:exact`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scorer: Option<String>,
    /// Asks models and tools for real; without it, tapes answer and nothing outside is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveTest>,
}

/// What is known of the newer version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ComparisonVerdict {
    /// Chance does not explain that it is right more often.
    Better,
    /// It loses less than the margin, if anything.
    NoWorse,
    /// It loses, and chance does not explain that; or it does in one of the slices.
    Worse,
    /// Nothing of this can be said, which is not a pass.
    Undecided,
}

/// What came of a comparison: what `POST /comparisons` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonReply {
    /// For programs.
    pub report: ComparisonReport,
    /// For people.
    pub table: String,
}

/// A report of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparisonReport {
    /// The older version.
    pub before: TestedVersion,
    /// The newer one.
    pub after: TestedVersion,
    /// How texts were compared.
    pub scorer: String,
    /// How often each case was run by both.
    pub runs: u32,
    /// The loss that is accepted.
    pub margin: f64,
    /// How often chance alone may decide wrongly, in all pairs as one; slices share as much among them.
    pub alpha: f64,
    /// Of what draws were made.
    pub seed: u64,
    /// What is said of all of it.
    pub verdict: ComparisonVerdict,
    /// So many pairs in all, or cases where scores are compared, decide four times of five, if things are as they look; none where
    /// it is decided, or no number within reach decides it.
    pub needed: Option<u64>,
    /// All pairs as one; none if there is no pair.
    pub whole: Option<PairFigures>,
    /// Those of each slice, `KEY=VALUE`.
    pub slices: BTreeMap<String, PairFigures>,
    /// The slices that decided the verdict against what all pairs as one say.
    pub against: Vec<String>,
    /// The cases that have pairs, in the order of their file.
    pub cases: Vec<CasePair>,
    /// The runs that are no pair: one of both was not made, or cannot be judged.
    pub gaps: Vec<PairGap>,
}

/// One of two versions that were compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestedVersion {
    /// The name of the agent.
    pub agent: String,
    /// As its file says it (semver 2.0.0).
    pub version: String,
}

/// What some pairs of runs say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairFigures {
    /// Runs of both versions.
    pub pairs: u64,
    /// Cases that these are of.
    pub cases: u64,
    /// Pairs of which the older version was right, and the newer one is not; of scores, that scored higher before.
    pub broken: u64,
    /// Pairs the other way round.
    pub mended: u64,
    /// How much the share of passes, or the mean score, rose: from -1 to 1.
    pub difference: f64,
    /// Between which numbers that lies.
    pub interval: (f64, f64),
    /// The probability of pairs that are as uneven between versions that are equally good (McNemar's test); none of scores.
    pub p: Option<f64>,
    /// What that comes to.
    pub verdict: ComparisonVerdict,
    /// As of the report, for these pairs alone.
    pub needed: Option<u64>,
}

/// A case in all its pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CasePair {
    /// The case, by its name or the number of its line.
    pub id: String,
    /// The mean score of the older version, from 0 to 1; of passes, their share.
    pub before: f64,
    /// That of the newer one.
    pub after: f64,
}

/// A run of a case that is no pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairGap {
    /// The case, by its id in the file.
    pub case: String,
    /// Why.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_comparison_is_ordered() {
        let (before, after, cases) = ("clerk@1.0.0".to_owned(), "clerk@1.1.0".to_owned(), "{}".to_owned());
        let order = ComparisonRequest { before, after, cases, ..ComparisonRequest::default() };
        assert_json(&order, r#"{"before":"clerk@1.0.0","after":"clerk@1.1.0","cases":"{}","scores":false}"#);
        let slices = vec!["lang".to_owned()];
        let order = ComparisonRequest { runs: Some(3), margin: Some(0.5), seed: Some(7), slices, ..order };
        assert_json(
            &order,
            concat!(
                r#"{"before":"clerk@1.0.0","after":"clerk@1.1.0","cases":"{}","runs":3,"margin":0.5,"seed":7,"#,
                r#""slices":["lang"],"scores":false}"#,
            ),
        );
    }

    #[test]
    fn a_comparison_is_told() {
        let figures = PairFigures {
            pairs: 4,
            cases: 2,
            broken: 1,
            mended: 0,
            difference: -0.25,
            interval: (-0.5, 0.5),
            p: Some(1.0),
            verdict: ComparisonVerdict::Undecided,
            needed: Some(90),
        };
        let version = |version: &str| TestedVersion { agent: "clerk".to_owned(), version: version.to_owned() };
        let report = ComparisonReport {
            before: version("1.0.0"),
            after: version("1.1.0"),
            scorer: "includes".to_owned(),
            runs: 2,
            margin: 0.5,
            alpha: 0.25,
            seed: 0,
            verdict: ComparisonVerdict::NoWorse,
            needed: None,
            whole: None,
            slices: BTreeMap::from([("lang=fi".to_owned(), figures)]),
            against: vec!["lang=fi".to_owned()],
            cases: vec![CasePair { id: "1".to_owned(), before: 1.0, after: 0.5 }],
            gaps: vec![PairGap { case: "2".to_owned(), reason: "why".to_owned() }],
        };
        assert_json(
            &ComparisonReply { report, table: "t".to_owned() },
            concat!(
                r#"{"report":{"before":{"agent":"clerk","version":"1.0.0"},"after":{"agent":"clerk","version":"1.1.0"},"#,
                r#""scorer":"includes","runs":2,"margin":0.5,"alpha":0.25,"seed":0,"verdict":"noWorse","needed":null,"#,
                r#""whole":null,"slices":{"lang=fi":{"pairs":4,"cases":2,"broken":1,"mended":0,"difference":-0.25,"#,
                r#""interval":[-0.5,0.5],"p":1.0,"verdict":"undecided","needed":90}},"against":["lang=fi"],"#,
                r#""cases":[{"id":"1","before":1.0,"after":0.5}],"gaps":[{"case":"2","reason":"why"}]},"table":"t"}"#,
            ),
        );
        assert_json(&[ComparisonVerdict::Better, ComparisonVerdict::Worse], r#"["better","worse"]"#);
    }
}
