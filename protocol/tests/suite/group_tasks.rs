//! P-110: commands about the tasks of a group, by hand and as vectors.

use althing_protocol::group::{
    Abandon, Assign, Choice, Claim, Command, Complete, ConflictRule, Content, Decline, Define, Depend, Fail, Needs,
    Priority, Reference, Refuse, Steal, Submit, Target, WorkId,
};
use serde_json::{Value, json};

use crate::groups::{batch_by_hand, batch_case};
use crate::support::*;
use crate::vector_cases::Case;
use crate::vector_runner::hex;

// -- by hand

pub fn command_by_hand(number: u64, members: &[Vec<u8>]) -> Vec<u8> {
    array(&[uint(number), array(members)])
}

pub fn id(number: u8) -> Vec<u8> {
    bstr(&[number; 16])
}

fn claim() -> Vec<u8> {
    map(&[(0, id(1)), (1, uint(7))])
}

fn inline(bytes: &[u8]) -> Vec<u8> {
    array(&[uint(0), array(&[bstr(bytes)])])
}

fn reference(media_type: &str) -> Vec<u8> {
    let members = [(0, bstr(&[9; 32])), (1, uint(1 << 30)), (2, tstr(media_type)), (3, bstr(public(NODE).as_bytes()))];
    array(&[uint(1), array(&[map(&members)])])
}

fn target(number: u64, name: &str) -> Vec<u8> {
    array(&[uint(number), array(&[tstr(name)])])
}

pub fn labelled(labels: &[String]) -> Vec<u8> {
    map(&[(0, target(0, "billing.view")), (1, texts(labels))])
}

pub fn texts(texts: &[String]) -> Vec<u8> {
    array(&texts.iter().map(|text| tstr(text)).collect::<Vec<_>>())
}

pub fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

/// A task that states everything.
fn full() -> Vec<(u64, Vec<u8>)> {
    let needs = [
        (0, target(0, "billing.view")),
        (1, texts(&["eu".to_owned()])),
        (2, uint(512)),
        (3, uint(2)),
        (4, uint(1_024)),
        (5, uint(1)),
        (6, uint(1)),
    ];
    vec![
        (0, id(1)),
        (1, bstr(b"invoice 17")),
        (2, map(&needs)),
        (3, inline(b"in")),
        (4, uint(2)),
        (5, uint(NOW_MS + HOUR_MS)),
        (6, uint(3)),
        (7, uint(30_000)),
        (8, array(&[id(2), id(3)])),
        (9, texts(&["ledger".to_owned()])),
    ]
}

/// A task that states nothing that it need not.
fn least() -> Vec<(u64, Vec<u8>)> {
    vec![
        (0, id(1)),
        (2, map(&[(0, target(1, "clerk")), (1, array(&[]))])),
        (3, reference("application/json")),
        (4, uint(0)),
        (6, uint(1)),
        (7, uint(1_000)),
        (8, array(&[])),
        (9, array(&[])),
    ]
}

/// The full task with another value of one member.
fn with(member: u64, value: Vec<u8>) -> Vec<u8> {
    let mut members = full();
    members.iter_mut().find(|(number, _)| *number == member).expect("it states everything").1 = value;
    command_by_hand(10, &[map(&members)])
}

/// The full task by that channel.
fn by_channel(name: &str) -> Vec<u8> {
    let members = [full(), vec![(11, tstr(name))]].concat();
    command_by_hand(10, &[map(&members)])
}

fn said(number: u64, reason: &str) -> Vec<u8> {
    let mut members = vec![(0, claim()), (1, tstr(reason))];
    if number == 17 {
        members.push((2, vec![0xf5]));
    }
    command_by_hand(number, &[map(&members)])
}

fn abandon(reason: &str) -> Vec<u8> {
    command_by_hand(36, &[map(&[(0, id(1)), (1, tstr(reason))])])
}

fn choice(number: u64, resource: &str) -> Vec<u8> {
    command_by_hand(number, &[map(&[(0, tstr(resource)), (1, id(1))])])
}

fn define(resource: &str, rule: u64) -> Vec<u8> {
    command_by_hand(20, &[map(&[(0, tstr(resource)), (1, uint(rule))])])
}

