//! Files at one process: views against a naive list of the bytes that they show, and what is refused.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use phalanx_mpi::constants::*;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::buffer::Buffer;
use phalanx_mpi::objects::comm::{COMM_SELF, Comm};
use phalanx_mpi::objects::datatype::Datatype;
use phalanx_mpi::objects::info::Info;
use phalanx_mpi::operations::file::{self, File, From, Place, Split, View, Way};
use phalanx_mpi::universe::joining::join;
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const EVERYTHING: i32 = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;

/// A name that nobody else has.
fn fresh() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("file-{}-{number}", std::process::id()))
}

fn open(path: &Path, amode: i32) -> phalanx_mpi::error::Result<Arc<File>> {
    let world = join().expect("a world of one");
    file::open(world, Comm::of(COMM_SELF)?, path, amode, &Info::default())
}

fn class<T>(outcome: phalanx_mpi::error::Result<T>) -> Class {
    outcome.err().expect("it is refused").class
}

fn of(handle: u32) -> Arc<Datatype> {
    Datatype::of(handle).expect("predefined")
}

fn committed(datatype: Arc<Datatype>) -> Arc<Datatype> {
    datatype.commit();
    datatype
}

/// Bytes in a row.
fn bytes(memory: &mut [u8]) -> Buffer {
    Buffer::new(memory.as_mut_ptr(), memory.len(), of(MPI_BYTE)).expect("a buffer")
}

fn see(file: &File, displacement: i64, etype: &Arc<Datatype>, filetype: &Arc<Datatype>) -> Class {
    let set = file
        .set_view(Some(displacement), |at, written| View::new(at, etype.clone(), filetype.clone(), "native", written));
    set.err().map_or(Class::Intern, |error| error.class)
}

/// A filetype: blocks of etypes with gaps before them, and a gap behind; repeated with a stride, if at all.
#[derive(Debug, Clone)]
struct Spec {
    etype: u32,
    blocks: Vec<(usize, usize)>,
    behind: usize,
    repeated: Option<(usize, usize)>,
}

impl Spec {
    /// The filetype, where its bytes are, and how far apart two of them are.
    fn make(&self) -> (Arc<Datatype>, Vec<usize>, usize) {
        let etype = of(self.etype);
        let (mut end, mut lengths, mut places, mut naive) = (0, vec![], vec![], vec![]);
        for (gap, length) in &self.blocks {
            end += gap;
            lengths.push(*length as i64);
            places.push(end as isize);
            naive.extend(end..end + length * etype.size());
            end += length * etype.size();
        }
        let extent = end + self.behind;
        let one = Datatype::hindexed(&lengths, &places, &etype).expect("small");
        let one = Datatype::resized(&one, 0, extent as isize).expect("small");
        let Some((count, more)) = self.repeated else { return (committed(one), naive, extent) };
        let stride = extent + more;
        let all = Datatype::hvector(count as i64, 1, stride as isize, &one).expect("small");
        let whole = count * stride;
        let all = Datatype::resized(&all, 0, whole as isize).expect("small");
        let naive = (0..count).flat_map(|index| naive.iter().map(move |at| at + index * stride)).collect();
        (committed(all), naive, whole)
    }
}

fn spec() -> impl Strategy<Value = Spec> {
    let etype = prop_oneof![Just(MPI_BYTE), Just(MPI_SHORT), Just(MPI_INT), Just(MPI_DOUBLE)];
    let blocks = vec((0usize..9, 1usize..5), 1..5);
    let repeated = proptest::option::of((1usize..4, 0usize..7));
    (etype, blocks, 0usize..9, repeated).prop_map(|(etype, blocks, behind, repeated)| Spec {
        etype,
        blocks,
        behind,
        repeated,
    })
}

