//! A set of policies as an owner wrote it.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;
use std::sync::Arc;

use cedar_policy::{
    ActionConstraint, Authorizer, Effect, Entities, EntityUid, PolicyId, Request, ValidationError, ValidationMode,
};
use miette::Diagnostic;
use sha2::{Digest as _, Sha256};

use crate::bounds::{self, Bounds};
use crate::demand::{self, Demand};
use crate::finding::{Finding, Place};
use crate::schema::{Acts, Schema};
use crate::scopes::Scopes;
use crate::world::literals;

/// Findings that one answer names; more of them help nobody.
const FINDINGS_MAX: usize = 20;
/// Characters of a text that a finding quotes.
const QUOTE_CHARS_MAX: usize = 40;

/// A set that may be put in force. It is swapped as a whole.
pub struct PolicySet {
    acts: Arc<Acts>,
    cedar: cedar_policy::PolicySet,
    scopes: Scopes,
    /// See [`literals`].
    literals: Vec<EntityUid>,
    /// Of the policies that ask.
    demands: BTreeMap<String, BTreeSet<Demand>>,
    places: BTreeMap<String, Place>,
    digest: SetDigest,
    warnings: Vec<Finding>,
    authorizer: Authorizer,
}

/// SHA-256 over the text of a set, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetDigest(pub [u8; 32]);

impl std::fmt::Display for SetDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is wrong with a text; the set that was in force stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// At least one, in the order of the text, and at most twenty.
    pub findings: Vec<Finding>,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, finding) in self.findings.iter().enumerate() {
            write!(f, "{}{finding}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ReadError {}

impl std::fmt::Debug for PolicySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicySet").field("digest", &self.digest.to_string()).finish_non_exhaustive()
    }
}

impl PolicySet {
    /// Reads a set and checks it against the tools that are bound. `file` is what findings call it.
    ///
    /// # Errors
    /// What is wrong, each with its place.
    pub fn read(file: &str, text: &str, schema: &Schema, bounds: &Bounds) -> Result<PolicySet, ReadError> {
        let reader = Reader { file, text };
        bounds::check(text, bounds).map_err(|excess| {
            let (place, what, remedy) = (Some(excess.place), excess.what, excess.remedy);
            ReadError { findings: vec![Finding { file: file.to_owned(), place, policy: None, what, remedy }] }
        })?;
        let parsed = cedar_policy::PolicySet::from_str(text);
        let parsed = parsed.map_err(|errors| ReadError { findings: reader.of_parser(&errors) })?;
        let statements = reader.statements(&parsed);
        // What was parsed is freed before more is made of it.
        drop(parsed);
        let mut set = PolicySet {
            acts: schema.acts.clone(),
            cedar: cedar_policy::PolicySet::new(),
            scopes: Scopes::default(),
            literals: Vec::new(),
            demands: BTreeMap::new(),
            places: BTreeMap::new(),
            digest: digest(text),
            warnings: Vec::new(),
            authorizer: Authorizer::new(),
        };
        let mut errors = Vec::new();
        for statement in statements {
            if let Err(error) = set.add(&reader, statement) {
                errors.push(error);
            }
        }
        if errors.is_empty() {
            errors = set.validate(&reader, schema);
        }
        errors.sort_by(|a, b| (a.place, a).cmp(&(b.place, b)));
        errors.dedup();
        errors.truncate(FINDINGS_MAX);
        if !errors.is_empty() {
            return Err(ReadError { findings: errors });
        }
        set.scopes = Scopes::of(&set.cedar);
        set.literals = literals(&set.cedar);
        Ok(set)
    }

    fn add(&mut self, reader: &Reader<'_>, statement: Statement) -> Result<(), Finding> {
        let Statement { id, place, body } = statement;
        let finding = |what: String, remedy: String| reader.finding(Some(place), Some(&id), what, remedy);
        if id.is_empty() {
            let remedy = "name it, or leave the annotation out".to_owned();
            return Err(finding("`@id` is empty".to_owned(), remedy));
        }
        if let Some(other) = self.places.get(&id) {
            let what = format!("the policy at {other} has the same id");
            return Err(finding(what, "give each its own `@id`".to_owned()));
        }
        let demands = demand::demands(body.annotations()).map_err(|(what, remedy)| finding(what, remedy))?;
        if body.effect() == Effect::Forbid && !demands.is_empty() {
            let what = "a forbid asks, and a forbid denies whatever is answered".to_owned();
            return Err(finding(what, "ask in a permit, or leave the annotation out".to_owned()));
        }
        let new_id = PolicyId::new(&id);
        let added = match body {
            Body::Policy(policy) => self.cedar.add(policy.new_id(new_id)),
            Body::Template(template) => self.cedar.add_template(template.new_id(new_id)),
        };
        if added.is_err() {
            return Err(finding("it cannot be added to the set".to_owned(), "give each its own `@id`".to_owned()));
        }
        if !demands.is_empty() {
            self.demands.insert(id.clone(), demands);
        }
        self.places.insert(id, place);
        Ok(())
    }

