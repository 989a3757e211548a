//! Parses words into expressions, with C's precedence.

use super::field::{Field, Token};

/// A C expression. Numbers have 64 bits; the conversion that prints them truncates them.
#[derive(Debug)]
pub(super) enum Expr {
    Number(i64),
    Text(String),
    Field(Field),
    /// A value that only the kernel knows: an address.
    Hidden,
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `__print_flags`: names of the bits that are set, and their separator.
    Flags(Box<Expr>, String, Names),
    /// `__print_symbolic`: the name of a value.
    Symbol(Box<Expr>, Names),
}

/// Values and their names.
pub(super) type Names = Vec<(i64, String)>;

#[derive(Clone, Copy, Debug)]
pub(super) enum Unary {
    Minus,
    Complement,
    Not,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    Unequal,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    ShiftLeft,
    ShiftRight,
    Plus,
    Minus,
    Times,
    Divided,
    Remainder,
}

/// The value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'v> {
    Number(i64),
    Text(&'v [u8]),
    Hidden,
    Flags(i64, &'v str, &'v [(i64, String)]),
}

impl Expr {
    /// Its value for `event`.
    #[inline]
    pub(super) fn value<'v>(&'v self, event: &'v [u8]) -> Value<'v> {
        match self {
            Self::Number(number) => Value::Number(*number),
            Self::Text(text) => Value::Text(text.as_bytes()),
            Self::Field(field) if field.is_text() => Value::Text(field.text(event)),
            Self::Field(field) => Value::Number(field.number(event)),
            Self::Hidden => Value::Hidden,
            Self::Unary(sign, of) => match of.value(event) {
                Value::Number(number) => Value::Number(sign.apply(number)),
                _ => Value::Hidden,
            },
            Self::Binary(sign, left, right) => match (left.value(event), right.value(event)) {
                (Value::Number(left), Value::Number(right)) => {
                    sign.apply(left, right).map_or(Value::Hidden, Value::Number)
                }
                _ => Value::Hidden,
            },
            Self::If(condition, yes, no) => match condition.value(event) {
                Value::Number(0) => no.value(event),
                _ => yes.value(event),
            },
            Self::Flags(of, between, names) => match of.value(event) {
                Value::Number(bits) => Value::Flags(bits, between, names),
                _ => Value::Hidden,
            },
            Self::Symbol(of, names) => match of.value(event) {
                Value::Number(number) => names
                    .iter()
                    .find(|(value, _)| *value == number)
                    .map_or(Value::Flags(number, "", &[]), |(_, name)| {
                        Value::Text(name.as_bytes())
                    }),
                _ => Value::Hidden,
            },
        }
    }
}

impl Unary {
    pub(super) fn apply(self, number: i64) -> i64 {
        match self {
            Self::Minus => number.wrapping_neg(),
            Self::Complement => !number,
            Self::Not => i64::from(number == 0),
        }
    }
}

impl Binary {
    /// `None` if it is undefined in C.
    #[inline]
    pub(super) fn apply(self, left: i64, right: i64) -> Option<i64> {
        let shift = || u32::try_from(right).ok();
        Some(match self {
            Self::Or => i64::from(left != 0 || right != 0),
            Self::And => i64::from(left != 0 && right != 0),
            Self::BitOr => left | right,
            Self::BitXor => left ^ right,
            Self::BitAnd => left & right,
            Self::Equal => i64::from(left == right),
            Self::Unequal => i64::from(left != right),
            Self::Less => i64::from(left < right),
            Self::Greater => i64::from(left > right),
            Self::LessOrEqual => i64::from(left <= right),
            Self::GreaterOrEqual => i64::from(left >= right),
            Self::ShiftLeft => left.checked_shl(shift()?)?,
            Self::ShiftRight => (left as u64).checked_shr(shift()?)? as i64,
            Self::Plus => left.wrapping_add(right),
            Self::Minus => left.wrapping_sub(right),
            Self::Times => left.wrapping_mul(right),
            Self::Divided => left.checked_div(right)?,
            Self::Remainder => left.checked_rem(right)?,
        })
    }
}

/// Maximum nesting of a print format, to bound the recursion.
const DEEPEST: usize = 64;

/// Binary operators, from the loosest to the tightest.
const LEVELS: &[&[(&str, Binary)]] = &[
    &[("||", Binary::Or)],
    &[("&&", Binary::And)],
    &[("|", Binary::BitOr)],
    &[("^", Binary::BitXor)],
    &[("&", Binary::BitAnd)],
    &[("==", Binary::Equal), ("!=", Binary::Unequal)],
    &[
        ("<", Binary::Less),
        (">", Binary::Greater),
        ("<=", Binary::LessOrEqual),
        (">=", Binary::GreaterOrEqual),
    ],
    &[("<<", Binary::ShiftLeft), (">>", Binary::ShiftRight)],
    &[("+", Binary::Plus), ("-", Binary::Minus)],
    &[("*", Binary::Times), ("/", Binary::Divided), ("%", Binary::Remainder)],
];

/// Reads words in order. Every method parses the construct in its name, and returns `None` for
/// other words.
pub(super) struct Parser<'t> {
    tokens: &'t [Token],
    fields: &'t [Field],
    depth: usize,
}

