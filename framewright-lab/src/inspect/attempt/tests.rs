//! Tests of the bounds and of an attempt of a few huge pages.

use super::*;

#[test]
fn an_attempt_leaves_the_watermarks_and_the_reserve() {
    let text = "# zoneinfo\nNode 0, zone Normal\nboost 24\nhigh 1000\nmanaged 10000000\n";
    let tables = Snapshot::parse("t", text.as_bytes()).unwrap();
    let least = |free, available| {
        least_free(&tables, &Memory { free, available, ..Memory::default() }, 2 << 20)
    };
    let reserve = (4 << 20) + RESERVE;
    assert_eq!(least(reserve + (2 << 20), 8 << 30), Ok(reserve));
    let refused = least(reserve + (2 << 20) - 1, 8 << 30).unwrap_err();
    assert!(refused.starts_with("129 MiB are free above the watermarks, and 128 MiB"), "{refused}");
    let refused = least(8 << 30, AVAILABLE).unwrap_err();
    assert!(refused.starts_with("512 MiB are available, and 512 MiB of them"), "{refused}");
    assert!(least(0, 0).is_err());
}

#[test]
fn settings_decide_whether_faults_wait() {
    let setting = |enabled: &str, defrag: &str| HugePageSetting {
        enabled: enabled.into(),
        defrag: defrag.into(),
    };
    for defrag in ["always", "madvise", "defer+madvise"] {
        assert_eq!(setting("madvise", defrag).mode(), Mode::With, "{defrag}");
    }
    for defrag in ["never", "defer"] {
        assert_eq!(setting("madvise", defrag).mode(), Mode::Without, "{defrag}");
    }
    assert!(setting("madvise", "never").change_to(Mode::Without).unwrap().is_none());
    let refused = setting("never", "never").change_to(Mode::Without).unwrap_err();
    assert!(refused.contains("switched off"), "{refused}");
}

#[test]
fn a_short_attempt_takes_what_is_allowed_or_is_refused() {
    let bounds = Bounds { bytes: 8 << 20, time: Duration::from_secs(1) };
    match Attempt::make(HugePageSetting::read().map_or(Mode::With, |it| it.mode()), bounds) {
        Ok(attempt) => {
            assert!(attempt.found <= attempt.allocated, "{attempt:?}");
            assert!(attempt.allocated <= attempt.requested.min(4), "{attempt:?}");
        }
        Err(reason) => assert!(!reason.is_empty()),
    }
}

#[test]
fn only_counters_that_grew_are_listed() {
    let counter = |name, value| Counter { name, meaning: "", value };
    let grown = increase(
        &[counter("a", 1), counter("b", 2)],
        vec![counter("a", 4), counter("b", 2), counter("c", 9)],
    );
    assert_eq!(grown, [counter("a", 3)]);
}
