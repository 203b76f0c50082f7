//! Programs of several processes, each a thread of this one.

mod moving;

use super::*;
use proptest::prelude::*;

fn together<T: Send>(size: usize, program: impl Fn(&mut Bsp) -> T + Sync) -> Vec<T> {
    let program = &program;
    std::thread::scope(|scope| {
        let run = |world: &'static World| scope.spawn(move || program(&mut Bsp::of(world, size)));
        let running: Vec<_> = World::together(size, &[]).into_iter().map(run).collect();
        running.into_iter().map(|process| process.join().expect("it ends well")).collect()
    })
}

fn register(bsp: &mut Bsp, bytes: &mut [u8]) -> usize {
    let address = bytes.as_ptr() as usize;
    // SAFETY: tests keep their arrays to the end.
    unsafe { bsp.push_reg(address, Span::of(bytes), None) };
    bsp.sync().expect("all register");
    address
}

fn get(bsp: &mut Bsp, pid: i64, area: usize, offset: i64, into: &mut [u8]) -> Result<()> {
    // SAFETY: as above.
    unsafe { bsp.get(pid, area, offset, Span::of(into), None) }
}

#[test]
fn gets_read_what_was_there_before_puts_wrote() {
    for size in 1..=9 {
        together(size, |bsp| {
            let (me, right) = (bsp.pid() as u8, ((bsp.pid() + 1) % size) as i64);
            let (mut memory, mut got) = ([me, me], [77]);
            let area = register(bsp, &mut memory);
            get(bsp, right, area, 1, &mut got).expect("it is there");
            bsp.put(right, &[me + 100], area, 1).expect("it is there");
            assert_eq!((memory, got), ([me, me], [77]), "nothing happens before the sync");
            bsp.sync().expect("all sync");
            let left = (me as usize + size - 1) % size;
            assert_eq!((memory, got), ([me, left as u8 + 100], [right as u8]));
        });
    }
}

#[test]
fn puts_are_written_in_the_order_of_pids_and_calls() {
    together(4, |bsp| {
        let mut memory = [0; 4];
        let area = register(bsp, &mut memory);
        for value in 0..3 {
            bsp.put(0, &[10 * bsp.pid() as u8 + value], area, (value / 2) as i64).expect("it is there");
        }
        bsp.sync().expect("all sync");
        assert_eq!(memory, if bsp.pid() == 0 { [31, 32, 0, 0] } else { [0; 4] });
    });
}

#[test]
fn messages_are_there_for_one_superstep_in_the_order_of_senders_and_calls() {
    together(3, |bsp| {
        assert_eq!(bsp.set_tagsize(1), 0);
        bsp.sync().expect("all sync");
        assert_eq!(bsp.tagsize(), 1);
        for number in 0..=bsp.pid() as u8 {
            bsp.send(1, &[number], &vec![bsp.pid() as u8; number.into()]).expect("there is a process 1");
        }
        bsp.sync().expect("all sync");
        assert_eq!(bsp.qsize(), if bsp.pid() == 1 { (6, 4) } else { (0, 0) });
        let mut taken = Vec::new();
        while let Some((tag, payload)) = bsp.take() {
            taken.push((tag[0], payload.to_vec()));
        }
        if bsp.pid() == 1 {
            let expected = [(0, vec![]), (0, vec![]), (1, vec![1]), (0, vec![]), (1, vec![2]), (2, vec![2, 2])];
            assert_eq!(taken, expected);
        }
        bsp.send(2, b"", b"late").expect("there is a process 2");
        bsp.sync().expect("all sync");
        bsp.sync().expect("all sync");
        assert_eq!(bsp.qsize(), (0, 0));
    });
}

#[test]
fn long_data_goes_without_copies_in_both_directions() {
    const LENGTH: usize = 3 * EAGER;
    together(3, |bsp| {
        let me = bsp.pid() as u8;
        let (mut memory, mut own, mut got) = (vec![me; 2 * LENGTH], vec![me + 10; LENGTH], vec![0; LENGTH]);
        let area = register(bsp, &mut memory);
        for pid in 0..3 {
            if pid == (me as i64 + 1) % 3 {
                // SAFETY: they stay until the sync has ended.
                unsafe {
                    bsp.hpput(pid, Span::of(&mut own), area, LENGTH as i64, None).expect("it is there");
                    bsp.hpget(pid, area, 0, Span::of(&mut got), None).expect("it is there");
                }
                bsp.put(pid, &[99], area, LENGTH as i64 - 1).expect("it is there");
            }
        }
        bsp.note_costs(true);
        bsp.sync().expect("all sync");
        let left = (me + 2) % 3;
        assert!(memory[LENGTH..].iter().all(|byte| *byte == left + 10) && memory[LENGTH - 1] == 99);
        assert!(got[..LENGTH - 1].iter().all(|byte| *byte == (me + 1) % 3));
        let cost = bsp.costs()[0];
        assert_eq!((cost.sent, cost.received), (2 * LENGTH as u64 + 1, 2 * LENGTH as u64 + 1));
    });
}

