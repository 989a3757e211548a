//! Migratetypes that requests must not use.
#![forbid(unsafe_code)]

use framewright::{AllocError, MigrateType, Order, Pfn, Request};

use crate::machine::{CPU, assert_complete, memory};

const REFUSED: [MigrateType; 2] = [MigrateType::Isolate, MigrateType::HighAtomic];

#[test]
fn no_request_gets_a_type_that_requests_may_not_ask_for() {
    for of in REFUSED {
        for order in [Order::ZERO, Order::PAGEBLOCK, Order::new(10).unwrap()] {
            let memory = memory(2048, |_| ());
            let mut token = memory.cpu(CPU).unwrap();
            let request = Request::new(order, of);
            let refused = AllocError::NotRequestable(of);
            assert_eq!(token.alloc(request).unwrap_err(), refused);
            assert_eq!(memory.alloc_bypassing_lists(request).unwrap_err(), refused);
            assert_eq!(token.alloc_at(Pfn::new(1024), order, of).unwrap_err(), refused);
            assert_complete(memory, &mut token, Vec::new());
        }
    }
}

#[test]
fn no_free_captures_a_type_that_requests_may_not_ask_for() {
    for of in REFUSED {
        for order in [Order::ZERO, Order::PAGEBLOCK, Order::new(10).unwrap()] {
            let memory = memory(2048, |_| ());
            let mut token = memory.cpu(CPU).unwrap();
            let block = token.alloc(Request::new(order, MigrateType::Movable)).unwrap();
            let back = match token.free_capturing(block, Request::new(order, of)) {
                Err(block) | Ok(Some(block)) => vec![block],
                Ok(None) => vec![],
            };
            assert_complete(memory, &mut token, back);
        }
    }
}
