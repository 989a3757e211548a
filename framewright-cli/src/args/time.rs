//! Virtual time, for which simulated machines run.

use std::time::Duration;

use framewright_lab::simulated::Plan;

/// In less hardly a page comes and goes.
const SHORTEST: Duration = Duration::from_micros(100);

/// For how long a machine is watched, in nanoseconds.
pub(super) fn window(text: &str) -> Result<u64, String> {
    let window = warm_up(text)?;
    if u128::from(window) < SHORTEST.as_nanos() {
        return Err(format!(
            "in less than {}us hardly a page comes and goes",
            SHORTEST.as_micros()
        ));
    }
    Ok(window)
}

/// For how long it runs before that.
pub(super) fn warm_up(text: &str) -> Result<u64, String> {
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; a time is a number and a unit, as in 50ms"))?;
    let most = Duration::from_nanos(Plan::MOST);
    if time > most {
        return Err(format!(
            "the most there can be is {}: a second of a server with 224 CPUs takes this one about \
             ten, and shows all that happens there",
            humantime::format_duration(most)
        ));
    }
    Ok(u64::try_from(time.as_nanos()).unwrap_or(Plan::MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_bounds() {
        assert_eq!((window("50ms"), window("10m")), (Ok(50_000_000), Ok(Plan::MOST)));
        assert_eq!(warm_up("0ms"), Ok(0));
        for (text, hint) in [
            ("50us", "less than 100us"),
            ("0ms", "less than 100us"),
            ("601s", "the most there can be is 10m"),
            ("1000000h", "the most there can be is 10m"),
            ("99999999999999999999h", "as in 50ms"),
            ("soon", "as in 50ms"),
            ("", "as in 50ms"),
        ] {
            let error = window(text).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
