//! Matches of rules, and their replacement.

use crate::items::places;
use crate::rule::{Edit, rules};
use crate::sources::Sources;
use crate::tokens::tokens;
use std::path::PathBuf;

/// The result of the only rule of `text` for each match in `code`.
fn mutants(text: &str, code: &str) -> Vec<String> {
    let rules = rules(text).expect("the rule is right");
    let edit: &Edit = &rules[0].edits[0];
    let (tokens, places) = (tokens(code).expect("tokens"), places(code).expect("items"));
    edit.matches(&tokens, &places).iter().map(|found| edit.apply(code, found)).collect()
}

/// A rule that replaces tokens, optionally within an item.
fn rule(within: Option<&str>, replace: &str, with: &str) -> String {
    let within = within.map_or(String::new(), |path| format!("in = '{path}'\n"));
    format!(
        "[name]\nwhy = ''\ncaught_by = '--lib'\n{within}replace = '{replace}'\nwith = '{with}'\n"
    )
}

#[test]
fn white_space_comments_and_trailing_commas_do_not_matter() {
    let code = "fn f() {\n    g(\n        1, // one\n        /* two */ 2,\n    ) ;\n}\n";
    assert_eq!(mutants(&rule(None, "g(1, 2);", "h();"), code), ["fn f() {\n    h();\n}\n"]);
    let documented = "struct S {\n    /// A number.\n    a: u8,\n    b: u8,\n}\n";
    assert_eq!(
        mutants(&rule(None, "{ a: u8, b: u8 }", "{}"), documented),
        ["struct S {}\n"],
        "documentation is a comment",
    );
    assert!(mutants(&rule(None, "g(1);", ""), code).is_empty(), "a comma that separates matters");
    assert!(
        mutants(&rule(None, "a / 2", ""), "const A: u8 = a / 4;").is_empty(),
        "a division is not a comment"
    );
}

#[test]
fn all_matches_are_found() {
    assert_eq!(
        mutants(&rule(None, "a", "b"), "fn f() { a; a }"),
        ["fn f() { b; a }", "fn f() { a; b }"]
    );
    assert!(mutants(&rule(None, "c", "b"), "fn f() { a; a }").is_empty());
}

#[test]
fn an_item_is_named_by_the_end_of_its_path() {
    let code =
        "mod m { impl<T: X> X for A<T> { fn f() { a } fn g() { a } } } impl B { fn f() { a } }";
    let count = |path| mutants(&rule(Some(path), "a", "b"), code).len();
    assert_eq!(
        ["f", "g", "A", "A::f", "m::A::f", "B::f", "B", "m"].map(count),
        [2, 1, 2, 1, 1, 1, 1, 2]
    );
    assert_eq!(["X", "X::f", "m::f", "h"].map(count), [0; 4]);
    let traits = "trait T { fn f() { a } } const C: u8 = a; enum E { V = a } struct S([u8; a]);";
    let count = |path| mutants(&rule(Some(path), "a", "b"), traits).len();
    assert_eq!(["T::f", "C", "E", "S"].map(count), [1; 4]);
}

#[test]
fn a_hole_stands_for_a_token_or_a_group() {
    let code = "fn f() { if a { b(); c() } d(e) }";
    assert_eq!(
        mutants(&rule(None, "if a $body d $of", "d $of; $body"), code),
        ["fn f() { d (e); { b(); c() } }"]
    );
}

#[test]
fn each_edit_of_a_rule_must_match_once() {
    let files = [("a.rs", "fn f() { a; b }"), ("b.rs", "fn g() { b; c }")];
    let files = files.map(|(path, code)| (PathBuf::from(path), code.to_string()));
    let sources = Sources::new(files.to_vec()).expect("the files are right");
    let mutated = |text: &str| {
        let files = sources.mutated(&rules(text).expect("the rule is right")[0])?;
        Ok::<_, String>(files.into_iter().map(|(_, code)| code).collect::<Vec<_>>())
    };
    assert_eq!(mutated(&rule(None, "a", "A")).expect("once"), ["fn f() { A; b }"]);
    let also = |path, replace| {
        format!(
            "{}[name.also]\nin = '{path}'\nreplace = '{replace}'\nwith = 'B'",
            rule(None, "a", "AA")
        )
    };
    assert_eq!(mutated(&also("f", "b")).expect("one file"), ["fn f() { AA; B }"]);
    assert_eq!(
        mutated(&also("g", "b")).expect("two files"),
        ["fn f() { AA; b }", "fn g() { B; c }"]
    );
    let refused = |text: &str| mutated(text).expect_err("wrong");
    assert_eq!(refused(&rule(None, "b", "B")), "name: matches more than once: a.rs:1, b.rs:1");
    assert_eq!(refused(&rule(Some("g"), "a", "A")), "name: matches nowhere: in g: a");
    assert!(refused(&also("f", "c")).starts_with("name: matches nowhere"));
    assert!(
        refused(&rule(None, "a", "if")).starts_with("name: the result for a.rs is not valid Rust")
    );
}

#[test]
fn rules_with_mistakes_are_refused() {
    let refused = |text: &str| rules(text).expect_err("wrong");
    assert!(refused(&rule(None, "", "a")).contains("name: 'replace' is empty"));
    assert!(refused(&rule(None, "if a {", "a")).contains("name: 'replace'"));
    assert!(refused(&rule(None, "a", "b").replace("with", "wiht")).contains("'wiht'"));
    assert!(refused("[name]\nwhy = 'it fails'").contains("'replace' is missing"));
    for test in ["", "a", "--cfg loom", "--cfg loom a", "--test"] {
        let text = rule(None, "a", "b").replace("--lib", test);
        assert!(refused(&text).contains("'caught_by' is not"), "{test}");
    }
}

#[test]
fn a_filter_must_select_a_test() {
    let files = vec![(PathBuf::from("reclaim/flush.rs"), "fn it_is_flushed() {}".to_string())];
    let sources = Sources::new(files).expect("the file is right");
    let checked = |filter: &str| {
        let rule = rule(None, "a", "b").replace("--lib", &format!("--test reclaim {filter}"));
        rules(&rule).expect("the rule is right")[0].has_test(|part| sources.name(part))
    };
    for filter in ["", "flushed", "flush::it_is", "reclaim"] {
        assert_eq!(checked(filter), Ok(()), "{filter}");
    }
    for filter in ["waits", "flush::waits"] {
        assert_eq!(checked(filter), Err("name: no test has 'waits' in its path".to_string()));
    }
}

#[test]
fn a_test_is_a_program_and_a_filter() {
    let test = |caught_by| {
        let rule = rules(&rule(None, "a", "b").replace("--lib", caught_by))
            .expect("the rule is right")
            .remove(0);
        (rule.program, rule.filter)
    };
    let pair = |program: &str, filter: &str| (program.to_string(), filter.to_string());
    assert_eq!(test("--lib"), pair("--lib", ""));
    assert_eq!(test("--test abuse frees"), pair("--test abuse", "frees"));
    assert_eq!(test("--cfg tso --lib a::b"), pair("--cfg tso --lib", "a::b"));
}
