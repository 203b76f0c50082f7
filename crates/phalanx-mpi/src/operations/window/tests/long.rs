//! Long puts and gets, whose data goes from memory to memory.

use super::{Place, at, datatype, ints, machines, window_of};
use crate::constants::MPI_INT;
use crate::error::{Class, Result};
use crate::objects::comm::revoke;
use crate::objects::datatype::Datatype;
use crate::operations::collective::tests::Ranks;
use crate::operations::collective::{Call, barrier};
use crate::operations::comm_create::duplicate;
use crate::operations::window::word::Word;
use crate::operations::window::{Window, lock};
use std::sync::Arc;

/// Ints that are longer than a piece of a word.
const MANY: usize = 300_000;

fn is_idle(window: &Window) -> bool {
    let state = lock(&window.state);
    state.operations.is_empty() && state.awaited.is_empty() && state.asked.iter().all(|asked| *asked == 0)
}

#[test]
fn long_data_goes_both_ways_at_once() {
    for ranks in machines(3) {
        ranks.all(async |call| {
            let (rank, size) = (call.rank(), call.size());
            let mut memory = vec![-1; 3 * MANY];
            let window = window_of(call, &mut memory).await;
            window.lock_all().await.expect("a lock");
            let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
            let mut rows: Vec<Vec<i32>> = (0..3).map(|row| vec![(10 * rank + row) as i32; MANY]).collect();
            let end = Arc::default();
            for (row, values) in rows.iter_mut().enumerate() {
                let end = (row == 2).then(|| Arc::clone(&end));
                window.put(&ints(values), &at(right, (row * MANY) as i64, MANY), end).await.expect("inside");
            }
            window.flush(right as i32).await.expect("locked");
            assert!(matches!(end.get(), Some(Ok(()))));
            let mut back = vec![0; MANY];
            window.get(&ints(&mut back), &at(right, MANY as i64, MANY), None).await.expect("inside");
            window.flush_all().await.expect("locked");
            assert_eq!(back, rows[1]);
            assert!(is_idle(&window));
            window.unlock_all().await.expect("locked");
            window.close().await.expect("it ends");
            assert!(memory.iter().enumerate().all(|(index, value)| *value == (10 * left + index / MANY) as i32));
        });
    }
}

/// Rows of a matrix at the target, behind other rows: one run that does not begin at the displacement.
#[test]
fn a_long_run_may_begin_behind_the_displacement() {
    for ranks in machines(2) {
        ranks.all(async |call| {
            let other = 1 - call.rank();
            let mut memory = vec![-1; 2 * MANY];
            let window = window_of(call, &mut memory).await;
            let rows = Datatype::indexed(&[MANY as i64], &[MANY as i64 - 5], &datatype(MPI_INT)).expect("a row");
            rows.commit();
            let place = Place { rank: other as i32, displacement: 2, count: 1, datatype: rows };
            window.lock_all().await.expect("a lock");
            let (mut put, mut got) = ((0..MANY as i32).collect::<Vec<_>>(), vec![0; MANY]);
            window.put(&ints(&mut put), &place, None).await.expect("inside");
            window.flush_all().await.expect("locked");
            window.get(&ints(&mut got), &place, None).await.expect("inside");
            window.unlock_all().await.expect("locked");
            window.close().await.expect("it ends");
            assert_eq!(got, put);
            let begin = MANY - 3;
            let expected =
                |index: usize| if index < begin || index >= begin + MANY { -1 } else { (index - begin) as i32 };
            assert!(memory.iter().enumerate().all(|(index, value)| *value == expected(index)));
        });
    }
}

/// Origins and targets that do not keep to the rules get nothing, and nothing outside of the window is touched.
#[test]
fn what_others_say_of_long_data_is_checked() {
    Ranks::new(2).all(async |call| {
        let rank = call.rank();
        let mut memory = vec![7; MANY + 8];
        let window = window_of(call, &mut memory[4..][..MANY]).await;
        window.lock_all().await.expect("a lock");
        let length = 4 * MANY as u64;
        let runs = [
            (-1, 4, length),
            (1, -8, length),
            (-1, 0, length),
            (0, 1, length),
            (0, 0, u64::MAX),
            (0, 0, 0),
            (i64::MAX, i64::MIN, length),
        ];
        for (operation, (displacement, offset, length)) in (1000..).zip(runs) {
            let offer = Word::Offer { operation, displacement, offset, length };
            window.tell(1 - rank, &offer, &[]).expect("a peer");
            let fetch = Word::Fetch { operation, displacement, offset, length, number: operation };
            window.tell(1 - rank, &fetch, &[]).expect("a peer");
        }
        // An offer without data, the end of a put that was never offered, and answers that no operation awaits.
        let offer = Word::Offer { operation: 7, displacement: 0, offset: 0, length };
        let fetch = Word::Fetch { operation: 8, displacement: 0, offset: 0, length, number: 1 << 40 };
        let [sent, other] = [7, 9].map(|operation| Word::Sent { operation });
        let wanted = Word::Wanted { operation: 9, number: 0 };
        for word in [&offer, &offer, &sent, &other, &fetch, &wanted] {
            window.tell(1 - rank, word, &[]).expect("a peer");
        }
        window.unlock_all().await.expect("locked");
        window.close().await.expect("it ends");
        assert!(is_idle(&window));
        assert!(memory.iter().all(|value| *value == 7));
    });
}

#[test]
fn memory_of_a_revoked_window_is_used_no_more() {
    for ranks in machines(2) {
        ranks.all(async |call| {
            let (rank, world, others) = (call.rank(), call.world, call.comm.clone());
            let comm = duplicate(call, false).await.expect("another one");
            let mut own = vec![0; 2 * MANY];
            let window = window_of(Call::new(world, comm.clone()), &mut own).await;
            window.lock_all().await.expect("a lock");
            barrier(&Call::new(world, others.clone())).await.expect("all have it");
            let (mut put, mut got) = (vec![1; MANY], vec![2; MANY]);
            let put_begun = window.put(&ints(&mut put), &at(1 - rank, 0, MANY), None).await;
            let get_begun = window.get(&ints(&mut got), &at(1 - rank, MANY as i64, MANY), None).await;
            let fails_otherwise = |begun: Result<()>| begun.is_err_and(|error| error.class != Class::Revoked);
            assert!(!fails_otherwise(put_begun) && !fails_otherwise(get_begun), "the other one may have revoked it");
            revoke(world, comm.context);
            assert!(!fails_otherwise(window.flush_all().await), "they may be done");
            window.close().await.expect("nobody is waited for");
            (own, got) = (vec![3; 2 * MANY], vec![3; MANY]);
            drop(put);
            barrier(&Call::new(world, others)).await.expect("what still comes has come");
            assert!(own.iter().chain(&got).all(|value| *value == 3));
            assert!(is_idle(&window));
        });
    }
}
