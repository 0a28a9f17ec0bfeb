//! `althing token`; needs no running node. One that runs reads the file again by itself.

use althing_api::{Kind, TokenList, TokenRemoval, TokenSummary};
use althing_client::ClientError;
use althing_gateway::Scope;
use althing_operations::TokenFile;
use serde_json::json;

use crate::args::Token;
use crate::commands::agent::escape;
use crate::commands::{Out, text};
use crate::exit::Failure;
use crate::paths::Paths;
use crate::ports::entropy;

/// Makes, lists or removes tokens of the gateway.
pub async fn run(at: &Paths, token: &Token, out: &Out) -> Result<(), Failure> {
    let tokens = TokenFile::of(&at.data);
    match token {
        Token::Add { holder, scope, agent } => {
            let scopes = scope.iter().map(Scope::to_string).collect();
            let made = tokens.add(holder, scopes, agent, entropy().bytes())?;
            let unknown = unknown(at, agent).await;
            out.show(&json!({ "name": holder, "token": made, "unknownAgents": unknown }), |made| {
                let warned = match unknown.as_slice() {
                    [] => String::new(),
                    some => format!(
                        "\nNo such agent is known here now: {}. The token is good for one once it is there.",
                        some.join(", ")
                    ),
                };
                format!(
                    "{}\nThis is the only time that it is shown. Requests carry it: Authorization: Bearer …{warned}",
                    text(made, "token")
                )
            });
        }
        Token::List => {
            let all = tokens.all()?.into_iter();
            let all = all.map(|(name, entry)| TokenSummary { name, scopes: entry.scopes, agents: entry.agents });
            out.show(&TokenList { tokens: all.collect() }, |all| {
                let line = |TokenSummary { name, scopes, agents }: &TokenSummary| {
                    let agents =
                        if agents.is_empty() { String::new() } else { format!("  agents: {}", agents.join(" ")) };
                    format!("{name}  {}{agents}\n", scopes.join(" "))
                };
                let lines: String = all.tokens.iter().map(line).collect();
                if lines.is_empty() { "no token; `althing token add NAME` makes one".to_owned() } else { lines }
            });
        }
        Token::Remove { holder } => {
            let left = tokens.remove(holder)?;
            out.show(&TokenRemoval { removed: holder.clone(), left }, |TokenRemoval { removed: holder, .. }| {
                let last = if left == 0 {
                    "\nIt was the last one. Nobody else is let in for that: to open the gateway to everybody on this machine, \
                     run: althing token open"
                } else {
                    ""
                };
                format!("the token of {holder} is removed; requests with it are refused from now on{last}")
            });
        }
        Token::Open => {
            tokens.open()?;
            out.show(&json!({ "open": true }), |_| {
                "everybody on this machine may use the gateway without a token, unless `gateway.token` is set"
                    .to_owned()
            });
        }
    }
    Ok(())
}

/// Those of the agents that a running node does not know; none where none runs.
async fn unknown<'a>(at: &Paths, agents: &'a [String]) -> Vec<&'a str> {
    let Ok(client) = at.connect().await else { return Vec::new() };
    let mut unknown = Vec::new();
    for agent in agents {
        let described = client.get(&format!("/describe/{}?anyone=false", escape(agent))).await;
        if matches!(described, Err(ClientError::Problem(problem)) if problem.kind == Kind::NotFound) {
            unknown.push(agent.as_str());
        }
    }
    unknown
}
