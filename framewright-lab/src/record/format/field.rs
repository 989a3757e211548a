//! Fields of an event.

use std::io::Write;

/// Some bytes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::record) struct Field {
    pub(super) name: String,
    at: usize,
    size: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Signed,
    Unsigned,
    /// Text up to the first zero.
    Text,
    /// An array, or data in another part of the event.
    Other,
}

impl Field {
    /// Parses `field:int order; offset:16; size:4; signed:1;` (separated by tabs); other lines are
    /// no fields.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim().split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
        let (at, size) = (number("offset:")?, number("size:")?);
        let signed = number("signed:").is_some_and(|signed| signed != 0);
        let (kind, name) = declaration.rsplit_once([' ', '*'])?;
        let (name, array) = name.split_once('[').map_or((name, false), |(name, _)| (name, true));
        let kind = match (array, size) {
            (true, _) if kind.ends_with("char") && !kind.starts_with("__") => Kind::Text,
            (false, 1 | 2 | 4 | 8) if !kind.starts_with("__") => {
                if signed {
                    Kind::Signed
                } else {
                    Kind::Unsigned
                }
            }
            _ => Kind::Other,
        };
        Some(Self { name: name.to_owned(), at, size, kind })
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Signed | Kind::Unsigned)
    }

    pub(super) fn is_text(&self) -> bool {
        self.kind == Kind::Text
    }

    /// Its value; unsigned numbers of 64 bits keep their bits. An event that is too short reads as
    /// zeros.
    #[inline]
    pub(in crate::record) fn number(&self, event: &[u8]) -> i64 {
        let Some(bytes) = event.get(self.at..) else { return 0 };
        let signed = self.kind == Kind::Signed;
        match self.size {
            8 => bytes.first_chunk().map_or(0, |&b| i64::from_ne_bytes(b)),
            4 => bytes.first_chunk().map_or(0, |&b| match signed {
                true => i64::from(i32::from_ne_bytes(b)),
                false => i64::from(u32::from_ne_bytes(b)),
            }),
            2 => bytes.first_chunk().map_or(0, |&b| match signed {
                true => i64::from(i16::from_ne_bytes(b)),
                false => i64::from(u16::from_ne_bytes(b)),
            }),
            _ => bytes.first().map_or(0, |&b| match signed {
                true => i64::from(b as i8),
                false => i64::from(b),
            }),
        }
    }

    /// Its bytes up to the first zero.
    pub(in crate::record) fn text<'e>(&self, event: &'e [u8]) -> &'e [u8] {
        let end = event.len().min(self.at + self.size);
        let bytes = event.get(self.at..end).unwrap_or_default();
        memchr::memchr(0, bytes).map_or(bytes, |end| &bytes[..end])
    }

    /// Appends its value without knowledge of its meaning.
    pub(super) fn list(&self, event: &[u8], out: &mut Vec<u8>) {
        // Writing to memory does not fail.
        let _ = match self.kind {
            Kind::Signed => write!(out, "{}", self.number(event)),
            Kind::Unsigned => write!(out, "{}", self.number(event) as u64),
            Kind::Text => out.write_all(self.text(event)),
            Kind::Other => out.write_all(b"?"),
        };
    }
}

/// A word of a print format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    Number(i64),
    Text(String),
    /// An operator: `(`, `->`, `<<`, `!=`…
    Sign(&'static str),
}

/// Longer ones first: the first match is taken.
const SIGNS: &[&str] = &[
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "{", "}", ",", "?", ":", "+",
    "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">",
];

/// Splits `text` into words; `None` if it has anything else.
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

    fn field(line: &str) -> Field {
        Field::parse(line).expect(line)
    }

    #[test]
    fn numbers_of_every_size_and_sign() {
        let event = [0xff; 16];
        for (line, expected) in [
            ("\tfield:unsigned char a;\toffset:0;\tsize:1;\tsigned:0;", 255),
            ("\tfield:s8 a;\toffset:0;\tsize:1;\tsigned:1;", -1),
            ("\tfield:unsigned short a;\toffset:2;\tsize:2;\tsigned:0;", 65_535),
            ("\tfield:enum zone_type a;\toffset:4;\tsize:4;\tsigned:0;", 0xffff_ffff),
            ("\tfield:pid_t a;\toffset:4;\tsize:4;\tsigned:1;", -1),
            ("\tfield:unsigned long a;\toffset:8;\tsize:8;\tsigned:0;", -1),
            ("\tfield:const char *a;\toffset:12;\tsize:8;\tsigned:0;", 0),
        ] {
            let field = field(line);
            assert_eq!((field.name.as_str(), field.number(&event)), ("a", expected), "{line}");
            assert!(field.is_number());
        }
    }

    #[test]
    fn arrays_of_characters_are_text_and_other_arrays_are_not() {
        let comm = field("\tfield:char comm[16];\toffset:2;\tsize:16;\tsigned:0;");
        assert_eq!((comm.name.as_str(), comm.text(b"..bash\0rubbish")), ("comm", &b"bash"[..]));
        assert_eq!(comm.text(b"."), b"");
        assert!(comm.is_text());
        for line in [
            "\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;",
            "\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;",
        ] {
            let field = field(line);
            assert!(!field.is_number() && !field.is_text(), "{line}");
        }
        assert_eq!(Field::parse("print fmt: \"x\""), None);
    }

    #[test]
    fn the_c_syntax_of_print_formats_is_parsed() {
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
