//! `althing release stage`: on a build machine, which has a token, and neither a key nor a running node.

use althing_api::Problem;
use althing_control::ApiError;
use althing_operations::registries::{BuildStage, BuiltStage};
use althing_protocol::PublisherId;
use althing_store::file::read_text;
use serde::Serialize;

use crate::args::StageArgs;
use crate::commands::Out;
use crate::exit::Failure;

/// The variable of the environment with the token; it is no argument, which every user of the machine would see.
const TOKEN_VARIABLE: &str = "ALTHING_REGISTRY_TOKEN";
/// Bytes of a file with a token.
const TOKEN_BYTES_MAX: u64 = 4_096;

/// A release that was handed in, as it is told.
#[derive(Serialize)]
struct Stage {
    id: String,
    agent: String,
    version: String,
    digest: String,
    bytes: usize,
}

impl From<BuiltStage> for Stage {
    fn from(BuiltStage { id, agent, version, digest, bytes }: BuiltStage) -> Stage {
        Stage { id, agent: agent.to_string(), version: version.to_string(), digest, bytes }
    }
}

/// Hands a release in.
pub async fn stage(args: &StageArgs, out: &Out) -> Result<(), Failure> {
    let publisher = args.publisher.parse::<PublisherId>().map_err(|error| {
        Failure::usage(format!("--publisher {}: {error}; the publisher's `althing id` prints it", args.publisher))
    })?;
    let cannot = |error: std::io::Error| Failure::usage(format!("{}: {error}", args.file.display()));
    let file = args.file.canonicalize().map_err(cannot)?;
    let stage = BuildStage { file, with: args.with.clone(), publisher, registry: args.registry.clone() };
    let staged = stage.send(token(args)?).await.map_err(|error| Problem::from(ApiError::from(error)))?;
    out.show(&Stage::from(staged), |Stage { id, agent, version, digest, bytes }| {
        format!(
            "{agent} {version} is staged, {bytes} bytes\ndigest    {digest}\napprove   althing release approve {id}"
        )
    });
    Ok(())
}

fn token(args: &StageArgs) -> Result<String, Failure> {
    let token = match &args.token_file {
        Some(path) => {
            let read = read_text(path, TOKEN_BYTES_MAX);
            read.map_err(|error| Failure::usage(format!("--token-file {}: {error}", path.display())))?
        }
        None => std::env::var(TOKEN_VARIABLE).unwrap_or_default(),
    };
    let token = token.trim();
    if token.is_empty() {
        let message = format!(
            "a token is needed, in {TOKEN_VARIABLE} or in --token-file: the registry's operator makes one \
             (althing-registry token add NAME --scope releases:stage --publisher {})",
            args.publisher
        );
        return Err(Failure::usage(message));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use althing_protocol::AgentId;

    use super::*;

    #[test]
    fn scripts_read_of_a_stage_what_they_always_did() {
        let agent = AgentId::new(PublisherId::from_digest([1; 32]), "echo").expect("a name");
        let version = "1.0.0".parse().expect("a version");
        let (id, digest) = ("0a".to_owned(), "0f".to_owned());
        let stage = Stage::from(BuiltStage { id, agent: agent.clone(), version, digest, bytes: 9 });
        let json = serde_json::to_string(&stage).expect("a stage is JSON");
        let expected = format!(r#"{{"id":"0a","agent":"{agent}","version":"1.0.0","digest":"0f","bytes":9}}"#);
        assert_eq!(json, expected);
    }
}
