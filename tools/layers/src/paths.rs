//! Paths and method calls in the tokens of a file, and the modules, types and methods that the file
//! defines.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The names in a file. Absolute paths start at the root of the crate, without `crate`.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Found {
    /// The absolute paths of code that begin with `crate` or `super`.
    pub(crate) paths: Vec<Vec<String>>,
    /// The other paths of code, as written. Most of them are single names.
    pub(crate) locals: BTreeSet<Vec<String>>,
    /// The names that `use` declares.
    pub(crate) imports: Vec<Import>,
    /// The declared modules that have their own files.
    pub(crate) children: Vec<String>,
    /// The defined types and traits.
    pub(crate) types: Vec<String>,
    /// The methods of inherent impl blocks, each with its type.
    pub(crate) methods: Vec<Method>,
    /// The names of called methods.
    pub(crate) calls: Vec<String>,
}

/// A name that `use` declares.
#[derive(Debug, PartialEq)]
pub(crate) struct Import {
    /// `*` for all names of a module.
    pub(crate) name: String,
    /// The absolute path. One that leads out of the crate continues the path of the module of the file.
    pub(crate) path: Vec<String>,
}

/// A method of a type.
#[derive(Debug, PartialEq)]
pub(crate) struct Method {
    pub(crate) of: String,
    pub(crate) name: String,
}

/// The names in the tokens of a module, without those in test code.
pub(crate) fn find(tokens: TokenStream, module: &[String]) -> Found {
    let mut found = Found::default();
    walk(&tokens.into_iter().collect::<Vec<_>>(), module, &mut found);
    found
}

fn walk(tokens: &[TokenTree], module: &[String], found: &mut Found) {
    let mut at = 0;
    while at < tokens.len() {
        if is_test_attribute(&tokens[at..]) {
            at += 2;
            at += item_length(&tokens[at..]);
            continue;
        }
        definitions(tokens, at, found);
        match &tokens[at..] {
            [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Punct(end), ..]
                if word == "mod" && end.as_char() == ';' =>
            {
                found.children.push(name.to_string());
                at += 3;
            }
            [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(body), ..]
                if word == "mod" =>
            {
                let inner = [module, &[name.to_string()]].concat();
                walk(&content(body), &inner, found);
                at += 3;
            }
            // `impl Iterator + use<'a>` declares no name.
            [TokenTree::Ident(word), rest @ ..]
                if word == "use" && rest.first().is_some_and(|next| !is_punct(next, '<')) =>
            {
                let end = rest.iter().position(|token| is_punct(token, ';')).unwrap_or(rest.len());
                imports(&rest[..end], &[], module, found);
                at += 1 + end;
            }
            rest if starts_path(tokens, at) => at += path(rest, module, found),
            [TokenTree::Group(group), ..] if !is_visibility(group) => {
                walk(&content(group), module, found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Adds the type, the methods of the impl block, or the method call at token `at`.
fn definitions(tokens: &[TokenTree], at: usize, found: &mut Found) {
    match &tokens[at..] {
        [TokenTree::Ident(word), TokenTree::Ident(name), ..]
            if ["struct", "enum", "union", "trait"].iter().any(|kind| word == kind) =>
        {
            found.types.push(name.to_string());
        }
        [TokenTree::Ident(word), rest @ ..] if word == "impl" && starts_item(tokens, at) => {
            found.methods.extend(methods(rest));
        }
        [TokenTree::Punct(dot), TokenTree::Ident(name), next, ..] if dot.as_char() == '.' => {
            let is_range = at > 0 && is_punct(&tokens[at - 1], '.');
            let called = matches!(next, TokenTree::Group(arguments) if arguments.delimiter() == Delimiter::Parenthesis);
            if !is_range && (called || is_separator(&tokens[at + 2..])) {
                found.calls.push(name.to_string());
            }
        }
        _ => {}
    }
}

/// Whether an item may start at token `at`. Elsewhere, `impl` begins a type.
fn starts_item(tokens: &[TokenTree], at: usize) -> bool {
    match at.checked_sub(1).map(|before| &tokens[before]) {
        None => true,
        Some(TokenTree::Group(group)) => group.delimiter() != Delimiter::Parenthesis,
        Some(TokenTree::Punct(sign)) => sign.as_char() == ';',
        Some(TokenTree::Ident(word)) => word == "unsafe",
        Some(TokenTree::Literal(_)) => false,
    }
}

/// The methods of an impl block, from its tokens after `impl`. Empty if it implements a trait.
fn methods(tokens: &[TokenTree]) -> Vec<Method> {
    let (mut depth, mut of) = (0, String::new());
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '<' => depth += 1,
            TokenTree::Punct(sign) if sign.as_char() == '>' => {
                let is_arrow = at > 0 && is_punct(&tokens[at - 1], '-');
                depth -= i32::from(!is_arrow);
            }
            TokenTree::Ident(word) if depth == 0 && word == "for" => return Vec::new(),
            TokenTree::Ident(word) if depth == 0 && word == "where" => depth = i32::MIN / 2,
            TokenTree::Ident(word) if depth == 0 => of = word.to_string(),
            TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
                return names_of_methods(&content(body))
                    .map(|name| Method { of: of.clone(), name })
                    .collect();
            }
            _ => {}
        }
    }
    Vec::new()
}

/// The functions with a `self` argument in the body of an impl block.
fn names_of_methods(body: &[TokenTree]) -> impl Iterator<Item = String> {
    body.windows(2).enumerate().filter_map(|(at, pair)| {
        let [TokenTree::Ident(word), TokenTree::Ident(name)] = pair else { return None };
        let arguments = body[at..].iter().find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group),
            _ => None,
        })?;
        let is_self = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "self");
        (word == "fn" && content(arguments).iter().take(5).any(is_self)).then(|| name.to_string())
    })
}

