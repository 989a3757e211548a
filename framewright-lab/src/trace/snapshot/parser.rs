//! The parser of a snapshot: which table a line belongs to, and whether all tables agree.

use super::{LineProblem, Snapshot, TraceError, text, zoneinfo};

/// The table of the current lines.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Section {
    #[default]
    None,
    Zoneinfo,
    Buddyinfo,
    Pagetypeinfo,
    Vmstat,
    Interrupts,
    /// An unused table.
    Unknown,
}

impl Section {
    /// The table of this name.
    pub(super) fn named(name: &[u8]) -> Self {
        match name {
            b"zoneinfo" => Self::Zoneinfo,
            b"buddyinfo" => Self::Buddyinfo,
            b"pagetypeinfo" => Self::Pagetypeinfo,
            b"vmstat" => Self::Vmstat,
            b"interrupts" => Self::Interrupts,
            _ => Self::Unknown,
        }
    }
}

/// The tables so far, and the position in each.
#[derive(Default)]
pub(super) struct Parser {
    section: Section,
    snapshot: Snapshot,
    zoneinfo: zoneinfo::State,
    pagetypeinfo: text::Pagetypeinfo,
}

impl Parser {
    /// The following lines are of this table, until a line names another one.
    pub(super) fn begin(&mut self, section: Section) {
        self.section = section;
    }

    /// Reads the lines of a file.
    pub(super) fn lines(&mut self, file: &str, bytes: &[u8]) -> Result<(), TraceError> {
        if memchr::memchr(0, bytes).is_some() {
            let reason = "binary data: expected the kernel's tables as text, as in NAME.before next to a recording";
            return Err(TraceError::Unusable { file: file.to_owned(), reason: reason.into() });
        }
        for (line, text) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            self.line(text.trim_ascii()).map_err(|problem| TraceError::Line {
                file: file.to_owned(),
                line,
                problem,
            })?;
        }
        Ok(())
    }

    /// The snapshot, if its tables are consistent.
    pub(super) fn finish(self, file: &str) -> Result<Snapshot, TraceError> {
        let unusable = |reason: String| TraceError::Unusable { file: file.to_owned(), reason };
        let snapshot = self.snapshot;
        if snapshot.managed() == 0 {
            return Err(unusable(
                "no zone with memory: expected the text of /proc/zoneinfo, in a file of several tables behind a \
                 line `# zoneinfo`"
                    .into(),
            ));
        }
        match snapshot.zones.iter().find(|z| z.free.saturating_add(z.held_by_cpus()) > z.managed) {
            Some(z) => Err(unusable(format!(
                "zone {} of node {}: {} frames free and {} on CPU lists, but only {} managed",
                z.name,
                z.node,
                z.free,
                z.held_by_cpus(),
                z.managed
            ))),
            None => Ok(snapshot),
        }
    }

    fn line(&mut self, text: &[u8]) -> Result<(), LineProblem> {
        if let Some(name) = text.strip_prefix(b"# ") {
            self.section = Section::named(name.trim_ascii());
            return Ok(());
        }
        if text.is_empty() {
            return Ok(());
        }
        let snapshot = &mut self.snapshot;
        match self.section {
            Section::None => Err(LineProblem::new("snapshot", text, "a line `# zoneinfo` first")),
            Section::Zoneinfo => self.zoneinfo.line(&mut snapshot.zones, text),
            Section::Buddyinfo => text::buddyinfo(&mut snapshot.zones, text),
            Section::Pagetypeinfo => self.pagetypeinfo.line(snapshot, text),
            Section::Vmstat => text::vmstat(&mut snapshot.vmstat, text),
            Section::Interrupts => text::interrupts(&mut snapshot.tlb_shootdowns, text),
            Section::Unknown => Ok(()),
        }
    }
}
