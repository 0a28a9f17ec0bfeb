//! Blueprints: how fast a model is on a machine, measured here and attested, and suggested by what others measured.

mod figures;
mod server;

use std::time::Duration;

use althing_execution::NodeModels;
use althing_execution::model::MeasuredAnswer;
use althing_failure::{Kind, NodeStep, Remedy};
use althing_node::machine;
use althing_protocol::registry::{Blueprint, Subject};
use althing_protocol::{CallerId, PublisherId};
use althing_td::ModelEndpoint;

use crate::operations::Operations;
use crate::registries::{Claim, RegistriesError};

pub use figures::{Figures, Likeness, MachineFacts, Measurement, Suggestion};

use figures::{median, suggestions};

/// The name of such attestations.
pub const BLUEPRINT: &str = "blueprint";
/// Answers that are measured. One before them is not: the model may have to be loaded.
const ROUNDS: u32 = 3;
/// Between two looks at the memory of the model's server.
const LOOK: Duration = Duration::from_millis(100);

/// Why no blueprint is made or suggested.
#[derive(Debug, thiserror::Error)]
pub enum BlueprintError {
    /// No model is configured.
    #[error("this node has no model: add one to `models` in its configuration")]
    NoModels,
    /// Several are configured.
    #[error("this node has several models: name one: {}", .0.join(", "))]
    Several(Vec<String>),
    /// None of that name is configured.
    #[error("this node has no model {name:?}; it has {}", .has.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What is configured.
        has: Vec<String>,
    },
    /// The model runs elsewhere.
    #[error(
        "{model:?} is at {url}, and only a model of this machine (127.0.0.1, localhost) says something of it: measure it where \
         it runs"
    )]
    Elsewhere {
        /// The model.
        model: String,
        /// Where it is.
        url: String,
    },
    /// The model does not answer.
    #[error("{model:?} cannot be measured: {why}")]
    Model {
        /// The model.
        model: String,
        /// Why.
        why: String,
    },
    /// Its answers are too short for a rate.
    #[error("{model:?} answers with {tokens} tokens at once, and a rate needs more")]
    Short {
        /// The model.
        model: String,
        /// How many tokens its last answer had.
        tokens: u64,
    },
    /// The registry cannot be used, or is not believed.
    #[error(transparent)]
    Registry(Box<RegistriesError>),
}

impl BlueprintError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            BlueprintError::Registry(error) => error.kind(),
            BlueprintError::NoModels
            | BlueprintError::Several(_)
            | BlueprintError::Unknown { .. }
            | BlueprintError::Elsewhere { .. } => Kind::Invalid,
            BlueprintError::Model { .. } | BlueprintError::Short { .. } => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            BlueprintError::Registry(error) => error.remedy(),
            BlueprintError::Short { .. } => Some(NodeStep::MeasureLonger.into()),
            BlueprintError::NoModels
            | BlueprintError::Several(_)
            | BlueprintError::Unknown { .. }
            | BlueprintError::Elsewhere { .. }
            | BlueprintError::Model { .. } => None,
        }
    }
}

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Measuring {
    /// The model's name; the only one if none is named.
    pub model: Option<String>,
    /// Tokens of each answer.
    pub tokens: u64,
    /// Whether the registry is sent the attestation, and for how many days it is in force.
    pub publish_days: Option<u32>,
    /// Which registry; the only one if none is named.
    pub registry: Option<String>,
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The model.
    pub model: String,
    /// The machine, for people.
    pub machine: String,
    /// The figures.
    pub figures: Figures,
    /// The signed attestation.
    pub attestation: Vec<u8>,
    /// The registry that has it, if it was sent.
    pub registry: Option<String>,
}

/// Measures models, and suggests them.
pub struct Blueprints<'a>(&'a Operations);

impl Operations {
    /// What is measured of models here, and what others measured.
    #[must_use]
    pub fn blueprints(&self) -> Blueprints<'_> {
        Blueprints(self)
    }
}

impl From<RegistriesError> for BlueprintError {
    fn from(error: RegistriesError) -> BlueprintError {
        BlueprintError::Registry(Box::new(error))
    }
}