    /// What is wrong; what only should be looked at goes to the warnings.
    fn validate(&mut self, reader: &Reader<'_>, schema: &Schema) -> Vec<Finding> {
        let result = schema.validator.validate(&self.cedar, ValidationMode::default());
        let mut errors = Vec::new();
        let mut warnings = Vec::new();
        for error in result.validation_errors() {
            let finding = reader.of_validator(error, self.place_of(error.policy_id().as_ref()));
            match error {
                ValidationError::UnrecognizedActionId(_) => warnings.push(finding),
                _ if self.is_of_open_actions(error.policy_id()) => {
                    let remedy = "its arguments have no type here, so that this is not known to be wrong; test it with \
                                  `policy test`";
                    warnings.push(Finding { remedy: remedy.to_owned(), ..finding });
                }
                _ => errors.push(finding),
            }
        }
        for warning in result.validation_warnings() {
            if !self.is_of_open_actions(warning.policy_id()) {
                let place = reader.place(warning).or(self.place_of(warning.policy_id().as_ref()));
                let (what, remedy) = words_of_warning(warning);
                let policy = name_of(warning.policy_id());
                warnings.push(reader.finding(place, Some(&policy), what.to_owned(), remedy.to_owned()));
            }
        }
        warnings.sort_by(|a, b| (a.place, a).cmp(&(b.place, b)));
        warnings.dedup();
        self.warnings = warnings;
        errors
    }

    /// Whether a policy is about tools only whose arguments have no type.
    fn is_of_open_actions(&self, policy: &PolicyId) -> bool {
        let constraint = match (self.cedar.policy(policy), self.cedar.template(policy)) {
            (Some(policy), _) => policy.action_constraint(),
            (None, Some(template)) => template.action_constraint(),
            (None, None) => return false,
        };
        match constraint {
            ActionConstraint::Any => false,
            ActionConstraint::Eq(action) => self.acts.is_open(&action),
            ActionConstraint::In(actions) => {
                !actions.is_empty() && actions.iter().all(|action| self.acts.is_open(action))
            }
        }
    }

    /// Of the text, byte by byte.
    #[must_use]
    pub fn digest(&self) -> SetDigest {
        self.digest
    }

    /// What the owner should look at.
    #[must_use]
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// How many policies and templates it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it denies everything, having no policy.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Where a policy begins in the text.
    #[must_use]
    pub fn place_of(&self, policy: &str) -> Option<Place> {
        self.places.get(policy).copied()
    }

    pub(crate) fn acts(&self) -> &Acts {
        &self.acts
    }

    pub(crate) fn cedar(&self) -> &cedar_policy::PolicySet {
        &self.cedar
    }

    /// The policies that can apply to a request, where these are not all: they decide it as all do.
    pub(crate) fn part(&self, request: &Request, entities: &Entities) -> Option<Arc<cedar_policy::PolicySet>> {
        self.scopes.part(&self.cedar, request, entities)
    }

    /// What conditions name and can read more of than its name.
    pub(crate) fn literals(&self) -> &[EntityUid] {
        &self.literals
    }

    pub(crate) fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// The policies that ask for sign-offs, by their ids: how many persons, and with which role.
    pub fn sign_offs(&self) -> impl Iterator<Item = (&str, u32, &str)> {
        let demands = self.demands.iter().flat_map(|(id, all)| all.iter().map(move |demand| (id, demand)));
        demands.filter_map(|(id, demand)| match demand {
            Demand::SignOff { count, role } => Some((id.as_str(), *count, role.as_str())),
            Demand::Consent { .. } => None,
        })
    }

    /// `None` where it asks for nothing.
    pub(crate) fn demands_of(&self, policy: &str) -> Option<&BTreeSet<Demand>> {
        self.demands.get(policy)
    }
}

/// As it was written: the display form of an id is escaped, and would not be found again.
pub(crate) fn name_of(policy: &PolicyId) -> String {
    let name: &str = policy.as_ref();
    name.to_owned()
}

fn digest(text: &str) -> SetDigest {
    let mut hash = Sha256::new();
    hash.update(b"althing policy set\n");
    hash.update(text.as_bytes());
    SetDigest(hash.finalize().into())
}

/// One policy or template of a text.
struct Statement {
    id: String,
    place: Place,
    body: Body,
}

enum Body {
    Policy(cedar_policy::Policy),
    Template(cedar_policy::Template),
}

