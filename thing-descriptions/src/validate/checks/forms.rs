//! Forms: their operations and their responses.

use serde_json::Value;

use super::{Findings, Form, Object, Place, forms, names};
use crate::json::{excerpt, join};
use crate::validate::Finding;

pub(super) fn check(td: &Object, out: &mut Findings) {
    for form in forms(td) {
        operations(&form, out);
        response(&form, out);
    }
}

impl Place {
    fn operations(self) -> &'static [&'static str] {
        match self {
            Place::Property => &["readproperty", "writeproperty", "observeproperty", "unobserveproperty"],
            Place::Action => &["invokeaction", "queryaction", "cancelaction"],
            Place::Event => &["subscribeevent", "unsubscribeevent"],
            Place::Thing => &[
                "readallproperties",
                "writeallproperties",
                "readmultipleproperties",
                "writemultipleproperties",
                "observeallproperties",
                "unobserveallproperties",
                "subscribeallevents",
                "unsubscribeallevents",
                "queryallactions",
            ],
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Place::Thing => "the thing",
            Place::Property => "a property",
            Place::Action => "an action",
            Place::Event => "an event",
        }
    }
}

/// Operations belong to the kind of affordance (TD 1.1 §5.3.4.2), and should not contradict its access.
fn operations(form: &Form<'_>, out: &mut Findings) {
    let place = form.place;
    let flag = |name: &str| form.affordance.and_then(|(_, a)| a.get(name)) == Some(&Value::Bool(true));
    for op in names(form.form, "op") {
        let text = op.text;
        if !place.operations().contains(&text) {
            out.error(|| {
                Finding::error(
                    op.pointer(&form.pointer()),
                    "op-not-allowed",
                    format!("{:?} is not an operation of {}", excerpt(text, 80), place.noun()),
                    format!("Choose among {}", place.operations().join(", ")),
                )
            });
        } else if (text == "writeproperty" && flag("readOnly")) || (text == "readproperty" && flag("writeOnly")) {
            out.warning(|| {
                Finding::warning(
                    op.pointer(&form.pointer()),
                    "op-contradicts-access",
                    format!("{text:?} is offered, yet the property's readOnly or writeOnly excludes it"),
                    "Remove the operation, or the flag",
                )
            });
        }
    }
}

/// An expected response names its content type (TD 1.1 §5.3.4.3).
fn response(form: &Form<'_>, out: &mut Findings) {
    let Some(Value::Object(response)) = form.form.get("response") else { return };
    if !response.contains_key("contentType") {
        out.error(|| {
            Finding::error(
                join(&form.pointer(), "response"),
                "response-content-type",
                "the expected response has no contentType".to_owned(),
                "Add contentType, for example \"application/json\"",
            )
        });
    }
}
