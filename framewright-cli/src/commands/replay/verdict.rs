//! The verdict at the start of a replay's text: what was replayed, and what the library did better and worse than the
//! recorded kernel.

use framewright_lab::{
    replay::{Activity, Logical, ReplayReport, ZoneReport},
    report::{Style, decimal},
};

use crate::print::{bold, paragraph, several};

/// Figures that differ by less than this share are called equal.
const EQUAL_PERCENT: f64 = 2.0;

/// A figure of the library and of the recorded kernel. Lower is better.
struct Compared {
    name: &'static str,
    ours: u64,
    kernel: u64,
    /// The reason why a difference does or does not matter.
    why: String,
}

/// The verdict in three lines; long lines are wrapped.
pub(super) fn show(replay: &ReplayReport, style: Style) -> String {
    let line = |(about, words): &(&str, String)| paragraph(&format!("{about:10} {words}"));
    let lines: String = lines(replay).iter().map(line).collect();
    format!("{}, against the recorded kernel\n{lines}", bold("verdict", style))
}

/// The lines of the verdict, each with its subject.
pub(super) fn lines(replay: &ReplayReport) -> [(&'static str, String); 3] {
    let all = compared(replay);
    let side = |is_on_it: fn(&Compared) -> bool| {
        let words: Vec<String> =
            all.iter().filter(|it| is_on_it(it)).map(Compared::words).collect();
        if refuses_many(&replay.logical) {
            "not compared, because so many allocations were refused".to_owned()
        } else if words.is_empty() {
            "nothing that the recording shows".to_owned()
        } else {
            words.join("; ")
        }
    };
    [
        ("replayed", replayed(replay)),
        ("better", side(Compared::is_better)),
        ("worse", side(Compared::is_worse)),
    ]
}

/// Whether the replay did clearly less work than the kernel: it refused more than one allocation in a hundred.
pub(super) fn refuses_many(logical: &Logical) -> bool {
    logical.refused_allocs > logical.allocs / 100
}

fn replayed(replay: &ReplayReport) -> String {
    let logical = &replay.logical;
    let refused = match logical.refused_allocs {
        0 => "all allocations were served".to_owned(),
        refused => format!(
            "{} refused: the machine is too small for its watermark settings",
            several(refused, "allocation")
        ),
    };
    format!(
        "{} and {} in {} s on {}; {refused}",
        several(logical.allocs, "allocation"),
        several(logical.frees, "free"),
        decimal(replay.seconds, 1),
        several(replay.machine.cpus, "CPU"),
    )
}

fn compared(replay: &ReplayReport) -> Vec<Compared> {
    let lists = replay.kernel_total.shows_lists().then(|| of_lists(replay));
    lists.into_iter().flatten().chain(on_lists(replay)).collect()
}

/// The work that events of CPU lists and zones show.
fn of_lists(replay: &ReplayReport) -> [Compared; 4] {
    let (ours, kernel) = (&replay.total, &replay.kernel_total);
    [
        Compared {
            name: "refills of CPU lists",
            ours: ours.refills,
            kernel: kernel.refill_runs,
            why: format!(
                "{} % of the allocations were served from the lists",
                percent(ours.list_hits, replay.logical.allocs)
            ),
        },
        Compared {
            name: "drains of CPU lists",
            ours: ours.all_drains(),
            kernel: kernel.drain_runs,
            why: format!(
                "{} % of the frames that came onto the lists went back to the zone",
                percent(ours.drained_frames, ours.free_frames + ours.refilled_frames)
            ),
        },
        Compared {
            name: "acquisitions of the zone lock",
            ours: ours.zone_lock_acquisitions,
            kernel: kernel.zone_lock_acquisitions_seen(),
            why: "the kernel's number is a lower bound".to_owned(),
        },
        Compared {
            name: "fallbacks to another migratetype",
            ours: ours.claims + ours.steals,
            kernel: kernel.extfrag_claims + kernel.extfrag_steals,
            why: fallbacks(ours, replay.logical.allocs),
        },
    ]
}

/// A pageblock that is claimed as a whole has one migratetype. A stolen block mixes two.
fn fallbacks(ours: &Activity, allocs: u64) -> String {
    let mixing = match ours.steals {
        0 if ours.claims == 0 => return format!("in {}", several(allocs, "allocation")),
        0 => "all claim their pageblock, so no types mix".to_owned(),
        steals => format!("{steals} of them mix two types in a pageblock"),
    };
    format!("{} % of the allocations; {mixing}", percent(ours.claims + ours.steals, allocs))
}

/// Frames on CPU lists at the end, if the kernel's number is known: that of the end, or else of the start. The tables from
/// the end of a recording that was cut are of a later time.
fn on_lists(replay: &ReplayReport) -> Option<Compared> {
    let of = |frames: fn(&ZoneReport) -> Option<u64>| {
        replay.zones.iter().map(frames).sum::<Option<u64>>()
    };
    let end = of(|zone| zone.held.kernel_end).filter(|_| !replay.ends_early);
    let kernel = end.or_else(|| of(|zone| zone.held.kernel_start))?;
    let ours = of(|zone| Some(zone.held.end))?;
    let moment = if end.is_some() { "at the end" } else { "at the end, the kernel's at the start" };
    let why = format!(
        "{moment}: {} % of the memory, which a request for a huge page drains",
        percent(ours, replay.machine.frames)
    );
    Some(Compared { name: "frames on CPU lists", ours, kernel, why })
}

/// A share in percent. 0 of nothing; 100 only of all.
fn percent(part: u64, whole: u64) -> String {
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    let most = if part < whole { 99.9 } else { 100.0 };
    decimal(percent.min(most), if percent < 1.0 { 2 } else { 1 })
}

impl Compared {
    fn is_better(&self) -> bool {
        self.ours < self.kernel && self.differs()
    }

    fn is_worse(&self) -> bool {
        self.ours > self.kernel && self.differs()
    }

    fn differs(&self) -> bool {
        self.ours.abs_diff(self.kernel) as f64 * 100.0 >= EQUAL_PERCENT * self.kernel as f64
    }

    fn words(&self) -> String {
        let Self { name, ours, kernel, why } = self;
        format!("{ours} {name} instead of {kernel} ({why})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(ours: u64, kernel: u64) -> Compared {
        Compared { name: "drains", ours, kernel, why: "why".into() }
    }

    #[test]
    fn figures_within_two_percent_are_neither_better_nor_worse() {
        for (ours, kernel, better, worse) in [
            (98, 100, true, false),
            (99, 100, false, false),
            (101, 100, false, false),
            (102, 100, false, true),
            (0, 1, true, false),
            (1, 0, false, true),
            (0, 0, false, false),
        ] {
            let it = one(ours, kernel);
            assert_eq!((it.is_better(), it.is_worse()), (better, worse), "{ours} and {kernel}");
        }
        assert_eq!(one(3, 4).words(), "3 drains instead of 4 (why)");
    }

    #[test]
    fn small_shares_keep_their_digits() {
        assert_eq!(percent(37, 53_250), "0.07");
        assert_eq!(percent(1, 2), "50.0");
        assert_eq!(percent(0, 0), "0.00");
        assert_eq!((percent(9_999, 10_000), percent(7, 7)), ("99.9".into(), "100.0".into()));
    }
}
