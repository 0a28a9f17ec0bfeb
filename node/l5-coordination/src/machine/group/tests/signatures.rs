//! Which commands count, decided once more by a small model of its own, which knows who signed what, and no cryptography.

use proptest::prelude::*;

use super::*;

mod model;

use model::{Answer, Given, Model, Signed, What, Who};

/// A group, and what the model knows of it.
struct Both {
    world: World,
    /// An owner that joins the others later.
    fourth: Owner,
    charters: Vec<Charter>,
    model: Model,
}

impl Both {
    fn new() -> Both {
        let world = World::new();
        let charters = vec![world.group.charter().expect("it is founded").clone()];
        let model = Model {
            owners: [0, 1, 2].into(),
            threshold: 2,
            charters: 1,
            epoch: 1,
            is_over: false,
            members: [(1, 0)].into(),
            used: BTreeSet::new(),
            expelled: BTreeMap::new(),
            turns: BTreeSet::new(),
            writes: 0,
        };
        Both { world, fourth: Owner::new(40), charters, model }
    }

    fn owner(&self, number: u8) -> &Owner {
        self.world.owners.get(usize::from(number)).unwrap_or(&self.fourth)
    }

    fn key(&self, who: Who) -> SecretKey {
        match who {
            Who::Node(seed) => key(seed),
            Who::Owner(4) => key(99),
            Who::Owner(number) => self.owner(number).0.clone(),
        }
    }

    fn scope(&self, elsewhere: bool) -> String {
        if elsewhere { GroupId::from_digest([9; 32]).to_string() } else { self.world.scope() }
    }

    fn charter(&self, stale: bool) -> &Charter {
        let last = self.charters.len() - 1;
        &self.charters[if stale { last.saturating_sub(1) } else { last }]
    }

    fn endorsed<T: Statement + Clone>(&self, body: &T, signed: &Signed) -> Endorsed {
        let scope = self.scope(signed.elsewhere);
        let sign = |by: &u8| object::sign(body.clone(), NETWORK, &scope, &self.key(Who::Owner(*by))).expect("signed");
        Endorsed::new(signed.by.iter().map(|by| sign(by).bytes))
    }

    fn command(&self, author: Who, what: &What) -> Command {
        let (group, epoch) = (self.world.group.id(), self.model.epoch);
        match what {
            What::Set => set("a"),
            What::Leave => Command::Leave,
            What::Join { node, nonce, back, stale, expired, signed } => {
                let (from_ms, to_ms) =
                    if *expired { (NOW_MS - 9_000, NOW_MS - 8_000) } else { (NOW_MS - 1_000, NOW_MS + 60_000) };
                let (charter, made_in) = (self.charter(*stale).digest(), epoch.saturating_sub(*back));
                let node = key(*node).public();
                let body = Invitation::new(group, charter, node, from_ms, to_ms, [*nonce; 16], made_in);
                let (invitation, owner) = (self.endorsed(&body, signed), &self.world.owners[2]);
                let proof = owner.proof(&self.key(author));
                let (log, addresses) = (owner.events(), Vec::new());
                let join = Join { invitation, owner: proof, log, addresses, rules: Some(1) };
                Command::Join(Box::new(join))
            }
            What::Expel { node, back, signed } => {
                let body = Expulsion::new(group, key(*node).public(), epoch.saturating_sub(*back));
                Command::Expel(self.endorsed(&body, signed))
            }
            What::Amend { owners, threshold, stale, signed } => {
                let mut charter = self.charter(*stale).next(group, NOW_MS);
                charter.owners = owners.iter().map(|number| self.owner(*number).id()).collect();
                charter.owners.sort_unstable();
                charter.threshold = *threshold;
                let (charter, logs) = (self.endorsed(&charter, signed), vec![self.fourth.events()]);
                Command::Amend(Box::new(Amendment { charter, logs }))
            }
            What::Dissolve { stale, signed } => {
                Command::Dissolve(self.endorsed(&Dissolution::new(group, self.charter(*stale).digest()), signed))
            }
        }
    }

