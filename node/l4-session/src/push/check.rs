//! What a client may ask for in a configuration.

use a2a::TaskPushNotificationConfig;
use althing_call::OperationError;

/// What a client is told about an address that is refused. Why is not said: it would tell what is in this node's nets.
pub(super) const REFUSED_ADDRESS: &str = "no notification is sent to `url`: it must be http or https, without a password, and lead to an \
     address on the internet; the operator of the agent's node allows private nets by `push.nets`";
/// Bytes of an id, a URL, a token, a scheme, and credentials.
const ID_MAX: usize = 256;
const URL_MAX: usize = 2_048;
const TOKEN_MAX: usize = 1_024;
const SCHEME_MAX: usize = 64;
const CREDENTIALS_MAX: usize = 2_048;

/// Checks the members, and completes the ids: without one, the configuration has the task's, so that a client that sends it
/// twice has one.
pub(super) fn members(config: &mut TaskPushNotificationConfig, task: &str) -> Result<(), OperationError> {
    let wrong = |message: String| Err(OperationError::invalid_params(message));
    if !config.task_id.is_empty() && !task.is_empty() && config.task_id != task {
        return wrong("`taskId` of the configuration is another task".to_owned());
    }
    task.clone_into(&mut config.task_id);
    let id = config.id.take().filter(|id| !id.is_empty()).unwrap_or_else(|| task.to_owned());
    if id.len() > ID_MAX || id.contains('\0') {
        return wrong(format!("`id` has at most {ID_MAX} bytes, and no zero"));
    }
    config.id = Some(id);
    if config.url.is_empty() || config.url.len() > URL_MAX {
        return wrong(format!("`url` is missing, or longer than {URL_MAX} bytes"));
    }
    config.token = config.token.take().filter(|token| !token.is_empty());
    if config.token.as_deref().is_some_and(|token| !is_header(token, TOKEN_MAX)) {
        return wrong(format!("`token` is a header: at most {TOKEN_MAX} printable ASCII characters"));
    }
    if let Some(authentication) = &config.authentication {
        let scheme = &authentication.scheme;
        let credentials = authentication.credentials.as_deref().unwrap_or_default();
        if scheme.is_empty() || !is_header(scheme, SCHEME_MAX) || !is_header(credentials, CREDENTIALS_MAX) {
            return wrong(format!(
                "`authentication` is a header: a scheme of at most {SCHEME_MAX} printable ASCII characters, and \
                 credentials of at most {CREDENTIALS_MAX}"
            ));
        }
    }
    Ok(())
}

/// Whether a text can be the value of a header.
fn is_header(text: &str, max: usize) -> bool {
    text.len() <= max && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use a2a::AuthenticationInfo;

    use super::*;

    fn config(url: &str) -> TaskPushNotificationConfig {
        TaskPushNotificationConfig {
            url: url.to_owned(),
            id: None,
            task_id: String::new(),
            token: None,
            authentication: None,
            tenant: None,
        }
    }

    #[test]
    fn a_configuration_without_an_id_has_the_tasks() {
        let mut one = config("https://hooks.example/");
        members(&mut one, "t").expect("good");
        assert_eq!((one.id.as_deref(), &*one.task_id), (Some("t"), "t"));
    }

    #[test]
    fn what_cannot_be_a_header_or_is_too_long_is_refused() {
        let good = config("https://hooks.example/");
        let authentication = |scheme: &str, credentials: &str| {
            Some(AuthenticationInfo { scheme: scheme.to_owned(), credentials: Some(credentials.to_owned()) })
        };
        let cases = [
            TaskPushNotificationConfig { url: String::new(), ..good.clone() },
            TaskPushNotificationConfig { url: "x".repeat(URL_MAX + 1), ..good.clone() },
            TaskPushNotificationConfig { id: Some("x".repeat(ID_MAX + 1)), ..good.clone() },
            TaskPushNotificationConfig { token: Some("a\r\nHost: b".to_owned()), ..good.clone() },
            TaskPushNotificationConfig { token: Some("x".repeat(TOKEN_MAX + 1)), ..good.clone() },
            TaskPushNotificationConfig { authentication: authentication("", "x"), ..good.clone() },
            TaskPushNotificationConfig { authentication: authentication("Bearer", "ä"), ..good.clone() },
            TaskPushNotificationConfig { task_id: "another".to_owned(), ..good },
        ];
        for mut case in cases {
            assert_eq!(members(&mut case, "t").expect_err("a refusal").reason(), "INVALID_PARAMS", "{case:?}");
        }
    }
}
