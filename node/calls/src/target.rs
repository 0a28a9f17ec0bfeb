//! From the name or id of an agent to the agent: the only place that asks L3 what a name means.

use std::collections::BTreeSet;
use std::sync::Arc;

use althing_call::{
    Asker, CallRequest, Callee, Decide, Judgement, MessageContent, OperationError, OutgoingRequest, Principal, Purpose,
    Refusal, Target, TargetChoice,
};
use althing_discovery::{Among, Discovery, FindError, TrustRelation};
use althing_execution::CandidateList;
use althing_failure::{CallStep, Remedy};
use althing_protocol::{AgentId, PublicKey, PublisherId};

/// Trusted publishers among whose agents a name is looked up in the table.
const NEAR_MAX: usize = 8;

/// Hosts, each with its place among all that were found.
type PlacedHosts = Vec<(usize, PublicKey)>;

/// The hosts that have the same version of an agent, with what is judged of a message to any of them: somebody who is asked about it is
/// asked once, and one yes is for all of them.
pub(crate) struct JudgedHosts {
    hosts: PlacedHosts,
    judgement: Judgement,
}

impl JudgedHosts {
    /// Whether that host is among them, and it is not decided yet.
    pub fn waits_at(&self, host: PublicKey) -> bool {
        matches!(self.judgement, Judgement::Later(_)) && self.hosts.iter().any(|(_, known)| *known == host)
    }
}

/// Finds agents for whoever asks for them.
pub(crate) struct Finder {
    discovery: Discovery,
    decide: Arc<dyn Decide>,
    owner: PublisherId,
}

impl Finder {
    /// One that finds what L3 knows, for whom `decide` allows it.
    pub fn new(discovery: Discovery, decide: Arc<dyn Decide>, owner: PublisherId) -> Finder {
        Finder { discovery, decide, owner }
    }

    /// How near a publisher is to this node's owner.
    pub fn relation(&self, publisher: PublisherId) -> TrustRelation {
        self.decide.relation(publisher)
    }

    /// The agent of this node's owner that has that name.
    pub fn own_agent(&self, name: &str) -> Option<AgentId> {
        AgentId::new(self.owner, name).ok()
    }

    /// The agent that is meant, if `asker` may have it for that purpose. Who may not is told so only of an agent that was
    /// found: of a name that none has, everybody is told the same.
    ///
    /// # Errors
    /// `AGENT_UNKNOWN`, also if the name is ambiguous; `AGENT_REVOKED` if it is one of this node's that was stopped for
    /// that; and then those of [`Target::decided`].
    pub async fn target(&self, asker: &Asker, callee: &Callee, purpose: Purpose) -> Result<Target, OperationError> {
        let agent = match (callee, purpose) {
            (Callee::Named(text, among), Purpose::Wait) => {
                let known = self.discovery.resolve(text, *among, |publisher| self.relation(publisher));
                known.map_err(|error| remedied(OperationError::agent_unknown(error.to_string()), step(&error)))?
            }
            (Callee::Named(text, among), _) => self.named(text, *among).await?,
            (Callee::Id(agent), _) => agent.clone(),
        };
        let mut target = Target::decided(self.decide.as_ref(), agent, (asker, callee), purpose).await?;
        if let (Callee::Named(text, _), Purpose::Call) = (callee, purpose) {
            target.choice = TargetChoice::Name(text.clone());
        }
        Ok(target)
    }

    /// The agents among which one was chosen, with why it was that one; none where it was asked for by its id.
    pub fn candidates(&self, target: &Target) -> CandidateList {
        match &target.choice {
            TargetChoice::Name(text) if text.parse::<AgentId>().is_err() => {
                candidates(self.discovery.namesakes(text), &target.agent, |publisher| self.relation(publisher))
            }
            TargetChoice::Name(_) | TargetChoice::Id => CandidateList::default(),
            TargetChoice::Among(list) => list.clone(),
        }
    }

    /// Whether `asker` may have an agent that is known already, as far as that is decided at once: for lists.
    pub fn allows(&self, asker: &Asker, agent: &AgentId, purpose: Purpose) -> bool {
        Target::is_allowed(self.decide.as_ref(), agent, asker, purpose)
    }

