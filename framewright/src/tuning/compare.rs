//! Settings of the feature `compare`.

/// Settings that exist only with the feature.
const KEYS: [&str; 10] = [
    "pcp.refill_ignores_free",
    "pcp.high_order_at_once",
    "zone.any_refill_ends_emptying",
    "zone.rest_breaks_pageblock",
    "zone.watermark_by_order",
    "compact.shortcuts",
    "compact.repair.reset_before_read",
    "compact.repair.detect_meeting",
    "compact.repair.unmarked_types",
    "compact.repair.reset_on_meeting",
];

/// Values of other settings that name a method for comparison.
const VALUES: [(&str, &str); 4] = [
    ("compact.method", "scan"),
    ("pcp.bulk_free", "select-under-lock"),
    ("zone.bulk_take", "one-by-one"),
    ("zone.bulk_take", "smallest-first"),
];

/// Whether this setting needs a build with the feature `compare`.
#[must_use]
pub fn needs_compare(path: &str, value: &str) -> bool {
    KEYS.contains(&path) || VALUES.contains(&(path, value))
}
