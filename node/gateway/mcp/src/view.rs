//! Which agents a client wants to see as tools, by the path and the query of the URL that it uses.

use althing_discovery::Query;
use axum::http::request::Parts;
use serde::Deserialize;

/// Where the listed agents are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Whose {
    /// On this node.
    #[default]
    Local,
    /// Anywhere.
    Mesh,
}

/// The query of `/mcp`: `agents=mesh` lists the agents of all known nodes, the others narrow the list. `agent` alone shows
/// one that is a server of tools as that server.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct View {
    pub agent: Option<String>,
    pub agents: Whose,
    pub text: Option<String>,
    pub capability: Option<String>,
    pub action: Option<String>,
    pub target: Option<String>,
}

/// The agent that the path names: some clients drop the query of an address.
#[derive(Debug, Clone)]
pub(crate) struct OfPath(pub String);

impl View {
    /// The view of the URL that a request was sent to.
    ///
    /// # Errors
    /// What is wrong with its query.
    pub fn of(parts: &Parts) -> Result<View, String> {
        let read = axum::extract::Query::<View>::try_from_uri(&parts.uri);
        let mut view = read.map(|axum::extract::Query(view)| view).map_err(|error| {
            format!("the query of the URL has agent, or agents=local|mesh, text, capability, action, target: {error}")
        })?;
        if let Some(OfPath(named)) = parts.extensions.get() {
            if let Some(other) = view.agent.as_ref().filter(|other| *other != named) {
                return Err(format!("the path of the URL names the agent {named:?}, and its query {other:?}"));
            }
            view.agent = Some(named.clone());
        }
        Ok(view)
    }

    /// What is looked for in the catalogue.
    pub fn query(&self) -> Query {
        Query {
            capability: self.capability.clone(),
            action: self.action.clone(),
            target: self.target.clone(),
            text: self.text.clone(),
            limit: Some(crate::AGENTS_MAX),
            ..Query::default()
        }
    }

    /// Whether agents are left out of the list.
    pub fn narrows(&self) -> bool {
        [&self.text, &self.capability, &self.action, &self.target].iter().any(|member| member.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(uri: &str, path: Option<&str>) -> Result<View, String> {
        let mut request = axum::http::Request::new(());
        *request.uri_mut() = uri.parse().expect("a URI");
        if let Some(agent) = path {
            request.extensions_mut().insert(OfPath(agent.to_owned()));
        }
        View::of(&request.into_parts().0)
    }

    #[test]
    fn path_or_query_names_the_agent() {
        let agent = |uri, path| view(uri, path).map(|view| view.agent);
        assert_eq!(agent("/mcp", None), Ok(None));
        assert_eq!(agent("/mcp?agent=files", None), Ok(Some("files".to_owned())));
        assert_eq!(agent("/mcp/files", Some("files")), Ok(Some("files".to_owned())));
        assert_eq!(agent("/mcp/files?agent=files", Some("files")), Ok(Some("files".to_owned())));
        assert!(agent("/mcp/files?agent=mail", Some("files")).expect_err("two agents").contains("mail"));
        assert!(agent("/mcp?agnt=files", None).expect_err("no member").contains("agents=local|mesh"));
    }
}
