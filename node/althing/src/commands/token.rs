//! `althing token`; needs no running node. One that runs reads the file again by itself.

use serde_json::json;

use crate::args::Token;
use crate::commands::{Out, rows, text};
use crate::exit::Failure;
use crate::paths::Paths;
use crate::ports::entropy;
use crate::tokens::Tokens;

/// Makes, lists or removes tokens of the gateway.
pub fn run(at: &Paths, token: &Token, out: &Out) -> Result<(), Failure> {
    let tokens = Tokens::of(&at.data);
    match token {
        Token::Add { holder, scope, agent } => {
            let made = tokens.add(holder, scope, agent, entropy().bytes())?;
            out.show(&json!({ "name": holder, "token": made }), |made| {
                format!(
                    "{}\nThis is the only time that it is shown. Requests carry it: Authorization: Bearer …",
                    text(made, "token")
                )
            });
        }
        Token::List => {
            let all = tokens.all()?.into_iter();
            let all: Vec<_> =
                all.map(|(name, kept)| json!({ "name": name, "scopes": kept.scopes, "agents": kept.agents })).collect();
            out.show(&json!({ "tokens": all }), |all| {
                let words = |token: &serde_json::Value, name: &str| {
                    let words = token[name].as_array().into_iter().flatten().filter_map(|word| word.as_str());
                    words.collect::<Vec<_>>().join(" ")
                };
                let line = |token: &serde_json::Value| {
                    let agents = words(token, "agents");
                    let agents = if agents.is_empty() { String::new() } else { format!("  agents: {agents}") };
                    format!("{}  {}{agents}\n", text(token, "name"), words(token, "scopes"))
                };
                rows(all, "tokens").iter().map(line).collect()
            });
        }
        Token::Remove { holder } => {
            let left = tokens.remove(holder)?;
            out.show(&json!({ "removed": holder, "left": left }), |removed| {
                let holder = text(removed, "removed");
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