/// Whether the group is that of a visibility such as `pub(in crate::zone)`.
fn is_visibility(group: &Group) -> bool {
    matches!(&content(group)[..], [TokenTree::Ident(word), ..] if word == "in")
}

/// Whether a path starts at token `at`: a name that is not part of a longer path, a field or a
/// method.
fn starts_path(tokens: &[TokenTree], at: usize) -> bool {
    let is = |back, sign| at >= back && is_punct(&tokens[at - back], sign);
    let continues = is(1, ':') && is(2, ':');
    let is_member = is(1, '.') && !is(2, '.');
    matches!(tokens[at], TokenTree::Ident(_)) && !continues && !is_member
}

/// Adds the path at the start of `tokens`. Returns its number of tokens.
fn path(tokens: &[TokenTree], module: &[String], found: &mut Found) -> usize {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        words.push(word.to_string());
        at += 1;
        if !is_separator(&tokens[at..]) {
            break;
        }
        at += 2;
    }
    if words.len() > 1 && (words[0] == "crate" || words[0] == "super") {
        found.paths.push(absolute(&words, module));
    } else {
        found.locals.insert(words);
    }
    at
}

/// The absolute path of a path in this module.
fn absolute(words: &[String], module: &[String]) -> Vec<String> {
    let parents = words.iter().take_while(|word| *word == "super").count();
    match words {
        [first, rest @ ..] if first == "crate" => rest.to_vec(),
        [first, rest @ ..] if first == "self" => [module, rest].concat(),
        _ => [&module[..module.len().saturating_sub(parents)], &words[parents..]].concat(),
    }
}

/// Adds the names that a use tree declares. `prefix` is the path in front of the tree.
fn imports(tree: &[TokenTree], prefix: &[String], module: &[String], found: &mut Found) {
    let mut words = prefix.to_vec();
    let mut name = None;
    for (at, token) in tree.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "as" => {
                name = tree.get(at + 1).map(ToString::to_string);
                break;
            }
            // `self` in braces is the module of the prefix.
            TokenTree::Ident(word) if word == "self" && !words.is_empty() => {}
            TokenTree::Ident(word) => words.push(word.to_string()),
            TokenTree::Punct(sign) if sign.as_char() == '*' => name = Some("*".to_string()),
            TokenTree::Group(branches) => {
                for branch in content(branches).split(|token| is_punct(token, ',')) {
                    imports(branch, &words, module, found);
                }
                return;
            }
            _ => {}
        }
    }
    if let Some(last) = words.last().filter(|_| !tree.is_empty()) {
        let name = name.unwrap_or_else(|| last.clone());
        found.imports.push(Import { name, path: absolute(&words, module) });
    }
}

/// Whether an attribute for test code starts here.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(sign), TokenTree::Group(attribute), ..] = tokens else { return false };
    match &content(attribute)[..] {
        [TokenTree::Ident(name), TokenTree::Group(condition)] => {
            sign.as_char() == '#' && name == "cfg" && is_test_only(&content(condition))
        }
        _ => false,
    }
}

/// Whether a condition is true only in tests.
fn is_test_only(condition: &[TokenTree]) -> bool {
    let parts = |group: &Group| {
        let tokens = content(group);
        tokens.split(|token| is_punct(token, ',')).map(<[_]>::to_vec).collect::<Vec<_>>()
    };
    match condition {
        [TokenTree::Ident(name)] => name == "test",
        [TokenTree::Ident(name), TokenTree::Group(group)] if name == "all" => {
            parts(group).iter().any(|part| is_test_only(part))
        }
        [TokenTree::Ident(name), TokenTree::Group(group)] if name == "any" => {
            parts(group).iter().filter(|part| !part.is_empty()).all(|part| is_test_only(part))
        }
        _ => false,
    }
}