/// Whether it writes, the offset or none for the file's pointer, etypes, and how far apart they are in memory.
type Step = (bool, Option<usize>, usize, usize);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_view_shows_the_bytes_that_a_list_of_them_says(
        spec in spec(),
        displacement in 0usize..20,
        steps in vec((any::<bool>(), proptest::option::of(0usize..40), 0usize..30, 1usize..3), 1..12),
        atomic in any::<bool>(),
    ) {
        let path = fresh();
        let file = open(&path, EVERYTHING).expect("it is made");
        let (filetype, naive, extent) = spec.make();
        let etype = of(spec.etype);
        prop_assert_eq!(see(&file, displacement as i64, &etype, &filetype), Class::Intern);
        file.set_atomic(atomic).expect("collective over one");
        let place = |byte: usize| displacement + byte / naive.len() * extent + naive[byte % naive.len()];
        let (mut model, mut pointer, size) = (Vec::<u8>::new(), 0, etype.size());
        for (number, step) in steps.into_iter().enumerate() {
            let (writes, at, count, stride): Step = step;
            let offset = at.unwrap_or(pointer);
            pointer += if at.is_none() { count } else { 0 };
            let memory_type = committed(Datatype::vector(count as i64, 1, stride as i64, &etype).expect("small"));
            let mut memory: Vec<u8> = (0..(count * stride + 1) * size).map(|at| (at + number * 31) as u8).collect();
            let buffer = Buffer::new(memory.as_mut_ptr(), 1, memory_type).expect("a buffer");
            let chosen = at.map_or(Place::Own, |at| Place::At(at as i64));
            let list: Vec<_> = (0..count * size)
                .map(|byte| (place(offset * size + byte), byte / size * stride * size + byte % size))
                .collect();
            if writes {
                let status = file.access(Way::Write, chosen, &buffer).expect("written");
                prop_assert_eq!(status.bytes as usize, count * size);
                for (place, byte) in list {
                    model.resize(model.len().max(place + 1), 0);
                    model[place] = memory[byte];
                }
            } else {
                let mut expected = memory.clone();
                let there = list.iter().take_while(|(place, _)| *place < model.len()).count();
                list[..there].iter().for_each(|(place, byte)| expected[*byte] = model[*place]);
                let status = file.access(Way::Read, chosen, &buffer).expect("read");
                prop_assert_eq!(status.bytes as usize, there);
                prop_assert_eq!(&memory, &expected);
            }
            prop_assert_eq!(&std::fs::read(&path).expect("it is there"), &model);
            prop_assert_eq!(file.position(), Ok(pointer as i64));
            prop_assert_eq!(file.byte_offset(offset as i64), Ok(place(offset * size) as i64));
        }
        let end = (0..).find(|etype| place(etype * size) >= model.len()).expect("files end") as i64;
        file.seek(0, From::End).expect("there is an end");
        prop_assert_eq!(file.position(), Ok(end));
        file::close(file).expect("closed");
        prop_assert!(!path.exists());
    }
}

#[test]
fn what_is_large_goes_in_pieces() {
    const COUNT: usize = 3 << 20;
    let path = fresh();
    let file = open(&path, EVERYTHING).expect("it is made");
    let every_other = committed(Datatype::resized(&of(MPI_INT), 0, 8).expect("small"));
    assert_eq!(see(&file, 4, &of(MPI_INT), &every_other), Class::Intern);
    let mut numbers: Vec<u32> = (0..COUNT as u32).collect();
    let buffer = Buffer::new(numbers.as_mut_ptr().cast(), 1000, of(MPI_INT)).expect("a buffer");
    file.access(Way::Write, Place::At(COUNT as i64 - 1000), &buffer).expect("written");
    let gaps = committed(Datatype::resized(&of(MPI_INT), 0, 12).expect("small"));
    let mut spread = vec![7u32; COUNT * 3];
    let buffer = Buffer::new(spread.as_mut_ptr().cast(), COUNT, gaps).expect("a buffer");
    let status = file.access(Way::Read, Place::At(0), &buffer).expect("read");
    assert_eq!(status.bytes as usize, COUNT * 4);
    for (index, element) in spread.chunks_exact(3).enumerate() {
        let expected = index.saturating_sub(COUNT - 1000) as u32;
        assert_eq!(element, [expected, 7, 7]);
    }
    file::close(file).expect("closed");
}

#[test]
fn split_operations_end_as_they_began() {
    let file = open(&fresh(), EVERYTHING).expect("it is made");
    let mut memory = [1, 2, 3];
    file.begin_split(Way::Write, Place::Own, &bytes(&mut memory)).expect("begun");
    assert_eq!(class(file.begin_split(Way::Write, Place::Own, &bytes(&mut memory))), Class::Other);
    assert_eq!(class(file.end_split(Split::Own(Way::Read))), Class::Other);
    let handle = file.clone().put().expect("a handle");
    assert_eq!(class(File::take(handle)), Class::Other);
    assert_eq!(file.end_split(Split::Own(Way::Write)).expect("ended").bytes, 3);
    assert_eq!(class(file.end_split(Split::Own(Way::Write))), Class::Other);
    file::close(File::take(handle).expect("it may be closed")).expect("closed");
    assert_eq!(class(File::of(handle)), Class::File);
}

