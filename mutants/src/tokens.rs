//! Tokens of Rust code, without comments, white space and optional trailing commas.

use proc_macro2::{Delimiter, LexError, Span, TokenStream, TokenTree};
use std::ops::Range;

/// One token. A group is an opening token, its content, and a closing token.
#[derive(Debug)]
pub(crate) struct Token {
    /// The text, by which two tokens are compared.
    pub(crate) text: String,
    /// Its range, in bytes.
    pub(crate) bytes: Range<usize>,
    /// The index of the next token. For an opening token, this is the index after its group.
    pub(crate) next: usize,
}

/// The tokens of `code`. Its brackets must match.
pub(crate) fn tokens(code: &str) -> Result<Vec<Token>, LexError> {
    let mut out = Vec::new();
    flatten(code, code.parse()?, &mut out);
    Ok(out)
}

fn flatten(code: &str, stream: TokenStream, out: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match tree {
            // The lexer turns a doc comment into an attribute.
            TokenTree::Punct(punct) if punct.as_char() == '#' && is_comment(code, punct.span()) => {
                trees.next_if(|next| matches!(next, TokenTree::Punct(_)));
                trees.next();
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                let opening = out.len();
                push(open.to_string(), group.span_open(), out);
                flatten(code, group.stream(), out);
                // The formatter adds and removes trailing commas.
                if out.len() > opening + 1 && out.last().is_some_and(|last| last.text == ",") {
                    out.pop();
                }
                push(close.to_string(), group.span_close(), out);
                out[opening].next = out.len();
            }
            leaf => push(leaf.to_string(), leaf.span(), out),
        }
    }
}

fn is_comment(code: &str, span: Span) -> bool {
    code[span.byte_range()].starts_with('/')
}

fn push(text: String, span: Span, out: &mut Vec<Token>) {
    out.push(Token { text, bytes: span.byte_range(), next: out.len() + 1 });
}
