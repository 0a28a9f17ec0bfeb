//! Members of a group: this process, which submits the writes, and two of their own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use althing_communication::{Communication, CommunicationConfig, Entropy, WallClock};
use althing_conformance::groups::{EchoWorker, Owner};
use althing_coordination::{
    GROUPS, Groups, GroupsConfig, OwnerNow, Ports, RAFT, RAFT_LIMITS, RAFT_LOG, RAFT_SNAPSHOTS, RAFT_STATE, RESULTS,
    RaftService, Role, Ticket, Worker,
};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::group::{Author, Command as GroupCommand, GroupId, Policy, Set};
use althing_protocol::{PublicKey, SecretKey};
use althing_store::{RocksStore, StoreConfig};
use rand::Rng as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::{VALUE, Write, boxed};

const NETWORK: &str = althing_conformance::NETWORK;

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_millis()).expect("a date")
}

fn key(number: u8) -> SecretKey {
    SecretKey::from_seed(&[number; 32])
}

/// Starts a member on what lies in `folder`; one that works does each task by repeating what it says.
async fn start(folder: &Path, number: u8, works: bool) -> (Groups, Communication) {
    let key = key(number);
    let clock = WallClock::new(now_ms);
    let listen = vec!["/ip4/127.0.0.1/tcp/0".to_owned()];
    let config = Libp2pConfig { listen, ..Libp2pConfig::new(NETWORK, clock.clone()) };
    let network = Arc::new(Libp2pNetwork::start(&key, config).await.expect("a network"));
    let owner = Owner::new(101);
    let proof = owner.proof(key.public(), now_ms());
    let membership = watch::channel(Some(proof.clone())).1;
    let entropy = Entropy::new(|bytes| rand::rng().fill(bytes));
    let config = CommunicationConfig { network: NETWORK.to_owned(), ..CommunicationConfig::default() };
    let communication = Communication::start(network, key.clone(), membership, config, clock.clone(), entropy.clone());
    communication.trusts(|_| true);
    let families = [GROUPS, RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS, RESULTS];
    let store = Arc::new(RocksStore::open(folder, &families, StoreConfig::default()).expect("a store"));
    let of = Box::new(move || OwnerNow { key: owner.key.clone(), log: owner.log.clone(), proof: Some(proof.clone()) });
    let worker = works.then(|| Arc::new(EchoWorker::default()) as Arc<dyn Worker>);
    let ports = Ports { communication: communication.clone(), key, owner: of, store, clock, entropy, worker };
    let groups = Groups::open(ports, GroupsConfig::new(NETWORK)).await.expect("its groups");
    communication.serve(RAFT, RAFT_LIMITS, Arc::new(RaftService(groups.clone()))).expect("nobody else serves it");
    (groups, communication)
}

/// Child: a member that joins the groups whose tickets come on its standard input, until it is killed.
pub async fn serve() {
    let words: Vec<String> = std::env::args().collect();
    let number = words[3].parse().expect("a number");
    let works = words[4] == "works";
    let (groups, _communication) = start(Path::new(&words[2]), number, works).await;
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        groups.join(&Ticket::read(&line).expect("a ticket")).await.expect("it joins");
        println!("joined");
    }
}

