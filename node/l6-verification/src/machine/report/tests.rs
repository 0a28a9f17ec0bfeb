use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::machine::cases::{Case, CaseSchema, Expectation, Grade, ToolRule};
use crate::machine::evidence::{self, Criteria};

fn case(targets: &[&str], expectation: &Expectation) -> Case {
    let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
    Case::new("one", &["hello".to_owned()], &targets, expectation).expect("it is a case")
}

fn seen(answer: &str, tools: &[&str]) -> Observation {
    let tools = tools.iter().map(ToString::to_string).collect();
    let agent = Some(("clerk".to_owned(), "did:key:z1#clerk".to_owned()));
    Observation { answer: Some(Ok(answer.to_owned())), agent, tools, ..Observation::default() }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn findings(case: &Case, seen: &Observation) -> Vec<String> {
    match judge(case, Scorer::Includes, seen) {
        Verdict::Fail(findings) => findings.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_right_run_passes_and_each_thing_that_is_wrong_is_a_finding() {
    let expectation = Expectation {
        agent: Some("clerk".to_owned()),
        tools: Some(ToolRule::InOrder(names(&["shop/search", "shop/buy"]))),
        never: names(&["shop/delete"]),
        schema: CaseSchema::new(&json!({ "type": "object", "required": ["total"] })).ok(),
        label: None,
        task: None,
        verdict: None,
    };
    let case = case(&["42"], &expectation);
    let right = seen(r#"{"total": 42}"#, &["shop/search", "shop/look", "shop/buy"]);
    assert_eq!(judge(&case, Scorer::Includes, &right), Verdict::Pass);
    let by_id = Expectation { agent: Some("did:key:z1#clerk".to_owned()), ..Expectation::default() };
    assert_eq!(judge(&super::tests::case(&[], &by_id), Scorer::Includes, &right), Verdict::Pass);
    let wrong = Observation {
        agent: Some(("thief".to_owned(), "x".to_owned())),
        ..seen(r#"{"sum": 7}"#, &["shop/buy", "shop/search", "shop/delete"])
    };
    let told = findings(&case, &wrong);
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(told[0], "found agent \"thief\", wanted \"clerk\"");
    assert!(told[1].contains("is not right (includes): wanted \"42\""), "{told:?}");
    assert_eq!(told[2], "the answer is not as its schema says; the whole breaks /required");
    let tools = "called shop/buy, shop/search, shop/delete, wanted (in_order) shop/search, shop/buy";
    assert_eq!(told[3..], [tools, "called shop/delete, which should never be called"]);
    assert_eq!(findings(&case, &seen("42", &["shop/search", "shop/buy"])).len(), 1, "42 is no object");
    assert!(findings(&case, &seen("42 pounds", &["shop/search", "shop/buy"]))[0].contains("is no JSON"));
    // One reader takes the first sum, another one the second.
    let twice = seen(r#"{"total": 42, "total": 7}"#, &["shop/search", "shop/buy"]);
    assert_eq!(findings(&case, &twice), ["the answer has a schema, and is no JSON that all read alike"]);
}

#[test]
fn no_answer_is_a_failure_and_no_run_is_none() {
    let case = case(&["x"], &Expectation::default());
    let silent = Observation::default();
    assert_eq!(findings(&case, &silent), ["no answer: nothing was said"]);
    let failed = Observation { answer: Some(Err("it was refused".to_owned())), ..Observation::default() };
    assert_eq!(findings(&case, &failed), ["no answer: it was refused"]);
    let (answer, missing) = (None, Some("not on the tape: a/x".to_owned()));
    let broken_off = Observation { answer, missing, ..Observation::default() };
    assert_eq!(findings(&case, &broken_off), ["NOT_ON_TAPE: not on the tape: a/x"]);
    let never = super::tests::case(&["x"], &Expectation { never: names(&["a/x"]), ..Expectation::default() });
    let called = Observation { tools: names(&["a/x"]), ..broken_off.clone() };
    let mut wrong = Pairs::new(false);
    wrong.add(&never, &BTreeSet::new(), [&Verdict::Pass, &judge(&never, Scorer::Includes, &called)]);
    let mut pairs = Pairs::new(false);
    let verdicts = [Verdict::Pass, judge(&case, Scorer::Includes, &broken_off)];
    pairs.add(&case, &BTreeSet::new(), verdicts.each_ref());
    let version = |version: &str| TestedVersion { agent: "clerk".to_owned(), version: version.to_owned() };
    let versions = [version("1.0.0"), version("1.1.0")];
    let report = pairs.report(versions, Scorer::Includes, 1, Criteria::default()).expect("it is sound");
    let wrong = wrong.report(report.versions.clone(), Scorer::Includes, 1, Criteria::default()).expect("it is sound");
    assert!(wrong.gaps.is_empty() && wrong.cases[0].after < 1.0, "what should never be called was: {wrong:?}");
    assert!(report.gaps[0].reason.starts_with("NOT_ON_TAPE: not on the tape: a/x"), "{report:?}");
    assert_eq!(report.verdict(), evidence::Verdict::Undecided { pairs: None }, "it is not known to be worse");
    let denial = Some("somebody must agree".to_owned());
    let denied = Observation { denial: denial.clone(), ..Observation::default() };
    assert_eq!(findings(&case, &denied), ["no answer: nothing was said", "a call was denied: somebody must agree"]);
    let right = Observation { denial, ..seen("x", &[]) };
    assert_eq!(judge(&case, Scorer::Includes, &right), Verdict::Pass, "what was denied is no fault where all is right");
    let unmade = Observation { obstacle: Some("no node".to_owned()), ..Observation::default() };
    assert_eq!(judge(&case, Scorer::Includes, &unmade), Verdict::Undecided("no node".to_owned()));
    let open = super::tests::case(&[], &Expectation::default());
    assert!(matches!(judge(&open, Scorer::Includes, &seen("x", &[])), Verdict::Undecided(_)));
    assert!(matches!(judge(&open, Scorer::Includes, &silent), Verdict::Fail(_)));
}

#[test]
fn tools_are_judged_by_their_rule() {
    let (x, y) = ("a/x", "a/y");
    let rules =
        [ToolRule::Exact(names(&[x, y])), ToolRule::InOrder(names(&[x, y])), ToolRule::AnyOrder(names(&[x, y]))];
    let table: [(&[&str], [bool; 3]); 5] = [
        (&[x, y], [true, true, true]),
        (&[x, "a/z", y, y], [false, true, true]),
        (&[y, x], [false, false, true]),
        (&[x], [false, false, false]),
        (&[], [false, false, false]),
    ];
    for (calls, holds) in table {
        let calls = names(calls);
        assert_eq!(rules.clone().map(|rule| rule.holds(&calls)), holds, "{calls:?}");
    }
    assert!(!ToolRule::AnyOrder(names(&[x, x])).holds(&names(&[x, y])), "as often as it is named");
    assert!(ToolRule::Exact(Vec::new()).holds(&[]) && !ToolRule::Exact(Vec::new()).holds(&names(&[x])));
}

fn report(verdicts: &[&[Verdict]]) -> Report {
    let run = |verdict: &Verdict| CaseRun {
        verdict: verdict.clone(),
        agent: Some("clerk".to_owned()),
        tools: names(&["a/x"]),
        denied: Vec::new(),
        judges: vec![JudgeWord { judge: "agents/judge".to_owned(), passed: Some(true) }],
        figures: RunFigures { duration_ms: 500, first_token_ms: Some(20), tokens: Some(50), cost: Some(7) },
    };
    let cases = verdicts.iter().zip(1..).map(|(runs, number): (_, u32)| CaseReport {
        id: format!("case {number}"),
        grade: None,
        runs: runs.iter().map(run).collect(),
    });
    Report {
        agent: "clerk".to_owned(),
        version: Some("1.0.0".to_owned()),
        scorer: Scorer::Includes,
        k: 2,
        cases: cases.collect(),
        pass_hat_interval: None,
        pass_at_interval: None,
        floor: None,
        agreements: Vec::new(),
        is_elsewhere: false,
    }
}

#[test]
fn a_case_whose_answer_is_bad_passes_where_a_gate_refused_it_and_nowhere_else() {
    let bad = case(&[], &Expectation { verdict: Some(Grade::Fail), ..Expectation::default() });
    let refused =
        Observation { answer: Some(Err("GATE_REFUSED".to_owned())), is_refused: true, ..Observation::default() };
    assert_eq!(judge(&bad, Scorer::Includes, &refused), Verdict::Pass);
    assert_eq!(judge(&bad, Scorer::Includes, &seen("hi", &[])), Verdict::Fail(vec![Finding::Unrefused]));
    let good = case(&[], &Expectation { verdict: Some(Grade::Pass), ..Expectation::default() });
    assert_eq!(judge(&good, Scorer::Includes, &seen("hi", &[])), Verdict::Pass);
    assert!(matches!(judge(&good, Scorer::Includes, &refused), Verdict::Fail(_)));
}

#[test]
fn where_a_gate_could_not_judge_a_bad_answer_nothing_is_known_of_the_gates() {
    let bad = case(&[], &Expectation { verdict: Some(Grade::Fail), ..Expectation::default() });
    let refused = || Observation { answer: Some(Err("GATE_REFUSED".to_owned())), ..Observation::default() };
    let said = |passed| vec![JudgeWord { judge: "agents/judge".to_owned(), passed }];
    let down = Observation { unjudged: Some("lint/run".to_owned()), ..refused() };
    let why = "the gate lint/run could not judge the answer".to_owned();
    assert_eq!(judge(&bad, Scorer::Includes, &down), Verdict::Undecided(why.clone()));
    let denied = Observation { denial: Some("agents is not named as a test server".to_owned()), ..down.clone() };
    let told = format!("{why}: a call was denied: agents is not named as a test server");
    assert_eq!(judge(&bad, Scorer::Includes, &denied), Verdict::Undecided(told));
    // Its judge said nothing of the answer, whatever became of the next one.
    let why = Verdict::Undecided("the gate agents/judge could not judge the answer".to_owned());
    for is_refused in [true, false] {
        let silent = Observation { is_refused, judges: said(None), ..refused() };
        assert_eq!(judge(&bad, Scorer::Includes, &silent), why);
    }
    let stern = Observation { is_refused: true, judges: said(Some(false)), ..refused() };
    assert_eq!(judge(&bad, Scorer::Includes, &stern), Verdict::Pass);
    let mild = Observation { judges: said(Some(true)), ..seen("hi", &[]) };
    assert_eq!(judge(&bad, Scorer::Includes, &mild), Verdict::Fail(vec![Finding::Unrefused]));
    // What else is wrong is wrong all the same.
    let (never, tools) = (names(&["a/x"]), names(&["a/x"]));
    let never = case(&[], &Expectation { verdict: Some(Grade::Fail), never, ..Expectation::default() });
    let called = Observation { tools, ..down };
    assert_eq!(judge(&never, Scorer::Includes, &called), Verdict::Fail(vec![Finding::Forbidden("a/x".to_owned())]));
}

#[test]
fn the_agreement_of_a_judge_stands_beside_its_word() {
    let mut one = report(&[&[Verdict::Pass]]);
    let unknown = one.table();
    assert!(unknown.contains("  agents/judge says passed (its agreement is not measured)\n"), "{unknown}");
    one.cases[0].grade = Some(Grade::Fail);
    one.agreements = agreements(&one.cases, 0.05);
    let known = one.table();
    assert!(known.contains("  agents/judge says passed, wanted fail (agreed in 0 of 1 labelled runs, "), "{known}");
    let last = known.lines().last().unwrap_or_default();
    assert!(last.starts_with("agents/judge agreed in 0 of 1 labelled runs, 0.000 (0.000 to "), "{last}");
    let xml = one.junit().expect("it is written");
    assert!(xml.contains("agreed in 0 of 1"), "{xml}");
}

#[test]
fn a_report_says_that_the_agent_runs_on_another_node() {
    let here = report(&[&[Verdict::Pass]]);
    let there = Report { is_elsewhere: true, ..here.clone() };
    assert!(!here.table().contains("another node") && there.table().contains("effects there are not seen here"));
    let xml = |report: &Report| report.junit().expect("it is written");
    assert!(!xml(&here).contains("elsewhere") && xml(&there).contains(r#"name="elsewhere" value="true""#));
}

#[test]
fn what_is_not_known_of_an_agent_of_another_node_is_no_figure_and_no_version() {
    let mut there = Report { is_elsewhere: true, version: None, ..report(&[&[Verdict::Pass]]) };
    let run = &mut there.cases[0].runs[0];
    (run.tools, run.judges) = (Vec::new(), Vec::new());
    run.figures = RunFigures { duration_ms: 500, ..RunFigures::default() };
    let (table, xml) = (there.table(), there.junit().expect("it is written"));
    let cells: Vec<&str> = table.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(cells, ["case", "1", "pass", "1/1", "500", "ms", "-", "-", "-", "-"], "{table}");
    assert!(table.contains("\nclerk: pass; "), "{table}");
    assert!(xml.contains("tools not known; tokens not known, in a second not known;"), "{xml}");
    assert!(!xml.contains(r#"name="version""#), "{xml}");
}

#[test]
fn what_the_test_denied_is_not_told_as_called() {
    let mut one = report(&[&[Verdict::Pass]]);
    let run = &mut one.cases[0].runs[0];
    (run.tools, run.denied) = (names(&["shop/buy", "shop/search", "shop/buy"]), names(&["shop/buy"]));
    assert_eq!(run.called(), ["shop/search", "shop/buy"]);
    (run.tools, run.denied) = (names(&["shop/search", "shop/buy"]), names(&["shop/buy"]));
    assert!(one.table().contains("  called shop/search; denied shop/buy\n"), "{}", one.table());
    let xml = one.junit().expect("it is written");
    assert!(xml.contains("tools shop/search; denied shop/buy; tokens"), "{xml}");
    one.cases[0].runs[0].tools = names(&["shop/buy"]);
    assert!(one.table().contains("  denied shop/buy\n"), "{}", one.table());
    let xml = one.junit().expect("it is written");
    assert!(xml.contains("tools none; denied shop/buy; tokens"), "{xml}");
}

fn fail() -> Verdict {
    Verdict::Fail(vec![Finding::Forbidden("a/<x>".to_owned())])
}

fn undecided() -> Verdict {
    Verdict::Undecided("no node".to_owned())
}

#[test]
fn undecided_is_never_a_pass() {
    let outcome = |verdicts: &[&[Verdict]]| report(verdicts).outcome();
    assert_eq!(outcome(&[&[Verdict::Pass, Verdict::Pass]]), Outcome::Pass);
    assert_eq!(outcome(&[&[Verdict::Pass], &[Verdict::Pass, undecided()]]), Outcome::Undecided);
    assert_eq!(outcome(&[&[Verdict::Pass, fail()], &[undecided()]]), Outcome::Fail);
    assert_eq!(outcome(&[]), Outcome::Undecided, "there are no cases");
    assert_eq!(outcome(&[&[]]), Outcome::Undecided, "there are no runs");
}

#[test]
fn a_floor_is_passed_only_beyond_chance() {
    let with = |low: f64, high: f64| {
        let mut report = report(&[&[Verdict::Pass, Verdict::Pass], &[Verdict::Pass, fail()]]);
        report.floor = Some(Floor { share: 0.5 });
        report.pass_hat_interval = Some(Interval { low, high });
        report
    };
    assert_eq!(with(0.6, 0.9).outcome(), Outcome::Pass);
    assert_eq!(with(0.4, 0.9).outcome(), Outcome::Undecided);
    assert_eq!(with(0.1, 0.4).outcome(), Outcome::Fail);
    assert_eq!(Report { pass_hat_interval: None, ..with(0.6, 0.9) }.outcome(), Outcome::Undecided);
    let mut unknown = with(0.6, 0.9);
    unknown.cases[0].runs[0].verdict = undecided();
    assert_eq!((unknown.outcome(), unknown.pass_hat()), (Outcome::Undecided, None));
    let known = with(0.6, 0.9);
    assert_eq!((known.pass_hat(), known.pass_at()), (Some(0.5), Some(1.0)));
}

#[test]
fn the_columns_of_a_table_stand_below_their_names_however_long_the_names_of_cases_are() {
    let mut report = report(&[&[Verdict::Pass], &[Verdict::Pass]]);
    report.cases[0].id = "01a22ad3-944a-7fc2-9c04-633ea460e319".to_owned();
    let table = report.table();
    let lines: Vec<&str> = table.lines().collect();
    let column = lines[0].find("VERDICT");
    let rows = lines.iter().filter(|line| line.contains("1/1"));
    let verdicts: Vec<Option<usize>> = rows.map(|line| line.find("pass")).collect();
    assert_eq!(verdicts, [column, column], "{table}");
}

#[test]
fn a_report_is_a_table_and_xml() {
    let report = report(&[&[Verdict::Pass, Verdict::Pass], &[Verdict::Pass, fail()], &[undecided()]]);
    let table = report.table();
    assert!(table.contains("case 2") && table.contains("1/2"), "{table}");
    assert!(table.contains("  called a/<x>, which should never be called\n"), "{table}");
    assert!(table.ends_with("clerk 1.0.0: fail; pass^2 not known, pass@2 not known\n"), "{table}");
    assert_eq!(report.cases[0].runs[0].figures.tokens_per_second(), Some(100.0));
    let cells: Vec<&str> = table.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(cells, ["case", "1", "pass", "2/2", "500", "ms", "20", "ms", "50", "100", "7"], "{table}");
    assert!(table.contains("  called a/x\n") && !table.contains("found"), "{table}");
    let mut other = report.clone();
    other.cases[0].runs[0].agent = Some("shop".to_owned());
    other.cases[0].runs[0].figures = RunFigures::default();
    let told = other.table();
    assert!(told.contains("  found shop; called a/x\n  called a/x\n"), "{told}");
    let cells: Vec<&str> = told.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(cells, ["case", "1", "pass", "2/2", "250", "ms", "20", "ms", "50", "100", "-"], "{told}");
    let xml = report.junit().expect("it is written");
    assert!(xml.contains(r#"<testsuite name="clerk" tests="3" skipped="0" errors="1" failures="1">"#), "{xml}");
    assert!(xml.contains("run 2: called a/&lt;x&gt;"), "{xml}");
    let line = "run 1: agent clerk; tools a/x; tokens 50, in a second 100.0; first token after 20 ms; cost 7";
    assert!(xml.contains(line), "{xml}");
}