fn complete(result: Vec<u8>) -> Vec<u8> {
    command_by_hand(16, &[map(&[(0, claim()), (1, result)])])
}

// -- vectors

pub fn vectors() -> [Vec<Case>; 4] {
    [good(), at_the_bounds(), bad_tasks(), bad_commands()]
}

fn good() -> Vec<Case> {
    let of = |name: &str, command: Vec<u8>| batch_case(name, &batch_by_hand(&[command]), None);
    let node = bstr(public(NODE).as_bytes());
    let assignment = map(&[(0, id(1)), (1, node.clone()), (2, uint(2))]);
    vec![
        of("submitting a task", command_by_hand(10, &[map(&full())])),
        of("submitting a task that states no more than it must", command_by_hand(10, &[map(&least())])),
        of("submitting a task by a channel", by_channel("web")),
        of("depending on a task", command_by_hand(11, &[map(&[(0, id(1)), (1, id(2))])])),
        of("assigning a task", command_by_hand(12, &[assignment])),
        of("starting a task", command_by_hand(13, &[claim()])),
        of("declining a task", said(14, "busy")),
        of("renewing a lease", command_by_hand(15, &[claim()])),
        of("completing a task", complete(inline(b"out"))),
        of("completing a task by reference", complete(reference("text/plain"))),
        of("failing a task", said(17, "broken")),
        of("stealing a task", command_by_hand(18, &[map(&[(0, id(1)), (1, node)])])),
        of("canceling a task", command_by_hand(19, &[id(1)])),
        of("the rule first", define("ledger", 0)),
        of("the rule vote", define("ledger", 1)),
        of("the rule priority", define("ledger", 2)),
        of("the rule human", define("ledger", 3)),
        of("voting", choice(21, "ledger")),
        of("deciding", choice(22, "ledger")),
        of("a tick", command_by_hand(23, &[])),
        of("refusing a task", said(35, "not for you")),
        of("abandoning a task", abandon("nobody may")),
    ]
}

fn at_the_bounds() -> Vec<Case> {
    let of = |name: &str, command: Vec<u8>| batch_case(name, &batch_by_hand(&[command]), None);
    let ids: Vec<Vec<u8>> = (0..64).map(id).collect();
    vec![
        of("a key of a task of 128 bytes", with(1, bstr(&[7; 128]))),
        of("a capability of 128 bytes", with(2, map(&[(0, target(0, &"c".repeat(128))), (1, array(&[]))]))),
        of("an agent's name of 63 bytes", with(2, map(&[(0, target(1, &"a".repeat(63))), (1, array(&[]))]))),
        of("16 labels", with(2, labelled(&numbers(16)))),
        of("16 attempts", with(6, uint(16))),
        of("a lease of 600,000 ms", with(7, uint(600_000))),
        of("64 dependencies", with(8, array(&ids))),
        of("8 resources", with(9, texts(&numbers(8)))),
        of("a resource of 128 bytes", with(9, texts(&["r".repeat(128)]))),
        of("a channel of 63 characters", by_channel(&"c".repeat(63))),
        of("a reason of 512 bytes", said(17, &"r".repeat(512))),
        of("refusing with a reason of 256 bytes", said(35, &"r".repeat(256))),
        of("abandoning with a reason of 512 bytes", abandon(&"r".repeat(512))),
    ]
}

const SHAPE: Option<&str> = Some("ObjectError::Shape");

