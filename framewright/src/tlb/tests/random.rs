//! Random operations in random order.

use super::*;

/// No CPU accesses a frame that was handed out, every retired frame is handed out once, and the
/// number of deferred frames stays within its maximum.
#[test]
fn no_stale_access_to_frames_that_were_handed_out() {
    for seed in 0..if cfg!(miri) { 2 } else { 300 } {
        let batching = [FlushBatching::All, FlushBatching::Lazy, FlushBatching::CleanOnly];
        let batching = batching[seed as usize % 3];
        with_machine(tuning(batching, 5, 12), |machine| random_operations(machine, seed));
    }
}

fn random_operations(machine: &Machine<'_, '_>, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    // Page N of both spaces is in frame N if it is in a frame.
    let resident = RefCell::new(BTreeSet::new());
    let free = RefCell::new((0..PAGES).collect::<BTreeSet<_>>());
    let receive = |frames: &[Pfn]| {
        for frame in frames.iter().map(|frame| frame.get()) {
            assert!(!machine.any_cpu_has_cached(0, frame) && !machine.any_cpu_has_cached(1, frame));
            assert!(free.borrow_mut().insert(frame), "frame {frame} is passed on twice");
        }
    };
    for _ in 0..400 {
        let (cpu, page) = (random(u64::from(CPUS)) as u16, random(PAGES));
        let at = usize::from(cpu);
        match random(8) {
            0 => machine.load(cpu, random(2)),
            1 => machine.lazy[at].set(true),
            2 => machine.on(cpu).flush_local(),
            3 => {
                let which = [&machine.space_flushes[0], &machine.space_flushes[1], &machine.file];
                machine.on(cpu).flush_deferred(which[random(3) as usize]);
            }
            4 => {
                let all = random(2) == 0;
                let flusher = machine.on(cpu);
                let _ = if all {
                    flusher.drain_deferred_frames(&mut { receive })
                } else {
                    flusher.drain_flushed_frames(&mut { receive })
                };
            }
            5 => {
                let (mut slots, mut count) = (slots(), 0);
                let mut batch = machine.on(cpu).batch(&mut slots);
                for page in page..PAGES.min(page + random(5)) {
                    if resident.borrow().contains(&page) {
                        (0..2).for_each(|space| {
                            machine.unmap(&mut batch, space, page, random(6) == 0);
                        });
                        if random(8) > 0 && batch.retire_frame(Pfn::new(page)).is_ok() {
                            resident.borrow_mut().remove(&page);
                            count += 1;
                        }
                    }
                }
                batch.finish_frames(&mut { receive });
                assert!(machine.memory.tlb().deferred() <= 12 + count);
            }
            _ if machine.lazy[at].get() => {}
            _ => {
                if free.borrow_mut().remove(&page) {
                    resident.borrow_mut().insert(page);
                }
                if resident.borrow().contains(&page) {
                    machine.read(cpu, page);
                }
            }
        }
    }
    machine.on(0).drain_deferred_frames(&mut { receive });
    assert_eq!(free.borrow().len() + resident.borrow().len(), PAGES as usize);
    assert!(machine.memory.platform().0.lock().unwrap().is_empty());
}
