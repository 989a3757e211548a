//! A report as CSV: one row for each value of each figure.

use csv::Writer;

use super::{Metric, Report, Row, Run, Sides, Unit};

/// The columns. `seed` is empty for a figure of several seeds; `round` is empty for a figure of one round.
const COLUMNS: [&str; 7] = ["command", "seed", "round", "side", "figure", "unit", "value"];

/// The figures of the runs, with a row for each seed or round, then those that are compared with published figures.
pub fn csv(report: &Report) -> String {
    let mut table = Table { writer: Writer::from_writer(Vec::new()), report };
    table.writer.write_record(COLUMNS).expect("a vector takes all bytes");
    for run in &report.runs {
        table.run(run);
    }
    for row in &report.published {
        table.published(row);
    }
    let bytes = table.writer.into_inner().expect("a vector takes all bytes");
    String::from_utf8(bytes).expect("all fields are text")
}

struct Table<'r> {
    writer: Writer<Vec<u8>>,
    report: &'r Report,
}

impl Table<'_> {
    fn run(&mut self, run: &Run) {
        for (name, metric) in &run.metrics {
            self.metric(&run.label, name, metric);
        }
    }

    fn published(&mut self, row: &Row) {
        let Row { experiment, workload, machine, subject, metric, .. } = row;
        let figure =
            |kind: &str| format!("{experiment}/{workload}/{machine}/{subject}/{metric}/{kind}");
        for (kind, sides) in [("measured", &row.measured), ("modelled", &row.modelled)] {
            let Some(Sides { before, after, .. }) = sides else { continue };
            self.metric("before", &figure(kind), before);
            if let Some(after) = after {
                self.metric("after", &figure(kind), after);
            }
        }
        let published = row.published.as_ref().map(|it| ("published", it.before, it.after));
        let kernel = row.kernel.as_ref().map(|it| ("kernel", it.before, it.after));
        for (kind, before, after) in published.into_iter().chain(kernel) {
            for (side, value) in [("before", before), ("after", after)] {
                if let Some(value) = value {
                    self.row([None, None], side, &figure(kind), row.unit, value);
                }
            }
        }
    }

    fn metric(&mut self, side: &str, figure: &str, metric: &Metric) {
        let (seed, seeds) = (self.report.seed, u64::from(self.report.seeds));
        if metric.values.is_empty() {
            let seed = if seeds > 1 { None } else { seed };
            return self.row([seed, None], side, figure, metric.unit, metric.median);
        }
        let is_seeds = seeds > 1 && metric.n == seeds;
        for (nth, value) in (0..).zip(&metric.values) {
            let which = match is_seeds {
                true => [seed.map(|first| first.wrapping_add(nth)), None],
                false => [seed, Some(nth + 1)],
            };
            self.row(which, side, figure, metric.unit, *value);
        }
    }

    fn row(&mut self, which: [Option<u64>; 2], side: &str, figure: &str, unit: Unit, value: f64) {
        let [seed, round] = which.map(|it| it.map_or_else(String::new, |it| it.to_string()));
        let (command, value) = (self.report.command.join(" "), value.to_string());
        let fields = [&command, &seed, &round, side, figure, unit.name(), &value];
        self.writer.write_record(fields).expect("a vector takes all bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Verdict};

    fn report(seeds: u16) -> Report {
        let metric = |values: &[f64]| Metric::of_rounds(values, Unit::Nanos, Some(Better::Lower));
        let mut run = Run { label: "base".into(), ..Run::default() };
        run.metrics.insert("stall_ns".into(), metric(&[2.0, 1.5]).unwrap());
        run.metrics.insert("free_order3".into(), Metric::once(7.0, Unit::Count, None));
        Report {
            framewright: String::new(),
            command: vec!["framewright".into(), "a,b".into()],
            workload: String::new(),
            machine: String::new(),
            seed: Some(5),
            seeds,
            runs: vec![run],
            published: Vec::new(),
            verdict: Verdict::of(Vec::new()),
            notes: Vec::new(),
        }
    }

    #[test]
    fn each_seed_or_round_has_a_row() {
        assert_eq!(
            csv(&report(2)),
            "command,seed,round,side,figure,unit,value\n\
             \"framewright a,b\",5,,base,stall_ns,ns,2\n\
             \"framewright a,b\",6,,base,stall_ns,ns,1.5\n\
             \"framewright a,b\",,,base,free_order3,count,7\n"
        );
        let rounds = csv(&report(1));
        assert!(rounds.contains(",5,1,base,stall_ns,ns,2\n") && rounds.contains(",5,2,base,"));
        assert!(rounds.contains(",5,,base,free_order3,count,7\n"), "{rounds}");
    }
}
