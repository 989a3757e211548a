//! The JSON document of a report. `docs/report.schema.json` is its JSON Schema.

use serde::Serialize;

use super::Report;

/// The name of the schema, in the field `schema` of a document.
pub const SCHEMA: &str = "framewright.report";

/// The version of the schema. It changes when a field is removed, or changes its name or meaning; not when one is
/// added.
pub const VERSION: u32 = 1;

/// A report, with the name and version of its schema.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(
    test,
    schemars(
        title = "framewright.report",
        description = "The result of a command of `framewright`."
    )
)]
pub(super) struct Document<'r> {
    /// The name of the schema: `framewright.report`.
    schema: &'static str,
    /// The version of the schema: 1. It changes when a field is removed, or changes its name or meaning.
    version: u32,
    #[serde(flatten)]
    report: &'r Report,
}

impl<'r> Document<'r> {
    pub(super) fn of(report: &'r Report) -> Self {
        Self { schema: SCHEMA, version: VERSION, report }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::{generate::SchemaSettings, transform::RestrictFormats};
    use std::{fs, path::Path};

    /// The schema of the types. Numbers have no formats, which are those of Rust.
    fn schema() -> String {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let mut schema = settings.into_generator().into_root_schema_for::<Document<'_>>();
        let mut formats = RestrictFormats::default();
        schemars::transform::Transform::transform(&mut formats, &mut schema);
        serde_json::to_string_pretty(&schema).unwrap() + "\n"
    }

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report.schema.json");
        if std::env::var_os("FRAMEWRIGHT_UPDATE").is_some() {
            fs::write(&path, schema()).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == schema(),
            "docs/report.schema.json differs from the types: if a field was removed or changed, raise `VERSION`; \
             then run this test with FRAMEWRIGHT_UPDATE=1"
        );
    }
}