    /// What becomes of a batch; the same by the model, or it fails.
    fn run(&mut self, given: &Given) -> Result<Answer, TestCaseError> {
        let author = match given.author {
            Who::Node(seed) => Author::Node(key(seed).public()),
            Who::Owner(number) => Author::Publisher(self.owner(number).id()),
        };
        let command = self.command(given.author, &given.what);
        let batch = Batch::new(given.epoch, author, given.session, given.sequence, vec![command]);
        let signed = object::sign(batch, NETWORK, &self.scope(given.elsewhere), &self.key(given.signer));
        let opened = object::open(&signed.expect("a batch").bytes, NETWORK, &self.world.scope());
        let answer = match self.world.group.apply(NOW_MS, &opened) {
            Reply::Executed(outcomes) => match outcomes.as_slice() {
                [Outcome::Done(_)] => Answer::Done,
                [Outcome::Refused(_)] => Answer::Refused,
                other => panic!("one command has one outcome: {other:?}"),
            },
            Reply::Refused(_) => Answer::Rejected,
            Reply::Duplicate => Answer::Again,
        };
        prop_assert_eq!(answer, self.model.apply(given), "{:?}", given);
        let (group, model) = (&self.world.group, &self.model);
        let charter = group.charter().expect("it is founded");
        if self.charters.last() != Some(charter) {
            self.charters.push(charter.clone());
        }
        let members: BTreeSet<PublicKey> = group.members().iter().map(|(node, _)| *node).collect();
        let expected: BTreeSet<PublicKey> = model.members.keys().map(|seed| key(*seed).public()).collect();
        prop_assert_eq!(members, expected, "{:?}", given);
        let owners: BTreeSet<PublisherId> = charter.owners.iter().copied().collect();
        let expected: BTreeSet<PublisherId> = model.owners.iter().map(|number| self.owner(*number).id()).collect();
        prop_assert_eq!((owners, usize::from(charter.threshold)), (expected, model.threshold), "{:?}", given);
        let writes = group.values().get("a").map_or(0, |value| value.version);
        let seen = (group.epoch(), group.dissolution().is_some(), writes);
        prop_assert_eq!(seen, (model.epoch, model.is_over, model.writes), "{:?}", given);
        Ok(answer)
    }
}

/// How a batch is drawn: most are sound, each in its own way not.
#[derive(Debug, Clone)]
struct Drawn {
    author: Who,
    forger: Option<Who>,
    /// So many epochs from the present one.
    off: i64,
    session: u64,
    /// A number that may have been used; a new one otherwise.
    number: Option<u64>,
    elsewhere: bool,
    what: What,
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        4 => (1..=5u8).prop_map(Who::Node),
        1 => Just(Who::Node(9)),
        3 => (0..4u8).prop_map(Who::Owner),
    ]
}

fn signed() -> impl Strategy<Value = Signed> {
    let by = prop_oneof![
        3 => prop::sample::subsequence(vec![0_u8, 1, 2], 0..=3),
        1 => prop::sample::subsequence(vec![0_u8, 1, 2, 3], 0..=4),
        1 => prop::collection::vec(0..5u8, 0..4),
    ];
    (by, prop::bool::weighted(0.05)).prop_map(|(by, elsewhere)| Signed { by, elsewhere })
}

