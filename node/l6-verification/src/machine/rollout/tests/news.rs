//! What nodes of one owner tell each other: all that heard the same have one stable version, however it came.

use althing_protocol::{PublicKey, SecretKey, digest};
use proptest::prelude::*;

use super::*;

/// Between two clocks that are an hour apart.
const APART_MS: u64 = 60 * 60 * 1_000;
const NEWEST: Digest = [4; 32];

fn key(number: u8) -> PublicKey {
    SecretKey::from_seed(&[number; 32]).public()
}

fn call(task: &str, now_ms: u64) -> Call<'_> {
    Call { task, conversation: None, caller: None, origin: None, channel: None, group: None, now_ms }
}

/// One that goes back, or is promoted, at the first word.
fn quick(to: Digest) -> Plan {
    Plan { steps: vec![99, 100], ..Plan::of(to) }
}

fn back(version: Digest, at_ms: u64) -> RolloutNews {
    RolloutNews { agent: "shop".to_owned(), version, word: RolloutWord::Back, at_ms }
}

fn promoted(version: Digest, at_ms: u64) -> RolloutNews {
    RolloutNews { word: RolloutWord::Promoted, ..back(version, at_ms) }
}

fn begun(to: Digest) -> Versions {
    let mut versions = Versions::new(STABLE);
    versions.begin(quick(to), 1_000).expect("a plan");
    versions
}

/// The same, promoted by the owner.
fn replaced(to: Digest) -> Versions {
    let mut versions = begun(to);
    versions.promote(2_000).expect("it is under way");
    versions
}

/// A call of the version that is tried, if one is, ends with a crash.
fn crash(versions: &mut Versions, now_ms: u64) {
    let crashed = Outcome { is_error: true, breach: Some(Breach::Crash), ..Outcome::default() };
    for task in 0..100 {
        let ticket = versions.route(&call(&format!("task {task}"), now_ms)).ticket;
        if let Some(ticket) = ticket.filter(|ticket| ticket.side() == Side::New) {
            versions.outcome(ticket, &crashed, now_ms);
            return;
        }
    }
}

fn phase(versions: &Versions) -> Phase {
    versions.rollout().expect("one was begun").phase()
}

fn stays_in_its_row(versions: &Versions) {
    assert_eq!(decode_row(&encode_row(versions)).as_ref(), Ok(versions));
}

#[test]
fn a_version_that_went_back_on_another_node_goes_back_and_is_not_tried_again() {
    let mut versions = begun(NEW);
    let reason = Reason::Elsewhere { node: key(1) };
    assert_eq!(versions.hear(&back(NEW, 9_000_000), &[], key(1), 3_000), Some(Change::WentBack(reason)));
    assert_eq!((versions.stable(), phase(&versions)), (STABLE, Phase::WentBack(reason)));
    assert!(!versions.may_answer(NEW));
    for told in [back(NEW, 1), promoted(NEW, u64::MAX)] {
        assert_eq!(versions.hear(&told, &[], key(2), 3_001), None, "it is known");
    }
    stays_in_its_row(&versions);
    let refused = versions.begin(quick(NEW), 4_000).expect_err("it went back").to_string();
    let says = format!("this version went back before: it went back on another node of its owner, {}", key(1));
    assert!(refused.starts_with(&says), "{refused}");
    versions.begin(quick(OTHER), 4_000).expect("another one may be tried");
    // It goes on from node to node.
    assert_eq!(versions.news("shop"), [back(NEW, 3_000)]);
}

#[test]
fn what_was_promoted_elsewhere_is_promoted_where_it_is_tried_and_nowhere_else() {
    let mut versions = begun(NEW);
    assert_eq!(versions.hear(&promoted(OTHER, 1), &[], key(1), 2_000), None);
    assert_eq!(versions.hear(&promoted(NEW, 1), &[], key(1), 2_000), Some(Change::Promoted));
    assert_eq!((versions.stable(), phase(&versions)), (NEW, Phase::PromotedElsewhere { node: key(1) }));
    assert!(versions.may_answer(STABLE), "its conversations go on");
    assert_eq!(versions.hear(&promoted(NEW, 1), &[], key(1), 2_001), None);
    stays_in_its_row(&versions);
    assert_eq!(versions.news("shop"), [promoted(NEW, 2_001)]);

    let mut other = Versions::new(STABLE);
    assert_eq!(other.hear(&promoted(NEW, 1), &[], key(1), 2_000), None, "it is not tried here");
    assert_eq!(other.stable(), STABLE);
    let mut known = begun(OTHER);
    known.abort().expect("it is under way");
    assert_eq!(known.hear(&back(NEW, 5), &[], key(1), 3_000), Some(Change::Evidence));
    assert!(matches!(known.begin(quick(NEW), 4_000), Err(OrderError::WentBack { .. })));
}

