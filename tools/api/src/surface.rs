//! The public API of a package, with a line for each item.

use std::{collections::BTreeSet, fs, path::Path};

use public_api::Builder;

/// The version of rustdoc's JSON format that this tool reads.
pub(crate) const FORMAT: &str = "57";

/// Automatically implemented traits that are no part of the interface.
const NOT_PROMISED: [&str; 6] =
    ["Freeze", "RefUnwindSafe", "StructuralPartialEq", "UnsafeUnpin", "UnwindSafe", "Unpin"];

/// The surface of a package, or an unknown format of its documentation.
pub(crate) enum Surface {
    Lines(BTreeSet<String>),
    OtherFormat(String),
}

/// Reads the public API from the package's JSON documentation.
pub(crate) fn read(json: &Path) -> Result<Surface, String> {
    let text = fs::read_to_string(json).map_err(|why| format!("{}: {why}", json.display()))?;
    let format = format_of(&text).ok_or(format!("{}: no format_version", json.display()))?;
    if format != FORMAT {
        return Ok(Surface::OtherFormat(format.to_owned()));
    }
    let (own, all) = (items(json, false)?, items(json, true)?);
    // A derived trait is one line, without its methods.
    let is_listed =
        |line: &String| (own.contains(line) || line.starts_with("impl")) && !is_not_promised(line);
    Ok(Surface::Lines(all.into_iter().filter(is_listed).collect()))
}

fn items(json: &Path, derived: bool) -> Result<BTreeSet<String>, String> {
    let builder =
        Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_derived_impls(!derived);
    let surface = builder.build().map_err(|why| format!("{}: {why}", json.display()))?;
    Ok(surface.items().map(ToString::to_string).collect())
}

fn format_of(text: &str) -> Option<&str> {
    let (_, behind) = text.rsplit_once("\"format_version\":")?;
    behind.split(|c: char| !c.is_ascii_digit()).next()
}

fn is_not_promised(line: &str) -> bool {
    let is_impl = line.starts_with("impl") || line.starts_with("unsafe impl");
    let of_trait = line.split(" for ").next().unwrap_or_default();
    is_impl && NOT_PROMISED.iter().any(|name| of_trait.ends_with(&format!("::{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_read_from_the_end() {
        assert_eq!(format_of(r#"{"docs":"\"format_version\":1","format_version":57}"#), Some("57"));
        assert_eq!(format_of("{}"), None);
    }

    #[test]
    fn auto_traits_other_than_send_and_sync_are_not_listed() {
        assert!(is_not_promised("impl<'m> core::marker::Unpin for framewright::Block<'m>"));
        assert!(!is_not_promised("impl<'m> core::marker::Send for framewright::Block<'m>"));
        assert!(!is_not_promised("pub fn framewright::Unpin::new()"));
    }
}