    /// Resolves an identifier or a name to an agent. A name that no known agent of a trusted publisher has is looked up in
    /// the table for this node's owner and the publishers it trusts, never for untrusted ones, who can choose any name. A
    /// known agent of an untrusted publisher is resolved only if `among` allows it.
    async fn named(&self, text: &str, among: Among) -> Result<AgentId, OperationError> {
        let relation = |publisher| self.relation(publisher);
        let discovery = &self.discovery;
        let resolved = discovery.resolve(text, among, relation);
        let near = |id: &AgentId| relation(id.publisher()) != TrustRelation::Stranger;
        let settled = text.starts_with("urn:")
            || matches!(&resolved, Err(FindError::Ambiguous { .. }))
            || resolved.as_ref().is_ok_and(near);
        if !settled {
            let publishers = self.decide.near().into_iter().take(NEAR_MAX);
            let ids = publishers.filter_map(|publisher| AgentId::new(publisher, text).ok());
            let looking = ids.map(|id| async move {
                let hosts = discovery.search_hosts(&id).await;
                (!hosts.is_empty()).then_some(id)
            });
            // The owner's own agent comes first.
            if let Some(id) = futures::future::join_all(looking).await.into_iter().flatten().next() {
                return Ok(id);
            }
        }
        match resolved {
            Ok(agent) => Ok(agent),
            Err(error) => {
                let near = self.decide.near().into_iter().take(NEAR_MAX);
                let meant = self.own_agent(text).into_iter();
                let meant = meant.chain(near.filter_map(|publisher| AgentId::new(publisher, text).ok()));
                Err(remedied(self.unknown(meant, error.to_string()).await, step(&error)))
            }
        }
    }

    /// Why nobody hosts any of these agents, the one that was meant or those that may have been.
    pub async fn unknown(&self, meant: impl Iterator<Item = AgentId>, why: String) -> OperationError {
        let meant: Vec<AgentId> = meant.collect();
        let judgement = self.decide.decide(&OutgoingRequest::Absent { agents: &meant, why: &why });
        judgement.decision().await.allowed().err().unwrap_or_else(|| OperationError::agent_unknown(why))
    }

    /// The hosts of an agent to which a message may be sent; an error if there are only others.
    pub async fn permitted(
        &self,
        agent: &AgentId,
        hosts: Vec<PublicKey>,
        request: &CallRequest,
    ) -> Result<Vec<PublicKey>, OperationError> {
        permitted(self.judged(agent, hosts, request)).await
    }

    /// What is judged of a message to these hosts.
    pub fn judged(&self, agent: &AgentId, hosts: Vec<PublicKey>, request: &CallRequest) -> Vec<JudgedHosts> {
        let version = |host: PublicKey| {
            let known = self.discovery.described_by(host, agent)?;
            known.description.version().map(str::to_owned)
        };
        let judged = by_version(hosts, version).into_iter().map(|(version, hosts)| {
            let judgement = self.judge(agent, version.as_deref(), request);
            JudgedHosts { hosts, judgement }
        });
        judged.collect()
    }

    /// Whether a message may be sent to a host that has that version.
    fn judge(&self, agent: &AgentId, version: Option<&str>, request: &CallRequest) -> Judgement {
        let (principals, label) = (&request.metadata.principals, request.metadata.attributes.label);
        // The ids of what agents of this node say are the keys of their steps, or new ones.
        let is_again = matches!(principals.last(), Some(Principal::Agent(_)));
        let content = MessageContent::of(&request.request.params).map(|content| MessageContent { is_again, ..content });
        self.decide.decide(&OutgoingRequest::Message { agent, version, principals, label, content })
    }
}

/// The hosts by the version that each has.
fn by_version(
    hosts: Vec<PublicKey>,
    version: impl Fn(PublicKey) -> Option<String>,
) -> Vec<(Option<String>, PlacedHosts)> {
    let mut all: Vec<(Option<String>, PlacedHosts)> = Vec::new();
    for placed in hosts.into_iter().enumerate() {
        let version = version(placed.1);
        match all.iter_mut().find(|(known, _)| *known == version) {
            Some((_, same)) => same.push(placed),
            None => all.push((version, vec![placed])),
        }
    }
    all
}

/// The hosts to which a message may be sent, of those that were judged; an error if there are only others.
pub(crate) async fn permitted(judged: Vec<JudgedHosts>) -> Result<Vec<PublicKey>, OperationError> {
    let (mut permitted, mut denied) = (PlacedHosts::new(), None);
    for JudgedHosts { hosts, judgement } in judged {
        match judgement.decision().await.allowed() {
            Ok(()) => permitted.extend(hosts),
            // What somebody can consent to says more than what stays denied.
            Err(why) => denied = denied.filter(needs_consent).or(Some(why)),
        }
    }
    permitted.sort_unstable();
    match denied {
        Some(why) if permitted.is_empty() => Err(why),
        _ => Ok(permitted.into_iter().map(|(_, host)| host).collect()),
    }
}