/// A member in a process of its own.
struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Process {
    async fn start(folder: &Path, number: u8, works: bool) -> Process {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .arg("group-member")
            .arg(folder)
            .arg(number.to_string())
            .arg(if works { "works" } else { "votes" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a process");
        let stdin = child.stdin.take().expect("its input");
        let stdout = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut process = Process { child, stdin, stdout };
        process.says("ready").await;
        process
    }

    async fn says(&mut self, word: &str) {
        assert_eq!(self.stdout.next_line().await.expect("a line").as_deref(), Some(word));
    }

    async fn join(&mut self, ticket: &Ticket) {
        self.stdin.write_all(format!("{}\n", ticket.to_text()).as_bytes()).await.expect("it reads");
        self.says("joined").await;
    }
}

/// A group.
pub struct Team {
    folder: PathBuf,
    pub groups: Groups,
    _communication: Communication,
    pub id: GroupId,
    others: Vec<Option<Process>>,
    /// The term after the start.
    first_term: u64,
}

impl Team {
    /// Forms one of three; another process than this one leads.
    pub async fn start(folder: &Path) -> Team {
        let mut team = Team::of(folder, 3, false).await;
        team.hand_over().await;
        team.first_term = team.term();
        team
    }

    /// Forms one of so many members, this process among them, which do tasks if the group `works`.
    pub async fn of(folder: &Path, members: u8, works: bool) -> Team {
        std::fs::create_dir_all(folder).expect("a folder");
        let (groups, communication) = start(&folder.join("1"), 1, works).await;
        let mut others = Vec::new();
        for number in 2..=members {
            others.push(Some(Process::start(&folder.join(number.to_string()), number, works).await));
        }
        let id = GroupId::from_digest([0; 32]);
        let folder = folder.to_owned();
        let mut team = Team { folder, groups, _communication: communication, id, others, first_term: 0 };
        team.id = team.form_one("team").await;
        team
    }

    async fn form_one(&mut self, name: &str) -> GroupId {
        let id = self.groups.create(name, Policy::default()).await.expect("a group");
        for (at, other) in self.others.iter_mut().enumerate() {
            let node = key(u8::try_from(at + 2).expect("few")).public();
            let ticket = self.groups.invite(id, node, 60_000).expect("a ticket");
            other.as_mut().expect("it runs").join(&ticket).await;
        }
        let members = self.others.len() + 1;
        while self.groups.look(id, |state| state.members().voters().len()).expect("the group") < members {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        id
    }

    /// Forms more groups of the same members.
    pub async fn form(&mut self, count: usize) {
        for number in 0..count {
            self.form_one(&format!("idle-{number}")).await;
        }
    }

    fn status(&self) -> althing_coordination::Status {
        loop {
            if let Some(status) = self.groups.overview(self.id).expect("the group").replica {
                return status;
            }
        }
    }

    fn term(&self) -> u64 {
        self.status().term
    }

    /// How often another one led since the start.
    pub fn changes(&self) -> u64 {
        self.term() - self.first_term
    }

    /// Has a process of its own lead.
    async fn hand_over(&self) -> PublicKey {
        loop {
            let status = self.status();
            match status.leader {
                Some(leader) if leader != key(1).public() => return leader,
                // It is refused until that one votes, and has all entries.
                _ if status.role == Role::Leader => drop(self.groups.transfer(self.id, key(2).public()).await),
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Writes values; either under one signature with those that wait, or each under its own.
    pub fn writer(&self, shares: bool) -> Write {
        let (groups, id) = (self.groups.clone(), self.id);
        Arc::new(move |number| {
            let groups = groups.clone();
            let set = Set { key: format!("k{}", number >> 32), value: vec![7; VALUE].into(), if_version: None };
            boxed(async move {
                let command = GroupCommand::Set(set);
                if shares {
                    return groups.command(id, command).await.is_ok();
                }
                let author = Author::Node(key(1).public());
                groups.submit(id, author, &key(1), vec![command]).await.is_ok()
            })
        })
    }

    /// Kills the process that leads.
    pub async fn kill_leader(&mut self) -> usize {
        let leader = self.hand_over().await;
        let at = usize::from(leader == key(3).public());
        if let Some(mut process) = self.others[at].take() {
            process.child.kill().await.expect("it is killed");
        }
        at
    }

    /// Starts a process again, and waits until it has everything.
    pub async fn restart(&mut self, at: usize) {
        let number = u8::try_from(at + 2).expect("few");
        self.others[at] = Some(Process::start(&self.folder.join(number.to_string()), number, false).await);
        let node = key(number).public();
        self.hand_over_to_any().await;
        loop {
            let status = self.status();
            let has = status.replicated.get(&node).copied().flatten();
            if status.role != Role::Leader || has.is_some_and(|has| Some(has) >= status.applied) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// Waits until somebody leads.
    async fn hand_over_to_any(&self) {
        while self.status().leader.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn measured(&self) -> u32 {
        self.others[0].as_ref().and_then(|process| process.child.id()).expect("it runs")
    }

    /// Resident memory of another process, MiB.
    pub fn memory(&self) -> f64 {
        crate::idle::resident(&self.others[0].as_ref().expect("it runs").child)
    }

    /// Processor time that it has used.
    pub fn processor(&self) -> Duration {
        processor(&self.measured().to_string())
    }
}

/// Processor time that this process has used.
pub fn own_processor() -> Duration {
    processor("self")
}

fn processor(process: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("its times");
    let rest = stat.rsplit_once(") ").expect("a name").1;
    let ticks: u64 = rest.split(' ').skip(11).take(2).map(|word| word.parse::<u64>().expect("ticks")).sum();
    // USER_HZ is 100 on Linux.
    Duration::from_millis(ticks * 10)
}
