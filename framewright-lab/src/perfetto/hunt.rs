//! A run of a hunt that failed, repeated and traced.

use framewright_sim::scenario::{Bug, Find, Scenario, Verdict};

use super::{Recorder, Trace};

impl Trace {
    /// Repeats the run of `find`, and traces it as another process. Such a run has no time: each event takes
    /// a microsecond. The last instant on the track `running` says what is wrong. If a CPU noticed it, an
    /// instant on the track of that CPU says so, too.
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
