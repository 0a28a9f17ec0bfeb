//! The principal chain of a call: on whose behalf it is made, the origin first (SPEC P-54). A node proves its key and its
//! owner; everything else in a chain is a claim of the node that sent it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr as _;

use althing_communication::{Caller, CallerRefused, CallerRule, Trust};
use althing_protocol::limits::PRINCIPALS_MAX;
use althing_protocol::{AgentId, CallerId, PublisherId};

/// Why an agent is not called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// It is already in the chain and waits for the answer.
    #[error("{0} waits for this answer already")]
    Loop(AgentId),
    /// The chain is too long.
    #[error("{PRINCIPALS_MAX} callers wait for each other already, which is the maximum")]
    TooLong,
}

/// Why a call is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainRefused {
    /// The caller may not call the agent.
    #[error(transparent)]
    Caller(#[from] CallerRefused),
    /// The caller may, but a principal before it may not.
    #[error(
        "{who:?} stands behind this call and may not call this agent itself; its owner can allow that, and an agent whose \
         file says `asks_as: itself` asks in its own name"
    )]
    Behind {
        /// That principal.
        who: String,
    },
}

/// Prefix of the first principal of a chain that an agent restarted; the number of principals that were left out follows,
/// including those of earlier restarts.
const BEGUN_ANEW: &str = "anew:";
/// Prefix of a user's name.
const USER: &str = "token:";
/// Bytes of a user's name.
const USER_BYTES_MAX: usize = 64;
/// Characters of a principal in a message.
const SHOWN_CHARS_MAX: usize = 100;

/// A principal: on whose behalf a call is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A local user of the next principal's node.
    Local,
    /// The holder of that node's gateway token.
    Token,
    /// A user of that node's gateway, by name.
    User(String),
    /// An agent.
    Agent(AgentId),
    /// A publisher, or a node.
    Caller(CallerId),
    /// The mark of a restarted chain, as written.
    Anew(String),
    /// A name that no caller rule knows.
    Other(String),
}

impl Principal {
    /// Parses a principal; it is always written again as it was read.
    #[must_use]
    pub fn parse(text: &str) -> Principal {
        if text.starts_with(BEGUN_ANEW) {
            return Principal::Anew(text.to_owned());
        }
        let read = match text {
            "local" => Some(Principal::Local),
            "token" => Some(Principal::Token),
            _ if text.strip_prefix(USER).is_some_and(is_user_name) => {
                Some(Principal::User(text[USER.len()..].to_owned()))
            }
            _ => {
                AgentId::from_str(text).map(Principal::Agent).ok().or_else(|| text.parse().map(Principal::Caller).ok())
            }
        };
        read.filter(|read| read.to_string() == text).unwrap_or_else(|| Principal::Other(text.to_owned()))
    }

    fn anew(left_out: usize) -> Principal {
        Principal::Anew(format!("{BEGUN_ANEW}{left_out}"))
    }

    fn agent(&self) -> Option<&AgentId> {
        if let Principal::Agent(agent) = self { Some(agent) } else { None }
    }

    /// The name of the user that it is.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        if let Principal::User(name) = self { Some(name) } else { None }
    }

    /// The node or owner that a caller rule knows it by; an agent is known by its publisher.
    fn known(&self) -> Option<CallerId> {
        match self {
            Principal::Agent(agent) => Some(CallerId::Publisher(agent.publisher())),
            Principal::Caller(caller) => Some(*caller),
            Principal::Local | Principal::Token | Principal::User(_) | Principal::Anew(_) | Principal::Other(_) => None,
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Local => f.write_str("local"),
            Principal::Token => f.write_str("token"),
            Principal::User(name) => write!(f, "{USER}{name}"),
            Principal::Agent(agent) => agent.fmt(f),
            Principal::Caller(caller) => caller.fmt(f),
            Principal::Anew(text) | Principal::Other(text) => f.write_str(text),
        }
    }
}

/// Whether a gateway's user may have that name (SPEC P-157).
#[must_use]
pub fn is_user_name(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._@-".contains(&byte);
    (1..=USER_BYTES_MAX).contains(&name.len()) && name.bytes().all(word)
}

