use super::*;
use crate::SecretKey;
use crate::group::{Author, Batch, Command, GroupId};
use crate::object::{open, sign};

fn key() -> SecretKey {
    SecretKey::from_seed(&[7; 32])
}

fn id(seed: u8) -> WorkId {
    WorkId::from_bytes([seed; 16])
}

fn submit() -> Submit {
    Submit {
        task: id(1),
        key: Some(b"invoice 17".to_vec().into()),
        needs: Needs {
            labels: vec!["eu".to_owned()],
            memory_mib: Some(512),
            cores: Some(2),
            disk_mib: Some(1_024),
            gpus: Some(1),
            class: Some(Latency::Srt),
            ..Needs::of(Target::Capability("billing.view".to_owned()))
        },
        input: Content::Reference(reference()),
        priority: Priority::High,
        deadline_ms: Some(1_000_000),
        attempts_max: 3,
        lease_ms: 30_000,
        dependencies: vec![id(2), id(3)],
        resources: vec!["ledger".to_owned()],
        label: Some(Label::UNLABELLED),
        channel: Some("web".to_owned()),
    }
}

fn reference() -> Reference {
    Reference { digest: [9; 32], bytes: 1 << 30, media_type: "application/json".to_owned(), holder: key().public() }
}

fn batch(commands: Vec<Command>) -> Batch {
    Batch::new(1, Author::Node(key().public()), 1_700_000_000_000, u64::MAX, commands)
}

/// What a receiver reads of commands that were signed.
fn sent(commands: Vec<Command>) -> Result<Vec<Command>, ObjectError> {
    let scope = Batch::scope(GroupId::from_digest([5; 32]));
    let signed = sign(batch(commands), "test", &scope, &key())?;
    open::<Batch>(&signed.bytes, "test", &scope).map(|authored| authored.body.commands)
}

fn refused(change: impl FnOnce(&mut Submit)) {
    let mut changed = submit();
    change(&mut changed);
    assert!(matches!(sent(vec![Command::Submit(Box::new(changed))]), Err(ObjectError::Shape(_))));
}

fn all() -> Vec<Command> {
    let claim = Claim { task: id(1), token: u64::MAX };
    let reason = "r".repeat(WORK_REASON_BYTES_MAX);
    let resource = "ledger".to_owned();
    vec![
        Command::Submit(Box::new(submit())),
        Command::Depend(Depend { task: id(1), on: id(2) }),
        Command::Assign(Assign { task: id(1), member: key().public(), attempt: 16 }),
        Command::Start(claim),
        Command::Decline(Decline { claim, reason: reason.clone() }),
        Command::Renew(claim),
        Command::Complete(Complete { claim, result: Content::Reference(reference()), label: None, verified: None }),
        Command::Fail(Fail { claim, reason, retry: true }),
        Command::Steal(Steal { task: id(1), from: key().public() }),
        Command::Cancel(id(1)),
        Command::Define(Define { resource: resource.clone(), rule: ConflictRule::Vote }),
        Command::Vote(Choice { resource: resource.clone(), task: id(1) }),
        Command::Decide(Choice { resource, task: id(1) }),
        Command::Tick,
    ]
}

#[test]
fn commands_are_read_as_they_were_signed() {
    assert_eq!(sent(all()), Ok(all()));
}

/// Who knows no channels reads what has none, and is sent nothing else.
#[test]
fn a_task_without_a_channel_is_written_as_before_there_were_any() {
    let before = Submit { channel: None, ..submit() };
    let bytes = |submit: &Submit| minicbor::to_vec(submit).expect("it encodes");
    let (without, with) = (bytes(&before), bytes(&submit()));
    // One member less, the last one.
    assert_eq!((without[0], with[0]), (0xab, 0xac));
    assert_eq!(with[1..].to_vec(), [&without[1..], b"\x0b\x63web"].concat());
    let needed = |submit: Submit| Command::Submit(Box::new(submit)).rules();
    assert_eq!((needed(before), needed(submit())), (1, 2));
}

#[test]
fn a_batch_that_is_signed_is_never_too_many_items_for_its_receiver() {
    for command in all() {
        let mut most = 256;
        while sign(batch(vec![command.clone(); most]), "test", "", &key()).is_err() {
            most -= 1;
        }
        assert!(most > 32, "{most} of {command:?}");
        assert_eq!(sent(vec![command; most]).map(|read| read.len()), Ok(most));
    }
}

/// P-110
#[test]
fn a_task_over_a_bound_is_refused() {
    let long = "x".repeat(WORK_NAME_BYTES_MAX + 1);
    refused(|submit| submit.key = Some(Vec::new().into()));
    refused(|submit| submit.key = Some(long.clone().into_bytes().into()));
    refused(|submit| submit.attempts_max = 0);
    refused(|submit| submit.attempts_max = WORK_ATTEMPTS_MAX + 1);
    refused(|submit| submit.lease_ms = WORK_LEASE_MIN_MS - 1);
    refused(|submit| submit.lease_ms = WORK_LEASE_MAX_MS + 1);
    refused(|submit| submit.dependencies = vec![id(2), id(2)]);
    refused(|submit| submit.dependencies = (0..65).map(id).collect());
    refused(|submit| submit.resources = (0..9).map(|number| number.to_string()).collect());
    refused(|submit| submit.resources = vec!["a".to_owned(), "a".to_owned()]);
    refused(|submit| submit.resources = vec![long.clone()]);
    for channel in ["", "Web", "the web", "web/1", &"x".repeat(AGENT_NAME_MAX + 1)] {
        refused(|submit| submit.channel = Some(channel.to_owned()));
    }
    refused(|submit| submit.needs.labels = (0..17).map(|number| number.to_string()).collect());
    refused(|submit| submit.needs.labels = vec![String::new()]);
    refused(|submit| submit.needs.target = Target::Capability(long.clone()));
    refused(|submit| submit.needs.target = Target::Agent("x".repeat(AGENT_NAME_MAX + 1)));
    refused(|submit| submit.input = Content::Inline(vec![0; WORK_CONTENT_BYTES_MAX + 1].into()));
    refused(|submit| submit.input = Content::Reference(Reference { media_type: long.clone(), ..reference() }));
}

/// P-110
#[test]
fn other_commands_over_a_bound_are_refused() {
    let claim = Claim { task: id(1), token: 1 };
    let (long, none) = ("x".repeat(WORK_REASON_BYTES_MAX + 1), String::new());
    let large = Content::Inline(vec![0; WORK_CONTENT_BYTES_MAX + 1].into());
    for command in [
        Command::Decline(Decline { claim, reason: long.clone() }),
        Command::Fail(Fail { claim, reason: long, retry: false }),
        Command::Complete(Complete { claim, result: large, label: None, verified: None }),
        Command::Define(Define { resource: none.clone(), rule: ConflictRule::First }),
        Command::Vote(Choice { resource: none.clone(), task: id(1) }),
        Command::Decide(Choice { resource: none, task: id(1) }),
    ] {
        assert!(matches!(sent(vec![command]), Err(ObjectError::Shape(_))));
    }
}

#[test]
fn an_id_is_printed_as_32_digits_and_read_again() {
    let some = WorkId::from_bytes(*b"\0\x01task\xff\xfe89abcdef");
    assert_eq!(some.to_string(), "00017461736bfffe3839616263646566");
    assert_eq!(some.to_string().parse(), Ok(some));
    for wrong in
        ["", "00017461736bfffe383961626364656", "00017461736BFFFE3839616263646566", "+0017461736bfffe3839616263646566"]
    {
        assert!(wrong.parse::<WorkId>().is_err(), "{wrong}");
    }
}