#[test]
fn shared_and_ordered_operations_move_the_shared_pointer() {
    let file = open(&fresh(), EVERYTHING).expect("it is made");
    let mut memory = [1, 2, 3, 4];
    for place in [Place::Shared, Place::Ordered] {
        file.access(Way::Write, place, &bytes(&mut memory)).expect("written");
    }
    assert_eq!((file.shared_position(), file.position(), file.size()), (Ok(8), Ok(0), Ok(8)));
    file.seek_shared(-3, From::Current).expect("inside");
    let mut back = [0; 4];
    assert_eq!(file.access(Way::Read, Place::Shared, &bytes(&mut back)).expect("read").bytes, 3);
    assert_eq!(back, [2, 3, 4, 0]);
    file.seek_shared(i64::MAX, From::Start).expect("there is such an offset");
    assert_eq!(class(file.access(Way::Write, Place::Shared, &bytes(&mut memory))), Class::Arg);
    assert_eq!(class(file.access(Way::Write, Place::Ordered, &bytes(&mut memory))), Class::Arg);
    file::close(file).expect("closed");
}

#[test]
fn files_that_cannot_be_opened_say_why() {
    let path = fresh();
    assert_eq!(class(open(&path, MPI_MODE_RDONLY)), Class::NoSuchFile);
    assert_eq!(class(open(&path, 0)), Class::Amode);
    assert_eq!(class(file::delete(&path)), Class::NoSuchFile);
    assert_eq!(class(open(&path.join("x"), EVERYTHING)), Class::NoSuchFile);
    assert_eq!(class(open(Path::new(env!("CARGO_TARGET_TMPDIR")), MPI_MODE_RDONLY)), Class::BadFile);
    assert_eq!(class(open(Path::new(&"x".repeat(1000)), EVERYTHING)), Class::BadFile);
    assert_eq!(class(open(Path::new("a\0b"), EVERYTHING)), Class::BadFile);
    let file = open(&path, EVERYTHING | MPI_MODE_EXCL).expect("it is made");
    assert_eq!(class(open(&path, EVERYTHING | MPI_MODE_EXCL)), Class::FileExists);
    assert_eq!(class(open(&path.join("x"), EVERYTHING)), Class::BadFile);
    file::close(file).expect("closed");
}

#[test]
fn what_the_mode_does_not_allow_is_refused() {
    let path = fresh();
    let mut memory = [1, 2, 3];
    let file = open(&path, MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL).expect("it is made");
    assert_eq!(class(file.access(Way::Read, Place::Shared, &bytes(&mut memory))), Class::Access);
    assert_eq!(class(file.access(Way::Write, Place::Own, &bytes(&mut memory))), Class::UnsupportedOperation);
    assert_eq!(class(file.seek(0, From::Start)), Class::UnsupportedOperation);
    assert_eq!(class(file.seek_shared(0, From::Start)), Class::UnsupportedOperation);
    assert_eq!(see(&file, 0, &of(MPI_BYTE), &of(MPI_BYTE)), Class::UnsupportedOperation);
    file.access(Way::Write, Place::Shared, &bytes(&mut memory)).expect("written");
    file.set_view(None, |at, written| View::new(at, of(MPI_BYTE), of(MPI_BYTE), "native", written)).expect("here");
    assert_eq!((file.view().displacement, file.shared_position()), (3, Ok(0)));
    file::close(file).expect("closed");
    let file = open(&path, MPI_MODE_RDONLY | MPI_MODE_APPEND).expect("it is there");
    assert_eq!((file.position(), file.shared_position()), (Ok(3), Ok(3)));
    assert_eq!(class(file.access(Way::Write, Place::At(0), &bytes(&mut memory))), Class::ReadOnly);
    assert_eq!((class(file.set_size(1)), class(file.preallocate(1))), (Class::ReadOnly, Class::ReadOnly));
    file.sync().expect("there is nothing to do");
    file::close(file).expect("closed");
    file::delete(&path).expect("it is there");
}