impl<'t> Parser<'t> {
    pub(super) fn new(tokens: &'t [Token], fields: &'t [Field]) -> Self {
        Self { tokens, fields, depth: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Takes `sign` if it is the next word.
    pub(super) fn take(&mut self, sign: &str) -> Option<()> {
        match self.tokens {
            [Token::Sign(next), rest @ ..] if *next == sign => {
                self.tokens = rest;
                Some(())
            }
            _ => None,
        }
    }

    /// A string; C joins adjacent ones.
    pub(super) fn text(&mut self) -> Option<String> {
        let mut text = None;
        while let [Token::Text(next), rest @ ..] = self.tokens {
            text.get_or_insert_with(String::new).push_str(next);
            self.tokens = rest;
        }
        text
    }

    pub(super) fn expression(&mut self) -> Option<Expr> {
        self.nested(Self::conditional)
    }

    /// Parses one level deeper, if the limit permits it.
    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Option<Expr>) -> Option<Expr> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let expression = parse(self);
        self.depth -= 1;
        expression
    }

    fn conditional(&mut self) -> Option<Expr> {
        let condition = self.binary(0)?;
        if self.take("?").is_none() {
            return Some(condition);
        }
        let yes = self.expression()?;
        self.take(":")?;
        let no = self.expression()?;
        Some(match condition {
            Expr::Number(0) => no,
            Expr::Number(_) => yes,
            _ => Expr::If(condition.into(), yes.into(), no.into()),
        })
    }

    fn binary(&mut self, level: usize) -> Option<Expr> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(&(_, sign)) = signs.iter().find(|(text, _)| self.take(text).is_some()) {
            let right = self.binary(level + 1)?;
            left = match (&left, &right) {
                (&Expr::Number(left), &Expr::Number(right)) => {
                    Expr::Number(sign.apply(left, right)?)
                }
                _ => Expr::Binary(sign, left.into(), right.into()),
            };
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expr> {
        for (text, sign) in [("-", Unary::Minus), ("~", Unary::Complement), ("!", Unary::Not)] {
            if self.take(text).is_some() {
                return Some(match self.nested(Self::unary)? {
                    Expr::Number(number) => Expr::Number(sign.apply(number)),
                    of => Expr::Unary(sign, of.into()),
                });
            }
        }
        if self.take_cast().is_some() { self.nested(Self::unary) } else { self.primary() }
    }

    /// `(unsigned long)`, `(struct page *)`: only names and stars in brackets, before an operand.
    /// The cast is ignored: the conversion that prints the value determines its width.
    fn take_cast(&mut self) -> Option<()> {
        let [Token::Sign("("), inside @ ..] = self.tokens else { return None };
        let names = inside.iter().take_while(|token| matches!(token, Token::Name(_))).count();
        let stars = inside[names..].iter().take_while(|t| **t == Token::Sign("*")).count();
        let rest = &inside[names + stars..];
        let is_cast = names > 0
            && matches!(
                rest,
                [
                    Token::Sign(")"),
                    Token::Name(_)
                        | Token::Number(_)
                        | Token::Text(_)
                        | Token::Sign("(" | "~" | "!"),
                    ..
                ]
            );
        is_cast.then(|| self.tokens = &rest[1..])
    }

    fn primary(&mut self) -> Option<Expr> {
        match self.tokens {
            [Token::Number(number), rest @ ..] => {
                self.tokens = rest;
                Some(Expr::Number(*number))
            }
            [Token::Text(_), ..] => self.text().map(Expr::Text),
            [Token::Sign("("), rest @ ..] => {
                self.tokens = rest;
                let inside = self.expression()?;
                self.take(")")?;
                Some(inside)
            }
            [Token::Name(record), Token::Sign("->"), Token::Name(name), rest @ ..]
                if record == "REC" =>
            {
                self.tokens = rest;
                self.field(name)
            }
            [Token::Name(name), Token::Sign("("), rest @ ..] => {
                self.tokens = rest;
                self.call(name)
            }
            // A variable of the kernel.
            [Token::Name(_), rest @ ..] => {
                self.tokens = rest;
                Some(Expr::Hidden)
            }
            _ => None,
        }
    }

    fn field(&self, name: &str) -> Option<Expr> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        (field.is_number() || field.is_text()).then(|| Expr::Field(field.clone()))
    }

    fn call(&mut self, name: &str) -> Option<Expr> {
        let value = self.expression()?.into();
        self.take(",")?;
        match name {
            "__print_flags" => {
                let between = self.text()?;
                self.take(",")?;
                Some(Expr::Flags(value, between, self.names()?))
            }
            "__print_symbolic" => Some(Expr::Symbol(value, self.names()?)),
            _ => None,
        }
    }

    /// `{1, "one"}, {2, "two"})`; an entry without a name, the end of the kernel's array, is
    /// skipped.
    fn names(&mut self) -> Option<Names> {
        let mut names = Vec::new();
        loop {
            self.take("{")?;
            let Expr::Number(value) = self.expression()? else { return None };
            self.take(",")?;
            match self.expression()? {
                Expr::Text(name) => names.push((value, name)),
                Expr::Number(0) => {}
                _ => return None,
            }
            self.take("}")?;
            if self.take(")").is_some() {
                return Some(names);
            }
            self.take(",")?;
        }
    }
}
