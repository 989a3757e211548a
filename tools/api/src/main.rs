//! Compares the public API of packages with the committed lists `api.txt`. In a package with an
//! `ownership.tsv`, also checks that the file says, for each function that handles frames, why it
//! is sound.
//!
//! Exit codes: 0 equal, 1 different, 2 bad arguments or files.

mod ownership;
mod surface;

use std::{collections::BTreeSet, fs, path::Path, process::ExitCode};

use surface::Surface;

const USAGE: &str = "usage: framewright-api [--update] JSON DIRECTORY [JSON DIRECTORY]...";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let update = arguments.first().is_some_and(|first| first == "--update");
    arguments.drain(..usize::from(update));
    let (packages, rest) = arguments.as_chunks();
    if packages.is_empty() || !rest.is_empty() {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let mut code = ExitCode::SUCCESS;
    for [json, directory] in packages {
        match package(json.as_ref(), directory.as_ref(), update) {
            Ok(true) => {}
            Ok(false) => code = ExitCode::FAILURE,
            Err(why) => {
                eprintln!("error: {why}");
                return ExitCode::from(2);
            }
        }
    }
    code
}

/// Compares or writes the lists of a package. Returns whether they are correct.
fn package(json: &Path, directory: &Path, update: bool) -> Result<bool, String> {
    let lines = match surface::read(json)? {
        Surface::Lines(lines) => lines,
        Surface::OtherFormat(format) => {
            println!(
                "note: {} not compared: this rustdoc writes JSON format {format}, but tools/api reads {}; \
                 update the crate public-api",
                directory.display(),
                surface::FORMAT
            );
            return Ok(true);
        }
    };
    let is_listed = compare(&lines, &directory.join("api.txt"), update)?;
    let file = directory.join("ownership.tsv");
    let is_owned = !file.exists() || owned(&lines, &file, update)?;
    Ok(is_listed && is_owned)
}

fn compare(lines: &BTreeSet<String>, file: &Path, update: bool) -> Result<bool, String> {
    let name = file.display();
    if update {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(file, text).map_err(|why| format!("{name}: {why}"))?;
        println!("{name}: {} items written", lines.len());
        return Ok(true);
    }
    let text = fs::read_to_string(file).map_err(|why| format!("{name}: {why}"))?;
    let listed: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    if *lines == listed {
        println!("{name}: {} items, as listed", lines.len());
        return Ok(true);
    }
    listed.difference(lines).for_each(|line| println!("-{line}"));
    lines.difference(&listed).for_each(|line| println!("+{line}"));
    println!(
        "error: the public API does not match {name}: revert the change, or run .ci/api --update"
    );
    Ok(false)
}

fn owned(lines: &BTreeSet<String>, file: &Path, update: bool) -> Result<bool, String> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|why| format!("{name}: {why}"))?;
    let functions = ownership::functions(lines);
    if update {
        let text = ownership::updated(&text, &functions);
        fs::write(file, text).map_err(|why| format!("{name}: {why}"))?;
    }
    let text = fs::read_to_string(file).map_err(|why| format!("{name}: {why}"))?;
    let problems = ownership::problems(&text, &functions, &ownership::types(lines));
    problems.iter().for_each(|problem| println!("error: {name}: {problem}"));
    if problems.is_empty() {
        println!("{name}: {} functions, each with the reason why it is sound", functions.len());
    }
    Ok(problems.is_empty())
}