#[test]
fn areas_have_a_length_of_their_own_at_each_process_and_end() {
    together(3, |bsp| {
        let mut memory = vec![0; bsp.pid()];
        let area = register(bsp, &mut memory);
        let other = (bsp.pid() + 1) % 3;
        let data = vec![1; other + 1];
        let error = bsp.put(other as i64, &data, area, 0).expect_err("it is too long").text;
        let expected =
            format!("{} bytes at offset 0 are not within the {other} bytes that pid {other} registered", other + 1);
        assert_eq!(error, expected);
        bsp.put(other as i64, &data[1..], area, 0).expect("it fits");
        assert!(bsp.put(other as i64, &[], area, -1).is_err() && bsp.put(3, &[], area, 0).is_err());
        assert!(bsp.put(other as i64, &data[1..], area, i64::MAX).is_err() && bsp.put(-1, &[], area, 0).is_err());
        bsp.pop_reg(area).expect("it is registered");
        assert!(bsp.pop_reg(area).is_err());
        bsp.put(other as i64, &[], area, 0).expect("it ends with the superstep");
        bsp.sync().expect("all sync");
        assert_eq!(memory, vec![1; bsp.pid()]);
        assert_eq!(bsp.put(other as i64, &[], area, 0).expect_err("it has ended").text, "the area is not registered");
    });
}

#[test]
fn the_latest_registration_of_an_address_counts() {
    together(2, |bsp| {
        let mut memory = [0; 8];
        register(bsp, &mut memory[..2]);
        let area = register(bsp, &mut memory);
        bsp.put(0, &[5], area, 7).expect("the longer one counts");
        bsp.pop_reg(area).expect("it is registered");
        bsp.sync().expect("all sync");
        assert!(bsp.put(0, &[5], area, 7).is_err());
        bsp.put(0, &[5], area, 1).expect("the shorter one is there still");
    });
}

#[test]
fn what_is_put_lies_over_what_is_got() {
    together(2, |bsp| {
        let (me, other) = (bsp.pid() as u8, 1 - bsp.pid());
        let mut memory = [me; 4];
        let area = register(bsp, &mut memory);
        bsp.put(other as i64, &[9, 9], area, 1).expect("it is there");
        // SAFETY: the memory outlives the superstep.
        unsafe { bsp.get(other as i64, area, 0, Span::of(&mut memory), None) }.expect("it is there");
        bsp.sync().expect("all sync");
        assert_eq!(memory, [1 - me, 9, 9, 1 - me]);
    });
}

#[test]
fn null_stands_for_what_others_end() {
    together(3, |bsp| {
        let mut memory = [0; 4];
        let (first, second) = (register_or_null(bsp, &mut memory, 0), register_or_null(bsp, &mut memory, 1));
        bsp.pop_reg(second).expect("it is registered"); // pid 1: NULL, of which the first is one too
        bsp.sync().expect("process 1 removes what the others do");
        bsp.pop_reg(first).expect("it is there still");
        bsp.sync().expect("process 0 removes what the others do");
        // SAFETY: nothing is there to be kept.
        unsafe { bsp.push_reg(0, Span::EMPTY, None) };
        bsp.pop_reg(0).expect("it is registered");
        bsp.sync().expect("all remove NULL");
        assert_eq!(bsp.pop_reg(0).expect_err("it has ended").text, "the area is not registered");
    });
    let errors = together(2, |bsp| {
        let mut memory = [0; 4];
        register_or_null(bsp, &mut memory, 0);
        register_or_null(bsp, &mut memory, 1);
        bsp.pop_reg(0).expect("NULL is registered here");
        bsp.sync().expect_err("but by nobody else at the same place").text
    });
    assert_eq!(errors[0], "all processes removed NULL, and nothing is registered as NULL by all");
}

/// Registers memory, except that one process registers NULL.
fn register_or_null(bsp: &mut Bsp, memory: &mut [u8], null_at: usize) -> usize {
    let (address, span) =
        if bsp.pid() == null_at { (0, Span::EMPTY) } else { (memory.as_ptr() as usize, Span::of(memory)) };
    // SAFETY: the memory outlives the program.
    unsafe { bsp.push_reg(address, span, None) };
    bsp.sync().expect("all register");
    address
}