impl Body {
    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        let (policy, template) = match self {
            Body::Policy(policy) => (Some(policy.annotations()), None),
            Body::Template(template) => (None, Some(template.annotations())),
        };
        policy.into_iter().flatten().chain(template.into_iter().flatten())
    }

    fn effect(&self) -> Effect {
        match self {
            Body::Policy(policy) => policy.effect(),
            Body::Template(template) => template.effect(),
        }
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    /// In the order of the text, in which the parser numbers them.
    fn statements(&self, parsed: &cedar_policy::PolicySet) -> Vec<Statement> {
        let policies = parsed
            .policies()
            .map(|policy| (policy.id().clone(), policy.to_cedar().unwrap_or_default(), Body::Policy(policy.clone())));
        let templates = parsed
            .templates()
            .map(|template| (template.id().clone(), template.to_cedar(), Body::Template(template.clone())));
        let mut all: Vec<(PolicyId, String, Body)> = policies.chain(templates).collect();
        let number = |id: &PolicyId| name_of(id).trim_start_matches("policy").parse::<usize>().unwrap_or(usize::MAX);
        all.sort_by_key(|(id, ..)| number(id));
        let mut from = 0;
        let statement = |(id, source, body): (PolicyId, String, Body)| {
            let found = self.text[from..].find(&source).map(|at| from + at);
            let start = found.unwrap_or(from);
            from = found.map_or(from, |start| start + source.len());
            let own = body.annotations().find(|(name, _)| *name == "id").map(|(_, own)| own.to_owned());
            Statement { id: own.unwrap_or_else(|| name_of(&id)), place: Place::of(self.text, start), body }
        };
        all.into_iter().map(statement).collect()
    }

    fn finding(&self, place: Option<Place>, policy: Option<&String>, what: String, remedy: String) -> Finding {
        Finding { file: self.file.to_owned(), place, policy: policy.cloned(), what, remedy }
    }

    fn of_parser(&self, errors: &cedar_policy::ParseErrors) -> Vec<Finding> {
        let finding = |error: &cedar_policy::ParseError| {
            let quote = self.quote(error);
            let what = match quote.as_str() {
                "" => "the text is no Cedar policy here, or ends too early".to_owned(),
                quote => format!("`{quote}` cannot stand here"),
            };
            let remedy = "a policy is `permit` or `forbid`, its scope in brackets, conditions, and a semicolon";
            self.finding(self.place(error), None, what, remedy.to_owned())
        };
        errors.iter().take(FINDINGS_MAX).map(finding).collect()
    }

    fn of_validator(&self, error: &ValidationError, policy_at: Option<Place>) -> Finding {
        let quote = self.quote(error);
        let (what, remedy) = words_of_error(error);
        let what = if quote.is_empty() { what.to_owned() } else { format!("{what} (`{quote}`)") };
        let policy = name_of(error.policy_id());
        self.finding(self.place(error).or(policy_at), Some(&policy), what, remedy.to_owned())
    }

    fn place(&self, diagnostic: &dyn Diagnostic) -> Option<Place> {
        let label = diagnostic.labels()?.next()?;
        Some(Place::of(self.text, label.offset()))
    }

    /// What the diagnostic is about, in one line.
    fn quote(&self, diagnostic: &dyn Diagnostic) -> String {
        let label = diagnostic.labels().and_then(|mut labels| labels.next());
        let part = label.and_then(|label| self.text.get(label.offset()..label.offset() + label.len()));
        let line = part.unwrap_or_default().lines().next().unwrap_or_default();
        line.chars().take(QUOTE_CHARS_MAX).collect()
    }
}

fn words_of_error(error: &ValidationError) -> (&'static str, &'static str) {
    use cedar_policy::ValidationError as Error;
    match error {
        Error::UnrecognizedEntityType(_) => {
            ("it names a type that there is not", "the types are listed in the documentation of policies")
        }
        Error::UnrecognizedActionId(_) => (
            "it names an action of no gate, and of no tool that is bound here",
            "it applies as soon as such a tool is bound",
        ),
        Error::UnexpectedType(_) => (
            "a value has another type than is needed here",
            "compare it with the schema of the tool or the list of members",
        ),
        Error::IncompatibleTypes(_) => ("two values of different types meet", "compare values of one type"),
        Error::UnsafeAttributeAccess(_) => {
            ("it reads a member that is not known", "compare it with the schema of the tool or the list of members")
        }
        Error::UnsafeOptionalAttributeAccess(_) => (
            "it reads a member that may be absent",
            "ask with `has` before, such as `context.input has q && context.input.q == \"x\"`",
        ),
        Error::UndefinedFunction(_) => ("it calls a function that there is not", "the functions are those of Cedar"),
        Error::WrongNumberArguments(_) => ("a function has too many or too few arguments", "write as many as it takes"),
        Error::FunctionArgumentValidation(_) | Error::NonLitExtConstructor(_) => {
            ("a value is made of what cannot be one", "write the text of the value within the quotes")
        }
        Error::EmptySetForbidden(_) => {
            ("it has a set without elements, whose type is not known", "write at least one element")
        }
        _ => ("it does not fit the schema of policies", "compare it with the documentation of policies"),
    }
}

fn words_of_warning(warning: &cedar_policy::ValidationWarning) -> (&'static str, &'static str) {
    use cedar_policy::ValidationWarning as Warning;
    match warning {
        Warning::ImpossiblePolicy(_) => ("it can never apply", "look at its conditions: one of them is always false"),
        Warning::InvalidActionApplication(_) => {
            ("it can never apply", "its action is not for this type of principal or of resource")
        }
        _ => (
            "it contains characters that look like others, or that change the order of what is read",
            "write them anew",
        ),
    }
}
