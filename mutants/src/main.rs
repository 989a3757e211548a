//! Changes the library to contain a seeded bug, for `mutants/run`. A rule of `mutants/rules.toml`
//! searches for tokens, so it still matches after the code was moved or formatted.

mod items;
mod rule;
mod sources;
mod tokens;

#[cfg(test)]
mod tests;

use rule::Rule;
use sources::Sources;
use std::fs;
use std::process::ExitCode;

const RULES: &str = "mutants/rules.toml";
const LIBRARY: &str = "framewright/src";
const TESTS: &str = "framewright/tests";
const USAGE: &str = "\
usage, in the root of the repository:
    framewright-mutants check         whether each rule matches once, and the tests that it names exist
    framewright-mutants list          prints the name of each rule, its test program and its filter of tests
    framewright-mutants apply NAME    changes the sources here; prints the files that have changed";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["check"] => rules().and_then(|rules| check(&rules)),
        ["list"] => rules().map(|rules| list(&rules)),
        ["apply", name] => rules().and_then(|rules| apply(&rules, name)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn rules() -> Result<Vec<Rule>, String> {
    let text = fs::read_to_string(RULES).map_err(|why| format!("{RULES}: {why}"))?;
    rule::rules(&text).map_err(|why| format!("{RULES}: {why}"))
}

fn check(rules: &[Rule]) -> Result<(), String> {
    let sources = Sources::read(LIBRARY)?;
    let tests = Sources::read(TESTS)?;
    let wrong = rules.iter().filter_map(|rule| {
        let named = || rule.has_test(|part| sources.name(part) || tests.name(part));
        sources.mutated(rule).and_then(|_| named()).err()
    });
    let wrong: Vec<_> = wrong.collect();
    if !wrong.is_empty() {
        return Err(format!("{RULES}:\n{}", wrong.join("\n")));
    }
    println!("{} rules, each matches once and names tests", rules.len());
    Ok(())
}

fn list(rules: &[Rule]) {
    for rule in rules {
        println!("{}\t{}\t{}", rule.name, rule.program, rule.filter);
    }
}

fn apply(rules: &[Rule], name: &str) -> Result<(), String> {
    let rule = rules.iter().find(|rule| rule.name == name);
    let rule = rule.ok_or_else(|| format!("{RULES} has no rule '{name}'"))?;
    for (path, code) in Sources::read(LIBRARY)?.mutated(rule)? {
        fs::write(&path, code).map_err(|why| format!("{}: {why}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}
