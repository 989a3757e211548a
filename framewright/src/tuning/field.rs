//! A setting as text: its valid values, its current value, and the valid value nearest to an invalid one.

use core::fmt;

use super::{
    Auto, BulkFree, BulkTake, CompactMethod, FlushBatching, Hardening, HighOrderDrain, OwnerChoice,
    spelling::nearest,
};
use crate::platform::OwnerLock;

/// Bounds of a number.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    low: u32,
    high: u32,
    /// 0 is valid, too.
    zero: bool,
}

/// A field of a tuning, reached through its key.
pub(super) enum Field<'t> {
    Auto(&'t mut Auto, Bounds),
    Number(&'t mut u32, Bounds),
    BulkFree(&'t mut BulkFree),
    BulkTake(&'t mut BulkTake),
    HighOrderDrain(&'t mut HighOrderDrain),
    FlushBatching(&'t mut FlushBatching),
    CompactMethod(&'t mut CompactMethod),
    Hardening(&'t mut Hardening),
    Switch(&'t mut bool),
    OwnerChoice(&'t mut OwnerChoice),
}

/// A value as text, detached from its tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A word.
    Word(&'static str),
    /// A number.
    Number(u32),
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Word(word) => f.pad(word),
            Shown::Number(number) => fmt::Display::fmt(number, f),
        }
    }
}

const BULK_FREE: &[(&str, BulkFree)] = &[
    ("select-before-lock", BulkFree::SelectBeforeLock),
    #[cfg(feature = "compare")]
    ("select-under-lock", BulkFree::SelectUnderLock),
];
const BULK_TAKE: &[(&str, BulkTake)] = &[
    ("bulk", BulkTake::Bulk),
    #[cfg(feature = "compare")]
    ("one-by-one", BulkTake::OneByOne),
    #[cfg(feature = "compare")]
    ("smallest-first", BulkTake::SmallestFirst),
];
const HIGH_ORDER_DRAIN: [(&str, HighOrderDrain); 2] = [
    ("second-consecutive", HighOrderDrain::SecondConsecutive),
    ("every-free", HighOrderDrain::EveryFree),
];
const FLUSH_BATCHING: [(&str, FlushBatching); 4] = [
    ("off", FlushBatching::Off),
    ("clean-only", FlushBatching::CleanOnly),
    ("all", FlushBatching::All),
    ("lazy", FlushBatching::Lazy),
];
const COMPACT_METHOD: &[(&str, CompactMethod)] = &[
    ("index", CompactMethod::Index),
    #[cfg(feature = "compare")]
    ("scan", CompactMethod::Scan),
    ("off", CompactMethod::Off),
];
const HARDENING: [(&str, Hardening); 4] = [
    ("checked", Hardening::Checked),
    ("off", Hardening::Off),
    ("tracked", Hardening::Tracked),
    ("paranoid", Hardening::Paranoid),
];
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];
const OWNER_CHOICE: [(&str, OwnerChoice); 3] = [
    ("auto", OwnerChoice::Auto),
    ("biased", OwnerChoice::Fixed(OwnerLock::Biased)),
    ("trylock", OwnerChoice::Fixed(OwnerLock::Trylock)),
];

impl<'t> Field<'t> {
    pub(super) fn auto(field: &'t mut Auto, low: u32, high: u32) -> Self {
        Field::Auto(field, Bounds { low, high, zero: false })
    }

    pub(super) fn auto_or_zero(field: &'t mut Auto, low: u32, high: u32) -> Self {
        Field::Auto(field, Bounds { low, high, zero: true })
    }

    pub(super) fn number(field: &'t mut u32, low: u32, high: u32) -> Self {
        Field::Number(field, Bounds { low, high, zero: false })
    }

    pub(super) fn number_or_zero(field: &'t mut u32, low: u32, high: u32) -> Self {
        Field::Number(field, Bounds { low, high, zero: true })
    }

    /// Sets the field. `Err` holds the valid value nearest to `value`.
    pub(super) fn set(self, value: &str) -> Result<(), Shown> {
        match self {
            Field::Auto(field, _) if value == "auto" => *field = Auto::Auto,
            Field::Auto(field, bounds) => {
                *field = Auto::Fixed(bounds.parse(value, Shown::Word("auto"))?);
            }
            Field::Number(field, bounds) => *field = bounds.parse(value, Shown::Number(*field))?,
            Field::BulkFree(field) => *field = choose(BULK_FREE, value)?,
            Field::BulkTake(field) => *field = choose(BULK_TAKE, value)?,
            Field::HighOrderDrain(field) => *field = choose(&HIGH_ORDER_DRAIN, value)?,
            Field::FlushBatching(field) => *field = choose(&FLUSH_BATCHING, value)?,
            Field::CompactMethod(field) => *field = choose(COMPACT_METHOD, value)?,
            Field::Hardening(field) => *field = choose(&HARDENING, value)?,
            Field::Switch(field) => *field = choose(&SWITCH, value)?,
            Field::OwnerChoice(field) => *field = choose(&OWNER_CHOICE, value)?,
        }
        Ok(())
    }

    /// Whether [`Field::set`] takes the field's value. Fields are public, so any value may have been
    /// stored.
    pub(super) fn is_valid(&self) -> bool {
        match self {
            Field::Auto(Auto::Fixed(number), bounds) => bounds.contain(*number),
            Field::Number(number, bounds) => bounds.contain(**number),
            _ => true,
        }
    }

    pub(super) fn show(self) -> Shown {
        match self {
            Field::Auto(Auto::Auto, _) => Shown::Word("auto"),
            Field::Auto(Auto::Fixed(number), _) | Field::Number(number, _) => {
                Shown::Number(*number)
            }
            Field::BulkFree(field) => word(BULK_FREE, *field),
            Field::BulkTake(field) => word(BULK_TAKE, *field),
            Field::HighOrderDrain(field) => word(&HIGH_ORDER_DRAIN, *field),
            Field::FlushBatching(field) => word(&FLUSH_BATCHING, *field),
            Field::CompactMethod(field) => word(COMPACT_METHOD, *field),
            Field::Hardening(field) => word(&HARDENING, *field),
            Field::Switch(field) => word(&SWITCH, *field),
            Field::OwnerChoice(field) => word(&OWNER_CHOICE, *field),
        }
    }
}

impl Bounds {
    fn contain(self, number: u32) -> bool {
        (number == 0 && self.zero) || (self.low..=self.high).contains(&number)
    }

    /// The number in `text` if it is within bounds. `Err` holds the nearest number that is, or
    /// `fallback` if the text is no number.
    fn parse(self, text: &str, fallback: Shown) -> Result<u32, Shown> {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = match text.parse::<u64>() {
            Ok(number) => number,
            Err(_) if is_number(text) => u64::MAX,
            Err(_) if text.strip_prefix('-').is_some_and(is_number) => {
                return Err(Shown::Number(if self.zero { 0 } else { self.low }));
            }
            Err(_) => return Err(fallback),
        };
        if number == 0 && self.zero {
            return Ok(0);
        }
        let nearest = number.clamp(u64::from(self.low), u64::from(self.high)) as u32;
        if u64::from(nearest) == number { Ok(nearest) } else { Err(Shown::Number(nearest)) }
    }
}

fn choose<T: Copy>(choices: &[(&'static str, T)], value: &str) -> Result<T, Shown> {
    Ok(choices[find(value, choices.len(), &|at| choices[at].0)?].1)
}

/// The index of `value` among `count` words. Not generic, so that choices of all types share its code.
fn find(value: &str, count: usize, word: &dyn Fn(usize) -> &'static str) -> Result<usize, Shown> {
    let mut words = (0..count).map(word);
    words
        .position(|word| word == value)
        .ok_or_else(|| Shown::Word(nearest(value, (0..count).map(word)).unwrap_or("auto")))
}

fn word<T: Copy + PartialEq>(choices: &[(&'static str, T)], value: T) -> Shown {
    Shown::Word(choices.iter().find(|(_, choice)| *choice == value).map_or("", |(word, _)| word))
}
