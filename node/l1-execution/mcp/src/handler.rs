//! What answers a server's own requests.

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
    ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleClient};
use serde_json::json;

use crate::machine::question::{self, AS_WRITTEN, Question};
use crate::questions::{Asker, Questions, cancelled};

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
    /// Questions come as they were written. The library declines what nobody answers.
    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(cancelled())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != AS_WRITTEN {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let asked = match question::read(request.params) {
            Question::Form(asked) => asked,
            Question::Other => {
                return Err(ErrorData::invalid_params("this client asks by forms only, as it declared", None));
            }
            Question::Unreadable => return Ok(CustomResult(json!(cancelled()))),
        };
        let Some(asker) = context.extensions.get::<Asker>() else { return Ok(CustomResult(json!(cancelled()))) };
        let answered = tokio::select! {
            answered = self.questions.ask(asked, asker) => answered,
            () = context.ct.cancelled() => cancelled(),
        };
        Ok(CustomResult(json!(answered)))
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}
