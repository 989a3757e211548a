//! `/proc/zoneinfo`: per zone its size, watermarks and per-CPU lists.

use super::{CpuLists, LineProblem, Zone, frames, node_and_zone, number, words};

/// Where in the table the parser is.
#[derive(Default)]
pub(super) struct State {
    /// The statistics of the whole node stand inside its first zone and are skipped.
    in_node_stats: bool,
}

impl State {
    /// Reads one line into `zones`.
    pub(super) fn line(&mut self, zones: &mut Vec<Zone>, text: &[u8]) -> Result<(), LineProblem> {
        if let Some((node, name, _)) = node_and_zone(text)? {
            self.in_node_stats = false;
            if zones.iter().any(|zone| zone.node == node && zone.name == name) {
                return Err(LineProblem::new("zone", text, "each zone once"));
            }
            zones.push(Zone { node, name: name.to_owned(), ..Zone::default() });
            return Ok(());
        }
        let Some(zone) = zones.last_mut() else {
            return Err(LineProblem::new("zoneinfo", text, "`Node N, zone NAME` first"));
        };
        let mut words = words(text);
        let key = words.next().unwrap_or_default();
        let value = words.next().unwrap_or_default();
        match key {
            b"per-node" => self.in_node_stats = true,
            b"pages" if value == b"free" => {
                self.in_node_stats = false;
                zone.free = frames("pages free", words.next().unwrap_or_default())?;
            }
            _ if self.in_node_stats => {}
            b"min" => zone.min = frames("min", value)?,
            b"low" => zone.low = frames("low", value)?,
            b"high" => zone.high = frames("high", value)?,
            b"spanned" => zone.spanned = frames("spanned", value)?,
            b"present" => zone.present = frames("present", value)?,
            b"managed" => zone.managed = frames("managed", value)?,
            b"start_pfn:" => zone.start_pfn = number::pfn(value)?,
            b"cpu:" => {
                zone.cpus.push(CpuLists { cpu: number::cpu(value)?, ..CpuLists::default() });
            }
            b"count:" => lists(zone, text)?.count = frames("count", value)?,
            b"high:" => lists(zone, text)?.high = frames("high", value)?,
            b"batch:" => lists(zone, text)?.batch = frames("batch", value)?,
            _ => {}
        }
        Ok(())
    }
}

fn lists<'z>(zone: &'z mut Zone, text: &[u8]) -> Result<&'z mut CpuLists, LineProblem> {
    zone.cpus.last_mut().ok_or_else(|| LineProblem::new("pagesets", text, "`cpu: N` first"))
}