#[test]
fn offsets_and_sizes_that_no_file_has_are_refused() {
    let file = open(&fresh(), EVERYTHING).expect("it is made");
    let mut memory = [1, 2, 3];
    for offset in [-1, i64::MIN, i64::MAX, i64::MAX - 1] {
        assert_eq!(class(file.access(Way::Write, Place::At(offset), &bytes(&mut memory))), Class::Arg);
        assert_eq!(class(file.access(Way::Read, Place::At(offset), &bytes(&mut memory))), Class::Arg);
    }
    assert_eq!((class(file.set_size(-1)), class(file.preallocate(-1))), (Class::Arg, Class::Arg));
    assert_eq!((class(file.seek(-1, From::Start)), class(file.seek(-1, From::End))), (Class::Arg, Class::Arg));
    file.seek(i64::MAX, From::Start).expect("there is such an offset");
    assert_eq!(class(file.seek(1, From::Current)), Class::Arg);
    assert_eq!(class(file.access(Way::Read, Place::Own, &bytes(&mut memory))), Class::Arg);
    assert_eq!(file.position(), Ok(i64::MAX));
    assert_eq!(class(file.byte_offset(-1)), Class::Arg);
    let far = committed(Datatype::resized(&of(MPI_INT), 0, isize::MAX - 8).expect("a datatype"));
    assert_eq!(see(&file, 8, &of(MPI_INT), &far), Class::Intern);
    assert_eq!(class(file.byte_offset(1)), Class::Arg);
    assert_eq!(file.byte_offset(0), Ok(8));
    assert_eq!(class(file.access(Way::Read, Place::At(0), &bytes(&mut memory))), Class::Io);
    // Terabytes that the file does not have end at its end.
    let huge = Buffer::new(memory.as_mut_ptr(), 1, committed(Datatype::contiguous(0, &of(MPI_INT)).expect("empty")));
    assert_eq!(file.access(Way::Read, Place::At(0), &huge.expect("a buffer")).expect("nothing").bytes, 0);
    file.preallocate(10).expect("there is room");
    file.preallocate(5).expect("it stays");
    assert_eq!(file.size(), Ok(10));
    file::close(file).expect("closed");
}

#[test]
fn filetypes_that_are_none_are_refused() {
    let path = fresh();
    let file = open(&path, EVERYTHING).expect("it is made");
    let int = of(MPI_INT);
    let decreasing = committed(Datatype::indexed(&[1, 1], &[3, 0], &int).expect("a datatype"));
    let negative = committed(Datatype::indexed(&[1, 1], &[-1, 3], &int).expect("a datatype"));
    let twice = committed(Datatype::hindexed(&[1, 1], &[0, 2], &int).expect("a datatype"));
    let backwards = committed(Datatype::vector(3, 1, -2, &int).expect("a datatype"));
    let nothing = committed(Datatype::contiguous(0, &int).expect("a datatype"));
    let no_extent = committed(Datatype::resized(&int, 0, 0).expect("a datatype"));
    for filetype in [&decreasing, &negative, &twice, &backwards, &no_extent, &of(MPI_SHORT)] {
        assert_eq!(see(&file, 0, &int, filetype), Class::Arg);
    }
    assert_eq!(see(&file, -1, &int, &int), Class::Arg);
    assert_eq!(see(&file, 0, &nothing, &nothing), Class::Arg);
    assert_eq!(see(&file, 0, &int, &Datatype::contiguous(2, &int).expect("not committed")), Class::Type);
    let other = file.set_view(Some(0), |at, written| View::new(at, int.clone(), int.clone(), "mine", written));
    assert_eq!(class(other), Class::UnsupportedDatarep);
    // A process that has no part of the file.
    assert_eq!(see(&file, 0, &int, &nothing), Class::Intern);
    let mut memory = [0; 4];
    assert_eq!(class(file.access(Way::Write, Place::At(0), &bytes(&mut memory))), Class::Arg);
    assert_eq!(file.access(Way::Write, Place::At(0), &bytes(&mut [])).expect("nothing").bytes, 0);
    // Lists in lists in lists: more parts than there are atoms.
    let nest = |inner: Arc<Datatype>, _| {
        let far = inner.extent();
        Datatype::hindexed(&[1, 1, 1], &[0, far + 4, 2 * far + 12], &inner).expect("a datatype")
    };
    let deep = committed((0..30).fold(int.clone(), nest));
    assert!(matches!(see(&file, 0, &int, &deep), Class::Type | Class::Intern));
    file::close(file).expect("closed");
}

#[test]
fn who_only_reads_may_see_bytes_twice() {
    let path = fresh();
    std::fs::write(&path, [1, 0, 2, 0, 3, 0, 4, 0]).expect("it is made");
    let file = open(&path, MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE).expect("it is there");
    let twice = committed(Datatype::hindexed(&[1, 1], &[0, 2], &of(MPI_INT)).expect("a datatype"));
    assert_eq!(see(&file, 0, &of(MPI_INT), &twice), Class::Intern);
    let mut memory = [0; 8];
    assert_eq!(file.access(Way::Read, Place::Own, &bytes(&mut memory)).expect("read").bytes, 8);
    assert_eq!(memory, [1, 0, 2, 0, 2, 0, 3, 0]);
    file::close(file).expect("closed");
}
