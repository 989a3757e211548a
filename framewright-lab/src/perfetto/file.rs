//! The file of a trace: tracks and events as packets, one after the other.

use std::{io, path::Path};

use prost::Message;

use super::schema::{
    CounterDescriptor, ProcessDescriptor, ThreadDescriptor, TracePacket, TrackDescriptor,
    TrackEvent, Type,
};
use super::{Flow, Track};
use crate::Error;
use crate::report::Parts;

/// The number that marks all packets as those of one writer.
const SEQUENCE: u32 = 1;
/// Perfetto's `SEQ_INCREMENTAL_STATE_CLEARED`: earlier packets do not matter. Set in the first packet.
const FIRST: u32 = 1;
/// Perfetto's `ChildTracksOrdering.EXPLICIT`.
const BY_RANK: i32 = 3;
/// The key of the field `packet` of the message `Trace`: field 1, with a length.
const PACKET: u8 = 1 << 3 | 2;

/// A trace that is being written.
#[derive(Debug)]
pub(super) struct File {
    parts: Parts,
    is_empty: bool,
    failed: Option<io::Error>,
    /// Reused for every packet, to avoid allocations.
    bytes: Vec<u8>,
}

impl File {
    /// A trace without packets.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let parts = Parts::new(path).map_err(Error::input)?;
        Ok(Self { parts, is_empty: true, failed: None, bytes: Vec::new() })
    }

    /// Completes the file.
    pub(super) fn finish(self) -> Result<(), Error> {
        match self.failed {
            Some(reason) => Err(Error::input(format_args!("cannot write the trace: {reason}"))),
            None => self.parts.finish().map_err(Error::input),
        }
    }

    fn packet(&mut self, mut packet: TracePacket) {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packet.sequence_flags = std::mem::take(&mut self.is_empty).then_some(FIRST);
        self.bytes.clear();
        self.bytes.push(PACKET);
        // A vector grows as necessary.
        let encoded = packet.encode_length_delimited(&mut self.bytes);
        debug_assert!(encoded.is_ok());
        if self.failed.is_none() {
            self.failed = self.parts.append(&self.bytes).err();
        }
    }

    fn descriptor(&mut self, descriptor: TrackDescriptor) {
        self.packet(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
    }

    fn event(&mut self, nanos: u64, track: Track, kind: Type, event: TrackEvent) {
        let (kind, track) = (Some(kind as i32), Some(track.0));
        let event = TrackEvent { r#type: kind, track_uuid: track, ..event };
        self.packet(TracePacket {
            timestamp: Some(nanos),
            track_event: Some(event),
            ..TracePacket::default()
        });
    }

    /// A process, whose tracks are ordered by rank.
    pub(super) fn process(&mut self, track: Track, pid: i32, name: &str) {
        let process = ProcessDescriptor { pid: Some(pid), process_name: Some(name.to_owned()) };
        self.descriptor(TrackDescriptor {
            uuid: Some(track.0),
            process: Some(process),
            child_ordering: Some(BY_RANK),
            ..TrackDescriptor::default()
        });
    }

    /// A thread of the process `pid`.
    pub(super) fn thread(&mut self, track: Track, pid: i32, tid: i64, name: &str) {
        let name = Some(name.to_owned());
        let thread = ThreadDescriptor { pid: Some(pid), tid: Some(tid), thread_name: name };
        self.descriptor(TrackDescriptor {
            uuid: Some(track.0),
            thread: Some(thread),
            ..TrackDescriptor::default()
        });
    }

    /// A track for slices and instants, below another one.
    pub(super) fn track(&mut self, track: Track, parent: Track, rank: i32, name: &str) {
        self.descriptor(TrackDescriptor {
            uuid: Some(track.0),
            parent_uuid: Some(parent.0),
            name: Some(name.to_owned()),
            sibling_order_rank: Some(rank),
            ..TrackDescriptor::default()
        });
    }

    /// A counter of a process.
    pub(super) fn counter(
        &mut self,
        track: Track,
        parent: Track,
        rank: i32,
        name: &str,
        unit: &str,
    ) {
        self.descriptor(TrackDescriptor {
            uuid: Some(track.0),
            parent_uuid: Some(parent.0),
            name: Some(name.to_owned()),
            sibling_order_rank: Some(rank),
            counter: Some(CounterDescriptor { unit_name: Some(unit.to_owned()) }),
            ..TrackDescriptor::default()
        });
    }

    /// A slice begins. An arrow may end at its beginning.
    pub(super) fn begin(&mut self, nanos: u64, track: Track, name: &str, flow: Option<Flow>) {
        let event = TrackEvent {
            name: Some(name.to_owned()),
            terminating_flow_ids: flow.map(|flow| flow.0).into_iter().collect(),
            ..TrackEvent::default()
        };
        self.event(nanos, track, Type::SliceBegin, event);
    }

    /// The last slice of the track that began and has not ended ends.
    pub(super) fn end(&mut self, nanos: u64, track: Track) {
        self.event(nanos, track, Type::SliceEnd, TrackEvent::default());
    }

    /// An event without duration. An arrow may begin there.
    pub(super) fn instant(&mut self, nanos: u64, track: Track, name: &str, flow: Option<Flow>) {
        let event = TrackEvent {
            name: Some(name.to_owned()),
            flow_ids: flow.map(|flow| flow.0).into_iter().collect(),
            ..TrackEvent::default()
        };
        self.event(nanos, track, Type::Instant, event);
    }

    /// A counter has this value from now on.
    pub(super) fn value(&mut self, nanos: u64, track: Track, value: u64) {
        // Counts stay far below 2^63.
        let event =
            TrackEvent { counter_value: Some(value.cast_signed()), ..TrackEvent::default() };
        self.event(nanos, track, Type::Counter, event);
    }
}
