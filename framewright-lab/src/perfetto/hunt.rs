//! A run of a hunt that failed, repeated and traced.

use framewright_sim::scenario::{Bug, Find, Scenario, Verdict};

use super::{Recorder, Trace};

impl Trace {
    /// Repeats the run of `find`, and traces it as another process. A microsecond is an event: such a run has no time.
    /// The last instant on the track `running` says what is wrong, and one on the track of a CPU, if that CPU noticed.
    ///
    /// Returns the verdict on the repeated run, which is that of `find` if the program is the same.
    pub fn find(&self, scenario: &Scenario, bug: Option<Bug>, find: &Find) -> Verdict {
        let mut recorder = None;
        let verdict = scenario.repeat(bug, &find.choices, |machine| {
            recorder = Some(Recorder::start_by_events(self, machine, &find.repeat));
        });
        let what = match &verdict {
            Verdict::Clean => "clean".to_owned(),
            Verdict::Seen { what, .. } => what.clone(),
            Verdict::Failed(failure) => failure.to_string(),
        };
        if let Some(recorder) = recorder {
            recorder.fails(&what);
            recorder.finish(None);
        }
        verdict
    }
}
