//! The result, as a line of JSON of the same form as that of this project's kernel.

use std::fmt;

/// The figures of a run.
pub(crate) struct Report {
    workload: &'static str,
    metrics: Vec<String>,
}

impl Report {
    /// A report without figures.
    pub(crate) fn new(workload: &'static str) -> Self {
        Self { workload, metrics: Vec::new() }
    }

    /// Adds a figure that was measured once. `better` is the better direction, `lower` or `higher`,
    /// if there is one.
    pub(crate) fn add(&mut self, name: &str, value: f64, unit: &str, better: Option<&str>) {
        let better = better.map_or_else(|| "null".to_owned(), |better| format!(r#""{better}""#));
        self.metrics.push(format!(
            r#""{name}":{{"median":{value},"min":{value},"max":{value},"n":1,"unit":"{unit}","better":{better}}}"#
        ));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, metrics) = (env!("CARGO_PKG_VERSION"), self.metrics.join(","));
        write!(f, r#"{{"framewright":"{version}","command":[],"workload":"{}","#, self.workload)?;
        write!(f, r#""machine":"linux","seed":null,"runs":[{{"label":"linux","settings":{{}},"#)?;
        write!(f, r#""metrics":{{{metrics}}},"series":{{}}}}],"published":[],"#)?;
        write!(f, r#""verdict":{{"passed":true,"checks":[]}}}}"#)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_line_of_json() {
        let mut report = Report::new("page-fault");
        report.add("faults", 2.5, "ratio", Some("lower"));
        report.add("pages", 3.0, "count", None);
        let expected = concat!(
            r#"{"framewright":""#,
            env!("CARGO_PKG_VERSION"),
            r#"","command":[],"workload":"page-fault","machine":"linux","seed":null,"#,
            r#""runs":[{"label":"linux","settings":{},"metrics":{"#,
            r#""faults":{"median":2.5,"min":2.5,"max":2.5,"n":1,"unit":"ratio","better":"lower"},"#,
            r#""pages":{"median":3,"min":3,"max":3,"n":1,"unit":"count","better":null}"#,
            r#"},"series":{}}],"published":[],"verdict":{"passed":true,"checks":[]}}"#,
        );
        assert_eq!(report.to_string(), expected);
    }
}
