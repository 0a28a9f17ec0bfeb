//! Messages by hand: good ones, and such as a member refuses.

use super::*;

/// A message, and whether it is one.
pub struct Case {
    pub name: &'static str,
    pub message: &'static str,
    pub bytes: Vec<u8>,
    pub is_good: bool,
}

type Members = Vec<(u64, Vec<u8>)>;

pub fn all() -> Vec<Case> {
    [
        appends(),
        bad_entries(),
        bad_members(),
        bad_bytes(),
        heartbeats(),
        votes(),
        snapshots(),
        transfers(),
        submits(),
        answers(),
        reports(),
        comparisons(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn good(message: &'static str, name: &'static str, bytes: Vec<u8>) -> Case {
    Case { name, message, bytes, is_good: true }
}

fn bad(message: &'static str, name: &'static str, bytes: Vec<u8>) -> Case {
    Case { name, message, bytes, is_good: false }
}

fn group() -> (u64, Vec<u8>) {
    (0, bstr(&[3; 32]))
}

fn position(term: u64, index: u64) -> Vec<u8> {
    array(&[uint(term), uint(index)])
}

/// The ballot of the node 1.
fn ballot(term: u64, elected: bool) -> Vec<u8> {
    array(&[uint(term), bstr(key(1).as_bytes()), bool(elected)])
}

fn entry(term: u64, index: u64, payload: Vec<u8>) -> Vec<u8> {
    array(&[position(term, index), payload])
}

fn blank(term: u64, index: u64) -> Vec<u8> {
    entry(term, index, choice(0, &[]))
}

fn batched(term: u64, index: u64) -> Vec<u8> {
    entry(term, index, choice(1, &[uint(1_700_000_000_000), bstr(b"a signed batch")]))
}

fn members(voters: &[Vec<PublicKey>], learners: &[PublicKey]) -> Vec<u8> {
    let sets: Vec<Vec<u8>> = voters.iter().map(|set| keys(set)).collect();
    choice(2, &[array(&sets), keys(learners)])
}

/// Entries after that of the number 6 in the term 2, from the leader of the term 3.
fn append(entries: &[Vec<u8>]) -> Members {
    vec![group(), (1, ballot(3, true)), (2, position(2, 6)), (3, position(2, 5)), (4, array(entries))]
}

/// The message with another value of one member, or without it.
fn with(mut message: Members, member: u64, value: Option<Vec<u8>>) -> Vec<u8> {
    message.retain(|(number, _)| *number != member);
    message.extend(value.map(|value| (member, value)));
    message.sort_by_key(|(number, _)| *number);
    map(&message)
}

fn appends() -> Vec<Case> {
    let joint = members(&[sorted(&[1, 2, 3]), sorted(&[1, 2, 4])], &sorted(&[5, 6]));
    let beginning =
        vec![group(), (1, ballot(1, true)), (4, array(&[entry(0, 0, members(&[vec![key(1)]], &[])), blank(1, 1)]))];
    vec![
        good("append", "a heartbeat", map(&append(&[]))),
        good(
            "append",
            "a heartbeat of a leader without entries",
            map(&[group(), (1, ballot(1, true)), (4, array(&[]))]),
        ),
        good("append", "the beginning of a log", map(&beginning)),
        good("append", "entries of each kind", map(&append(&[batched(2, 7), blank(3, 8), entry(3, 9, joint)]))),
        good("append", "the highest term and number", {
            let leader = array(&[uint(u64::MAX / 2), bstr(key(1).as_bytes()), bool(true)]);
            let last = blank(u64::MAX / 2, u64::MAX / 2 - 1);
            map(&[group(), (1, leader), (2, position(1, u64::MAX / 2 - 2)), (4, array(&[last]))])
        }),
    ]
}

fn bad_entries() -> Vec<Case> {
    // P-140
    let of = |name: &'static str, entries: &[Vec<u8>]| bad("append", name, map(&append(entries)));
    let last = u64::MAX / 2;
    let end = vec![group(), (1, ballot(3, true)), (2, position(2, last - 1)), (4, array(&[blank(3, last)]))];
    vec![
        of("an entry that leaves one out", &[blank(3, 8)]),
        of("an entry of the number of the one before", &[blank(3, 6)]),
        of("entries in the wrong order", &[blank(3, 8), blank(3, 7)]),
        of("an entry twice", &[blank(3, 7), blank(3, 7)]),
        of("a term that falls", &[blank(3, 7), blank(2, 8)]),
        of("a term lower than that of the entry before", &[blank(1, 7)]),
        of("a term higher than that of the leader", &[blank(4, 7)]),
        of("an entry of another kind", &[entry(3, 7, choice(3, &[]))]),
        of("a blank entry that is not", &[entry(3, 7, choice(0, &[uint(0)]))]),
        bad("append", "a log that does not begin with 0", with(append(&[blank(3, 1)]), 2, None)),
        bad("append", "an entry before of a later term", with(append(&[]), 2, Some(position(4, 6)))),
        bad("append", "a committed entry of a later term", with(append(&[]), 3, Some(position(4, 5)))),
        bad("append", "a number that is too high", map(&end)),
        bad("append", "an append of a candidate", with(append(&[]), 1, Some(ballot(3, false)))),
    ]
}

fn bad_members() -> Vec<Case> {
    // P-140
    let of = |name: &'static str, voters: &[Vec<PublicKey>], learners: &[PublicKey]| {
        bad("append", name, map(&append(&[entry(3, 7, members(voters, learners))])))
    };
    let (voters, mut reversed) = (sorted(&[1, 2, 3]), sorted(&[1, 2, 3]));
    reversed.reverse();
    vec![
        of("no set of voters", &[], &[]),
        of("a set of voters without any", &[voters.clone(), Vec::new()], &[]),
        of("three sets of voters", &[voters.clone(), sorted(&[1, 2]), vec![key(1)]], &[]),
        of("voters out of order", &[reversed.clone()], &[]),
        of("a voter twice", &[vec![key(1), key(1)]], &[]),
        of("learners out of order", &[vec![key(4)]], &reversed),
        of("a learner twice", &[vec![key(4)]], &[key(1), key(1)]),
        of("a learner that is a voter", &[voters, vec![key(4)]], &[key(4)]),
    ]
}

fn bad_bytes() -> Vec<Case> {
    // P-100
    let of = |name: &'static str, bytes: Vec<u8>| bad("append", name, bytes);
    let heartbeat = || append(&[]);
    let small_order = [vec![0; 31], vec![0x80]].concat();
    let leader = array(&[uint(3), bstr(&small_order), bool(true)]);
    let many: Vec<Vec<u8>> = (0..700).map(|index| blank(3, 7 + index)).collect();
    let indefinite = {
        let mut bytes = map(&heartbeat());
        bytes[0] = 0xbf;
        bytes.push(0xff);
        bytes
    };
    vec![
        of("no bytes", Vec::new()),
        of("an array in the place of the message", array(&[])),
        of("a message without its group", with(heartbeat(), 0, None)),
        of("a message without its leader", with(heartbeat(), 1, None)),
        of("a message without its entries", with(heartbeat(), 4, None)),
        of("a member that this version does not know", with(heartbeat(), 5, Some(uint(0)))),
        of("an absent member as null", with(heartbeat(), 2, Some(null()))),
        of("a byte behind the message", [map(&heartbeat()), vec![0]].concat()),
        of("a message of indefinite length", indefinite),
        of("a number in more bytes than it needs", with(heartbeat(), 2, Some(vec![0x82, 0x02, 0x18, 0x06]))),
        of("members out of order", map(&heartbeat().into_iter().rev().collect::<Vec<_>>())),
        of("a group of 31 bytes", with(heartbeat(), 0, Some(bstr(&[3; 31])))),
        of("a leader whose key is none", with(heartbeat(), 1, Some(leader))),
        of("a position of three numbers", with(heartbeat(), 2, Some(array(&[uint(2), uint(6), uint(0)])))),
        of("more data items than a message may have", map(&append(&many))),
    ]
}

fn heartbeats() -> Vec<Case> {
    // P-150
    let beat = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let group = bstr(&[&[high, low][..], &[3; 30]].concat());
        vec![(0, group), (1, uint(3)), (2, position(2, 6)), (3, position(2, 5))]
    };
    let of = |beats: &[Vec<u8>]| map(&[(0, bstr(key(1).as_bytes())), (1, array(beats))]);
    let many = |count: u16| (0..count).map(|number| map(&beat(number))).collect::<Vec<_>>();
    let heard = |all: &[Vec<u8>]| map(&[(0, array(all))]);
    let taken = |answer: Vec<u8>| choice(0, &[answer]);
    let mixed = [
        taken(choice(0, &[])),
        taken(choice(2, &[])),
        taken(choice(3, &[ballot(4, true)])),
        choice(1, &[]),
        choice(2, &[]),
    ];
    vec![
        good("heartbeats", "a heartbeat beside none", of(&many(1))),
        good("heartbeats", "heartbeats of two groups, in one of which nothing is known", {
            let unknown = map(&beat(1)[..2]);
            of(&[map(&beat(0)), unknown])
        }),
        good("heartbeats", "three heartbeats", of(&many(3))),
        bad("heartbeats", "257 heartbeats", of(&many(257))),
        bad("heartbeats", "no heartbeat", of(&[])),
        bad("heartbeats", "heartbeats of nobody", map(&[(1, array(&many(1)))])),
        bad("heartbeats", "a heartbeat twice", of(&[map(&beat(1)), map(&beat(1))])),
        bad("heartbeats", "groups out of order", of(&[map(&beat(1)), map(&beat(0))])),
        bad("heartbeats", "a heartbeat without its term", of(&[with(beat(0), 1, None)])),
        bad("heartbeats", "a heartbeat with entries", of(&[with(beat(0), 4, Some(array(&[])))])),
        good("heard", "heartbeats that were taken, refused, not yet answered and not served", heard(&mixed)),
        bad("heard", "a heartbeat that is answered in another way", heard(&[choice(3, &[])])),
        bad("heard", "a heartbeat that is taken without an answer", heard(&[choice(0, &[])])),
    ]
}

fn votes() -> Vec<Case> {
    let elect = || vec![group(), (1, ballot(4, false)), (2, position(3, 9)), (3, bool(false))];
    let elected = || vec![(0, ballot(4, false)), (1, bool(true)), (2, position(3, 9))];
    vec![
        good("elect", "asking for a vote", map(&elect())),
        good("elect", "asking for a vote without a log", with(elect(), 2, None)),
        good("elect", "asking for a vote on behalf of the leader", with(elect(), 3, Some(bool(true)))),
        bad("elect", "asking for a vote when elected", with(elect(), 1, Some(ballot(4, true)))),
        bad("elect", "asking for a vote with an entry of a later term", with(elect(), 2, Some(position(5, 9)))),
        bad("elect", "asking for a vote without saying on whose behalf", with(elect(), 3, None)),
        good("elected", "a vote", map(&elected())),
        good("elected", "no vote, since another one leads", with(elected(), 0, Some(ballot(5, true)))),
        good("elected", "a vote of a member without a log", with(elected(), 2, None)),
        bad("elected", "a vote for nobody", with(elected(), 0, None)),
    ]
}

fn snapshots() -> Vec<Case> {
    let says = |at: Vec<u8>, voters: &[Vec<PublicKey>], learners: &[PublicKey]| {
        let sets: Vec<Vec<u8>> = voters.iter().map(|set| keys(set)).collect();
        Some(array(&[at, array(&sets), keys(learners)]))
    };
    let trio = [sorted(&[1, 2, 3])];
    let part = || {
        let members = says(position(2, 3), &trio, &[key(4)]).expect("members");
        let rows = array(&[bstr(b"a row"), bstr(b"another")]);
        vec![
            group(),
            (1, ballot(3, true)),
            (2, position(2, 6)),
            (3, members),
            (4, uint(0)),
            (5, rows),
            (6, bool(false)),
        ]
    };
    let many = array(&vec![bstr(b""); 1_025]);
    let most = array(&vec![bstr(b""); 1_024]);
    vec![
        good("snapshot-part", "the first part of a snapshot", map(&part())),
        good("snapshot-part", "the last part of a snapshot", with(part(), 6, Some(bool(true)))),
        good("snapshot-part", "a part of 1,024 rows", with(part(), 5, Some(most))),
        bad("snapshot-part", "a part of 1,025 rows", with(part(), 5, Some(many))),
        bad("snapshot-part", "a part of a candidate", with(part(), 1, Some(ballot(3, false)))),
        bad("snapshot-part", "a snapshot of nothing", with(part(), 2, None)),
        bad("snapshot-part", "a snapshot of a later term than the leader's", with(part(), 2, Some(position(4, 6)))),
        bad("snapshot-part", "members that no entry says", with(part(), 3, says(null(), &trio, &[]))),
        bad("snapshot-part", "members of an entry behind the last", with(part(), 3, says(position(2, 7), &trio, &[]))),
        bad("snapshot-part", "a snapshot without voters", with(part(), 3, says(position(2, 3), &[], &[]))),
        bad(
            "snapshot-part",
            "a snapshot with a learner that votes",
            with(part(), 3, says(position(2, 3), &trio, &[key(1)])),
        ),
        bad("snapshot-part", "rows that are texts", with(part(), 5, Some(array(&[tstr("a row")])))),
        good("snapshot-taken", "a part was taken", map(&[])),
        good("snapshot-taken", "a snapshot was taken", map(&[(0, ballot(3, true))])),
    ]
}

fn transfers() -> Vec<Case> {
    let transfer = || vec![group(), (1, ballot(3, true)), (2, bstr(key(2).as_bytes())), (3, position(3, 9))];
    vec![
        good("transfer", "handing over the lead", map(&transfer())),
        good("transfer", "handing over the lead without a log", with(transfer(), 3, None)),
        bad("transfer", "handing over what one has not", with(transfer(), 1, Some(ballot(3, false)))),
        bad("transfer", "handing over with an entry of a later term", with(transfer(), 3, Some(position(4, 9)))),
        bad("transfer", "handing over to nobody", with(transfer(), 2, None)),
        good("transferred", "it will try", choice(0, &[])),
        good("transferred", "it follows another one", choice(1, &[ballot(4, true)])),
        good("transferred", "its log is behind", choice(2, &[position(2, 6)])),
        good("transferred", "it has no log", choice(2, &[])),
        bad("transferred", "it has no log, as null", choice(2, &[null()])),
    ]
}

/// Each refusal with its members, in the order of their numbers.
fn refusals() -> Vec<Vec<u8>> {
    let (text, key) = (tstr("why"), bstr(key(2).as_bytes()));
    let (first, second) = (bstr(&[7; 16]), bstr(&[8; 16]));
    let of = [
        vec![],
        vec![],
        vec![text.clone()],
        vec![uint(1), uint(2)],
        vec![],
        vec![text.clone()],
        vec![text.clone()],
        vec![text.clone()],
        vec![text.clone()],
        vec![key.clone()],
        vec![key.clone()],
        vec![],
        vec![text.clone()],
        vec![uint(9)],
        vec![],
        vec![text.clone()],
        vec![first.clone()],
        vec![first.clone()],
        vec![uint(17)],
        vec![first.clone(), uint(7)],
        vec![uint(2)],
        vec![key],
        vec![first.clone(), second],
        vec![text.clone()],
        vec![first.clone()],
        vec![first, uint(3)],
        vec![text.clone()],
        vec![text.clone()],
        vec![uint(1_700_000_000_000)],
        vec![bstr(&[9; 32])],
        vec![text],
    ];
    (0..).zip(of).map(|(number, members)| choice(number, &members)).collect()
}

fn submits() -> Vec<Case> {
    let submit = || vec![group(), (1, bstr(b"a signed batch"))];
    let executed = |outcomes: &[Vec<u8>]| choice(0, &[choice(0, &[array(outcomes)])]);
    let refused: Vec<Vec<u8>> = refusals().into_iter().map(|refusal| choice(1, &[refusal])).collect();
    let addresses = array(&[tstr("/ip4/192.0.2.1/tcp/4001")]);
    vec![
        good("submit", "a batch", map(&submit())),
        bad("submit", "a batch as a text", with(submit(), 1, Some(tstr("a signed batch")))),
        bad("submit", "no batch", with(submit(), 1, None)),
        good("submitted", "commands that were executed", executed(&[choice(0, &[uint(7)]), choice(0, &[])])),
        good("submitted", "commands that were refused, for each reason", executed(&refused)),
        good("submitted", "a batch that was executed before", choice(0, &[choice(1, &[])])),
        good("submitted", "a batch that was refused", choice(0, &[choice(2, &[refusals()[3].clone()])])),
        good("submitted", "another member leads", choice(1, &[bstr(key(2).as_bytes()), addresses])),
        good("submitted", "no member leads", choice(1, &[null(), array(&[])])),
        good("submitted", "nobody knows yet", choice(2, &[])),
        bad("submitted", "a number as null", executed(&[choice(0, &[null()])])),
        bad("submitted", "a refusal that this version does not know", choice(0, &[choice(2, &[choice(31, &[])])])),
        bad("submitted", "a leader without addresses", choice(1, &[bstr(key(2).as_bytes())])),
    ]
}

fn answers() -> Vec<Case> {
    let proof = array(&[bstr(b"a signed dissolution")]);
    vec![
        good("appended", "all entries are on disk", choice(0, &[])),
        good("appended", "entries up to one are on disk", choice(1, &[position(3, 7)])),
        good("appended", "no entry is on disk", choice(1, &[])),
        good("appended", "the entry before is another one", choice(2, &[])),
        good("appended", "another member leads a later term", choice(3, &[ballot(4, true)])),
        bad("appended", "an answer of another kind", choice(4, &[])),
        bad("appended", "a later term without a ballot", choice(3, &[])),
        good("barrier", "asking for a barrier", map(&[group()])),
        bad("barrier", "asking for a barrier of no group", map(&[])),
        good("barred", "a barrier", choice(0, &[uint(42)])),
        good("barred", "another member knows", choice(1, &[bstr(key(2).as_bytes())])),
        good("barred", "no member knows", choice(1, &[])),
        good("barred", "no majority answers", choice(2, &[])),
        bad("barred", "a barrier before the log", choice(0, &[vec![0x20]])),
        good("unserved", "malformed", choice(0, &[tstr("why")])),
        good("unserved", "no such group", choice(1, &[])),
        good("unserved", "the caller is no member", choice(2, &[])),
        good("unserved", "the group was dissolved", choice(3, &[proof])),
        good("unserved", "the replica does not run", choice(4, &[tstr("why")])),
        good("unserved", "only owners read what is asked for", choice(6, &[])),
        good("unserved", "the node takes other snapshots", choice(7, &[])),
        good("unserved", "nothing here shows that the caller was removed", choice(8, &[])),
        bad("unserved", "for a reason that this version does not know", choice(9, &[])),
        bad("unserved", "dissolved without a proof", choice(3, &[])),
    ]
}

/// P-194
fn comparisons() -> Vec<Case> {
    let compare =
        |digests: &[u8]| vec![group(), (1, bstr(key(1).as_bytes())), (2, uint(3)), (3, uint(7)), (4, bstr(digests))];
    let signed = |to: u8| {
        map(&[
            (0, bstr(key(1).as_bytes())),
            (1, bstr(key(to).as_bytes())),
            (2, bstr(&[7; 32])),
            (3, bstr(&[8; 32])),
            (4, bstr(b"a frame")),
        ])
    };
    vec![
        good("compare", "two entries", map(&compare(&[9; 32]))),
        good("compare", "as many entries as are compared at once", map(&compare(&[9; 16 * 1_024]))),
        bad("compare", "no entry", map(&compare(&[]))),
        bad("compare", "half of a digest", map(&compare(&[9; 24]))),
        bad("compare", "one entry too many", map(&compare(&[9; 16 * 1_025]))),
        good("compared", "the same", array(&[uint(0), array(&[])])),
        good("compared", "another entry", array(&[uint(1), array(&[signed(2)])])),
        bad("compared", "another entry that nobody signed", array(&[uint(1), array(&[])])),
        good("accuse", "a proof", map(&[group(), (1, array(&[signed(2), signed(3)]))])),
        bad("accuse", "half of a proof", map(&[group(), (1, array(&[signed(2)]))])),
        good("accused", "it is kept", uint(0)),
        good("accused", "it proves nothing here", uint(1)),
        bad("accused", "neither", uint(2)),
        good("unserved", "the caller equivocated", choice(5, &[])),
    ]
}

fn reports() -> Vec<Case> {
    let names = |count: usize| array(&(0..count).map(|number| tstr(&number.to_string())).collect::<Vec<_>>());
    let report = || {
        let texts = [array(&[tstr("clerk")]), array(&[tstr("billing.view")]), array(&[tstr("eu")])];
        let numbers = [uint(4_096), uint(8), uint(100_000), uint(1)];
        let classes = array(&[uint(0), uint(1), uint(2)]);
        let all = texts.into_iter().chain(numbers).chain([classes, uint(250), uint(4)]);
        (0..).zip(all).collect::<Members>()
    };
    let of = |report: Vec<u8>| map(&[group(), (1, report)]);
    let some = |agents: usize, owners: usize| {
        map(&[(0, names(agents)), (1, array(&[])), (2, array(&vec![bstr(&[7; 32]); owners]))])
    };
    let answering = |all: &[Vec<u8>]| map(&report().into_iter().chain([(10, array(all))]).collect::<Members>());
    vec![
        good("report-to", "a report", of(map(&report()))),
        good("report-to", "1,024 agents", of(with(report(), 0, Some(names(1_024))))),
        bad("report-to", "1,025 agents", of(with(report(), 0, Some(names(1_025))))),
        bad("report-to", "1,025 capabilities", of(with(report(), 1, Some(names(1_025))))),
        bad("report-to", "a label of 129 bytes", of(with(report(), 2, Some(array(&[tstr(&"l".repeat(129))]))))),
        bad("report-to", "a class that does not exist", of(with(report(), 7, Some(array(&[uint(3)]))))),
        bad("report-to", "nine classes", of(with(report(), 7, Some(array(&vec![uint(0); 9]))))),
        bad("report-to", "a load of more than 16 bits", of(with(report(), 8, Some(uint(65_536))))),
        bad("report-to", "a report without its load", of(with(report(), 8, None))),
        good("report-to", "agents that answer some", of(answering(&[some(1, 1), some(2, 0)]))),
        good("report-to", "sixteen sets of agents", of(answering(&vec![some(1, 1); 16]))),
        bad("report-to", "seventeen sets of agents", of(answering(&vec![some(1, 1); 17]))),
        good("report-to", "512 agents that answer some", of(answering(&[some(256, 1), some(256, 1)]))),
        bad("report-to", "513 agents that answer some", of(answering(&[some(256, 1), some(257, 1)]))),
        bad("report-to", "agents that answer seventeen", of(answering(&[some(1, 17)]))),
        good("fetch", "a part of a result", map(&[group(), (1, bstr(&[9; 32])), (2, uint(3))])),
        bad("fetch", "a part of a result with a short digest", map(&[group(), (1, bstr(&[9; 31])), (2, uint(3))])),
        bad("fetch", "a part of no number", map(&[group(), (1, bstr(&[9; 32]))])),
        good("fetched", "a part", array(&[uint(0), array(&[bstr(b"out")])])),
        good("fetched", "no such part", array(&[uint(1), array(&[])])),
        bad("fetched", "a part without bytes", array(&[uint(0), array(&[])])),
        good("reported", "it was read", uint(0)),
        bad("reported", "it was something else", uint(1)),
    ]
}