#[test]
fn what_processes_do_differently_is_said_to_all_of_them() {
    let differ = |act: fn(&mut Bsp)| {
        together(3, |bsp| {
            if bsp.pid() == 1 {
                act(bsp);
            }
            bsp.sync().expect_err("process 1 does otherwise").text
        })
    };
    // SAFETY: nothing is there to be kept.
    let errors = differ(|bsp| unsafe { bsp.push_reg(0, Span::EMPTY, None) });
    assert_eq!(errors[0], "pid 1 changed 1 registrations in this superstep, and this process 0");
    assert_eq!(errors[1], "pid 0 changed 0 registrations in this superstep, and this process 1");
    let errors = differ(|bsp| assert_eq!(bsp.set_tagsize(8), 0));
    assert_eq!(errors[2], "pid 1 set the tag size to 8 bytes, this process to nothing");
    let errors = together(2, |bsp| if bsp.pid() == 0 { bsp.sync() } else { bsp.meet(sync::End::Program) });
    assert_eq!(errors[0].as_ref().expect_err("it ended").text, "pid 1 called end where this process called sync");
}

#[test]
fn nonsense_from_another_process_is_refused() {
    let mut parcel = Parcel::default();
    parcel.send(b"tag", b"payload");
    for cut in 1..parcel.bytes.len() {
        assert!(parcel::entries(&parcel.bytes[..cut]).any(|entry| entry.is_err()), "{cut}");
    }
    for (at, byte) in [(0, 5), (4, 255), (16, 255), (23, 255)] {
        let mut bytes = parcel.bytes.clone();
        bytes[at] = byte;
        assert!(parcel::entries(&bytes).any(|entry| entry.is_err()), "{at}");
    }
    let errors = together(2, |bsp| {
        let mut memory = [0; 8];
        register(bsp, &mut memory);
        let slot = u32::from(bsp.pid() == 1);
        bsp.parcels[0].put(slot, 0, &[1]);
        bsp.sync().map_err(|error| error.text)
    });
    assert_eq!(errors[0], Err("another process names memory that is not registered".to_string()));
}

proptest! {
    /// Any bytes are entries that lie one behind the other, or end with an error.
    #[test]
    fn no_bytes_make_entries_outside_of_their_parcel(
        heads in proptest::collection::vec((0u32..6, 0u32..20, any::<u64>(), prop_oneof![0u64..20, any::<u64>()]), 0..6),
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let head = |(kind, slot, offset, length): (u32, u32, u64, u64)| {
            let (words, numbers) = ([kind, slot].map(u32::to_le_bytes), [offset, length].map(u64::to_le_bytes));
            [words.concat(), numbers.concat(), bytes.clone()].concat()
        };
        let bytes: Vec<u8> = heads.into_iter().flat_map(head).collect();
        let mut end = 0;
        for entry in parcel::entries(&bytes) {
            let Ok(entry) = entry else { return Ok(()) };
            prop_assert!(end < entry.data.start && entry.data.start <= entry.data.end && entry.data.end <= bytes.len());
            end = entry.data.end;
        }
        prop_assert_eq!(end, bytes.len());
    }
}

/// A program on machines, each with a folder for checkpoints: what its processes end with.
fn on_machines<T: Send>(
    machines: &[u32],
    folders: &[tempfile::TempDir],
    program: impl Fn(&mut Bsp) -> T + Sync,
) -> Vec<T> {
    let program = &program;
    std::thread::scope(|scope| {
        let worlds = World::together(machines.len(), machines).into_iter().zip(machines);
        let run = |(world, machine): (&'static World, &u32)| {
            let folder = folders[*machine as usize].path();
            scope.spawn(move || {
                let mut bsp = Bsp::of(world, machines.len());
                bsp.saving = Some(checkpoint::Saving::new(folder, 2));
                program(&mut bsp)
            })
        };
        let running: Vec<_> = worlds.map(run).collect();
        running.into_iter().map(|process| process.join().expect("it ends well")).collect()
    })
}

fn folders() -> Vec<tempfile::TempDir> {
    (0..4).map(|_| tempfile::tempdir().expect("there is room")).collect()
}

