use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::object::{self, ApprovalError, AuditEntry, Authored, Handoff, Regulation, SignOff};
use althing_protocol::{AgentId, Label, PublicKey, PublisherId, SecretKey, sign_off};
use proptest::prelude::*;

use super::*;

const NETWORK: &str = "testnet";
const NOW_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;
const ID: HandoffId = [0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0xaa];
const OTHER_ID: HandoffId = [0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0xbb];
/// What `ssh-keygen -Y sign` made with the key of seed 9 for [`restricted`], the role "owner", 12 hours.
const SIGN_OFF: &str = "-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg/RckOFqgx1tk+3jNYC+h2ZH96/
drE8WO1wLqyDXp9hgAAAAPYWx0aGluZy1oYW5kb2ZmAAAAAAAAAAZzaGE1MTIAAABTAAAA
C3NzaC1lZDI1NTE5AAAAQJSCOcSYyH/Yh66Wa/H8E9FuiEoa44Rrf519o5BtpY2bFluWZT
ip6HAcgAxhwv0Im3dLHeL8IXrDt14DwMQ3WQM=
-----END SSH SIGNATURE-----
";

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

fn agent(name: &str) -> AgentId {
    AgentId::new(PublisherId::from_digest([1; 32]), name).expect("a name")
}

fn body(id: HandoffId) -> Handoff {
    let agents = (agent("echo"), agent("auditor"));
    let mut body = Handoff::new(id, "t", agents, NOW_MS, NOW_MS + 12 * HOUR_MS);
    body.context.task_description = "Go on.".to_owned();
    body.context.tools_required = vec!["calc/add".to_owned()];
    body.context.constraints.deadline_ms = Some(NOW_MS + HOUR_MS);
    body.quality_checklist = vec!["It is done.".to_owned()];
    body
}

fn signed(body: Handoff) -> Authored<Handoff> {
    object::sign(body, NETWORK, "", &key(1)).expect("a good shape")
}

fn changed(change: impl FnOnce(&mut Handoff)) -> Authored<Handoff> {
    let mut body = body(ID);
    change(&mut body);
    signed(body)
}

fn restricted(sign_offs: Vec<SignOff>) -> Authored<Handoff> {
    changed(|body| {
        body.regulation = Some(Regulation {
            classification: DataLabel::Restricted,
            region: Some("eu".to_owned()),
            regulation_refs: vec!["R".to_owned()],
            audit: vec![AuditEntry { event: "e".to_owned(), digest: [0; 32] }],
            sign_offs,
        });
    })
}

fn by_owner() -> SignOff {
    let signature = sign_off::unarmor(SIGN_OFF).expect("a signature");
    SignOff { role: "owner".to_owned(), until_ms: NOW_MS + 12 * HOUR_MS, signature }
}

/// What the terms borrow.
struct Host {
    agent: AgentId,
    tools: BTreeSet<String>,
    signers: BTreeSet<PublicKey>,
}

impl Host {
    fn new() -> Host {
        let tools = ["calc/add".to_owned(), "calc/sub".to_owned()].into();
        Host { agent: agent("auditor"), tools, signers: [key(9).public()].into() }
    }

    fn terms(&self, now_ms: u64) -> Terms<'_> {
        Terms {
            now_ms,
            network: NETWORK,
            agent: &self.agent,
            signer: key(1).public(),
            acquaintance: Acquaintance::Known,
            label: None,
            clearance: DataLabel::Restricted,
            tools: &self.tools,
            tokens_max: None,
            is_capable: true,
            duration_ms: 0,
            room: Room::Free,
            signers: &self.signers,
        }
    }
}

