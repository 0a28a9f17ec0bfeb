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
    let once = decoded(path.as_bytes());
    // Twice, for servers behind servers.
    let twice = decoded(&once);
    [path.as_bytes(), once.as_slice(), twice.as_slice()].into_iter().any(|path| {
        let mut segments = path.split(|byte| matches!(byte, b'/' | b'\\'));
        segments.any(is_above)
    })
}

/// Whether a server may take a segment for `..`.
fn is_above(segment: &[u8]) -> bool {
    // Some take what follows these for no part of a name: parameters (Java), the end of a text (C), a query, a fragment.
    let name = segment.split(|byte| matches!(byte, b';' | 0 | b'?' | b'#')).next().unwrap_or_default();
    // Some leave these out of it.
    name.iter().filter(|byte| !byte.is_ascii_whitespace() && !byte.is_ascii_control()).eq(b"..")
}

/// The bytes that a path spells by `%`, and the ASCII characters that it spells by two bytes, as old decoders read them.
fn decoded(path: &[u8]) -> Vec<u8> {
    let hex = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (mut plain, mut left) = (Vec::with_capacity(path.len()), path);
    while let Some((&first, rest)) = left.split_first() {
        let spelled = match rest {
            [high, low, rest @ ..] if first == b'%' => {
                hex(*high).zip(hex(*low)).map(|(high, low)| ((high << 4) | low, rest))
            }
            _ => None,
        };
        let (byte, rest) = spelled.unwrap_or((first, rest));
        match (plain.last().copied(), byte) {
            (Some(lead @ (0xc0 | 0xc1)), 0x80..=0xbf) => {
                plain.pop();
                plain.push(((lead & 1) << 6) | (byte & 0x3f));
            }
            _ => plain.push(byte),
        }
        left = rest;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_is_below() {
        let below = [
            "/v1",
            "/v1/",
            "/v1/chat",
            "/v1//chat",
            "/v1/...",
            "/v1/a;b=..",
            "/v1/a..b",
            "/v1/..a",
            "/v1/%",
            "/v1/%2",
            "/v1/%zz..",
            "/v1/%c3%a9",
            "/v1/%e9%20a",
        ];
        for path in below {
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
            "/v1/..;/admin",
            "/v1/..;a=b/admin",
            "/v1/..%3b/admin",
            "/v1/%2e%2E%3Ba/admin",
            "/v1/..%253b/admin",
            "/v1/..%00/admin",
            "/v1/..%3fa/admin",
            "/v1/..%23",
            "/v1/.%09./admin",
            "/v1/..%20/admin",
            "/v1/%c0%ae%C0%AE/admin",
            "/v1/..%c0%afadmin",
            "/V1/chat",
        ] {
            assert!(!is_below(path, "/v1"), "{path}");
        }
    }
}
