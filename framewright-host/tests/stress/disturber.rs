//! Operations on the workers' CPUs and pageblocks by another thread.

use framewright::{CpuError, CpuId, IsolateError, Memory, ZoneId, frame::PAGEBLOCK_FRAMES};
use framewright_host::HostMachine;
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

/// The number of attempts to take a claimed CPU offline. Its owner releases it from time to time.
const ATTEMPTS: u32 = 100;

/// Drains, takes CPUs offline and online, isolates and inspects, until `stop`. At the end every CPU
/// is online and nothing is isolated.
pub(crate) fn disturb(memory: &Memory<'_, HostMachine>, seed: u64, stop: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(!seed);
    let cpus = memory.cpu_count();
    while !stop.load(Relaxed) {
        let cpu = CpuId::new(random.u16(0..cpus));
        match random.u32(0..16) {
            0..6 => repeat(|| memory.drain_cpu(cpu).unwrap()),
            6..10 => repeat(|| memory.drain_all()),
            10..12 => off_and_on(memory, cpu, &mut random),
            12..14 => isolate(memory, &mut random),
            14..15 => inspect(memory),
            _ => pause(&mut random),
        }
    }
}

/// Drains many times, because each drain has a small probability to hit a race.
fn repeat(drain: impl Fn()) {
    for _ in 0..500 {
        drain();
    }
}

fn off_and_on(memory: &Memory<'_, HostMachine>, cpu: CpuId, random: &mut fastrand::Rng) {
    for _ in 0..ATTEMPTS {
        match memory.cpu_offline(cpu) {
            Ok(()) => {
                assert_eq!(memory.cpu(cpu).err(), Some(CpuError::Offline(cpu)));
                pause(random);
                return memory.cpu_online(cpu).unwrap();
            }
            Err(CpuError::InUse(_)) => pause(random),
            Err(error) => panic!("{error}"),
        }
    }
}

fn isolate(memory: &Memory<'_, HostMachine>, random: &mut fastrand::Rng) {
    let frames = memory.platform().frames();
    let pageblocks = frames.frames() / PAGEBLOCK_FRAMES as u64;
    let pfn = frames.start().offset(random.u64(0..pageblocks) * PAGEBLOCK_FRAMES as u64);
    match memory.isolate(pfn) {
        Ok(isolated) => {
            assert!(isolated.range().contains(pfn));
            pause(random);
            memory.undo_isolate(isolated).unwrap();
        }
        Err(IsolateError::Unmovable { frames }) => assert!(frames > 0),
        Err(error) => panic!("{error}"),
    }
}

fn pause(random: &mut fastrand::Rng) {
    thread::sleep(Duration::from_micros(random.u64(0..50)));
}

fn inspect(memory: &Memory<'_, HostMachine>) {
    let zone = memory.zone(ZoneId::default()).unwrap();
    assert!(zone.free <= zone.managed, "{zone:?}");
    let mut text = String::new();
    memory.write_buddyinfo(&mut text).unwrap();
    memory.write_pagetypeinfo(&mut text).unwrap();
    assert!(memory.block_counts(ZoneId::default()).free_frames() <= zone.managed);
}
