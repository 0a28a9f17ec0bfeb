//! The owner's keys, the tokens of the gateway, and keys of private networks. What reveals a secret is answered on the control
//! socket alone; what is changed counts from the next request on.

use std::sync::Arc;
use std::time::Duration;

use althing_api::{
    AddToken, GatewayOpening, KeyEvent, MakeNetworkKey, NetworkKeyAddition, NodeWithdrawal, OpenGateway, OwnerKeys,
    RevokeRequest, RotateRequest, TokenAddition, TokenList, TokenRemoval, TokenScope, TokenSummary, WithdrawRequest,
};
use althing_node::OwnerError;
use althing_node::owner::{Owner, key_name, withdrawn};
use althing_operations::{Operations, OwnerFiles, TokenError, TokenFile, TokenRecords};
use althing_protocol::keylog::Change;
use althing_protocol::keyring::Withdrawal;
use althing_protocol::{NetworkKey, PublicKey};
use axum::Json;
use axum::extract::{Path, State};

use crate::body::Body;
use crate::error::{Answer, ApiError};
use crate::requester::Requester;

/// The longest time for which an old key is accepted too, minutes.
const OVERLAP_MINUTES_MAX: u64 = 1_440;

impl From<OwnerError> for ApiError {
    fn from(error: OwnerError) -> ApiError {
        ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
    }
}

impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> ApiError {
        ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
    }
}

/// Does what waits for files, and completes it even if whoever asked hangs up.
async fn with_files<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a change of keys or tokens was not carried out to its end");
        Err(ApiError::failed("the node broke off while it did this: its log says why"))
    })
}

/// `GET /keys`
pub async fn keys(State(node): State<Arc<Operations>>) -> Answer<OwnerKeys> {
    let (files, now_ms) = (owner_files(&node)?, node.clock().now_ms());
    with_files(move || Ok(Json(told(&files.read()?, now_ms)))).await
}

/// `POST /keys/rotate`
pub async fn rotate(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<RotateRequest>,
) -> Answer<OwnerKeys> {
    requester.check_owner()?;
    let RotateRequest { overlap_minutes } = request;
    if overlap_minutes > OVERLAP_MINUTES_MAX {
        let message = format!("an old key is accepted for at most {OVERLAP_MINUTES_MAX} minutes more");
        return Err(ApiError::invalid(message));
    }
    let files = owner_files(&node)?;
    with_files(move || {
        let overlap = Duration::from_secs(overlap_minutes * 60);
        let owner = files.rotate(overlap, node.clock(), node.entropy())?;
        Ok(Json(told(&owner, node.clock().now_ms())))
    })
    .await
}

/// `POST /keys/revoke`
pub async fn revoke(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<RevokeRequest>,
) -> Answer<OwnerKeys> {
    requester.check_owner()?;
    let files = owner_files(&node)?;
    with_files(move || {
        let owner = files.read()?.id().to_string();
        if request.owner != owner {
            let message =
                format!("this ends an owner for ever, and the owner here is {owner}: name it to confirm that");
            return Err(ApiError::invalid(message));
        }
        let owner = files.revoke(node.clock())?;
        Ok(Json(told(&owner, node.clock().now_ms())))
    })
    .await
}

/// `POST /keys/withdraw`
pub async fn withdraw(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<WithdrawRequest>,
) -> Answer<OwnerKeys> {
    requester.check_owner()?;
    let whom = PublicKey::from_did(&request.node).map_err(|error| ApiError::invalid(error.to_string()))?;
    let files = owner_files(&node)?;
    with_files(move || {
        let owner = files.withdraw(whom, node.clock())?;
        Ok(Json(told(&owner, node.clock().now_ms())))
    })
    .await
}

fn owner_files(node: &Operations) -> Result<Arc<OwnerFiles>, ApiError> {
    let files = node.owner_files.get().cloned();
    files.ok_or_else(|| ApiError::failed("this node does not run by files of its owner's keys"))
}

