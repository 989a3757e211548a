//! Expressions over the fields of an event, and their values.

use super::field::Field;

/// A C expression. Numbers are 64 bits wide; the conversion that prints them narrows them.
#[derive(Debug)]
pub(super) enum Expr {
    Number(i64),
    Text(String),
    Field(Field),
    /// Something that only the kernel knows: an address.
    Hidden,
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `__print_flags`: names of the bits that are set, and what stands between them.
    Flags(Box<Expr>, String, Names),
    /// `__print_symbolic`: the name of a value.
    Symbol(Box<Expr>, Names),
}

/// Values and how they are called.
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
    /// `None` where C has no value.
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
