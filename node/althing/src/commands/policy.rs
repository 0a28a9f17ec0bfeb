//! `althing policy`, `who` and `explain`.

use std::path::Path;

use althing_api::{
    ActionQuery, ActionReport, ActionRight, DecisionReport, PolicyCase, PolicyDifference, PolicyDifferences,
    PolicyExplanation, PolicyFinding, PolicyFindings, PolicyNode, PolicyQuestion, PolicyReason, PolicyReport,
    PolicyTest, PolicyTestReport, PolicyText, PolicyVerdict,
};
use althing_operations::governance::NO_PERMIT;
use althing_store::file::read_text;
use serde::Serialize;

use crate::args::{ExplainArgs, PolicyWork};
use crate::commands::agreement::agree;
use crate::commands::{Out, date_time, one_line, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// What the node calls the file of its policies.
const NODE_FILE: &str = "policy.cedar";
/// Bytes of a file of policies, or of cases.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Shows policies, or does something with some.
pub async fn run(at: &Paths, policy: &PolicyWork, out: &Out) -> Result<(), Failure> {
    match policy {
        PolicyWork::Status => {
            let report: PolicyReport = at.connect().await?.read("/policy").await?;
            out.show(&report, in_force);
        }
        PolicyWork::Load { file, yes } => return load(at, file, *yes, out).await,
        PolicyWork::Unload { yes } => return unload(at, *yes, out).await,
        PolicyWork::Lint { file } => {
            let text = PolicyText { text: read(file)? };
            let asked = at.connect().await?.ask("/policy/lint", &text).await;
            let found: PolicyFindings = asked.map_err(|error| in_file(error.into(), file))?;
            out.show(&found, |found| match found.findings.as_slice() {
                [] => format!("{}: nothing to look at", file.display()),
                all => findings(all),
            });
        }
        PolicyWork::Test { file, policy } => return test(at, file, policy.as_deref(), out).await,
        PolicyWork::Explain(args) => {
            let explained: PolicyExplanation = at.connect().await?.ask("/policy/explain", &question(args)?).await?;
            out.show(&explained, explanation);
        }
        PolicyWork::Diff { file } => {
            let text = PolicyText { text: read(file)? };
            let asked = at.connect().await?.ask("/policy/diff", &text).await;
            let turned: PolicyDifferences = asked.map_err(|error| in_file(error.into(), file))?;
            out.show(&turned, differences);
        }
    }
    Ok(())
}

/// Puts a set in force; one that permits nothing once somebody agreed to that.
async fn load(at: &Paths, file: &Path, yes: bool, out: &Out) -> Result<(), Failure> {
    let text = PolicyText { text: read(file)? };
    let client = at.connect().await?;
    let found = client.ask("/policy/lint", &text).await;
    let found: PolicyFindings = found.map_err(|error| in_file(error.into(), file))?;
    if found.findings.iter().any(|finding| finding.what == NO_PERMIT) {
        let shown = format!("{}: {NO_PERMIT}: with this set everything is denied, to the owner too", file.display());
        agree(&found, &shown, yes, "load", out)?;
    }
    let asked = client.ask("/policy", &text).await;
    let report: PolicyReport = asked.map_err(|error| in_file(error.into(), file))?;
    out.show(&report, in_force);
    Ok(())
}

/// Takes the set in force out, once somebody agreed to that.
async fn unload(at: &Paths, yes: bool, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    let report: PolicyReport = client.read("/policy").await?;
    if has_none(&report) {
        out.show(&report, |report| format!("there is nothing to take out: {}", in_force(report)));
        return Ok(());
    }
    let shown =
        format!("{}nothing but contracts and the profiles of tools decides on this node then", in_force(&report));
    agree(&report, &shown, yes, "take out", out)?;
    let report: PolicyReport = client.remove("/policy").await?;
    out.show(&report, in_force);
    Ok(())
}

/// Whether there is no set that could be taken out: also none that cannot be read, and none whose file is gone, of which a finding tells.
fn has_none(report: &PolicyReport) -> bool {
    report.digest.is_none() && !report.broken && report.findings.is_empty()
}

/// What is wrong with a text, with the file that it was read from: the node calls it by the name of its own.
fn in_file(failure: Failure, file: &Path) -> Failure {
    let is_theirs = |line: &str| line.starts_with(NODE_FILE);
    if failure.code != code::USAGE || !failure.message.lines().any(is_theirs) {
        return failure.in_file(file);
    }
    let line = |line: &str| match line.strip_prefix(NODE_FILE) {
        Some(rest) => format!("{}{rest}", file.display()),
        None => line.to_owned(),
    };
    let message = failure.message.lines().map(line).collect::<Vec<_>>().join("\n");
    Failure { message, ..failure }
}

/// Who may do something.
pub async fn who(at: &Paths, action: &str, out: &Out) -> Result<(), Failure> {
    let query = ActionQuery { action: action.to_owned() };
    let report: ActionReport = at.connect().await?.query("/who", &query).await?;
    out.show(&report, |report| {
        if report.agents.is_empty() {
            return "no agent is on this node".to_owned();
        }
        let cells = |ActionRight { agent, accountable, answer, why }: &ActionRight| {
            vec![agent.clone(), answer.clone(), accountable.clone(), why.clone()]
        };
        table(&["agent", "answer", "answers for it", "why"], &report.agents.iter().map(cells).collect::<Vec<_>>())
    });
    Ok(())
}

/// Why something was decided as it was.
pub async fn decision(at: &Paths, decision: u64, out: &Out) -> Result<(), Failure> {
    let path = format!("/decisions/{decision}");
    let report: DecisionReport = at.connect().await?.read(&path).await?;
    out.show(&report, decided);
    Ok(())
}

fn read(file: &Path) -> Result<String, Failure> {
    read_text(file, FILE_BYTES_MAX).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

async fn test(at: &Paths, file: &Path, policy: Option<&Path>, out: &Out) -> Result<(), Failure> {
    let wrong = |error: &serde_json::Error| Failure::usage(format!("{}: it is no JSON: {error}", file.display()));
    let cases = serde_json::from_str(&read(file)?).map_err(|error| wrong(&error))?;
    let request = PolicyTest { policy: policy.map(read).transpose()?, cases };
    let asked = at.connect().await?.ask("/policy/test", &request).await;
    let report: PolicyTestReport = asked.map_err(|error| of_test(error.into(), (file, policy)))?;
    out.show(&report, tested);
    if report.failed == 0 { Ok(()) } else { Err(Failure::shown(code::FAILED)) }
}

/// What is wrong with a test: with the policies that it decides by, or with its cases.
fn of_test(failure: Failure, (cases, policy): (&Path, Option<&Path>)) -> Failure {
    let is_of_policies = failure.message.lines().any(|line| line.starts_with(NODE_FILE));
    match policy {
        Some(policy) if is_of_policies => in_file(failure, policy),
        None if is_of_policies => failure,
        _ => failure.in_file(cases),
    }
}

/// The part of a request that names what it was made with.
#[derive(Serialize)]
struct Context<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a serde_json::value::RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    trusted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    person: Option<&'a str>,
}

/// What is asked; a bare name is an agent, a bare `SERVER/TOOL` a tool.
fn question(args: &ExplainArgs) -> Result<PolicyQuestion, Failure> {
    let ExplainArgs { principal, action, resource, input, label, untrusted, person } = args;
    let named = |text: &str, kind: &str| {
        if text.contains("::") { text.to_owned() } else { format!("{kind}::{text:?}") }
    };
    let wrong = |error: serde_json::Error| Failure::usage(format!("--input: it is no JSON: {error}"));
    let input: Option<Box<serde_json::value::RawValue>> =
        input.as_deref().map(serde_json::from_str).transpose().map_err(wrong)?;
    let context =
        Context { input: input.as_deref(), label: label.as_deref(), trusted: !untrusted, person: person.as_deref() };
    let context = serde_json::to_value(context).map_err(|error| Failure::failed(error.to_string()))?;
    let resource = named(resource, "Tool");
    Ok(PolicyQuestion { principal: named(principal, "Agent"), action: action.clone(), resource, context })
}

fn in_force(report: &PolicyReport) -> String {
    let PolicyReport { digest, policies, loaded_ms, broken, findings: all, nodes } = report;
    let mut lines = match digest {
        Some(digest) => {
            let since = loaded_ms.map(date_time).unwrap_or_default();
            format!("{policies} policies are in force since {since}\ndigest    {digest}\n")
        }
        None if !broken => "no policies are in force: contracts and the profiles of tools decide alone\n".to_owned(),
        None => "the policies cannot be read: what policies would decide about is denied\n".to_owned(),
    };
    lines += &findings(all);
    for PolicyNode { node, digest: there, why } in nodes {
        let what = match (there, why) {
            (_, Some(why)) => format!("not known, or not the same: {why}"),
            (Some(there), None) if Some(there) == digest.as_ref() => "the same".to_owned(),
            (Some(there), None) => format!("another set, {there}"),
            (None, None) => "none".to_owned(),
        };
        lines += &format!("{node}  {what}\n");
    }
    lines
}

fn findings(all: &[PolicyFinding]) -> String {
    let line = |found: &PolicyFinding| {
        let PolicyFinding { line, column, policy, what, remedy } = found;
        let place = line.map(|line| format!("line {line}, column {}: ", column.unwrap_or(1))).unwrap_or_default();
        let of = policy.as_ref().map(|policy| format!("policy {policy}: ")).unwrap_or_default();
        format!("{place}{of}{what}: {remedy}\n")
    };
    all.iter().map(line).collect()
}

fn words(verdict: &PolicyVerdict) -> String {
    let PolicyVerdict { answer, demands, policies, errors } = verdict;
    let mut words = answer.clone();
    for (name, all) in [("asks for", demands), ("by", policies), ("since", errors)] {
        if !all.is_empty() {
            words += &format!("; {name} {}", all.join(", "));
        }
    }
    words
}

fn tested(report: &PolicyTestReport) -> String {
    let line = |case: &PolicyCase| {
        let PolicyCase { name, passed, expected, verdict } = case;
        if *passed {
            format!("ok      {name}\n")
        } else {
            format!("FAILED  {name}: expected {expected}, decided {}\n", words(verdict))
        }
    };
    let lines: String = report.cases.iter().map(line).collect();
    format!("{lines}{} as expected, {} not", report.passed, report.failed)
}

fn explanation(explained: &PolicyExplanation) -> String {
    let reason = |reason: &PolicyReason| {
        let at = reason.line.map(|line| format!(" (line {line})")).unwrap_or_default();
        format!("\npolicy {}{at}\n{}", reason.policy, reason.text)
    };
    let reasons: String = explained.reasons.iter().map(reason).collect();
    let labels = explained.labels.as_ref().map(|labels| {
        let decide = labels.split(':').next() == Some(explained.verdict.answer.as_str());
        if decide { format!("\nlabels say: {labels}") } else { format!("\nlabels would have said: {labels}") }
    });
    format!("{}\n{}{}{reasons}", words(&explained.verdict), explained.rule, labels.unwrap_or_default())
}

fn differences(found: &PolicyDifferences) -> String {
    let mut unread = match found.unread {
        0 => String::new(),
        count => format!("\n{count} decisions could not be looked at: their arguments were too long to be remembered"),
    };
    if found.damaged > 0 {
        unread += &format!(
            "\n{} decisions could not be looked at: what is kept of them is damaged, and they are in the audit log alone",
            found.damaged
        );
    }
    let cells = |one: &PolicyDifference| {
        let becomes = match one.policies.as_slice() {
            [] => one.becomes.clone(),
            by => format!("{} by {}", one.becomes, by.join(", ")),
        };
        vec![one.decision.to_string(), one.principal.clone(), one.resource.clone(), one.was.clone(), becomes]
    };
    let rows: Vec<Vec<String>> = found.turned.iter().map(cells).collect();
    if rows.is_empty() {
        return format!("no decision that is remembered would be another one{unread}");
    }
    let table = table(&["decision", "who", "what", "was", "becomes"], &rows);
    format!("{table}`althing explain DECISION` says why a decision was as it was{unread}")
}

fn decided(report: &DecisionReport) -> String {
    let mut lines = format!("decision  {}, {}\n", report.decision, date_time(report.at_ms));
    let mut line = |name: &str, value: &str| lines.push_str(&format!("{name:9} {}\n", one_line(value)));
    line("who", &report.principal);
    line("what", &format!("{} {}", report.action, report.resource));
    let trusted = if report.label.trusted { "" } else { ", from sources that nobody vouches for" };
    line("data", &format!("{}{trusted}", report.label.level));
    report.person.iter().for_each(|person| line("for", person));
    let by = report.rule.as_ref().map(|rule| format!(" by the rule of {rule}")).unwrap_or_default();
    line("answer", &format!("{}{by}", report.answer));
    if !report.reason.is_empty() {
        line("since", &report.reason);
    }
    report.verdict.iter().for_each(|verdict| line("policies", &words(verdict)));
    report.policy.iter().for_each(|digest| line("set", digest));
    report.labels.iter().for_each(|labels| line("labels", &format!("would have said: {labels}")));
    report.task.iter().for_each(|task| line("task", task));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(answer: &str) -> PolicyVerdict {
        let (demands, policies) = (vec!["consent".to_owned()], vec!["pay".to_owned()]);
        PolicyVerdict { answer: answer.to_owned(), demands, policies, errors: Vec::new() }
    }

    #[test]
    fn a_bare_name_is_an_agent_or_a_tool_and_arguments_are_json() {
        let mut args = ExplainArgs {
            principal: "clerk".to_owned(),
            action: "pay".to_owned(),
            resource: "bank/pay".to_owned(),
            input: Some(r#"{"sum":7}"#.to_owned()),
            label: None,
            untrusted: true,
            person: None,
        };
        let asked = question(&args).expect("it is asked");
        assert_eq!((asked.principal.as_str(), asked.resource.as_str()), (r#"Agent::"clerk""#, r#"Tool::"bank/pay""#));
        assert_eq!(asked.context["trusted"], json!(false));
        assert_eq!(asked.context["input"], json!({ "sum": 7 }));
        args.resource = r#"Host::"example.org""#.to_owned();
        assert_eq!(question(&args).expect("it is asked").resource, r#"Host::"example.org""#);
        args.input = Some("{".to_owned());
        assert!(question(&args).expect_err("no JSON").message.starts_with("--input: "));
    }

    #[test]
    fn what_is_wrong_is_told_of_the_file_that_was_given() {
        let wrong = || Failure::usage("the policies stay as they were:\npolicy.cedar, line 1: it is cut: mend it");
        let (bad, cases) = (Path::new("bad.cedar"), Path::new("cases.json"));
        let told = "the policies stay as they were:\nbad.cedar, line 1: it is cut: mend it";
        assert_eq!(in_file(wrong(), bad).message, told);
        assert_eq!(of_test(wrong(), (cases, Some(bad))).message, told);
        assert_eq!(of_test(wrong(), (cases, None)).message, wrong().message, "it is the set in force");
        let odd = || Failure::usage("case 1: it is no object: write one");
        assert_eq!(of_test(odd(), (cases, Some(bad))).message, "cases.json: case 1: it is no object: write one");
        assert_eq!(in_file(odd(), bad).message, "bad.cedar: case 1: it is no object: write one");
        let failed = Failure::failed("nothing changed, since /n/policy.cedar could not be written: no room");
        assert!(in_file(failed, bad).message.contains("/n/policy.cedar"));
    }

    #[test]
    fn what_labels_say_where_no_policies_are_in_force_is_told_and_whether_it_counts() {
        let (demands, policies, errors) = (Vec::new(), Vec::new(), Vec::new());
        let of = |answer: &str, labels: Option<&str>| PolicyExplanation {
            verdict: PolicyVerdict {
                answer: answer.to_owned(),
                demands: demands.clone(),
                policies: policies.clone(),
                errors: errors.clone(),
            },
            rule: "no policies are in force".to_owned(),
            reasons: Vec::new(),
            labels: labels.map(str::to_owned),
        };
        let told = explanation(&of("permit", Some("deny: the data are restricted")));
        let would = "permit\nno policies are in force\nlabels would have said: deny: the data are restricted";
        assert_eq!(told, would);
        let told = explanation(&of("deny", Some("deny: the data are restricted")));
        assert_eq!(told, "deny\nno policies are in force\nlabels say: deny: the data are restricted");
        assert_eq!(explanation(&of("permit", None)), "permit\nno policies are in force");
    }

    #[test]
    fn which_policies_are_in_force_is_told_and_so_is_that_none_are() {
        let none = PolicyReport {
            digest: None,
            policies: 0,
            loaded_ms: None,
            broken: false,
            findings: Vec::new(),
            nodes: Vec::new(),
        };
        assert!(in_force(&none).starts_with("no policies are in force") && has_none(&none));
        let finding = PolicyFinding {
            line: Some(2),
            column: Some(3),
            policy: Some("pay".to_owned()),
            what: "it can never apply".to_owned(),
            remedy: "look at its conditions".to_owned(),
        };
        let gone = PolicyReport { findings: vec![finding.clone()], ..none.clone() };
        assert!(!has_none(&gone), "to take it out ends the warning");
        let broken = PolicyReport { broken: true, findings: vec![finding], ..none.clone() };
        assert!(!has_none(&broken) && !has_none(&PolicyReport { findings: Vec::new(), ..broken.clone() }));
        let told = "the policies cannot be read: what policies would decide about is denied\nline 2, column 3: policy pay: it \
                    can never apply: look at its conditions\n";
        assert_eq!(in_force(&broken), told);
        let nodes = ["0a", "0b"].map(|digest| PolicyNode {
            node: "did:n".to_owned(),
            digest: Some(digest.to_owned()),
            why: None,
        });
        let loaded_ms = Some(3_661_000);
        let some =
            PolicyReport { digest: Some("0a".to_owned()), policies: 4, loaded_ms, nodes: nodes.to_vec(), ..none };
        let told = "4 policies are in force since 1970-01-01T01:01:01Z\ndigest    0a\ndid:n  the same\ndid:n  another set, 0b\n";
        assert_eq!(in_force(&some), told);
        assert!(!has_none(&some));
    }

    #[test]
    fn cases_that_fail_are_told_with_what_was_decided() {
        let case = |name: &str, passed| PolicyCase {
            name: name.to_owned(),
            passed,
            expected: "permit".to_owned(),
            verdict: verdict("ask"),
        };
        let report = PolicyTestReport { passed: 1, failed: 1, cases: vec![case("a", true), case("b", false)] };
        let told = "ok      a\nFAILED  b: expected permit, decided ask; asks for consent; by pay\n1 as expected, 1 not";
        assert_eq!(tested(&report), told);
    }

    #[test]
    fn what_other_policies_would_turn_is_told_with_what_could_not_be_looked_at() {
        let turned = PolicyDifference {
            decision: 7,
            principal: "a".to_owned(),
            resource: "t".to_owned(),
            was: "permit".to_owned(),
            becomes: "deny".to_owned(),
            policies: vec!["pay".to_owned()],
        };
        let told = differences(&PolicyDifferences { turned: vec![turned], unread: 2, damaged: 0 });
        for words in ["DECISION", "7", "permit", "deny by pay", "2 decisions could not"] {
            assert!(told.contains(words), "{words} in {told}");
        }
        let damaged = differences(&PolicyDifferences { turned: Vec::new(), unread: 0, damaged: 3 });
        assert!(damaged.contains("3 decisions could not") && damaged.contains("damaged"), "{damaged}");
        let none = differences(&PolicyDifferences { turned: Vec::new(), unread: 0, damaged: 0 });
        assert_eq!(none, "no decision that is remembered would be another one");
    }

    #[test]
    fn a_decision_is_told_with_each_rule_that_had_a_say() {
        let report = DecisionReport {
            decision: 7,
            at_ms: 3_661_000,
            principal: "Agent::\"a\"".to_owned(),
            action: "useTool".to_owned(),
            resource: "Tool::\"bank/pay\"".to_owned(),
            label: althing_api::DataReach { level: "internal".to_owned(), trusted: false },
            person: Some("ada".to_owned()),
            answer: "ask".to_owned(),
            rule: Some("policy".to_owned()),
            reason: "it costs money".to_owned(),
            verdict: Some(verdict("ask")),
            policy: None,
            labels: Some("ask".to_owned()),
            task: None,
        };
        let told = decided(&report);
        for words in [
            "decision  7, 1970-01-01T01:01:01Z\n",
            "what      useTool Tool::\"bank/pay\"\n",
            "internal, from sources",
            "answer    ask by the rule of policy\n",
            "since     it costs money\n",
            "policies  ask; asks for consent; by pay\n",
            "labels    would have said: ask\n",
        ] {
            assert!(told.contains(words), "{words} in {told}");
        }
        let told = decided(&DecisionReport { resource: "Tool::\"a\nanswer    permit\"".to_owned(), ..report });
        assert_eq!(told.lines().filter(|line| line.starts_with("answer")).count(), 1, "no name is an answer: {told}");
    }
}