fn told(owner: &Owner, now_ms: u64) -> OwnerKeys {
    let events = owner.log.events().map(|event| {
        let change = match event.change {
            Change::Inception => "inception",
            Change::Rotation => "rotation",
            Change::Revocation => "revocation",
        };
        KeyEvent {
            change: change.to_owned(),
            key: key_name(event.key),
            at_ms: event.issued_at_ms,
            old_key_until_ms: event.previous_until_ms,
        }
    });
    let withdrawal = |taken: Withdrawal| NodeWithdrawal { node: taken.node.did(), until_ms: taken.until_ms };
    OwnerKeys {
        owner: owner.id().to_string(),
        key: key_name(owner.log.current()),
        state: owner.state(now_ms).to_owned(),
        events: events.collect(),
        next_key_here: owner.has_next,
        withdrawn: withdrawn(owner).into_iter().map(withdrawal).collect(),
    }
}

fn token_file(node: &Operations) -> Result<TokenFile, TokenError> {
    node.data().map(TokenFile::of).ok_or(TokenError::NoFolder)
}

/// `GET /tokens`
pub async fn tokens(State(node): State<Arc<Operations>>) -> Answer<TokenList> {
    let file = token_file(&node)?;
    with_files(move || {
        let all = file.all()?.into_iter();
        let tokens = all.map(|(name, entry)| TokenSummary { name, scopes: entry.scopes, agents: entry.agents });
        Ok(Json(TokenList { tokens: tokens.collect() }))
    })
    .await
}

/// `POST /tokens`
pub async fn add_token(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<AddToken>,
) -> Answer<TokenAddition> {
    requester.check_secrets()?;
    let AddToken { name, scopes, agents } = request;
    if scopes.is_empty() {
        return Err(ApiError::invalid("a token without a scope is good for nothing: give it read, call or admin"));
    }
    let (file, random) = (token_file(&node)?, node.entropy().bytes());
    TokenRecords::check(&node.governance).await?;
    let added = with_files(move || {
        let scopes = scopes.into_iter().map(TokenScope::name).map(str::to_owned).collect();
        let token = file.add(&name, scopes, &agents, random)?;
        Ok(Json(TokenAddition { name, token }))
    })
    .await?;
    node.token_records.note(&node.governance).await;
    Ok(added)
}

/// `DELETE /tokens/{name}`
pub async fn remove_token(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Path(name): Path<String>,
) -> Answer<TokenRemoval> {
    requester.check_owner()?;
    let file = token_file(&node)?;
    let removed = with_files(move || {
        let left = file.remove(&name)?;
        Ok(Json(TokenRemoval { removed: name, left }))
    })
    .await?;
    node.token_records.note(&node.governance).await;
    Ok(removed)
}

/// `POST /gateway/open`
pub async fn open(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(_): Body<OpenGateway>,
) -> Answer<GatewayOpening> {
    requester.check_owner()?;
    let file = token_file(&node)?;
    let opened = with_files(move || {
        file.open()?;
        Ok(Json(GatewayOpening { open: true }))
    })
    .await?;
    node.token_records.note(&node.governance).await;
    Ok(opened)
}

/// `POST /network-key`
pub async fn make_network_key(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(_): Body<MakeNetworkKey>,
) -> Answer<NetworkKeyAddition> {
    requester.check_secrets()?;
    let key = NetworkKey::new(node.entropy().bytes());
    Ok(Json(NetworkKeyAddition { mark: key.mark(), text: key.to_text() }))
}

#[cfg(test)]
mod tests {
    use althing_api::Kind;

    use super::*;

    #[test]
    fn what_a_token_is_missing_for_or_in_the_way_of_has_the_status_of_that() {
        let none = TokenError::None { name: "maria".to_owned(), there: Vec::new() };
        assert_eq!(ApiError::from(none).0.kind, Kind::NotFound);
        let taken = ApiError::from(TokenError::Exists("maria".to_owned())).0;
        assert!(taken.kind == Kind::Conflict && taken.remedy.is_some() && !taken.message.contains('`'), "{taken:?}");
    }
}