/// An owner goes back to an earlier version by a rollout: that it was promoted once is known, and says nothing of this one.
#[test]
fn an_earlier_promotion_of_a_version_that_is_tried_again_is_not_taken_for_a_new_one() {
    let mut one = replaced(NEW);
    let mut other = one.clone();
    for (versions, behind_ms) in [(&mut one, 0), (&mut other, 4_000)] {
        versions.begin(quick(OTHER), 9_000 - behind_ms).expect("a plan");
        versions.promote(9_500 - behind_ms).expect("it is under way");
        versions.begin(quick(NEW), 9_600 - behind_ms).expect("it is tried again");
    }
    let hears = |hears: &mut Versions, by: &Versions| {
        let told = by.news("shop");
        let changes = told.iter().filter_map(|one| hears.hear(one, &told, key(1), 9_700)).collect::<Vec<Change>>();
        (changes, hears.stable())
    };
    assert_eq!(hears(&mut one, &other), (Vec::new(), OTHER));
    assert_eq!(hears(&mut other, &one), (Vec::new(), OTHER));
    // Nor does one tell more that did not go on from there.
    assert_eq!(hears(&mut one, &replaced(NEW)), (Vec::new(), OTHER));
    one.promote(9_800).expect("it is under way");
    assert_eq!(hears(&mut other, &one), (vec![Change::Promoted], NEW));
    assert_eq!(hears(&mut other, &one), (Vec::new(), NEW));
}

/// Two nodes decided apart: going back wins.
#[test]
fn a_promotion_is_undone_where_the_version_before_it_is_still_here() {
    let mut versions = begun(NEW);
    let old = Conversation { id: "old", began_ms: Some(500) };
    let young = Conversation { id: "young", began_ms: None };
    versions.promote(2_000).expect("it is under way");
    let began = versions.route(&Call { conversation: Some(young), ..call("1", 2_500) });
    assert_eq!(began.version, NEW);
    let reason = Reason::Elsewhere { node: key(1) };
    assert_eq!(versions.hear(&back(NEW, 1), &[], key(1), 3_000), Some(Change::WentBack(reason)));
    assert_eq!((versions.stable(), phase(&versions)), (STABLE, Phase::WentBack(reason)));
    stays_in_its_row(&versions);
    let young = Conversation { id: "young", began_ms: Some(began.began_ms) };
    for conversation in [old, young] {
        let route = versions.route(&Call { conversation: Some(conversation), ..call("2", 3_500) });
        assert_eq!((route.version, route.ticket), (STABLE, None), "{conversation:?}");
    }
    assert!(!versions.may_answer(NEW) && versions.news("shop") == [back(NEW, 3_000)]);

    // Once that one is gone, nothing can be undone, and the version that everybody has stays.
    let mut late = begun(NEW);
    late.promote(2_000).expect("it is under way");
    let day_ms = Plan::of(NEW).drain_ms;
    assert_eq!(late.hear(&back(NEW, 1), &[], key(1), 3_000 + day_ms), Some(Change::Evidence));
    assert_eq!((late.stable(), late.may_answer(NEW), late.may_answer(STABLE)), (NEW, true, false));
    assert_eq!(late.hear(&back(NEW, 1), &[], key(1), 4_000 + day_ms), None);
    stays_in_its_row(&late);
}

#[test]
fn the_newest_version_that_nobody_sent_back_is_stable_in_whatever_order_that_is_heard() {
    let chain = || {
        let mut versions = Versions::new(STABLE);
        for (to, at_ms) in [(NEW, 1_000), (OTHER, 3_000)] {
            versions.begin(quick(to), at_ms).expect("a plan");
            versions.promote(at_ms + 500).expect("it is under way");
        }
        versions
    };
    for order in [[NEW, OTHER], [OTHER, NEW]] {
        let mut versions = chain();
        for version in order {
            assert!(versions.hear(&back(version, 1), &[], key(1), 5_000).is_some());
            stays_in_its_row(&versions);
        }
        assert_eq!(versions.stable(), STABLE, "{order:?}");
        assert!(!versions.may_answer(NEW) && !versions.may_answer(OTHER));
    }
    // A version that is compared with one that went back is not tried any more, and may be again.
    let mut versions = chain();
    versions.begin(quick(NEWEST), 4_000).expect("a plan");
    assert!(matches!(versions.hear(&back(OTHER, 1), &[], key(1), 5_000), Some(Change::WentBack(_))));
    assert_eq!((versions.stable(), phase(&versions)), (NEW, Phase::Aborted));
    stays_in_its_row(&versions);
    versions.begin(quick(NEWEST), 6_000).expect("nothing is known against it");
}

