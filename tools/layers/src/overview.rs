//! A picture of the modules for a page of documentation: a table, and a graph in Mermaid's
//! language.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use crate::{Graph, LAYERS};

const BEGIN: &str = "<!-- drawn by .ci/layers --update -->\n";
const END: &str = "<!-- end of what is drawn -->\n";

/// A table of the modules, the highest first, and a graph of their dependencies, without those that
/// a longer path implies.
///
/// # Errors
///
/// A file cannot be read, or the documentation of a module does not begin with a sentence.
pub(crate) fn draw(graph: &Graph, sources: &Path) -> Result<String, String> {
    let mut text = "| module | job |\n|---|---|\n".to_string();
    for module in LAYERS.iter().rev() {
        let _ = writeln!(text, "| `{module}` | {} |", job(&sources.join(module))?);
    }
    text.push_str("\n```mermaid\ngraph TD\n");
    for (from, to) in direct(graph) {
        let _ = writeln!(text, "    {} --> {}", LAYERS[from], LAYERS[to]);
    }
    text.push_str("```\n");
    Ok(text)
}

/// Compares the picture on the page with `picture`, or writes `picture` into the page.
///
/// # Errors
///
/// The page has no marks for a picture, cannot be read or written, or shows another picture.
pub(crate) fn check_or_write(picture: &str, page: &Path, update: bool) -> Result<(), String> {
    let unusable = |why: &str| format!("error: {}: {why}\n", page.display());
    let text = fs::read_to_string(page).map_err(|error| unusable(&error.to_string()))?;
    let fresh = replace(&text, picture)
        .ok_or_else(|| unusable(&format!("it lacks the marks {BEGIN}and {END}")))?;
    if update {
        return fs::write(page, fresh).map_err(|error| unusable(&error.to_string()));
    }
    if fresh == text {
        return Ok(());
    }
    Err(unusable("it shows other modules than the sources; .ci/layers --update draws them anew"))
}

/// The page with this picture between the marks.
fn replace(page: &str, picture: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{picture}\n{END}{after}"))
}

/// The arrows without those that a longer path implies.
fn direct(graph: &Graph) -> BTreeSet<(usize, usize)> {
    let nothing = BTreeSet::new();
    let targets = |module: usize| graph.get(&module).unwrap_or(&nothing);
    let mut direct = BTreeSet::new();
    for (&from, all) in graph {
        // Arrows point only downward, so the search ends.
        let mut longer: Vec<usize> = all.iter().flat_map(|&to| targets(to)).copied().collect();
        let mut reached = BTreeSet::new();
        while let Some(module) = longer.pop() {
            if reached.insert(module) {
                longer.extend(targets(module));
            }
        }
        direct.extend(all.difference(&reached).map(|&to| (from, to)));
    }
    direct
}

/// The first sentence of a module's documentation, without links.
fn job(folder: &Path) -> Result<String, String> {
    let file = folder.join("mod.rs");
    let unusable = |why: String| format!("error: {}: {why}\n", file.display());
    let text = fs::read_to_string(&file).map_err(|error| unusable(error.to_string()))?;
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let end =
        paragraph.find(". ").or_else(|| paragraph.ends_with('.').then(|| paragraph.len() - 1));
    let end = end.ok_or_else(|| unusable("the documentation begins with no sentence".into()))?;
    if paragraph[..end].contains('[') {
        return Err(unusable("the first sentence of the documentation has a link".into()));
    }
    Ok(paragraph[..end].to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_that_a_longer_path_implies_is_left_out() {
        let graph = Graph::from([(2, BTreeSet::from([0, 1])), (1, BTreeSet::from([0]))]);
        assert_eq!(direct(&graph), BTreeSet::from([(2, 1), (1, 0)]));
    }

    #[test]
    fn the_text_between_the_marks_is_replaced() {
        let page = format!("above\n{BEGIN}old\n{END}below\n");
        let fresh = replace(&page, "new\n").unwrap();
        assert_eq!(fresh, format!("above\n{BEGIN}\nnew\n\n{END}below\n"));
        assert_eq!(replace(&fresh, "new\n").unwrap(), fresh);
        assert_eq!(replace("no marks", "new\n"), None);
    }
}
