use super::*;
use std::io::Read;

const ALL: (u64, u64) = (1 << 30, 1 << 20);

fn digest(bytes: &[u8]) -> Digest {
    *blake3::hash(bytes).as_bytes()
}

fn read(store: &Store, user: &str, digest: &Digest) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.read(user, digest).expect("is here").read_to_end(&mut bytes).expect("is readable");
    bytes
}

#[test]
fn a_content_is_whole_after_its_last_piece_and_goes_on_where_it_was_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path().join("contents"), ALL);
    let of = digest(b"onetwothree");
    let mut first = store.begin("ada", of, 11).expect("has room");
    first.write(b"one").expect("is expected");
    drop(first);
    assert_eq!(store.bytes("ada", &of), None);
    let store = Store::open(folder.path().join("contents"), ALL);
    let mut second = store.begin("ada", of, 11).expect("has room");
    assert_eq!((second.at(), second.is_whole()), (3, false));
    second.write(b"two").expect("is expected");
    second.write(b"three").expect("is the last one");
    assert!(second.is_whole());
    drop(second);
    assert_eq!((store.bytes("ada", &of), read(&store, "ada", &of)), (Some(11), b"onetwothree".to_vec()));
    assert!(store.begin("ada", of, 11).expect("has room").is_whole());
    assert!(store.uses("ada", &of) && !store.uses("eve", &of), "each user has its own");
}

#[test]
fn two_links_bring_the_same_content_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path().to_owned(), ALL);
    let of = digest(b"same");
    let (mut one, mut other) = (store.begin("ada", of, 4).expect("room"), store.begin("ada", of, 4).expect("room"));
    one.write(b"sa").expect("is expected");
    other.write(b"same").expect("is expected");
    one.write(b"me").expect("is expected");
    drop((one, other));
    assert_eq!(read(&store, "ada", &of), b"same");
    assert_eq!(walk(folder.path()).len(), 1);
}

#[test]
fn bytes_that_are_not_those_of_the_digest_are_refused_and_the_next_try_begins_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path().to_owned(), ALL);
    let of = digest(b"right");
    let mut wrong = store.begin("ada", of, 5).expect("room");
    assert!(wrong.write(b"wrong!").is_err(), "too many");
    assert!(wrong.write(b"wrong").is_err());
    drop(wrong);
    let mut right = store.begin("ada", of, 5).expect("room");
    assert_eq!(right.at(), 0);
    right.write(b"right").expect("is expected");
    assert_eq!(store.bytes("ada", &of), Some(5));
}

#[test]
fn a_user_has_a_bound_and_what_no_job_refers_to_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path().to_owned(), (100, 10));
    let put = |user: &str, bytes: &[u8]| -> io::Result<()> {
        store.begin(user, digest(bytes), bytes.len() as u64)?.write(bytes)
    };
    put("ada", b"12345678").expect("has room");
    let error = put("ada", b"123").expect_err("has no room").to_string();
    assert!(error.contains("phalanx jobs --forget"), "{error}");
    put("bob", b"123").expect("has room of its own");
    let kept = name_of(&digest(b"123"));
    assert_eq!(store.collect(|_, digest| digest == kept, Duration::from_secs(3600)), 0, "all are new");
    assert_eq!(store.collect(|_, digest| digest == kept, Duration::ZERO), 8);
    put("ada", b"1234567890").expect("has room again");
    store.shrink(12);
    // Both contents may have the same time of use, so that either may be removed.
    let left: u64 = walk(folder.path()).iter().map(|it| it.bytes).sum();
    assert!(left == 10 || left == 3, "{left}");
}
