//! Security schemes: that they exist, are whole, and can be followed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Findings, Name, Object, affordances, forms, names, objects};
use crate::json::{excerpt, join};
use crate::validate::Finding;
use crate::validate::schema::CONTEXT_1_0;

/// The schemes that are searched for the URI variables of one form, including parts of combos: thousands of forms and combos that
/// name each other must not take quadratic time.
const PARTS_MAX: usize = 64;

const DEFINITIONS: &str = "/securityDefinitions";

/// The schemes of TD 1.1.
const SCHEMES: [&str; 9] = ["nosec", "auto", "combo", "basic", "digest", "apikey", "bearer", "psk", "oauth2"];
/// The additional schemes of TD 1.0.
const SCHEMES_1_0: [&str; 3] = ["cert", "public", "pop"];

pub(super) fn check(td: &Object, out: &mut Findings) {
    let schemes = Schemes { td, by_name: objects(td, "securityDefinitions").collect() };
    schemes.names_exist(out);
    schemes.kinds(out);
    schemes.combos(out);
    schemes.oauth2(out);
    schemes.uri_variables_are_distinct(out);
    schemes.uri_variables_are_present(out);
}

struct Schemes<'a> {
    td: &'a Object,
    by_name: BTreeMap<&'a str, &'a Object>,
}

impl<'a> Schemes<'a> {
    /// Each name in `security` is defined in `securityDefinitions` (TD 1.1 §5.3.1.1, §5.3.4.2).
    fn names_exist(&self, out: &mut Findings) {
        for name in names(self.td, "security") {
            self.exists(&name, String::new, out);
        }
        for form in forms(self.td) {
            for name in names(form.form, "security") {
                self.exists(&name, || form.pointer(), out);
            }
        }
    }

    fn exists(&self, name: &Name<'_>, owner: impl FnOnce() -> String, out: &mut Findings) {
        if !self.by_name.contains_key(name.text) {
            out.error(|| {
                Finding::error(
                    name.pointer(&owner()),
                    "security-undefined",
                    format!("the security scheme {:?} is not in securityDefinitions", excerpt(name.text, 80)),
                    "Define it there, or name one that is defined",
                )
            });
        }
    }

    /// Each scheme is one of TD 1.1 §5.3.3 (or of 1.0, which had some more), or of another vocabulary and has a prefix.
    fn kinds(&self, out: &mut Findings) {
        for (name, scheme) in &self.by_name {
            let Some(kind) = scheme.get("scheme").and_then(Value::as_str) else { continue };
            if !kind.contains(':') && !SCHEMES.contains(&kind) && !SCHEMES_1_0.contains(&kind) {
                out.error(|| {
                    Finding::error(
                        join(&join(DEFINITIONS, name), "scheme"),
                        "security-scheme-unknown",
                        format!("{:?} is no security scheme", excerpt(kind, 80)),
                        format!("Choose one of {}, or one of another vocabulary, with its prefix", SCHEMES.join(", ")),
                    )
                });
            }
        }
    }

    /// A combo names its parts by exactly one of oneOf and allOf, and the parts are defined (TD 1.1 §5.3.3.4).
    fn combos(&self, out: &mut Findings) {
        for (name, scheme) in self.of_kind("combo") {
            if scheme.contains_key("oneOf") == scheme.contains_key("allOf") {
                out.error(|| {
                    Finding::error(
                        join(DEFINITIONS, name),
                        "combo-choice",
                        format!("the combo {:?} needs exactly one of oneOf and allOf", excerpt(name, 80)),
                        "Keep oneOf where any of the schemes is enough, allOf where all of them are needed",
                    )
                });
            }
            for part in names(scheme, "oneOf").chain(names(scheme, "allOf")) {
                self.exists(&part, || join(DEFINITIONS, name), out);
            }
        }
    }

    /// The endpoints that each OAuth 2.0 flow has (TD 1.1 §5.3.3.10).
    fn oauth2(&self, out: &mut Findings) {
        for (name, scheme) in self.of_kind("oauth2") {
            let Some(flow) = scheme.get("flow").and_then(Value::as_str) else { continue };
            let (needed, refused): (&[&str], &[&str]) = match flow {
                "code" | "device" => (&["authorization", "token"], &[]),
                "client" => (&["token"], &["authorization"]),
                // TD 1.1 allows more; the schema of TD 1.0 does not restrict them.
                "implicit" | "password" => continue,
                _ if !names(self.td, "@context").any(|context| context.text == CONTEXT_1_0) => continue,
                _ => {
                    let message = || format!("{:?} is no flow of OAuth 2.0", excerpt(flow, 80));
                    let pointer = || join(&join(DEFINITIONS, name), "flow");
                    let remedy = "Write \"code\", \"client\" or \"device\"";
                    out.error(|| Finding::error(pointer(), "oauth2-flow", message(), remedy));
                    continue;
                }
            };
            let pointer = || join(DEFINITIONS, name);
            for member in needed.iter().filter(|m| !scheme.contains_key(**m)) {
                let message = || format!("the OAuth 2.0 flow {flow:?} needs {member:?}");
                let remedy = || format!("Add {member:?} with the URL of that endpoint");
                out.error(|| Finding::error(pointer(), "oauth2-flow", message(), remedy()));
            }
            for member in refused.iter().filter(|m| scheme.contains_key(**m)) {
                let message = || format!("the OAuth 2.0 flow {flow:?} has no {member:?}");
                let remedy = "Remove it, or name the flow \"code\"";
                out.error(|| Finding::error(join(&pointer(), member), "oauth2-flow", message(), remedy));
            }
        }
    }