impl Blueprints<'_> {
    /// This machine.
    #[must_use]
    pub fn machine(&self) -> MachineFacts {
        MachineFacts {
            architecture: std::env::consts::ARCH.to_owned(),
            cpu: server::cpu(),
            cores: machine::cores(),
            memory_mib: machine::memory_mib("MemTotal"),
            gpus: machine::gpus(),
        }
    }

    /// Measures a model of this machine, and signs what was measured; sends it to a registry if that is wanted.
    ///
    /// # Errors
    /// See [`BlueprintError`].
    pub async fn measure(&self, wanted: &Measuring) -> Result<Measured, BlueprintError> {
        let endpoint = self.model(wanted.model.as_deref())?.clone();
        let model = endpoint.named().to_owned();
        if !server::is_here(&endpoint.url) {
            return Err(BlueprintError::Elsewhere { model, url: endpoint.url });
        }
        let figures = self.figures(&endpoint, wanted.tokens).await?;
        let machine = figures.machine.name();
        let claim = Claim {
            subject: Subject::Blueprint(Blueprint { model: endpoint.model.clone(), machine: machine.clone() }),
            name: BLUEPRINT.to_owned(),
            finding: serde_json::to_value(&figures).expect("figures are plain"),
            days: wanted.publish_days.unwrap_or(DAYS_DEFAULT),
            content: None,
            registry: wanted.registry.clone(),
        };
        let attesting = self.0.registries.attesting();
        let (attestation, registry) = match wanted.publish_days {
            Some(_) => attesting.attest(&claim).await.map(|attested| (attested.signed, Some(attested.registry)))?,
            None => (attesting.sign(&claim)?, None),
        };
        Ok(Measured { model: endpoint.model, machine, figures, attestation, registry })
    }

    fn model(&self, named: Option<&str>) -> Result<&ModelEndpoint, BlueprintError> {
        let all = NodeModels::of(&self.0.host).all();
        let has = || all.iter().map(|model| model.named().to_owned()).collect::<Vec<_>>();
        match (named, all) {
            (_, []) => Err(BlueprintError::NoModels),
            (None, [only]) => Ok(only),
            (None, _) => Err(BlueprintError::Several(has())),
            (Some(name), _) => {
                let found = all.iter().find(|model| model.named() == name);
                found.ok_or_else(|| BlueprintError::Unknown { name: name.to_owned(), has: has() })
            }
        }
    }

    async fn figures(&self, endpoint: &ModelEndpoint, tokens: u64) -> Result<Figures, BlueprintError> {
        let model = || endpoint.named().to_owned();
        let failed = |why: String| BlueprintError::Model { model: model(), why };
        let port = server::port(&endpoint.url).ok_or_else(|| failed("its address has no port".to_owned()))?;
        let (mut rates, mut firsts, mut memory) = (Vec::new(), Vec::new(), None);
        let (mut last, mut is_estimated) = (0, false);
        for at in 0..=ROUNDS {
            let asked = watching(port, &mut memory, NodeModels::of(&self.0.host).measure(endpoint, tokens)).await;
            let answer: MeasuredAnswer = asked.map_err(|error| failed(error.to_string()))?;
            last = answer.tokens;
            if at > 0 {
                rates.extend(answer.tokens_per_second());
                firsts.push(answer.first.as_secs_f64() * 1_000.0);
                is_estimated |= answer.is_estimated;
            }
        }
        let short = || BlueprintError::Short { model: model(), tokens: last };
        Ok(Figures {
            tokens_per_second: round(median(rates).ok_or_else(short)?),
            first_token_ms: median(firsts).unwrap_or_default() as u64,
            memory_mib: memory,
            rounds: ROUNDS,
            tokens: last,
            estimated: is_estimated,
            quantisation: endpoint.quantisation.clone(),
            machine: self.machine(),
        })
    }

    /// Models that may run here, by what was measured on machines like this one. Gives the registry too.
    ///
    /// # Errors
    /// See [`BlueprintError`].
    pub async fn suggest(
        &self,
        model: Option<&str>,
        registry: Option<&str>,
    ) -> Result<(String, Vec<Suggestion>), BlueprintError> {
        let trusted = self.0.trust.ids().into_iter().filter_map(|id| match id {
            CallerId::Publisher(by) => Some(by),
            CallerId::Node(_) => None,
        });
        let first: Vec<PublisherId> = std::iter::once(self.0.owner().id()).chain(trusted).collect();
        let (at, attested) = self.0.registries.attesting().of_models(BLUEPRINT, model, &first, registry).await?;
        let is_trusted = |by: PublisherId| first.contains(&by);
        let measured = attested.into_iter().filter_map(|one| {
            let body = &one.attestation.body;
            // Whoever writes something else as a blueprint is not understood.
            let figures: Figures = serde_json::from_value(body.finding()).ok()?;
            let model = body.blueprint.as_ref()?.model.clone();
            Some(Measurement { model, figures, by: body.by, is_trusted: is_trusted(body.by), at_ms: one.accepted_ms })
        });
        Ok((at, suggestions(&self.machine(), measured.collect())))
    }
}

/// For how many days an attestation that is not sent is in force.
const DAYS_DEFAULT: u32 = 90;

/// A number with two digits after the point.
fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Looks at the memory of the server on a port while something is done; notes the most that it had.
async fn watching<T>(port: u16, most: &mut Option<u64>, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        // Reading it blocks for microseconds of each process.
        let looked = tokio::task::spawn_blocking(move || server::memory_mib(&server::processes(port)));
        if let Ok(now) = looked.await {
            *most = now.max(*most);
        }
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}