#[test]
fn a_promotion_that_the_owner_took_back_is_told_no_more() {
    let mut versions = replaced(NEW);
    versions.begin(quick(OTHER), 3_000).expect("a plan");
    versions.promote(3_500).expect("it is under way");
    let told: Vec<Digest> = versions.news("shop").iter().map(|news| news.version).collect();
    assert_eq!(told, [NEW, OTHER]);
    versions.begin(quick(STABLE), 4_000).expect("a plan");
    versions.promote(4_500).expect("it is under way");
    let told: Vec<Digest> = versions.news("shop").iter().map(|news| news.version).collect();
    assert_eq!(told, [OTHER, STABLE]);
    versions.pass(5_000 + Plan::of(NEW).drain_ms);
    assert!(versions.news("shop").is_empty(), "nothing of it can be undone");
}

/// Two nodes that know more than there is room for do not write without end what the other one forgot.
#[test]
fn what_would_be_forgotten_at_once_is_not_remembered() {
    let version = |number: u64| digest(&number.to_be_bytes());
    let mut versions = Versions::new(STABLE);
    let most = REVERSALS_MAX as u64;
    for number in 0..most {
        assert!(versions.hear(&back(version(number), 1_000 + number), &[], key(1), 10_000).is_some());
    }
    assert_eq!(versions.hear(&back(version(most), 1_000), &[], key(1), 10_000), None);
    assert_eq!(versions.hear(&back(version(most), 1_001), &[], key(1), 10_000), Some(Change::Evidence));
    assert_eq!(versions.hear(&back(version(0), 1_000), &[], key(1), 10_000), None, "it was forgotten for that");
    assert_eq!(versions.reversals().len(), REVERSALS_MAX);
    // What is tried here goes back all the same.
    versions.begin(quick(NEW), 11_000).expect("a plan");
    assert!(matches!(versions.hear(&back(NEW, 1), &[], key(1), 12_000), Some(Change::WentBack(_))));
    assert!(versions.reversals().contains_key(&NEW));
}

/// SPEC P-221.
#[test]
fn news_are_read_as_they_were_written_and_noise_is_refused() {
    let news = vec![promoted(NEW, 9), back(OTHER, 7)];
    let bytes = encode_news(news.clone());
    assert_eq!(decode_news(&bytes), Ok(news));
    assert_eq!(decode_news(&encode_news(Vec::new())), Ok(Vec::new()));
    for end in 0..bytes.len() {
        assert!(decode_news(&bytes[..end]).is_err(), "{end} bytes");
    }
    let (longest, long) = ("a".repeat(63), "a".repeat(64));
    for agent in ["", "Shop", "-shop", "s/p", &long] {
        let named = encode_news(vec![RolloutNews { agent: agent.to_owned(), ..back(NEW, 1) }]);
        assert!(matches!(decode_news(&named), Err(NewsError::Shape(_))), "{agent:?}");
    }
    // A word, and a member, that this version does not know.
    let mut word = encode_news(vec![back(NEW, 1)]);
    let at = word.len() - 3;
    assert_eq!(word[at..], [0, 3, 1]);
    word[at] = 2;
    assert!(matches!(decode_news(&word), Err(NewsError::Shape(_))));
    let member = [&[0xa2][..], &encode_news(Vec::new())[1..], &[1, 0]].concat();
    assert!(matches!(decode_news(&member), Err(NewsError::Shape(_))), "{member:02x?}");

    let many = (0..NEWS_MAX as u64 + 9).rev();
    let many = many.map(|less| RolloutNews { agent: longest.clone(), ..back(NEW, u64::MAX - less) });
    let most = encode_news(many.collect());
    assert!(most.len() <= NEWS_BYTES_MAX, "{} bytes", most.len());
    let read = decode_news(&most).expect("as many as may be");
    assert_eq!((read.len(), read[0].at_ms), (NEWS_MAX, u64::MAX), "the newest");
    assert!(read.windows(2).all(|pair| pair[0].at_ms > pair[1].at_ms));
    let more = [&[0xa1, 0x00, 0x99, 0x01, 0x01][..], &[0xa0; 257]].concat();
    assert!(decode_news(&more).is_err(), "more than one message has");
    assert!(matches!(decode_news(&[0; NEWS_BYTES_MAX + 1]), Err(NewsError::Cbor(_))));
}