/// The number of tokens of the item, field or statement at the start of `tokens`.
fn item_length(tokens: &[TokenTree]) -> usize {
    let is_use =
        tokens.iter().take(3).any(|token| matches!(token, TokenTree::Ident(word) if word == "use"));
    let is_end = |token: &TokenTree| match token {
        TokenTree::Punct(sign) => matches!(sign.as_char(), ';' | ','),
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !is_use,
        _ => false,
    };
    tokens.iter().position(is_end).map_or(tokens.len(), |end| end + 1)
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

fn is_separator(tokens: &[TokenTree]) -> bool {
    tokens.len() >= 2 && is_punct(&tokens[0], ':') && is_punct(&tokens[1], ':')
}

fn content(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Found {
        find(source.parse().unwrap(), &["zone".to_string(), "depot".to_string()])
    }

    /// The absolute paths in a file of the module `zone::depot`, as text.
    fn paths(source: &str) -> Vec<String> {
        let found = found(source);
        let imports = found.imports.iter().map(|import| &import.path);
        imports.chain(&found.paths).map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_in_uses_code_and_macros() {
        assert_eq!(paths("use crate::buddy::Bundle;"), ["buddy::Bundle"]);
        assert_eq!(
            paths("use crate::{frame::{Order, Pfn}, sync::{self, Lock as L}, set::*, tlb};"),
            ["frame::Order", "frame::Pfn", "sync", "sync::Lock", "set", "tlb"]
        );
        assert_eq!(paths("fn f() -> crate::Pfn { crate::alloc::g(1) }"), ["Pfn", "alloc::g"]);
        assert_eq!(paths("macro_rules! m { () => { $crate::tlb::X } }"), ["tlb::X"]);
        assert_eq!(paths("fn f() { matches!(x, crate::memory::A) }"), ["memory::A"]);
    }

    #[test]
    fn super_is_resolved_from_the_module() {
        assert_eq!(paths("use super::Zone;"), ["zone::Zone"]);
        assert_eq!(paths("use super::super::buddy::Want;"), ["buddy::Want"]);
        assert_eq!(paths("mod inner { use super::super::X; }"), ["zone::X"]);
        assert_eq!(paths("pub(in crate::zone) fn f() {}"), [""; 0]);
        assert_eq!(
            paths("use core::fmt; use self::a::B; fn f() { a::crate_name::b() }"),
            ["zone::depot::core::fmt", "zone::depot::a::B"]
        );
    }

    #[test]
    fn imports_have_names() {
        let imports = found("use super::{A as B, c::{self, *}}; pub(crate) use d::E;").imports;
        let import = |import: &Import| format!("{}={}", import.name, import.path.join("::"));
        let imports: Vec<_> = imports.iter().map(import).collect();
        assert_eq!(imports, ["B=zone::A", "c=zone::c", "*=zone::c", "E=zone::depot::d::E"]);
    }

    #[test]
    fn other_paths_are_found_where_code_names_them() {
        let source = "fn f(x: A) -> b::C<D> + use<'a> { x.field.method(); use self::G; x..e } struct H(pub [I; 2]);";
        let locals = found(source).locals;
        let has = |path: &[&str]| {
            locals.contains(&path.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert!(
            [&["A"][..], &["b", "C"], &["D"], &["e"], &["x"], &["I"]].iter().all(|path| has(path)),
            "{locals:?}"
        );
        assert!(!["field", "method", "G", "b", "C"].iter().any(|name| has(&[name])), "{locals:?}");
    }

    #[test]
    fn code_of_tests_does_not_count() {
        let tests = [
            "#[cfg(test)] mod tests { use crate::memory::Memory; }",
            "#[cfg(test)] #[allow(unused)] use crate::{memory::Memory, tlb::Tlb};",
            "#[cfg(all(test, framewright_loom))] mod model;",
            "struct A { #[cfg(test)] of: crate::memory::B, }",
            "#[cfg(any(test, all(test, x)))] fn f() { crate::memory::f() }",
        ];
        for source in tests {
            assert_eq!(paths(source), [""; 0], "{source}");
        }
        assert_eq!(paths("#[cfg(any(test, feature = \"x\"))] use crate::tlb::A;"), ["tlb::A"]);
        assert_eq!(paths("#[cfg(test)] mod tests; use crate::tlb::A;"), ["tlb::A"]);
        assert_eq!(paths("#[cfg(not(test))] use crate::tlb::A;"), ["tlb::A"]);
    }

    #[test]
    fn modules_with_files_are_found() {
        let found =
            find("mod a; pub(crate) mod b; mod c {} #[cfg(test)] mod d;".parse().unwrap(), &[]);
        assert_eq!(found.children, ["a", "b"]);
    }

    #[test]
    fn methods_belong_to_the_type_of_their_impl_block() {
        let source = "impl<'m, P: Fn() -> u8> Core<'m, P> where P: X { pub fn a<T>(&'m self) {} fn b(x: u8) {} }
            impl Trait for Core { fn c(self) {} } fn f() -> impl Iterator<Item = u8> { g() }
            struct Core; #[cfg(test)] impl Core { fn d(&self) {} }";
        let found = find(source.parse().unwrap(), &["zone".to_string()]);
        assert_eq!(found.methods, [Method { of: "Core".into(), name: "a".into() }]);
        assert_eq!(found.types, ["Core"]);
    }

    #[test]
    fn calls_are_those_of_methods() {
        let source = "fn f() { a.b(); c::d(); self.e::<u8>(); x.field; 0..g(); }";
        let found = find(source.parse().unwrap(), &["zone".to_string()]);
        assert_eq!(found.calls, ["b", "e"]);
    }
}