/// The agents of a name that are known, with why one of them was chosen: that one first, and then the nearest.
fn candidates(
    known: BTreeSet<AgentId>,
    chosen: &AgentId,
    relation: impl Fn(PublisherId) -> TrustRelation,
) -> CandidateList {
    let nearness = relation(chosen.publisher());
    let why = match nearness {
        TrustRelation::Own => "chosen: it is the owner's",
        TrustRelation::Trusted => "chosen: the owner trusts its publisher",
        TrustRelation::Stranger => "chosen: strangers' are allowed, and nobody near has one",
    };
    let mut list = CandidateList::default();
    list.add(chosen, None, why);
    let mut others: Vec<(TrustRelation, AgentId)> =
        known.into_iter().filter(|known| known != chosen).map(|known| (relation(known.publisher()), known)).collect();
    others.sort_unstable();
    for (relation, other) in others {
        let is_farther = relation > nearness;
        list.add(&other, None, if is_farther { "left out: its publisher is farther" } else { "left out: found later" });
    }
    list
}

/// Whether somebody can consent to what is refused.
fn needs_consent(refused: &OperationError) -> bool {
    matches!(refused.refusal, Refusal::ConsentRequired { .. })
}

/// What the owner can do next where a name leads to no agent.
fn step(error: &FindError) -> Option<Remedy> {
    match error {
        FindError::Unknown(_) => Some(CallStep::Find.into()),
        FindError::OnlyStrangers { .. } => Some(CallStep::NameStranger.into()),
        FindError::Gone { .. } | FindError::Ambiguous { .. } => None,
    }
}

/// A refusal with that step, unless it is another one than that nobody has the agent.
fn remedied(error: OperationError, step: Option<Remedy>) -> OperationError {
    match step {
        Some(step) if error.refusal == Refusal::AgentUnknown => error.with_remedy(step),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use althing_call::{Consent, Decision};
    use althing_protocol::SecretKey;

    use super::*;

    #[test]
    fn one_judgement_is_for_all_hosts_of_a_version_and_they_keep_their_order() {
        let [one, two, three] = [3, 2, 1].map(|seed| SecretKey::from_seed(&[seed; 32]).public());
        let version = |host| (host != two).then(|| "1.0.0".to_owned());
        let judged = |of_two: Decision| -> Vec<JudgedHosts> {
            let groups = by_version(vec![one, two, three], version);
            let judged = groups.into_iter().map(|(version, hosts)| {
                let decision = if version.is_some() { Decision::Allow } else { of_two.clone() };
                JudgedHosts { hosts, judgement: Judgement::Now(decision) }
            });
            judged.collect()
        };
        assert_eq!(judged(Decision::Allow).len(), 2, "one for each version");
        let asked = Decision::Ask(Consent { to: "it".to_owned() });
        for (of_two, hosts) in [(Decision::Allow, vec![one, two, three]), (asked, vec![one, three])] {
            let permitted = futures::executor::block_on(permitted(judged(of_two)));
            assert_eq!(permitted.expect("some may be asked"), hosts);
        }
        let later = Judgement::Later(Box::pin(std::future::ready(Decision::Allow)));
        let waiting = JudgedHosts { hosts: vec![(0, one), (1, three)], judgement: later };
        assert_eq!([one, two, three].map(|host| waiting.waits_at(host)), [true, false, true]);
        assert!(judged(Decision::Allow).iter().all(|judged| !judged.waits_at(one)), "it is decided");
    }

    #[test]
    fn of_a_name_the_chosen_agent_is_told_first_and_why_the_others_were_left_out() {
        let [own, trusted, stranger] =
            [3, 2, 1].map(|owner| AgentId::new(PublisherId::from_digest([owner; 32]), "echo").expect("a name"));
        let publishers = [own.publisher(), trusted.publisher()];
        let relation = |publisher: PublisherId| match publishers.iter().position(|near| *near == publisher) {
            Some(0) => TrustRelation::Own,
            Some(_) => TrustRelation::Trusted,
            None => TrustRelation::Stranger,
        };
        let known = BTreeSet::from([own.clone(), trusted.clone(), stranger.clone()]);
        let farther = "left out: its publisher is farther";
        let told =
            format!(r#"[{{"id":"{own}","why":"chosen: it is the owner's"}},{{"id":"{trusted}","why":"{farther}"}},"#)
                + &format!(r#"{{"id":"{stranger}","why":"{farther}"}}]"#);
        assert_eq!(candidates(known.clone(), &own, relation).text(), told);
        // One that was found on another node, and is not known by its name yet, is told too.
        let alone = candidates(BTreeSet::new(), &trusted, relation).text();
        assert_eq!(alone, format!(r#"[{{"id":"{trusted}","why":"chosen: the owner trusts its publisher"}}]"#));
    }
}
