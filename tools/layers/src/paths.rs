//! Paths and method calls in the tokens of a file, and the modules, types and methods that the file
//! defines.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The names in a file.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Found {
    /// Paths from the root of the crate, without `crate`.
    pub(crate) paths: Vec<Vec<String>>,
    /// The declared modules that have their own files.
    pub(crate) children: Vec<String>,
    /// The defined types and traits.
    pub(crate) types: Vec<String>,
    /// The methods of inherent impl blocks, each with its type.
    pub(crate) methods: Vec<Method>,
    /// The names of called methods.
    pub(crate) calls: Vec<String>,
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
            rest if starts_path(tokens, at) => at += path(rest, module, &mut found.paths),
            [TokenTree::Group(group), ..] => {
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

/// Whether a path from the root or from a parent starts at token `at`.
fn starts_path(tokens: &[TokenTree], at: usize) -> bool {
    let TokenTree::Ident(word) = &tokens[at] else { return false };
    let continues = at > 0 && is_punct(&tokens[at - 1], ':');
    (word == "crate" || word == "super") && !continues && is_separator(&tokens[at + 1..])
}

/// Collects the path at the start of `tokens`, or the paths of a tree in braces. Returns its number
/// of tokens.
fn path(tokens: &[TokenTree], module: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let mut prefix = Vec::new();
    let mut at = 0;
    if matches!(&tokens[0], TokenTree::Ident(word) if word == "super") {
        prefix = module.to_vec();
    }
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(word)) if word == "super" => {
                prefix.pop();
            }
            Some(TokenTree::Ident(word)) if word == "crate" => {}
            Some(TokenTree::Ident(word)) => prefix.push(word.to_string()),
            Some(TokenTree::Group(tree)) if tree.delimiter() == Delimiter::Brace => {
                branches(tree, &prefix, paths);
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        if !is_separator(&tokens[at..]) {
            break;
        }
        at += 2;
    }
    if !prefix.is_empty() {
        paths.push(prefix);
    }
    at
}

/// The branches of a use tree.
fn branches(tree: &Group, prefix: &[String], paths: &mut Vec<Vec<String>>) {
    let tokens = content(tree);
    for branch in tokens.split(|token| is_punct(token, ',')) {
        let mut full = prefix.to_vec();
        let mut is_leaf = !branch.is_empty();
        for token in branch {
            match token {
                TokenTree::Ident(word) if word == "as" => break,
                TokenTree::Ident(word) if word == "self" => {}
                TokenTree::Ident(word) => full.push(word.to_string()),
                TokenTree::Group(inner) => {
                    branches(inner, &full, paths);
                    is_leaf = false;
                }
                _ => {}
            }
        }
        if is_leaf {
            paths.push(full);
        }
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

    /// The paths in a file of the module `zone::depot`, as text.
    fn paths(source: &str) -> Vec<String> {
        let module = ["zone".to_string(), "depot".to_string()];
        let found = find(source.parse().unwrap(), &module);
        found.paths.iter().map(|path| path.join("::")).collect()
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
        assert_eq!(paths("pub(in super::super) fn f() {}"), Vec::<String>::new());
        assert_eq!(paths("use core::fmt; use self::a::B; fn f() { a::crate_name::b() }"), [""; 0]);
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
