//! Tests of the bounds and of an attempt of a few huge pages.

use super::*;

fn tables(free: u64) -> Snapshot {
    let text = format!(
        "# zoneinfo\nNode 0, zone Normal\npages free {free}\nboost 24\nhigh 1000\nmanaged 10000000\n"
    );
    Snapshot::parse("t", text.as_bytes()).unwrap()
}

#[test]
fn an_attempt_leaves_the_watermarks_and_the_reserve() {
    let reserve = 1024 + (RESERVE >> 12);
    let pages = |free, most: u64| allowed(&tables(free), most, 2 << 20);
    assert_eq!(pages(reserve + 512, 4 << 30), Ok(1));
    assert_eq!(pages(reserve + 512 * 5 - 1, 4 << 30), Ok(4));
    assert_eq!(pages(9_000_000, 4 << 30), Ok(2048));
    let refused = pages(reserve + 511, 4 << 30).unwrap_err();
    assert!(refused.starts_with("513 MiB are free above the watermarks, and 512 MiB"), "{refused}");
    assert!(pages(0, 4 << 30).is_err() && pages(9_000_000, 1 << 20).is_err());
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
fn nothing_is_expected_that_was_not_asked_for() {
    let zone = super::super::ZoneHugePages { without: 5, with: [7, 9], ..Default::default() };
    let predicted = HugePages { order: 9, zones: vec![zone] };
    let attempt = |mode, requested| Attempt {
        mode,
        predicted: predicted.clone(),
        allowed: 100,
        requested,
        allocated: 0,
        time: Duration::ZERO,
        counted: Vec::new(),
    };
    assert_eq!(attempt(Mode::Without, 100).expected(), [5, 5]);
    assert_eq!(attempt(Mode::With, 100).expected(), [7, 9]);
    assert_eq!(attempt(Mode::With, 8).expected(), [7, 8]);
    assert_eq!(attempt(Mode::Without, 3).expected(), [3, 3]);
}

#[test]
fn a_short_attempt_asks_for_what_is_allowed_or_is_refused() {
    let bounds = Bounds { bytes: 8 << 20, time: Duration::from_secs(1) };
    match Attempt::make(HugePageSetting::read().map_or(Mode::With, |it| it.mode()), bounds) {
        Ok(attempt) => {
            assert!(
                attempt.requested <= attempt.allowed && attempt.allocated <= attempt.requested,
                "{attempt:?}"
            );
            assert!(attempt.allowed * attempt.predicted.bytes() <= 8 << 20, "{attempt:?}");
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
