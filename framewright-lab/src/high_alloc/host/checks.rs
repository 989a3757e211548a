//! What runs have shown: that pages held what was stored, that nothing is lost, and that the load left
//! enough to be won.

use framewright::tuning::CompactMethod;

use super::{super::leaves_enough, Ended};
use crate::{
    report::{Check, each_run},
    workloads::Side,
};

/// What the runs of each side have shown.
pub(super) fn checks(sides: &[Side], of_sides: &[Vec<Ended>], quick: bool) -> Vec<Check> {
    let ended: Vec<&Ended> = of_sides.iter().flatten().collect();
    let wrong = ended.iter().find_map(|ended| ended.wrong.clone());
    let phases = ended.iter().flat_map(|ended| &ended.outcome.phases);
    let least = phases.map(|phase| phase.achievable_pct()).fold(100.0, f64::min);
    let all = each_run(ended.len() as u64);
    vec![
        contents(sides, of_sides),
        Check {
            name: "invariants".to_owned(),
            passed: wrong.is_none(),
            detail: wrong.unwrap_or_else(|| {
                format!(
                    "after {all} nothing is claimed or isolated, and all frames are where the kernel around \
                     the library thinks they are"
                )
            }),
        },
        leaves_enough(least, quick, false),
    ]
}

/// Whether pages held what was stored; something has to have moved with every side that moves pages.
fn contents(sides: &[Side], ended: &[Vec<Ended>]) -> Check {
    let moved = |ended: &[Ended]| ended.iter().map(|it| it.moved).sum::<u64>();
    let all = || ended.iter().flatten();
    let words: u64 = all().map(|it| it.wrong_words).sum();
    let looked: u64 = all().map(|it| it.looked).sum();
    let moves = |side: &Side| side.tuning.compact.method != CompactMethod::Off;
    let mut unproved = sides.iter().zip(ended).filter(|(side, of)| moves(side) && moved(of) == 0);
    let unproved = unproved.next().map(|(side, _)| &side.label);
    let detail = match (words, unproved) {
        (0, Some(side)) => format!("with `{side}` nothing has moved, so nothing is proved"),
        (0, None) if sides.iter().any(moves) => format!(
            "every word was what it should be of {looked} pages that were looked at, {} of them because \
             they had moved",
            ended.iter().map(|of| moved(of)).sum::<u64>()
        ),
        (0, None) => format!(
            "every word was what it should be of {looked} pages that were looked at; without compaction \
             none moves"
        ),
        (words, _) => format!("{words} words of {looked} pages were not what was stored"),
    };
    Check { name: "contents".to_owned(), passed: words == 0 && unproved.is_none(), detail }
}

#[cfg(test)]
mod tests {
    use super::{super::Outcome, *};
    use framewright::Tuning;

    #[test]
    fn pages_have_to_move_with_every_side_that_moves_any() {
        let side = |method| {
            let mut tuning = Tuning::default();
            tuning.compact.method = method;
            Side { label: format!("{method:?}"), tuning, settings: Default::default() }
        };
        let ended = |moved, wrong_words| {
            let outcome = Outcome::default();
            vec![Ended { outcome, looked: 9, moved, wrong_words, wrong: None }]
        };
        let sides = [CompactMethod::Off, CompactMethod::Scan, CompactMethod::Index].map(side);
        for (passed, moved, wrong_words, detail) in [
            (true, [0, 1, 2], 0, "of 27 pages that were looked at, 3 of them"),
            (false, [0, 0, 2], 0, "with `Scan` nothing has moved"),
            (false, [1, 1, 0], 0, "with `Index` nothing has moved"),
            (false, [0, 1, 2], 1, "3 words of 27 pages were not"),
        ] {
            let check = contents(&sides, &moved.map(|moved| ended(moved, wrong_words)));
            assert!(check.passed == passed && check.detail.contains(detail), "{check:?}");
        }
        let check = contents(&sides[..1], &[ended(0, 0)]);
        assert!(
            check.passed && check.detail.contains("without compaction none moves"),
            "{check:?}"
        );
    }
}