fn bad_tasks() -> Vec<Case> {
    let of = |name: &str, command: Vec<u8>| batch_case(name, &batch_by_hand(&[command]), SHAPE);
    let ids: Vec<Vec<u8>> = (0..65).map(id).collect();
    let needs = |target: Vec<u8>| map(&[(0, target), (1, array(&[]))]);
    let twice = ["a".to_owned(), "a".to_owned()];
    let without = |member: u64| {
        let members: Vec<_> = full().into_iter().filter(|(number, _)| *number != member).collect();
        command_by_hand(10, &[map(&members)])
    };
    let mut unknown = full();
    unknown.push((10, uint(0)));
    let class = map(&[(0, target(0, "c")), (1, array(&[])), (6, uint(3))]);
    vec![
        of("an id of a task of 15 bytes", with(0, bstr(&[1; 15]))),
        of("an empty key of a task", with(1, bstr(b""))),
        of("a key of a task of 129 bytes", with(1, bstr(&[7; 129]))),
        of("an empty capability", with(2, needs(target(0, "")))),
        of("a capability of 129 bytes", with(2, needs(target(0, &"c".repeat(129))))),
        of("a task for an agent without a name", with(2, needs(target(1, "")))),
        of("a task for an agent's name of 64 bytes", with(2, needs(target(1, &"a".repeat(64))))),
        of("a target of another kind", with(2, needs(target(2, "c")))),
        of("needs without labels", with(2, map(&[(0, target(0, "c"))]))),
        of("17 labels", with(2, labelled(&numbers(17)))),
        of("a label twice", with(2, labelled(&twice))),
        of("an empty label", with(2, labelled(&[String::new()]))),
        of("a label of 129 bytes", with(2, labelled(&["l".repeat(129)]))),
        of("a latency class that does not exist", with(2, class)),
        of("an input of 65,537 bytes", with(3, inline(&vec![0; 65_537]))),
        of("an input without a media type", with(3, reference(""))),
        of("a media type of 129 bytes", with(3, reference(&"m".repeat(129)))),
        of("a priority that does not exist", with(4, uint(4))),
        of("no attempts", with(6, uint(0))),
        of("17 attempts", with(6, uint(17))),
        of("a lease of 999 ms", with(7, uint(999))),
        of("a lease of 600,001 ms", with(7, uint(600_001))),
        of("65 dependencies", with(8, array(&ids))),
        of("a dependency twice", with(8, array(&[id(2), id(2)]))),
        of("9 resources", with(9, texts(&numbers(9)))),
        of("a resource twice", with(9, texts(&twice))),
        of("a resource without a name", with(9, texts(&[String::new()]))),
        of("a resource of 129 bytes", with(9, texts(&["r".repeat(129)]))),
        of("a channel without a name", by_channel("")),
        of("a channel of 64 characters", by_channel(&"c".repeat(64))),
        of("a channel with an upper-case letter", by_channel("Web")),
        of("a task without an input", without(3)),
        of("a task with a member that this version does not know", command_by_hand(10, &[map(&unknown)])),
    ]
}

fn bad_commands() -> Vec<Case> {
    let of = |name: &str, command: Vec<u8>| batch_case(name, &batch_by_hand(&[command]), SHAPE);
    vec![
        of("declining with a reason of 513 bytes", said(14, &"r".repeat(513))),
        of("failing with a reason of 513 bytes", said(17, &"r".repeat(513))),
        of("refusing with a reason of 257 bytes", said(35, &"r".repeat(257))),
        of("refusing without a token", command_by_hand(35, &[map(&[(0, map(&[(0, id(1))])), (1, tstr("no"))])])),
        of("abandoning with a reason of 513 bytes", abandon(&"r".repeat(513))),
        of("abandoning without a reason", command_by_hand(36, &[map(&[(0, id(1))])])),
        of("a result of 65,537 bytes", complete(inline(&vec![0; 65_537]))),
        of("a result with a media type of 129 bytes", complete(reference(&"m".repeat(129)))),
        of("a rule for a resource without a name", define("", 1)),
        of("a rule for a resource of 129 bytes", define(&"r".repeat(129), 1)),
        of("a rule of a resource that does not exist", define("ledger", 4)),
        of("voting on a resource without a name", choice(21, "")),
        of("deciding on a resource of 129 bytes", choice(22, &"r".repeat(129))),
        of("starting without a token", command_by_hand(13, &[map(&[(0, id(1))])])),
        of("canceling a task whose id has 17 bytes", command_by_hand(19, &[bstr(&[1; 17])])),
        of("a tick with a member too many", command_by_hand(23, &[uint(0)])),
    ]
}

// -- what reads them

fn content(content: &Content) -> Value {
    match content {
        Content::Inline(bytes) => json!({ "inline": hex(bytes) }),
        Content::Reference(Reference { digest, bytes, media_type, holder }) => {
            json!({ "digest": hex(digest), "bytes": bytes, "media_type": media_type, "holder": hex(holder.as_bytes()) })
        }
    }
}

