//! Random operations with backing stores that are slow, busy, full or failing at random.

use std::cell::Cell;

use framewright::{
    reclaim::{NextStep, PageKind},
    tuning::{Auto, FlushBatching},
};
use proptest::{collection::vec, prelude::*};

use framewright_fakes::{FakeOwner, StoreBehavior, TracedPlatform};

use crate::embedder::{CPU, embedder, node};

#[derive(Clone, Copy, Debug)]
struct Step {
    action: u8,
    pick: u16,
    count: u8,
}

fn kind_of(id: u32) -> PageKind {
    if id.is_multiple_of(3) { PageKind::Anon } else { PageKind::File }
}

const BEHAVIORS: [StoreBehavior; 6] = [
    StoreBehavior::Prompt,
    StoreBehavior::Slow,
    StoreBehavior::Busy,
    StoreBehavior::Fails,
    StoreBehavior::FailsLate,
    StoreBehavior::Full,
];

fn run(choices: u16, steps: &[Step]) {
    let batching =
        [FlushBatching::Lazy, FlushBatching::All, FlushBatching::CleanOnly, FlushBatching::Off];
    let embedder = embedder(1024, |tuning| {
        tuning.tlb.batching = batching[usize::from(choices & 3)];
        tuning.tlb.deferred_max = Auto::Fixed(u32::from(choices >> 2 & 3) * 40);
        tuning.tlb.batch = Auto::Fixed([32, 1, 7, 200][usize::from(choices >> 4 & 3)]);
        tuning.reclaim.cluster = [32, 1, 64, 5][usize::from(choices >> 6 & 3)];
        tuning.reclaim.lru_batch = [31, 1, 63, 4][usize::from(choices >> 8 & 3)];
    });
    embedder.pages().swap = choices >> 10 & 1 == 1;
    embedder.pages().writers = choices >> 11 & 1 == 1;
    embedder.pages().contention = [0, 3, 17, 0][usize::from(choices >> 12 & 3)];
    let kswapd = Cell::new(embedder.reclaim().kswapd(node()));
    for step in steps {
        act(embedder, &kswapd, *step);
        embedder.check();
    }
    embedder.set_behavior(StoreBehavior::Prompt);
    embedder.complete(usize::MAX);
    embedder.check();
    embedder.drain_deferred();
    embedder.check();
}

fn act(
    embedder: &'static FakeOwner,
    kswapd: &Cell<Option<framewright::reclaim::Kswapd<'static, 'static, TracedPlatform>>>,
    Step { action, pick, count }: Step,
) {
    let id = u32::from(pick) % 1500;
    let many = u32::from(count) * 2;
    let resident = || {
        let pages = embedder.pages();
        let at = usize::from(pick) % pages.resident.len().max(1);
        pages.resident.keys().nth(at).copied()
    };
    match action % 16 {
        0..=2 => _ = (id..id + many).all(|id| embedder.touch(id, kind_of(id)).is_ok()),
        3 | 4 => _ = (id..id + many / 4).all(|id| embedder.store(id, kind_of(id)).is_ok()),
        5 => (id..id + many / 8).for_each(|id| embedder.truncate(id)),
        6 => _ = embedder.direct(u64::from(count)),
        7 => {
            let mut body = kswapd.take().expect("put back every time");
            for _ in 0..40 {
                if body.step(&mut embedder.token()) != NextStep::Now {
                    break;
                }
            }
            kswapd.set(Some(body));
        }
        8 => embedder.complete(usize::from(count)),
        9 => embedder.set_behavior(BEHAVIORS[usize::from(pick) % BEHAVIORS.len()]),
        10 => {
            let Some(pfn) = resident() else { return };
            let mut pages = embedder.pages();
            let page = pages.page(pfn);
            page.references = if page.references > 0 { 0 } else { u32::from(count % 4) };
        }
        11 => {
            let Some(pfn) = resident() else { return };
            let to = count % 2 == 0;
            embedder.pages().page(pfn).unevictable = to;
            if count % 4 < 2 {
                embedder.lru().set_unevictable(pfn, to);
            }
        }
        12 => {
            let Some(pfn) = resident() else { return };
            match count % 4 {
                0 => embedder.lru().mark_accessed(CPU, pfn),
                1 => embedder.lru().activate(CPU, pfn),
                2 => embedder.lru().deactivate(CPU, pfn),
                _ => embedder.lru().drain_all(),
            }
        }
        13 => {
            let Some(pfn) = resident() else { return };
            if embedder.lru().isolate(pfn) {
                assert!(!embedder.lru().isolate(pfn));
                embedder.direct(8);
                assert!(
                    embedder.pages().resident.contains_key(&pfn),
                    "an isolated page was reclaimed"
                );
                // SAFETY: the page was isolated above.
                assert!(unsafe { embedder.lru().put_back(pfn) });
            }
        }
        14 => {
            let Some(pfn) = resident() else { return };
            let mut pages = embedder.pages();
            let page = pages.page(pfn);
            page.pinned ^= true;
            page.executable = count % 2 == 0;
            page.maps += u32::from(count % 3);
            page.young = page.young.min(page.maps);
        }
        _ => embedder.pages().resident.values_mut().for_each(|page| page.young = 0),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<u8>(), any::<u16>(), any::<u8>()).prop_map(|(action, pick, count)| Step {
        action,
        pick,
        count,
    });
    vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(64),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_store_is_lost_and_no_page_is_left_locked_or_isolated(choices in any::<u16>(), steps in steps()) {
        run(choices, &steps);
    }
}
