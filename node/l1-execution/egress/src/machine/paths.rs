//! Whether a path of a URL lies below another one, however it is written.

/// Whether `path` is `base` or below it, by whole segments; of what a server may take for `..`, none climbs out.
#[must_use]
pub fn is_below(path: &str, base: &str) -> bool {
    let base = base.trim_end_matches('/');
    let inside = path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    inside && !climbs(path)
}

/// Whether a server that decodes a path before it reads its segments would see a `..` in it.
fn climbs(path: &str) -> bool {
    let mut decoded = path.to_ascii_lowercase();
    // Twice, for servers behind servers.
    for _ in 0..2 {
        decoded = decoded.replace("%25", "%").replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    }
    decoded.replace('\\', "/").split('/').any(|segment| segment == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_is_below() {
        for path in ["/v1", "/v1/", "/v1/chat", "/v1//chat", "/v1/..."] {
            assert!(
                is_below(path, "/v1") && is_below(path, "/v1/") && is_below(path, "/") && is_below(path, ""),
                "{path}"
            );
        }
        for path in [
            "/",
            "/v10",
            "/v2/v1",
            "/v1/../admin",
            "/v1/..%2fadmin",
            "/v1/%2e%2E/admin",
            "/v1/.%2e%5cadmin",
            "/v1/%252e%252e/admin",
            "/v1/..\\admin",
            "/V1/chat",
        ] {
            assert!(!is_below(path, "/v1"), "{path}");
        }
    }
}