fn deeds() -> impl Strategy<Value = (Who, What)> {
    let rarely = || prop::bool::weighted(0.1);
    let back = || prop_oneof![4 => Just(0_u64), 1 => 1..3u64];
    let join = (2..=5u8, 0..12u8, back(), rarely(), rarely(), signed());
    let join = join.prop_map(|(node, nonce, back, stale, expired, signed)| {
        (node, What::Join { node, nonce, back, stale, expired, signed })
    });
    let joins = (join, prop::option::weighted(0.1, who()));
    let joins = joins.prop_map(|((node, what), other)| (other.unwrap_or(Who::Node(node)), what));
    let expel = (1..=5u8, back(), signed()).prop_map(|(node, back, signed)| What::Expel { node, back, signed });
    let sets = vec![vec![0_u8, 1, 2], vec![0, 1], vec![1, 2], vec![0, 2, 3], vec![0, 1, 2, 3], vec![2]];
    let amend = (prop::sample::select(sets), 1..=3u8, rarely(), signed());
    let amend = amend.prop_map(|(owners, threshold, stale, signed)| {
        let threshold = threshold.min(u8::try_from(owners.len()).expect("few"));
        What::Amend { owners, threshold, stale, signed }
    });
    let dissolve = (rarely(), signed()).prop_map(|(stale, signed)| What::Dissolve { stale, signed });
    let others = prop_oneof![8 => Just(What::Set), 2 => Just(What::Leave), 8 => expel, 5 => amend, 1 => dissolve];
    prop_oneof![2 => joins, 3 => (who(), others)]
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let forger = prop::option::weighted(0.1, who());
    let off = prop_oneof![8 => Just(0_i64), 1 => Just(-1_i64), 1 => Just(1_i64)];
    let number = prop::option::weighted(0.25, 1..5u64);
    (deeds(), forger, off, 1..=2u64, number, prop::bool::weighted(0.05)).prop_map(
        |((author, what), forger, off, session, number, elsewhere)| Drawn {
            author,
            forger,
            off,
            session,
            number,
            elsewhere,
            what,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    /// P-81, P-85, P-87, P-88, P-91, P-92, P-93, P-94, P-97: membership, charter and values change exactly as signatures say.
    #[test]
    fn whatever_is_signed_by_whom_what_counts_is_what_the_model_says(drawn in prop::collection::vec(drawn(), 1..60)) {
        let mut both = Both::new();
        for (new, drawn) in (100..).zip(drawn) {
            let given = Given {
                author: drawn.author,
                signer: drawn.forger.unwrap_or(drawn.author),
                epoch: both.model.epoch.saturating_add_signed(drawn.off),
                session: drawn.session,
                sequence: drawn.number.unwrap_or(new),
                elsewhere: drawn.elsewhere,
                what: drawn.what,
            };
            both.run(&given)?;
        }
    }
}

/// The model and the machine do more than refuse.
#[test]
fn each_kind_of_command_counts_with_enough_signatures_and_not_with_one_less() -> Result<(), TestCaseError> {
    let mut both = Both::new();
    let by = |by: &[u8]| Signed { by: by.to_vec(), elsewhere: false };
    let mut sequence = 0;
    let mut run = |author: Who, what: What| {
        sequence += 1;
        let (epoch, session, elsewhere) = (both.model.epoch, 1, false);
        both.run(&Given { author, signer: author, epoch, session, sequence, elsewhere, what })
    };
    let join = |signed: Signed| What::Join { node: 2, nonce: 1, back: 0, stale: false, expired: false, signed };
    assert_eq!(run(Who::Node(2), join(by(&[0, 0])))?, Answer::Rejected);
    assert_eq!(run(Who::Node(2), join(by(&[0, 1])))?, Answer::Done);
    assert_eq!(run(Who::Node(2), What::Set)?, Answer::Done);
    let amend = |owners: &[u8], threshold: u8, signed: Signed| {
        let owners = owners.to_vec();
        What::Amend { owners, threshold, stale: false, signed }
    };
    assert_eq!(run(Who::Owner(1), amend(&[0, 2, 3], 3, by(&[1])))?, Answer::Refused);
    assert_eq!(run(Who::Owner(1), amend(&[0, 2, 3], 3, by(&[1, 2])))?, Answer::Done);
    assert_eq!(run(Who::Owner(1), What::Set)?, Answer::Rejected, "it owns nothing any more");
    let expel = |signed: Signed| What::Expel { node: 2, back: 0, signed };
    assert_eq!(run(Who::Node(1), expel(by(&[0, 2])))?, Answer::Refused, "now three must sign");
    assert_eq!(run(Who::Node(1), expel(by(&[0, 2, 3])))?, Answer::Done);
    assert_eq!(run(Who::Node(2), What::Set)?, Answer::Rejected);
    let dissolve = |signed: Signed| What::Dissolve { stale: false, signed };
    assert_eq!(run(Who::Node(1), dissolve(by(&[0, 1, 2])))?, Answer::Refused, "the second one owns it no more");
    assert_eq!(run(Who::Node(1), dissolve(by(&[0, 2, 3])))?, Answer::Done);
    assert_eq!(run(Who::Node(1), What::Set)?, Answer::Rejected);
    Ok(())
}