/// What may happen on nodes of one owner, each of which has a rollout of its own of the same version.
#[derive(Debug, Clone)]
enum Event {
    Begin,
    Crash,
    Promote,
    Abort,
    /// The node ends, and starts with its row.
    Kill,
    /// Its clock goes on, or is set back.
    Later(i64),
    /// It tells what it knows: that may arrive at any time, anywhere, more than once or never.
    Tell,
    Hear(prop::sample::Index),
}

fn events() -> impl Strategy<Value = Vec<(usize, Event)>> {
    let event = prop_oneof![
        4 => Just(Event::Begin),
        1 => Just(Event::Crash),
        1 => Just(Event::Promote),
        1 => Just(Event::Abort),
        1 => Just(Event::Kill),
        2 => (-100_000_i64..100_000).prop_map(Event::Later),
        4 => Just(Event::Tell),
        6 => any::<prop::sample::Index>().prop_map(Event::Hear),
    ];
    proptest::collection::vec((0..3_usize, event), 1..80)
}

/// Nodes of one owner, with their clocks, and what they told so far.
struct Mesh {
    nodes: Vec<(Versions, u64)>,
    told: Vec<(usize, Vec<RolloutNews>)>,
}

impl Mesh {
    fn new() -> Mesh {
        let now_ms = |number: u64| 1_000_000 + number * APART_MS;
        Mesh { nodes: (0..3).map(|number| (Versions::new(STABLE), now_ms(number))).collect(), told: Vec::new() }
    }

    fn hear(&mut self, at: usize, from: usize, news: &[RolloutNews]) {
        let (versions, now_ms) = &mut self.nodes[at];
        for one in news {
            let _ = versions.hear(one, news, key(from as u8 + 1), *now_ms);
            assert_eq!(versions.hear(one, news, key(from as u8 + 1), *now_ms), None, "twice is as good as once");
        }
    }

    fn happen(&mut self, at: usize, event: &Event) {
        let (versions, now_ms) = &mut self.nodes[at];
        match event {
            Event::Begin => drop(versions.begin(quick(NEW), *now_ms)),
            Event::Crash => crash(versions, *now_ms),
            Event::Promote => drop(versions.promote(*now_ms)),
            Event::Abort => drop(versions.abort()),
            Event::Kill => *versions = decode_row(&encode_row(versions)).expect("its row"),
            Event::Later(later_ms) => *now_ms = now_ms.saturating_add_signed(*later_ms),
            Event::Tell => self.told.push((at, versions.news("shop"))),
            Event::Hear(which) if !self.told.is_empty() => {
                let (from, news) = self.told[which.index(self.told.len())].clone();
                self.hear(at, from, &news);
            }
            Event::Hear(_) => {}
        }
    }

    /// Each hears all of each other one, until nobody has anything new.
    fn heal(&mut self) {
        for _ in 0..2 {
            for (from, at) in (0..3).flat_map(|from| (0..3).map(move |at| (from, at))) {
                let news = self.nodes[from].0.news("shop");
                self.hear(at, from, &news);
            }
        }
    }
}

proptest! {
    /// Whatever is decided on each of them, and whenever and in whatever order they hear of it, by clocks that are apart: after they
    /// exchanged their news, no two of those that try or tried the version have two stable ones, but for those whose owner ended it.
    #[test]
    fn nodes_that_heard_the_same_have_one_stable_version(events in events()) {
        let mut mesh = Mesh::new();
        for (at, event) in &events {
            mesh.happen(*at, event);
            let (versions, now_ms) = &mut mesh.nodes[*at];
            prop_assert!(!versions.reversals().contains_key(&versions.stable()), "what went back is stable");
            let route = versions.route(&call("a call", *now_ms));
            prop_assert!(versions.may_answer(route.version), "a version answers that may not");
            stays_in_its_row(versions);
        }
        mesh.heal();
        let all = || mesh.nodes.iter().map(|(versions, _)| versions);
        let tried = all().filter(|versions| versions.rollout().is_some_and(|rollout| rollout.phase() != Phase::Aborted));
        let stables: Vec<Digest> = tried.map(Versions::stable).collect();
        prop_assert!(stables.windows(2).all(|pair| pair[0] == pair[1]), "{stables:?}");
        if all().any(|versions| versions.reversals().contains_key(&NEW)) {
            prop_assert!(all().all(|versions| versions.stable() == STABLE && !versions.may_answer(NEW)));
            prop_assert!(all().all(|versions| versions.reversals().contains_key(&NEW)), "all know it");
        }
    }
}