/// So many steps, in which all that a process is changes; what it is then, and the step with which it went on.
fn walk(bsp: &mut Bsp, until: u8) -> (Vec<u8>, Option<u8>) {
    let (mut memory, mut step, mut taken_up) = (vec![bsp.pid() as u8; 3], 0, None);
    let area = register(bsp, &mut memory);
    let right = ((bsp.pid() + 1) % bsp.nprocs()) as i64;
    loop {
        match bsp.checkpoint().expect("all go on") {
            Point::GoOn => {}
            Point::Save => bsp.save(&[step]).expect("there is room"),
            Point::TakenUp(state) => (step, taken_up) = (state[0], Some(state[0])),
        }
        while let Some((tag, payload)) = bsp.take() {
            memory[2] = memory[2].wrapping_mul(31).wrapping_add(tag.len() as u8).wrapping_add(payload[0]);
        }
        if step == until {
            return (memory, taken_up);
        }
        bsp.put(right, &[memory[2].wrapping_add(step)], area, 1).expect("it is there");
        bsp.sync().expect("all sync");
        bsp.send(right, b"tag", &[memory[1] ^ step]).expect("it is there");
        step += 1;
    }
}

#[test]
fn a_program_goes_on_from_its_last_checkpoint_wherever_its_processes_are_then() {
    for machines in [&[0, 0, 0][..], &[0, 1, 1], &[0, 1, 2], &[1, 1, 3, 3, 3]] {
        let expected: Vec<_> = on_machines(machines, &folders(), |bsp| walk(bsp, 9).0);
        let last = *machines.last().expect("there is one") as usize;
        for lost in (0..=last).filter(|machine| machines.contains(&(*machine as u32)) || machines.len() == 3) {
            let folders = folders();
            on_machines(machines, &folders, |bsp| walk(bsp, 6));
            let several = machines[0] != machines[machines.len() - 1];
            if several {
                for file in std::fs::read_dir(folders[lost].path()).expect("it is there") {
                    std::fs::remove_file(file.expect("it is there").path()).expect("it is there");
                }
            }
            // Elsewhere than before, and never where all was lost.
            let next = |machine: &u32| {
                if !several {
                    0
                } else if *machine as usize == lost {
                    (*machine + 1) % 4
                } else {
                    *machine
                }
            };
            let moved: Vec<u32> = machines.iter().map(next).collect();
            let went_on = on_machines(&moved, &folders, |bsp| walk(bsp, 9));
            let memories: Vec<_> = went_on.iter().map(|(memory, _)| memory.clone()).collect();
            assert_eq!(memories, expected, "{machines:?} without {lost}");
            assert!(went_on.iter().all(|(_, from)| *from == went_on[0].1 && from.is_some_and(|from| from >= 5)));
        }
    }
}

#[test]
fn a_checkpoint_that_not_all_have_made_does_not_count() {
    let (machines, folders) = ([0, 0, 1], folders());
    on_machines(&machines, &folders, |bsp| walk(bsp, 6));
    let newest = checkpoints(&folders).into_iter().max().expect("there are some");
    // As if two processes had gone on to the next, and were ended then: what they wrote is of no use.
    for (folder, pid) in [(0, 0), (1, 2)] {
        std::fs::write(folders[folder].path().join(format!("{}.{pid}", newest + 1)), b"of another superstep")
            .expect("room");
    }
    let went_on = on_machines(&machines, &folders, |bsp| walk(bsp, 6));
    assert!(went_on.iter().all(|(_, from)| from.is_some()));
    let numbers = checkpoints(&folders);
    assert!(numbers.iter().all(|number| *number > newest + 1), "no number is used twice: {numbers:?}");
}

#[test]
fn a_file_that_is_no_checkpoint_is_an_error() {
    let folders = folders();
    std::fs::write(folders[0].path().join("1.0"), b"nonsense").expect("there is room");
    let said = on_machines(&[0], &folders, |bsp| bsp.checkpoint().map_err(|error| error.to_string()));
    assert!(said[0].as_ref().is_err_and(|text| text.contains("a checkpoint is damaged")), "{said:?}");
}

#[test]
fn where_nothing_can_be_written_all_processes_fail() {
    let folders = folders();
    std::fs::remove_dir(folders[1].path()).expect("it is empty");
    let said = on_machines(&[0, 1], &folders, |bsp| bsp.save(b"").map_err(|error| error.to_string()));
    for outcome in said {
        let text = outcome.expect_err("it is not written");
        assert!(text.contains("cannot save the checkpoint"), "{text}");
    }
}

/// The numbers in all folders.
fn checkpoints(folders: &[tempfile::TempDir]) -> Vec<u64> {
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder.path()).expect("it is there"));
    let names = files.map(|file| file.expect("it is there").file_name().to_string_lossy().into_owned());
    names.filter_map(|name| name.split('.').next()?.parse().ok()).collect()
}