    /// The URI variable of a scheme has no other meaning (TD 1.1 §5.3.3, `in` = `uri`).
    fn uri_variables_are_distinct(&self, out: &mut Findings) {
        let mut taken: BTreeSet<&str> = declared_uri_variables(self.td).collect();
        for (name, scheme) in &self.by_name {
            let Some(variable) = uri_variable(scheme) else { continue };
            if !taken.insert(variable) {
                out.error(|| {
                    let (name, variable) = (join(DEFINITIONS, name), excerpt(variable, 80));
                    Finding::error(
                        join(&name, "name"),
                        "uri-variable-not-distinct",
                        format!("the URI variable {variable:?} has another meaning too"),
                        "Give one of the two another name",
                    )
                });
            }
        }
    }

    /// A form's URI has the variables of the schemes that it needs (TD 1.1 §5.3.3, `in` = `uri`).
    fn uri_variables_are_present(&self, out: &mut Findings) {
        if !self.by_name.values().any(|scheme| uri_variable(scheme).is_some()) {
            return;
        }
        let base = self.td.get("base").and_then(Value::as_str).unwrap_or_default();
        let in_base: BTreeSet<&str> = template_variables(base).collect();
        let of_thing = self.demanded(self.td);
        for form in forms(self.td) {
            let Some(href) = form.form.get("href").and_then(Value::as_str) else { continue };
            let own = form.form.contains_key("security").then(|| self.demanded(form.form));
            let demanded = own.as_ref().unwrap_or(&of_thing);
            if demanded.is_empty() {
                continue;
            }
            let present: BTreeSet<&str> = template_variables(href).collect();
            for variable in demanded.iter().filter(|v| !present.contains(*v) && !in_base.contains(*v)) {
                let variable = excerpt(variable, 80);
                out.error(|| {
                    Finding::error(
                        join(&form.pointer(), "href"),
                        "uri-variable-missing",
                        format!("the security scheme needs the URI variable {variable:?}, which is not in the URI"),
                        format!("Write it into the href, for example {{?{variable}}}"),
                    )
                });
            }
        }
    }

    /// The URI variables that the `security` of a form or of the thing needs in every case; of a choice (oneOf) none.
    fn demanded(&self, owner: &'a Object) -> BTreeSet<&'a str> {
        let mut variables = BTreeSet::new();
        let mut open: Vec<&str> = names(owner, "security").take(PARTS_MAX).map(|name| name.text).collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop().filter(|_| seen.len() < PARTS_MAX) {
            let Some(scheme) = self.by_name.get(name).filter(|_| seen.insert(name)) else { continue };
            variables.extend(uri_variable(scheme));
            if scheme.get("scheme").is_some_and(|s| s == "combo") {
                open.extend(names(scheme, "allOf").take(PARTS_MAX).map(|name| name.text));
            }
        }
        variables
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = (&'a str, &'a Object)> {
        self.by_name.iter().filter(move |(_, s)| s.get("scheme").is_some_and(|k| k == kind)).map(|(n, s)| (*n, *s))
    }
}

fn uri_variable(scheme: &Object) -> Option<&str> {
    (scheme.get("in")? == "uri").then(|| scheme.get("name")?.as_str()).flatten()
}

fn declared_uri_variables(td: &Object) -> impl Iterator<Item = &str> {
    let holders = std::iter::once(td).chain(affordances(td).map(|(_, _, affordance)| affordance));
    holders.filter_map(|h| h.get("uriVariables")?.as_object()).flat_map(|v| v.keys().map(String::as_str))
}

/// The variable names in a URI template (RFC 6570 §2): `/a{/b}{?c,d*}` has b, c and d.
fn template_variables(template: &str) -> impl Iterator<Item = &str> {
    let expressions = template.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    expressions
        .flat_map(|e| e.trim_start_matches(['+', '#', '.', '/', ';', '?', '&', '=', ',', '!', '@', '|']).split(','))
        .map(|variable| variable.split_once(':').map_or(variable, |(name, _)| name).trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::template_variables;

    #[test]
    fn the_variables_of_a_uri_template_are_found() {
        let found: Vec<&str> = template_variables("http://a{/b}/{c:3}{?d,e*}{open").collect();
        assert_eq!(found, ["b", "c", "d", "e"]);
        assert_eq!(template_variables("}{}").collect::<Vec<_>>(), [""]);
    }
}
