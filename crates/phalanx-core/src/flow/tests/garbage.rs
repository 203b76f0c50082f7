//! Answers that break the protocol, made from the state of the manager at that moment.

use super::plan::Garbage;
use crate::flow::Engine;
use crate::ids::{FiringId, InterpreterId};
use crate::wire::{FromInterpreter, Shape, Stayed};
use bytes::Bytes;

/// A firing that was never sent.
const UNKNOWN: FiringId = FiringId(u64::MAX);

/// An answer that breaks the protocol in one way.
pub fn answer(garbage: Garbage, engine: &Engine, id: InterpreterId) -> (FromInterpreter, Bytes) {
    let head = engine.interpreters.get(&id).and_then(|interpreter| interpreter.in_flight.front());
    let (firing, count) = head.map_or((UNKNOWN, 1), |head| (head.id, head.work.count));
    let fired = |firing, shape, body: u64| {
        (
            FromInterpreter::Fired { firing, shape, ways: Vec::new(), stayed: Vec::new(), busy: 1000, protection: 0 },
            vec![0; body as usize].into(),
        )
    };
    match garbage {
        Garbage::ReadyAgain => (FromInterpreter::Ready { pid: 1 }, Bytes::new()),
        Garbage::UnknownFiring => fired(UNKNOWN, Shape::Packed { count: 1, bytes: 8 }, 8),
        Garbage::TooManyResults => {
            let bytes = u64::from(count + 1) * 8;
            fired(firing, Shape::Packed { count: count + 1, bytes }, bytes)
        }
        Garbage::LengthsThatDoNotAddUp => {
            fired(firing, Shape::Separate { pickles: vec![u64::MAX, 9], attached: Vec::new() }, 8)
        }
        Garbage::NoResults => fired(firing, Shape::Packed { count: 0, bytes: 0 }, 0),
        Garbage::UnknownFailure => (FromInterpreter::Failed { firing: UNKNOWN, busy: 0 }, Bytes::new()),
        Garbage::WaysThatDoNotAddUp => {
            let shape = Shape::Separate { pickles: vec![8], attached: Vec::new() };
            let ways = vec![5];
            (
                FromInterpreter::Fired { firing, shape, ways, stayed: Vec::new(), busy: 1000, protection: 0 },
                vec![0; 8].into(),
            )
        }
        Garbage::PackedPartsAhead => {
            (FromInterpreter::Ahead { firing, shape: Shape::Packed { count: 1, bytes: 8 } }, vec![0; 8].into())
        }
        Garbage::UnknownReturn => (FromInterpreter::Returned { firing: UNKNOWN, kept: 0 }, Bytes::new()),
        Garbage::ReturnOfNothing => {
            let kept = head.map_or(0, |head| head.answered + head.tasks());
            (FromInterpreter::Returned { firing, kept }, Bytes::new())
        }
        Garbage::ReturnOfMoreThanThereIs => (FromInterpreter::Returned { firing, kept: u32::MAX }, Bytes::new()),
        Garbage::MoreStayedThanFollow => {
            let follow = head.map_or(0, |head| head.follow.len());
            let stayed = vec![Stayed { bytes: u64::MAX, busy: u64::MAX }; follow + 1];
            let shape = Shape::Packed { count: 1, bytes: 8 };
            let ways = Vec::new();
            (FromInterpreter::Fired { firing, shape, ways, stayed, busy: 1000, protection: 0 }, vec![0; 8].into())
        }
        Garbage::ReturnOfWhatIsAnswered => {
            let kept = head.map_or(0, |head| head.answered.wrapping_sub(1));
            (FromInterpreter::Returned { firing, kept }, Bytes::new())
        }
    }
}
