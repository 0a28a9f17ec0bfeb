//! An agent that a sentence may be for.

/// Near candidates of one router; of more, the first by name.
pub const CANDIDATES_MAX: usize = 256;
/// Strangers' agents of one router; of more, the first by name.
pub const STRANGERS_MAX: usize = 64;
/// Examples of one candidate that are read; of a stranger's, fewer and shorter ones.
const EXAMPLES_MAX: usize = 256;
const STRANGE_EXAMPLES_MAX: usize = 16;
const STRANGE_EXAMPLE_BYTES_MAX: usize = 256;
/// Bytes of one example, and of a description, that are read.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// An agent, and what its publisher says of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Its identifier.
    pub id: String,
    /// Its name. Rows lead to a near agent of that name, and to an agent of that identifier.
    pub name: String,
    /// Whether its publisher is the owner of this node, or trusted by it.
    pub near: bool,
    /// What it is and can do.
    pub description: String,
    /// What people ask it for.
    pub examples: Vec<String>,
}

impl Candidate {
    /// Whether a row that names `agent` is for it.
    pub(crate) fn is(&self, agent: &str) -> bool {
        self.id == agent || (self.near && self.name == agent)
    }

    pub(crate) fn description(&self) -> &str {
        beginning(&self.description, TEXT_BYTES_MAX)
    }

    /// The lines of its description that say something.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.description().lines().filter(|line| !line.trim().is_empty())
    }

    pub(crate) fn examples(&self) -> impl Iterator<Item = &str> {
        let (count, bytes) =
            if self.near { (EXAMPLES_MAX, TEXT_BYTES_MAX) } else { (STRANGE_EXAMPLES_MAX, STRANGE_EXAMPLE_BYTES_MAX) };
        self.examples.iter().take(count).map(move |example| beginning(example, bytes))
    }
}

fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Candidates in order, each once: near ones before strangers, so many of each as a router takes.
pub(crate) fn ordered(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates
        .sort_unstable_by(|a, b| (!a.near, &a.name, &a.id).cmp(&(!b.near, &b.name, &b.id)).then_with(|| a.cmp(b)));
    candidates.dedup_by(|later, earlier| later.id == earlier.id);
    let (mut near, mut strange) = (0, 0);
    candidates.retain(|candidate| {
        let (count, most) = if candidate.near { (&mut near, CANDIDATES_MAX) } else { (&mut strange, STRANGERS_MAX) };
        *count += 1;
        *count <= most
    });
    candidates
}