pub fn needs(needs: &Needs) -> Value {
    let (kind, name) = match &needs.target {
        Target::Capability(name) => ("capability", name),
        Target::Agent(name) => ("agent", name),
    };
    json!({ kind: name, "labels": needs.labels, "memory_mib": needs.memory_mib, "cores": needs.cores,
        "disk_mib": needs.disk_mib, "gpus": needs.gpus, "class": needs.class.map(|class| class.name()) })
}

fn ids(ids: &[WorkId]) -> Vec<String> {
    ids.iter().map(WorkId::to_string).collect()
}

pub fn priority(priority: Priority) -> &'static str {
    match priority {
        Priority::Low => "low",
        Priority::Normal => "normal",
        Priority::High => "high",
        Priority::Critical => "critical",
    }
}

fn submission(it: &Submit) -> Value {
    let mut shown = json!({ "command": "submit", "task": it.task.to_string(), "key": it.key.as_ref().map(|key| hex(key)),
        "needs": needs(&it.needs), "input": content(&it.input), "priority": priority(it.priority), "deadline_ms": it.deadline_ms,
        "attempts_max": it.attempts_max, "lease_ms": it.lease_ms, "dependencies": ids(&it.dependencies),
        "resources": it.resources });
    if let Some(label) = it.label {
        shown["label"] = json!(label);
    }
    if let Some(channel) = &it.channel {
        shown["channel"] = json!(channel);
    }
    shown
}

fn claimed(command: &str, claim: &Claim) -> Value {
    json!({ "command": command, "task": claim.task.to_string(), "token": claim.token })
}

fn chosen(command: &str, choice: &Choice) -> Value {
    json!({ "command": command, "resource": choice.resource, "task": choice.task.to_string() })
}

/// A command about tasks, as the vectors show it.
pub fn command(command: &Command) -> Value {
    let and = |mut value: Value, name: &str, member: Value| {
        value[name] = member;
        value
    };
    match command {
        Command::Submit(it) => submission(it),
        Command::Depend(Depend { task, on }) => {
            json!({ "command": "depend", "task": task.to_string(), "on": on.to_string() })
        }
        Command::Assign(Assign { task, member, attempt }) => {
            json!({ "command": "assign", "task": task.to_string(), "member": hex(member.as_bytes()), "attempt": attempt })
        }
        Command::Start(claim) => claimed("start", claim),
        Command::Decline(Decline { claim, reason }) => and(claimed("decline", claim), "reason", json!(reason)),
        Command::Refuse(Refuse { claim, reason }) => and(claimed("refuse", claim), "reason", json!(reason)),
        Command::Abandon(Abandon { task, reason }) => {
            json!({ "command": "abandon", "task": task.to_string(), "reason": reason })
        }
        Command::Renew(claim) => claimed("renew", claim),
        Command::Complete(Complete { claim, result, label, verified }) => {
            let shown = and(claimed("complete", claim), "result", content(result));
            let shown = verified.map_or(shown.clone(), |verified| and(shown, "verified", json!(verified)));
            label.map_or(shown.clone(), |label| and(shown, "label", json!(label)))
        }
        Command::Fail(Fail { claim, reason, retry }) => {
            and(and(claimed("fail", claim), "reason", json!(reason)), "retry", json!(retry))
        }
        Command::Steal(Steal { task, from }) => {
            json!({ "command": "steal", "task": task.to_string(), "from": hex(from.as_bytes()) })
        }
        Command::Cancel(task) => json!({ "command": "cancel", "task": task.to_string() }),
        Command::Define(Define { resource, rule }) => {
            let rule = match rule {
                ConflictRule::First => "first",
                ConflictRule::Vote => "vote",
                ConflictRule::Priority => "priority",
                ConflictRule::Human => "human",
            };
            json!({ "command": "define", "resource": resource, "rule": rule })
        }
        Command::Vote(choice) => chosen("vote", choice),
        Command::Decide(choice) => chosen("decide", choice),
        Command::Tick => json!({ "command": "tick" }),
        workflow => crate::group_workflows::command(workflow),
    }
}
