//! What answers a server's own requests.

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
    ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleClient};
use serde_json::json;

use crate::questions::{Asker, ELICITATION, Questions, cancelled};

/// What a client can do whose user can be asked, or cannot.
pub fn capabilities(may_ask: bool) -> ClientCapabilities {
    let mut all = ClientCapabilities::default();
    if may_ask {
        all.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::default()));
    }
    all
}

/// What answers a server's requests.
pub struct Handler {
    config: ClientConfig,
    questions: Arc<Questions>,
}

impl Handler {
    pub fn new(questions: Arc<Questions>) -> Handler {
        let mut config = ClientConfig::default();
        "althing".clone_into(&mut config.client_info.name);
        env!("CARGO_PKG_VERSION").clone_into(&mut config.client_info.version);
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        // Of a session: it has calls with somebody to ask, and others.
        config.capabilities = capabilities(true);
        Handler { config, questions }
    }
}

impl ClientHandler for Handler {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if !matches!(request, ElicitRequestParams::FormElicitationParams { .. }) {
            return Err(ErrorData::invalid_params("this client asks by forms only, as it declared", None));
        }
        let Some(asker) = context.extensions.get::<Asker>() else { return Ok(cancelled()) };
        tokio::select! {
            answered = self.questions.ask(&request, asker) => Ok(answered),
            () = context.ct.cancelled() => Ok(cancelled()),
        }
    }

    /// A question that can be shown to nobody comes here: one that cannot be read, or whose caller is not known.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method == ELICITATION {
            return Ok(CustomResult(json!(cancelled())));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}
