use std::{format, string::ToString};

use super::*;

#[test]
fn listed_defaults_are_the_defaults() {
    let tuning = Tuning::default();
    for key in KEYS {
        assert_eq!(tuning.get(key.path).unwrap().to_string(), key.default, "{}", key.path);
    }
}

#[test]
fn setting_a_default_changes_nothing() {
    let mut tuning = Tuning::default();
    for key in KEYS {
        tuning.set(key.path, key.default).unwrap();
    }
    assert_eq!(tuning, Tuning::default());
}

#[test]
fn values_set_past_the_text_are_checked_too() {
    assert!(Tuning::default().first_invalid().is_none());
    let mut tuning = Tuning::default();
    tuning.pcp.high_max_divisor = 0;
    assert_eq!(tuning.first_invalid().unwrap().path, "pcp.high_max_divisor");
    let mut tuning = Tuning::default();
    tuning.pcp.bundle_slots = Auto::Fixed(u32::MAX);
    assert_eq!(tuning.first_invalid().unwrap().path, "pcp.bundle_slots");
}

#[test]
fn a_misspelt_key_is_answered_with_the_nearest() {
    let error = Tuning::default().set("pcp.bach", "1").unwrap_err().to_string();
    assert_eq!(error, "unknown setting 'pcp.bach'; the nearest is 'pcp.batch'");
    let error = Tuning::default().set("nosuch", "1").unwrap_err().to_string();
    assert_eq!(error, "unknown setting 'nosuch'; there is none like it");
    let error = Tuning::default().set("nosuch.batch", "1").unwrap_err().to_string();
    assert_eq!(error, "unknown setting 'nosuch.batch'; there is none like it");
}

/// The keys of the group are listed even if none is similar to the wrong key.
#[test]
fn a_wrong_key_of_a_group_is_answered_with_the_keys_of_the_group() {
    let error = Tuning::default().set("alloc.patience", "1").unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown setting 'alloc.patience'; the settings of 'alloc' are: alloc.retries, \
         alloc.progress_retries, alloc.compaction_retries, alloc.defrag_mode"
    );
}

#[test]
fn a_value_out_of_range_is_answered_with_the_nearest() {
    let mut tuning = Tuning::default();
    for (key, value, nearest) in [
        ("pcp.batch", "0", "1"),
        ("pcp.batch", "many", "auto"),
        ("pcp.batch", "-5", "1"),
        ("reclaim.swappiness", "-1", "0"),
        ("pcp.high_fraction", "-", "0"),
        ("pcp.batch", "99999999999999999999999", "1024"),
        ("pcp.high_fraction", "3", "8"),
        ("pcp.bundle_slots", "32", "64"),
        ("pcp.bulk_free", "before", "select-before-lock"),
        ("zone.watermark_scale", "99999999999", "3000"),
    ] {
        let error = format!("{}", tuning.set(key, value).unwrap_err());
        assert!(error.ends_with(&format!("nearest valid value: {nearest}")), "{error}");
    }
    assert_eq!(tuning, Tuning::default());
}

#[test]
fn settings_for_comparison_name_the_feature_that_they_need() {
    for (key, value) in [
        ("compact.method", "scan"),
        ("compact.shortcuts", "off"),
        ("compact.repair.reset_before_read", "off"),
        ("compact.repair.detect_meeting", "off"),
        ("compact.repair.unmarked_types", "off"),
        ("compact.repair.reset_on_meeting", "off"),
        ("pcp.bulk_free", "select-under-lock"),
        ("zone.bulk_take", "one-by-one"),
        ("zone.bulk_take", "smallest-first"),
    ] {
        let mut tuning = Tuning::default();
        let set = tuning.set(key, value).map_err(|error| error.to_string());
        let refused = format!(
            "'{key}={value}' is not compiled in: build the library with the feature 'compare'"
        );
        assert_eq!(set, if cfg!(feature = "compare") { Ok(()) } else { Err(refused) });
        assert_eq!(tuning != Tuning::default(), cfg!(feature = "compare"), "{key}={value}");
    }
}