/// Writes a chain.
#[must_use]
pub fn written(principals: &[Principal]) -> Vec<String> {
    principals.iter().map(Principal::to_string).collect()
}

/// Reads a chain.
#[must_use]
pub fn read(principals: &[String]) -> Vec<Principal> {
    principals.iter().map(|principal| Principal::parse(principal)).collect()
}

/// The chain as received: its last principal is the authenticated caller, the node's owner or else the node. An agent of
/// that owner counts as the same.
#[must_use]
pub fn received(principals: &[String], caller: &Caller) -> Vec<Principal> {
    let mut principals = read(principals);
    let verified = Principal::Caller(caller.id());
    let last = principals.last();
    let of_the_owner = last.and_then(Principal::agent).map(AgentId::publisher);
    let is_said = last == Some(&verified) || of_the_owner.is_some() && of_the_owner == caller.owner;
    if !is_said {
        principals.push(verified);
    }
    principals
}

/// The user of this owner's gateways on whose behalf a call is made, by name. It is one where whoever comes after them in the chain is
/// the owner, or an agent that the owner publishes: then the owner's own nodes said so. What a node of somebody else says of its people
/// is a claim about these, whatever their names are, also where an agent of that one stands last and no caller is named; and a chain
/// that was restarted has no user.
#[must_use]
pub fn user_of(principals: &[Principal], owner: PublisherId) -> Option<&str> {
    let (first, after) = principals.split_first()?;
    let is_own = |principal: &Principal| match principal {
        Principal::Agent(agent) => agent.publisher() == owner,
        Principal::Caller(caller) => *caller == CallerId::Publisher(owner),
        Principal::Local | Principal::Token | Principal::User(_) | Principal::Anew(_) | Principal::Other(_) => false,
    };
    first.user().filter(|_| after.iter().all(is_own))
}

/// The chain with which `from`, an agent of this node that works for `principals`, calls `to`.
///
/// An agent that waits for itself would wait forever. Only agents that a node of their own publisher put into the chain
/// count: anybody can write any agent's id into a chain. Other loops end at the maximum length.
///
/// # Errors
/// See [`ChainError`].
pub fn asked_by(principals: &[Principal], from: &AgentId, to: &AgentId) -> Result<Vec<Principal>, ChainError> {
    let waiting = principals.iter().rev().map_while(Principal::agent);
    let mut proven = waiting.take_while(|agent| agent.publisher() == to.publisher());
    if to == from || proven.any(|agent| agent == to) {
        return Err(ChainError::Loop(to.clone()));
    }
    if principals.len() + left_out(principals) >= PRINCIPALS_MAX {
        return Err(ChainError::TooLong);
    }
    Ok(principals.iter().cloned().chain([Principal::Agent(from.clone())]).collect())
}

/// The chain with which `from`, whose file has `asks_as: itself`, calls `to`. It counts the principals that it leaves out:
/// agents that call each other in a ring, each as itself, would wait forever otherwise.
///
/// # Errors
/// See [`ChainError`].
pub fn asked_as_itself(principals: &[Principal], from: &AgentId, to: &AgentId) -> Result<Vec<Principal>, ChainError> {
    let chain = asked_by(principals, from, to)?;
    let named = chain.iter().filter(|who| !matches!(who, Principal::Anew(_))).count() - 1;
    Ok(vec![Principal::anew(named + left_out(principals)), Principal::Agent(from.clone())])
}

/// How many principals the restarted chain says that it left out.
fn left_out(principals: &[Principal]) -> usize {
    match principals.first() {
        Some(Principal::Anew(text)) => text[BEGUN_ANEW.len()..].parse().unwrap_or(PRINCIPALS_MAX),
        _ => 0,
    }
}

