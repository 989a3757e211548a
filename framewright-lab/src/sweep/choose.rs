//! The runs of a sweep: all of the plan, or a sample or shard of it.

use std::str::FromStr;

use super::Plan;
use crate::Error;

/// A part of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// Only this number of runs, drawn at random, but always the same of the same plan; a larger sample contains each
    /// smaller one.
    pub sample: Option<u64>,
    /// Only one of several equal parts of the runs, or of the sample.
    pub shard: Option<Shard>,
}

impl Selection {
    /// The number of its runs.
    ///
    /// # Errors
    ///
    /// It has none, or the plan has a run twice.
    pub fn runs(&self, plan: &Plan) -> Result<usize, Error> {
        choose(plan, self).map(|runs| runs.len())
    }
}

/// Part number `number` of `of` parts, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: u64,
    of: u64,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        match parts.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?))) {
            Some((number @ 1.., of)) if number <= of => Ok(Self { number, of }),
            _ => Err("a shard is I/N, part I of N parts, as in 2/4".to_owned()),
        }
    }
}

/// A chosen run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Its number in the plan.
    pub(super) index: u64,
    pub(super) id: u64,
}

/// The chosen runs, in the order of the plan: at least one.
pub(super) fn choose(plan: &Plan, selection: &Selection) -> Result<Vec<Chosen>, Error> {
    let all = 0..plan.len();
    let mut runs: Vec<Chosen> =
        all.map(|index| Chosen { index, id: plan.entry(index).id() }).collect();
    runs.sort_unstable_by_key(|run| run.id);
    if let Some(twice) = runs.windows(2).find(|pair| pair[0].id == pair[1].id) {
        let command = plan.entry(twice[1].index).command();
        return Err(Error::input(format_args!("a run is in the plan twice: {command}")));
    }
    // Identities are hashes: the first runs in their order are a random sample of all.
    if let Some(sample) = selection.sample {
        runs.truncate(usize::try_from(sample).unwrap_or(usize::MAX));
    }
    if let Some(Shard { number, of }) = selection.shard {
        let mut turn = 0;
        runs.retain(|_| {
            turn += 1;
            (turn - 1) % of == number - 1
        });
    }
    if runs.is_empty() {
        return Err(Error::input("there is nothing to run: the sample or shard is empty"));
    }
    runs.sort_unstable_by_key(|run| run.index);
    Ok(runs)
}
