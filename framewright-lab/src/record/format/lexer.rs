//! The words of a print format: C as far as print formats use it.

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    Number(i64),
    Text(String),
    /// `(`, `->`, `<<`, `!=`…
    Sign(&'static str),
}

/// Longer ones first: the first that fits is taken.
const SIGNS: &[&str] = &[
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "{", "}", ",", "?", ":", "+",
    "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">",
];

/// Cuts `text` into words; `None` if there is something else in it.
pub(super) fn words(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '"' => string(rest)?,
            '0'..='9' => number(rest)?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let (name, after) = rest.split_at(word_end(rest));
                (Token::Name(name.to_owned()), after)
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign))?;
                (Token::Sign(sign), &rest[sign.len()..])
            }
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Some(tokens)
}

fn word_end(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

fn number(text: &str) -> Option<(Token, &str)> {
    let (word, after) = text.split_at(word_end(text));
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    Some((Token::Number(value.ok()? as i64), after))
}

fn string(text: &str) -> Option<(Token, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((Token::Text(value), &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' | 't' => ' ',
                c @ ('"' | '\\' | '%' | '\'') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_as_far_as_print_formats_use_it() {
        let name = |name: &str| Token::Name(name.to_owned());
        let expected = [
            Token::Text("a \"b\"".to_owned()),
            Token::Sign(","),
            name("REC"),
            Token::Sign("->"),
            name("pfn_0"),
            Token::Sign("!="),
            Token::Sign("-"),
            Token::Number(1),
            Token::Sign("<<"),
            Token::Number(31),
            Token::Number(8),
        ];
        assert_eq!(words(r#""a \"b\"", REC->pfn_0!= -1UL <<0x1fU 010"#).unwrap(), expected);
        assert_eq!(words("18446744073709551615UL").unwrap(), [Token::Number(-1)]);
        for bad in ["\"open", "a ; b", "12ab", "\u{e9}"] {
            assert_eq!(words(bad), None, "{bad}");
        }
    }
}