/// The caller that each principal counts as; none for a name that no rule knows. A local user, and the mark of a restarted
/// chain, count as the next principal in the chain.
fn behind(principals: &[Principal], caller: &Caller) -> Vec<Option<CallerId>> {
    let mut writer = caller.id();
    let mut behind: Vec<_> = principals
        .iter()
        .rev()
        .map(|principal| {
            if matches!(principal, Principal::Local | Principal::Token | Principal::User(_) | Principal::Anew(_)) {
                return Some(writer);
            }
            let known = principal.known()?;
            writer = known;
            Some(known)
        })
        .collect();
    behind.reverse();
    behind
}

/// Checks whether the rule allows `caller` and each principal before it: nobody gets through another agent what it may not
/// call itself (confused deputy).
///
/// # Errors
/// [`ChainRefused`].
pub fn may_call(
    trust: &Trust,
    rule: &CallerRule,
    caller: &Caller,
    principals: &[Principal],
) -> Result<(), ChainRefused> {
    trust.check(rule, caller)?;
    let allows = |who: Option<CallerId>| {
        let own = who == Some(CallerId::Publisher(trust.owner)) || who == Some(CallerId::Node(trust.node));
        // Local users of a trusted node, and its owner's agents, count as the node.
        if who == Some(caller.id()) {
            return true;
        }
        let among = |set: &BTreeSet<CallerId>| who.is_some_and(|who| set.contains(&who));
        match rule {
            CallerRule::ThisNode | CallerRule::Own => own,
            CallerRule::Trusted => own || trust.private && who.is_some() || among(&trust.trusted),
            CallerRule::Anyone => true,
            CallerRule::Listed(set) => own || among(set),
        }
    };
    let refused = behind(principals, caller).into_iter().zip(principals).find(|(who, _)| !allows(*who));
    match refused {
        None => Ok(()),
        Some((who, principal)) => Err(ChainRefused::Behind {
            who: who
                .map_or_else(|| principal.to_string().chars().take(SHOWN_CHARS_MAX).collect(), |who| who.to_string()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    fn caller(node: u8, owner: Option<u8>) -> Caller {
        let key = |seed: u8| SecretKey::from_seed(&[seed; 32]).public();
        let agent = |seed: u8| id(seed, "any").publisher();
        Caller { node: key(node), owner: owner.map(agent) }
    }

    fn id(owner: u8, name: &str) -> AgentId {
        AgentId::new(PublisherId::from_digest([owner; 32]), name).expect("a name")
    }

    fn owner(seed: u8) -> String {
        id(seed, "any").publisher().to_string()
    }

    #[test]
    fn the_last_principal_is_who_proved_to_call() {
        let node = caller(1, None).node.to_string();
        let agent = |owner: u8| id(owner, "a").to_string();
        let cases = [
            (vec![], caller(1, Some(9)), vec![owner(9)]),
            (vec![], caller(1, None), vec![node.clone()]),
            (vec!["local".to_owned()], caller(1, Some(9)), vec!["local".to_owned(), owner(9)]),
            (vec![agent(9)], caller(1, Some(9)), vec![agent(9)]),
            (vec![owner(9)], caller(1, Some(9)), vec![owner(9)]),
            // Another owner's agent is only said to be behind it.
            (vec![agent(8)], caller(1, Some(9)), vec![agent(8), owner(9)]),
            (vec![agent(9)], caller(1, None), vec![agent(9), node]),
        ];
        for (said, caller, chain) in cases {
            assert_eq!(written(&received(&said, &caller)), chain, "{said:?}");
        }
    }

    #[test]
    fn a_user_whom_a_node_of_somebody_else_names_is_no_user_of_this_owner() {
        let (own, other) = (9, 8);
        let of = |said: &[&str], by: &Caller| {
            let said: Vec<String> = said.iter().map(|&who| who.to_owned()).collect();
            user_of(&received(&said, by), id(own, "any").publisher()).map(str::to_owned)
        };
        let (clerk, asker) = (id(own, "clerk").to_string(), id(other, "asker").to_string());
        let (ours, theirs, nobodys) = (caller(1, Some(own)), caller(2, Some(other)), caller(3, None));
        // Their agent stands last, so that their node is not named.
        assert_eq!(written(&received(&["token:ada".to_owned(), asker.clone()], &theirs)), ["token:ada", &asker]);
        for (said, by) in [
            (vec!["token:ada", &asker], &theirs),
            (vec!["token:ada"], &theirs),
            (vec!["token:ada", &clerk], &theirs),
            (vec!["token:ada", &clerk, &asker], &theirs),
            (vec!["token:ada", &clerk], &nobodys),
            // The owner's own agent asks on for them.
            (vec!["token:ada", &asker, &clerk], &ours),
            (vec!["token:ada", &owner(other), &clerk], &ours),
            (vec!["anew:1", "token:ada", &clerk], &ours),
            (vec!["local", &clerk], &ours),
        ] {
            assert_eq!(of(&said, by), None, "{said:?} by {:?}", by.owner);
        }
        for said in [vec!["token:ada"], vec!["token:ada", &clerk], vec!["token:ada", &owner(own), &clerk]] {
            assert_eq!(of(&said, &ours).as_deref(), Some("ada"), "{said:?}");
        }
        let here = [Principal::parse("token:ada"), Principal::parse(&clerk)];
        assert_eq!(user_of(&here, id(own, "any").publisher()), Some("ada"), "on this node");
    }

    #[test]
    fn nobody_but_an_agents_own_node_says_that_it_waits() {
        let (a, b) = (id(1, "a"), id(2, "b"));
        let asks = |said: &[&str], by: &Caller| {
            let said: Vec<String> = said.iter().map(|&who| who.to_owned()).collect();
            asked_by(&received(&said, by), &a, &b).map(|chain| written(&chain))
        };
        let b_says = b.to_string();
        assert_eq!(asks(&["local", &b_says], &caller(7, Some(2))), Err(ChainError::Loop(b.clone())));
        let sibling = id(2, "c").to_string();
        assert_eq!(asks(&["local", &b_says, &sibling], &caller(7, Some(2))), Err(ChainError::Loop(b.clone())));
        for liar in [caller(7, Some(9)), caller(7, None)] {
            let chain = asks(&["local", &b_says], &liar).expect("the liar's word does not count");
            assert_eq!(chain.last(), Some(&a.to_string()));
            assert!(chain.contains(&b_says), "it is kept for whoever decides on the chain");
        }
        assert_eq!(asked_by(&[], &a, &a), Err(ChainError::Loop(a.clone())));
    }

    /// The deputy matrix (threat row 9): X asks A, and A asks B on another node.
    #[test]
    fn nobody_gets_through_an_agent_what_it_may_not_have_itself() {
        let owner_of = |seed: u8| PublisherId::from_digest([seed; 32]);
        let trusted = |seed: &u8| CallerId::Publisher(owner_of(*seed));
        let (x, a, b, friend) = (1, 2, 3, 4);
        let chains = [
            ("X's person, by A", vec!["local".to_owned(), owner(x), id(a, "a").to_string()]),
            ("X's agent, by A", vec!["local".to_owned(), id(x, "x").to_string(), id(a, "a").to_string()]),
            ("A's person", vec!["local".to_owned(), id(a, "a").to_string()]),
            ("A itself", vec![id(a, "a").to_string()]),
            ("a friend, by A", vec![owner(friend), id(a, "a").to_string()]),
            ("nobody that is known, by A", vec!["alice".to_owned(), id(a, "a").to_string()]),
        ];
        let everything = ["X's person, by A", "X's agent, by A", "A's person", "A itself", "a friend, by A"];
        let trusting = |seeds: &[u8]| Trust {
            node: caller(30, None).node,
            owner: owner_of(b),
            trusted: seeds.iter().map(trusted).collect(),
            private: false,
        };
        let listed = |seeds: &[u8]| CallerRule::Listed(seeds.iter().map(trusted).collect());
        let cases = [
            (trusting(&[a]), CallerRule::Trusted, vec!["A's person", "A itself"]),
            (trusting(&[a, friend]), CallerRule::Trusted, vec!["A's person", "A itself", "a friend, by A"]),
            (trusting(&[a, x, friend]), CallerRule::Trusted, everything.to_vec()),
            (trusting(&[x]), CallerRule::Trusted, vec![]),
            (trusting(&[]), listed(&[a]), vec!["A's person", "A itself"]),
            (trusting(&[x, a]), listed(&[x]), vec![]),
            (trusting(&[a, x]), CallerRule::Own, vec![]),
            (trusting(&[a, x]), CallerRule::ThisNode, vec![]),
            (Trust { private: true, ..trusting(&[]) }, CallerRule::Trusted, everything.to_vec()),
        ];
        let by_a = caller(20, Some(a));
        for (trust, rule, allowed) in cases {
            for (name, chain) in &chains {
                let chain = received(chain, &by_a);
                let may = may_call(&trust, &rule, &by_a, &chain);
                assert_eq!(may.is_ok(), allowed.contains(name), "{rule:?} {name}: {may:?}");
            }
        }
        assert!(
            chains.iter().all(|(_, chain)| may_call(&trusting(&[]), &CallerRule::Anyone, &by_a, &read(chain)).is_ok())
        );

        // Trusting a node lets it speak for its owner, and for nobody else.
        let node_trusted = Trust { trusted: BTreeSet::from([CallerId::Node(by_a.node)]), ..trusting(&[]) };
        for (name, chain) in &chains {
            let chain = received(chain, &by_a);
            let may = may_call(&node_trusted, &CallerRule::Trusted, &by_a, &chain);
            assert_eq!(may.is_ok(), ["A's person", "A itself"].contains(name), "{name}: {may:?}");
        }

        // On one node, and between an owner's own nodes, whoever sits there is the owner.
        for (by, said) in [
            (Caller { node: caller(30, None).node, owner: Some(owner_of(b)) }, "local"),
            (caller(31, Some(b)), "token"),
        ] {
            let chain = received(&[said.to_owned(), id(b, "c").to_string()], &by);
            assert_eq!(may_call(&trusting(&[]), &CallerRule::Own, &by, &chain), Ok(()));
        }
    }

    #[test]
    fn a_principal_is_written_as_it_was_read() {
        let (agent, caller) = (id(1, "a").to_string(), owner(2));
        for text in
            ["local", "token", "", "LOCAL", "anew:7", "anew:", "anew:07", "alice", "urn:althing:", &agent, &caller]
        {
            assert_eq!(Principal::parse(text).to_string(), text);
        }
        assert_eq!(Principal::parse(&agent), Principal::Agent(id(1, "a")));
        assert_eq!(Principal::parse("LOCAL"), Principal::Other("LOCAL".to_owned()));
    }

    #[test]
    fn a_chain_ends() {
        let (a, b) = (id(1, "a"), id(2, "b"));
        let long = |length: usize| vec![Principal::Local; length];
        assert_eq!(asked_by(&long(PRINCIPALS_MAX - 1), &a, &b).map(|chain| chain.len()), Ok(PRINCIPALS_MAX));
        for length in [PRINCIPALS_MAX, PRINCIPALS_MAX + 1] {
            assert_eq!(asked_by(&long(length), &a, &b), Err(ChainError::TooLong));
        }
    }

    #[test]
    fn a_ring_of_agents_that_ask_as_themselves_ends() {
        let ring = [id(1, "a"), id(2, "b"), id(3, "c")];
        let mut chain = vec![Principal::Local];
        let mut asked = 0;
        let end = loop {
            let (from, to) = (&ring[asked % 3], &ring[(asked + 1) % 3]);
            match asked_as_itself(&chain, from, to) {
                Ok(anew) => chain = received(&written(&anew), &caller(from.publisher().as_bytes()[0], None)),
                Err(end) => break end,
            }
            asked += 1;
            assert!(asked <= PRINCIPALS_MAX, "{chain:?}");
        };
        assert_eq!(end, ChainError::TooLong);
        assert!(asked >= 3, "it may go round once: {asked}");
        for lie in ["anew:", "anew:x", "anew:-1", "anew:99999999999999999999"] {
            let chain = read(&[lie.to_owned(), ring[0].to_string()]);
            assert_eq!(asked_by(&chain, &ring[1], &ring[2]), Err(ChainError::TooLong), "{lie}");
        }
    }
}
