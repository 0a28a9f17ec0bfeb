//! Descriptions: what is read, refused and written.

mod confusables;
mod description;
mod examples;
mod generate;
mod hostile;
mod malformed;
mod properties;
mod rules;
mod schema_rules;
mod shown;
mod survival;
mod tools;
mod vectors;
mod verdicts;