/// The first answer to an offer on terms that are changed.
fn first(offer: &Authored<Handoff>, change: impl FnOnce(&mut Terms<'_>)) -> Answer {
    let host = Host::new();
    let mut terms = host.terms(NOW_MS);
    change(&mut terms);
    Recipient::default().offer(&offer.bytes, "task-1", &terms)
}

fn accepted(acceptance: u64, now_ms: u64) -> Answer {
    Answer::Accepted { task: "task-1".to_owned(), acceptance, until_ms: now_ms + COMMIT_WITHIN_MS }
}

#[test]
fn good_work_is_accepted_and_begins_when_it_is_committed() {
    let (host, offer) = (Host::new(), signed(body(ID)));
    let mut recipient = Recipient::default();
    assert_eq!(recipient.offer(&offer.bytes, "task-1", &host.terms(NOW_MS)), accepted(1, NOW_MS));
    let written = recipient.entry(&ID).expect("it is to be written down").clone();
    // Again, with another id for its task: the same task, and no longer than before.
    assert_eq!(recipient.offer(&offer.bytes, "task-2", &host.terms(NOW_MS + 5)), accepted(1, NOW_MS));
    // Also after the recipient started again.
    let mut recipient = Recipient::of([(ID, written)].into());
    assert_eq!(recipient.offer(&offer.bytes, "task-3", &host.terms(NOW_MS + 9)), accepted(1, NOW_MS));
    let mut commit = |acceptance, now_ms| recipient.commit(&ID, &offer.digest(), acceptance, now_ms);
    assert_eq!(commit(2, NOW_MS + 10), Err(CommitError::TooLate), "of another acceptance");
    assert_eq!(commit(1, NOW_MS + 60_000), Ok(Commit::Begin("task-1".to_owned())), "in its last millisecond");
    assert_eq!(commit(1, NOW_MS + 90_000), Ok(Commit::Began("task-1".to_owned())), "it begins once");
    assert_eq!(recipient.commit(&ID, &[0; 32], 1, NOW_MS), Err(CommitError::NotAccepted), "another document");
    assert_eq!(recipient.commit(&OTHER_ID, &offer.digest(), 1, NOW_MS), Err(CommitError::NotAccepted));
    recipient.end(&ID);
    let done = Answer::AlreadyDone { task: "task-1".to_owned() };
    assert_eq!(recipient.offer(&offer.bytes, "task-4", &host.terms(NOW_MS + HOUR_MS)), done);
}

#[test]
fn what_is_not_committed_within_a_minute_is_accepted_anew_with_its_task() {
    let (host, offer) = (Host::new(), signed(body(ID)));
    let mut recipient = Recipient::default();
    assert_eq!(recipient.offer(&offer.bytes, "task-1", &host.terms(NOW_MS)), accepted(1, NOW_MS));
    let later = NOW_MS + 60_001;
    assert_eq!(recipient.commit(&ID, &offer.digest(), 1, later), Err(CommitError::TooLate));
    assert_eq!(recipient.offer(&offer.bytes, "task-2", &host.terms(later)), accepted(2, later));
    assert_eq!(recipient.commit(&ID, &offer.digest(), 1, later), Err(CommitError::TooLate), "a commit that was late");
    assert_eq!(recipient.commit(&ID, &offer.digest(), 2, later), Ok(Commit::Begin("task-1".to_owned())));
}

#[test]
fn each_reason_to_refuse_is_told() {
    let good = signed(body(ID));
    let rejected = |answer: Answer| match answer {
        Answer::Rejected(why) => why,
        other => panic!("not refused: {other:?}"),
    };
    let of = |offer: &Authored<Handoff>| rejected(first(offer, |_| {}));
    let on = |change: fn(&mut Terms<'_>)| rejected(first(&good, change));

    let tools = changed(|it| it.context.tools_required = vec!["calc/add".to_owned(), "mail/send".to_owned()]);
    assert_eq!(of(&tools), Rejection::MissingTools(vec!["mail/send".to_owned()]));
    let tokens = u64::try_from(good.bytes.len()).expect("few").div_ceil(3);
    let overflow = Rejection::ContextOverflow { tokens, most: 10 };
    assert_eq!(on(|terms| terms.tokens_max = Some(10)), overflow);
    assert_eq!(on(|terms| terms.is_capable = false), Rejection::NotCapable);
    let elsewhere = changed(|it| it.recipient = agent("other"));
    assert_eq!(of(&elsewhere), Rejection::NotCapable, "it is for another agent");
    assert_eq!(on(|terms| terms.duration_ms = HOUR_MS + 7), Rejection::Deadline { late_ms: 7 });
    assert_eq!(on(|terms| terms.room = Room::After(HOUR_MS + 1)), Rejection::Deadline { late_ms: 1 });
    assert_eq!(on(|terms| terms.now_ms = NOW_MS + 12 * HOUR_MS + 3), Rejection::Deadline { late_ms: 3 });
    assert_eq!(on(|terms| terms.room = Room::Full), Rejection::Busy);
    let label = changed(|it| it.label = Some(Label { level: DataLabel::Internal, trusted: true }));
    let public_only = rejected(first(&label, |terms| terms.clearance = DataLabel::Public));
    assert_eq!(public_only, Rejection::Label { level: DataLabel::Internal, most: DataLabel::Public });
    assert_eq!(of(&restricted(Vec::new())), Rejection::SignOffMissing { level: DataLabel::Restricted });
    let carried = on(|terms| terms.label = Some(Label { level: DataLabel::Confidential, trusted: true }));
    assert_eq!(carried, Rejection::SignOffMissing { level: DataLabel::Confidential }, "by the label of the call");
    let vague = changed(|it| it.quality_checklist.clear());
    assert_eq!(of(&vague), Rejection::Incomplete("quality_checklist is missing".to_owned()));
    assert!(matches!(on(|terms| terms.network = "othernet"), Rejection::BadSignature(_)));
    assert!(matches!(on(|terms| terms.signer = key(2).public()), Rejection::BadSignature(_)), "of another node");
    let renamed = SignOff { role: "clerk".to_owned(), ..by_owner() };
    assert!(matches!(of(&restricted(vec![renamed])), Rejection::BadSignature(_)));
    let noise = Recipient::default().offer(b"noise", "task-1", &Host::new().terms(NOW_MS));
    assert!(matches!(rejected(noise), Rejection::BadSignature(_)));

    assert_eq!(first(&good, |terms| terms.room = Room::After(90)), Answer::Queued { wait_ms: 90 });
    assert_eq!(first(&restricted(vec![by_owner()]), |_| {}), accepted(1, NOW_MS), "signed off");
}

#[test]
fn the_same_work_is_not_taken_twice_and_an_id_is_of_one_document() {
    let host = Host::new();
    let (one, two) = (signed(body(ID)), signed(body(OTHER_ID)));
    let mut recipient = Recipient::default();
    assert_eq!(recipient.offer(&one.bytes, "task-1", &host.terms(NOW_MS)), accepted(1, NOW_MS));
    let again = recipient.offer(&two.bytes, "task-2", &host.terms(NOW_MS));
    assert_eq!(again, Answer::Duplicate { original: ID });
    let changed = changed(|it| it.assumptions = vec!["All is well.".to_owned()]);
    let conflict = recipient.offer(&changed.bytes, "task-2", &host.terms(NOW_MS));
    assert_eq!(conflict, Answer::Rejected(Rejection::Conflict));
    // The first acceptance is over: the work comes by the other one, and then not by the first.
    let later = NOW_MS + COMMIT_WITHIN_MS + 1;
    let second = recipient.offer(&two.bytes, "task-2", &host.terms(later));
    let until_ms = later + COMMIT_WITHIN_MS;
    assert_eq!(second, Answer::Accepted { task: "task-2".to_owned(), acceptance: 1, until_ms });
    let first = recipient.offer(&one.bytes, "task-3", &host.terms(later));
    assert_eq!(first, Answer::Duplicate { original: OTHER_ID });
    assert_eq!(recipient.commit(&ID, &one.digest(), 1, later), Err(CommitError::TooLate));
    assert!(recipient.commit(&OTHER_ID, &two.digest(), 1, later).is_ok());
    recipient.end(&OTHER_ID);
    let done = recipient.offer(&one.bytes, "task-3", &host.terms(later));
    assert_eq!(done, Answer::AlreadyDone { task: "task-2".to_owned() });
}

#[test]
fn what_one_sender_offers_has_an_end() {
    let host = Host::new();
    let mut recipient = Recipient::default();
    for at in 0..=HANDOFFS_OF_SENDER_MAX {
        let mut body = body(ID);
        body.handoff_id[14..].copy_from_slice(&u16::try_from(at).expect("few").to_be_bytes());
        body.task_id = format!("t{at}");
        let answer = recipient.offer(&signed(body).bytes, "task-1", &host.terms(NOW_MS));
        let is_full = answer == Answer::Rejected(Rejection::Busy);
        assert_eq!(is_full, at == HANDOFFS_OF_SENDER_MAX, "{at}: {answer:?}");
    }
    assert_eq!(recipient.forget(NOW_MS + 12 * HOUR_MS).len(), 0);
    assert_eq!(recipient.forget(NOW_MS + 13 * HOUR_MS).len(), HANDOFFS_OF_SENDER_MAX);
}

/// A recipient that so many agents of each of these publishers have offered all that one agent may.
fn crowded(agents: &[(u8, usize)]) -> Recipient {
    crowded_by(agents, |_| Acquaintance::Known)
}

/// The same of publishers that the node knows so well.
fn crowded_by(agents: &[(u8, usize)], acquaintance: impl Fn(u8) -> Acquaintance) -> Recipient {
    let mut entries = BTreeMap::new();
    for (publisher, count) in agents {
        for number in 0..*count {
            let id = PublisherId::from_digest([*publisher; 32]);
            let sender = AgentId::new(id, &format!("a{number}")).expect("a name");
            for _ in 0..HANDOFFS_OF_SENDER_MAX {
                let mut id = HandoffId::default();
                id[..8].copy_from_slice(&(entries.len() as u64).to_be_bytes());
                let entry = Entry {
                    digest: [0; 32],
                    sender: sender.clone(),
                    acquaintance: acquaintance(*publisher),
                    sender_task: format!("t{}", entries.len()),
                    task: "task".to_owned(),
                    not_after_ms: NOW_MS + 12 * HOUR_MS,
                    acceptances: 1,
                    phase: Phase::Begun,
                };
                entries.insert(id, entry);
            }
        }
    }
    Recipient::of(entries)
}

#[test]
fn what_agents_of_one_publisher_offer_keeps_out_nobody_else() {
    let host = Host::new();
    // The recipient's publisher is number 1.
    let offered = |mut recipient: Recipient, publisher: u8| {
        let mut body = body(ID);
        body.sender.agent = AgentId::new(PublisherId::from_digest([publisher; 32]), "new").expect("a name");
        recipient.offer(&signed(body).bytes, "task-1", &host.terms(NOW_MS))
    };
    let (busy, taken) = (Answer::Rejected(Rejection::Busy), accepted(1, NOW_MS));
    let of_publisher = HANDOFFS_OF_PUBLISHER_MAX / HANDOFFS_OF_SENDER_MAX;
    assert_eq!(offered(crowded(&[(2, of_publisher - 1)]), 2), taken);
    assert_eq!(offered(crowded(&[(2, of_publisher)]), 2), busy, "by whichever of its agents");
    assert_eq!(offered(crowded(&[(2, of_publisher)]), 3), taken);
    let publishers = HANDOFFS_OF_OTHERS_MAX / HANDOFFS_OF_PUBLISHER_MAX;
    let others: Vec<(u8, usize)> = (2..).take(publishers).map(|publisher| (publisher, of_publisher)).collect();
    assert_eq!(offered(crowded(&others), 99), busy);
    assert_eq!(offered(crowded(&others), 1), taken, "its own publisher's always have room");
    let own = (1, (HANDOFFS_MAX - HANDOFFS_OF_OTHERS_MAX) / HANDOFFS_OF_SENDER_MAX);
    assert_eq!(offered(crowded(&[&others[..], &[own]].concat()), 1), busy, "as far as there is any");
}

#[test]
fn what_strangers_offer_keeps_out_nobody_whom_the_node_knows() {
    let host = Host::new();
    let offered = |mut recipient: Recipient, acquaintance: Acquaintance| {
        let mut body = body(ID);
        body.sender.agent = AgentId::new(PublisherId::from_digest([99; 32]), "new").expect("a name");
        recipient.offer(&signed(body).bytes, "task-1", &Terms { acquaintance, ..host.terms(NOW_MS) })
    };
    let (busy, taken) = (Answer::Rejected(Rejection::Busy), accepted(1, NOW_MS));
    let of_origin = |origin: u8| Acquaintance::Stranger([origin; 32]);
    // Each publisher has one agent: making a publisher is free.
    let publishers = |count: usize| (2..).zip(std::iter::repeat_n(1, count)).collect::<Vec<(u8, usize)>>();
    let agents = HANDOFFS_OF_ORIGIN_MAX / HANDOFFS_OF_SENDER_MAX;
    let one_origin = || crowded_by(&publishers(agents), |_| of_origin(1));
    assert_eq!(offered(one_origin(), of_origin(1)), busy, "by whichever publisher");
    assert_eq!(offered(one_origin(), of_origin(2)), taken);
    let all = HANDOFFS_OF_STRANGERS_MAX / HANDOFFS_OF_SENDER_MAX;
    let origins = || crowded_by(&publishers(all), of_origin);
    assert_eq!(offered(origins(), of_origin(200)), busy, "from wherever");
    assert_eq!(offered(origins(), Acquaintance::Known), taken);
}

#[test]
fn a_sender_offers_nothing_that_must_not_leave() {
    let signers: BTreeSet<PublicKey> = [key(9).public()].into();
    let new = |offer: &Authored<Handoff>, label, now_ms| Sender::new(offer, label, &signers, now_ms).map(|_| ());
    assert_eq!(new(&signed(body(ID)), None, NOW_MS), Ok(()));
    let vague = changed(|it| it.context.task_description.clear());
    assert_eq!(new(&vague, None, NOW_MS), Err(SendError::Incomplete(vec!["context.task_description"])));
    assert!(matches!(new(&signed(body(ID)), None, NOW_MS + 13 * HOUR_MS), Err(SendError::NotInForce(_))));
    let missing = |level| Err(SendError::NotApproved(ApprovalError::Missing { level }));
    assert_eq!(new(&restricted(Vec::new()), None, NOW_MS), missing(DataLabel::Restricted));
    assert_eq!(new(&restricted(vec![by_owner()]), None, NOW_MS), Ok(()));
    let label = Some(Label { level: DataLabel::Confidential, trusted: true });
    assert_eq!(new(&signed(body(ID)), label, NOW_MS), missing(DataLabel::Confidential), "by the label of the call");
}

#[test]
fn a_sender_gives_its_work_away_before_it_asks_to_begin() {
    let offer = signed(body(ID));
    let mut sender = Sender::new(&offer, None, &BTreeSet::new(), NOW_MS).expect("good work");
    assert_eq!(sender.tick(NOW_MS), Action::Offer);
    for (tries, wait_ms) in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].into_iter().enumerate() {
        assert_eq!(sender.sent(NOW_MS), Action::Wait { until_ms: NOW_MS + wait_ms }, "{tries}");
    }
    let queued = sender.answer(Answer::Queued { wait_ms: 5_000 }, NOW_MS);
    assert_eq!((queued, sender.has_the_work()), (Action::Wait { until_ms: NOW_MS + 5_000 }, true));
    assert_eq!(sender.answer(accepted(1, NOW_MS), NOW_MS), Action::Write);
    assert!(sender.has_the_work(), "until it is written");
    // Killed before it is written: it writes it then.
    assert_eq!(Sender::at(&offer, sender.stage().clone()).tick(NOW_MS), Action::Write);
    assert_eq!(sender.written(NOW_MS), Action::Commit { acceptance: 1 });
    assert!(!sender.has_the_work());
    // The offer's answer comes a second time, and says nothing now.
    assert_eq!(sender.answer(Answer::Rejected(Rejection::Busy), NOW_MS), Action::Commit { acceptance: 1 });
    // Too late: it is offered again, accepted anew, and begins by that.
    assert_eq!(sender.commit_answer(1, Err(CommitError::TooLate), NOW_MS), Action::Offer);
    assert!(!sender.has_the_work());
    assert_eq!(sender.answer(accepted(2, NOW_MS), NOW_MS), Action::Commit { acceptance: 2 });
    let old = sender.commit_answer(1, Err(CommitError::TooLate), NOW_MS);
    assert_eq!(old, Action::Commit { acceptance: 2 }, "to another acceptance");
    let given = End::Given { task: "task-1".to_owned() };
    assert_eq!(sender.commit_answer(2, Ok("task-1".to_owned()), NOW_MS), Action::End(given.clone()));
    assert_eq!(sender.tick(NOW_MS), Action::End(given));
}

#[test]
fn work_that_nobody_takes_stays_and_doubt_is_told() {
    let offer = signed(body(ID));
    let new = || Sender::new(&offer, None, &BTreeSet::new(), NOW_MS).expect("good work");
    let over = NOW_MS + 12 * HOUR_MS + 1;
    assert_eq!(new().tick(over), Action::End(End::Kept(Refusal::NoAnswer)));
    let message = Rejection::Busy.to_string();
    let busy = End::Kept(Refusal::Rejected { reason: HandoffReason::Busy, message });
    assert_eq!(new().answer(Answer::Rejected(Rejection::Busy), NOW_MS), Action::End(busy.clone()));
    let committing = || Stage::Committing { task: "task-1".to_owned(), acceptance: 1, tries: 0 };
    let mut late = Sender::at(&offer, committing());
    assert_eq!(late.commit_answer(1, Err(CommitError::TooLate), NOW_MS), Action::Offer);
    assert_eq!(late.answer(Answer::Rejected(Rejection::Busy), NOW_MS), Action::End(busy), "nothing began: it is back");
    let mut unsure = Sender::at(&offer, committing());
    assert_eq!(unsure.tick(over), Action::Commit { acceptance: 1 }, "only the recipient knows");
    let doubt = End::InDoubt { task: "task-1".to_owned() };
    assert_eq!(unsure.commit_answer(1, Err(CommitError::NotAccepted), over), Action::End(doubt));
    assert!(!unsure.has_the_work());
}

/// A sender and a recipient, and all that was sent between them, of which nothing need arrive, or in order, or once.
struct World {
    host: Host,
    offer: Authored<Handoff>,
    sender: Sender,
    recipient: Recipient,
    now_ms: u64,
    has_room: bool,
    /// Offers (none) and commits by their acceptance.
    to_recipient: Vec<Option<u64>>,
    to_sender: Vec<Reply>,
    begun: Vec<String>,
}

#[derive(Debug, Clone)]
enum Reply {
    Answer(Answer),
    Commit(u64, Result<String, CommitError>),
}

impl World {
    fn new() -> World {
        let offer = signed(body(ID));
        let sender = Sender::new(&offer, None, &BTreeSet::new(), NOW_MS).expect("good work");
        World {
            host: Host::new(),
            offer,
            sender,
            recipient: Recipient::default(),
            now_ms: NOW_MS,
            has_room: true,
            to_recipient: Vec::new(),
            to_sender: Vec::new(),
            begun: Vec::new(),
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Offer => self.to_recipient.push(None),
            Action::Commit { acceptance } => self.to_recipient.push(Some(acceptance)),
            Action::Write => {
                let next = self.sender.written(self.now_ms);
                self.act(next);
            }
            Action::Wait { .. } | Action::End(_) => return,
        }
        self.sender.sent(self.now_ms);
    }

    fn reach_recipient(&mut self, message: Option<u64>) {
        let reply = match message {
            None => {
                let mut terms = self.host.terms(self.now_ms);
                terms.room = if self.has_room { Room::Free } else { Room::Full };
                let task = format!("task-{}", self.now_ms);
                Reply::Answer(self.recipient.offer(&self.offer.bytes, &task, &terms))
            }
            Some(acceptance) => {
                let answer = self.recipient.commit(&ID, &self.offer.digest(), acceptance, self.now_ms);
                if let Ok(Commit::Begin(task)) = &answer {
                    self.begun.push(task.clone());
                }
                let task = |commit: Commit| match commit {
                    Commit::Begin(task) | Commit::Began(task) => task,
                };
                Reply::Commit(acceptance, answer.map(task))
            }
        };
        self.to_sender.push(reply);
    }

    fn reach_sender(&mut self, reply: Reply) {
        let action = match reply {
            Reply::Answer(answer) => self.sender.answer(answer, self.now_ms),
            Reply::Commit(acceptance, answer) => self.sender.commit_answer(acceptance, answer, self.now_ms),
        };
        self.act(action);
    }

    fn step(&mut self, what: u8, which: prop::sample::Index, by_s: u16) {
        match what {
            0 | 1 => {
                let action = self.sender.tick(self.now_ms);
                self.act(action);
            }
            // A message arrives, and may arrive again.
            2..=4 if !self.to_recipient.is_empty() => {
                let message = self.to_recipient[which.index(self.to_recipient.len())];
                self.reach_recipient(message);
            }
            5..=7 if !self.to_sender.is_empty() => {
                let reply = self.to_sender[which.index(self.to_sender.len())].clone();
                self.reach_sender(reply);
            }
            8 => self.now_ms += u64::from(by_s) * 1_000,
            9 => self.has_room = !self.has_room,
            10 => self.recipient.end(&ID),
            11 => drop(self.recipient.forget(self.now_ms)),
            // Killed, and started again with what is on disk.
            12 => self.sender = Sender::at(&self.offer, self.sender.stage().clone()),
            13 => {
                let rows = self.recipient.entry(&ID).map(|it| (ID, it.clone()));
                self.recipient = Recipient::of(rows.into_iter().collect());
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    /// Whatever is lost, late, doubled, out of order or killed: the work begins once at most, and never while its sender may do
    /// it as well.
    #[test]
    fn work_has_one_owner(
        steps in prop::collection::vec((0..14u8, any::<prop::sample::Index>(), 0..20_000u16), 0..80),
    ) {
        let mut world = World::new();
        for (what, which, by_s) in steps {
            world.step(what, which, by_s);
            prop_assert!(world.begun.len() <= 1, "it began twice: {:?}", world.begun);
            let has_begun = !world.begun.is_empty();
            prop_assert!(!(has_begun && world.sender.has_the_work()), "two have it: {:?}", world.sender);
            if let Stage::Ended(End::Given { task }) = world.sender.stage() {
                prop_assert_eq!(std::slice::from_ref(task), world.begun.as_slice());
            }
        }
    }

    /// With a network that carries, and room, every handoff is given within a minute, from wherever chance has brought it.
    #[test]
    fn a_handoff_ends_when_all_is_well_again(
        steps in prop::collection::vec((0..14u8, any::<prop::sample::Index>(), 0..90u16), 0..40),
    ) {
        let mut world = World::new();
        for (what, which, by_s) in steps {
            world.step(what, which, by_s);
        }
        world.has_room = true;
        world.to_recipient.clear();
        world.to_sender.clear();
        for _ in 0..8 {
            let action = world.sender.tick(world.now_ms);
            world.act(action);
            while let Some(message) = world.to_recipient.pop() {
                world.reach_recipient(message);
                if let Some(reply) = world.to_sender.pop() {
                    world.reach_sender(reply);
                }
            }
        }
        prop_assert!(matches!(world.sender.stage(), Stage::Ended(_)), "{:?}", world.sender);
    }
}
