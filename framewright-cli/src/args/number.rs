//! Whole numbers, strictly: `+4` is a sum, not a number of CPUs.

use std::str::FromStr;

/// The number that consists of the digits of `text`, if it does and `T` can hold it.
pub(super) fn whole<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_nothing_else() {
        assert_eq!(whole::<u16>("512"), Some(512));
        for text in ["", "+4", "-4", " 4", "4 ", "70000", "1e3"] {
            assert_eq!(whole::<u16>(text), None, "{text}");
        }
    }
}
