//! Tests of what counts as kept.

use super::*;
use crate::transfer::files::kept::digest;
use phalanx_core::wire::files::Kept;

fn about(kept: Option<Kept>) -> About {
    About { kind: Kind::File { size: 1 }, mode: None, modified: (0, 0), kept: kept.map(Box::new), content: None }
}

fn nothing() -> Kept {
    Kept { owner: None, group: None, extended: [0; 16], several_names: None }
}

fn owned(number: u32, name: &str) -> About {
    about(Some(Kept { owner: Some(Owner { number, name: name.into() }), ..nothing() }))
}

/// A name of the file with a number, or of a file that has no other name.
fn name_of(file: Option<u8>) -> About {
    about(Some(Kept { several_names: file.map(|file| [file; 16]), ..nothing() }))
}

/// Which of these pairs of entries differ.
fn differing<const N: usize>(keeps: Keeps, pairs: [[About; 2]; N]) -> [bool; N] {
    let (session, mut keeping) = (Session::own().expect("begins"), Keeping::new(keeps));
    pairs.map(|ends| keeping.differs(&ends, &session, &mut || true).expect("is answered"))
}

#[test]
fn an_owner_is_the_same_by_its_name_at_the_target_or_else_by_its_number() {
    let keeps = Keeps { owner: true, ..Keeps::default() };
    let unknown = "nobody here has this name";
    let pairs = [
        [owned(7, "root"), owned(0, "root")],
        [owned(7, "root"), owned(0, "")],
        [owned(7, "root"), owned(7, unknown)],
        [owned(7, unknown), owned(7, "somebody else")],
        [owned(7, unknown), owned(8, "somebody else")],
        [owned(8, unknown), owned(8, "")],
        [owned(0, ""), owned(0, "root")],
        [owned(0, ""), owned(1, "root")],
    ];
    assert_eq!(differing(keeps, pairs), [false, false, true, false, true, false, false, true]);
}

#[test]
fn names_of_one_file_are_to_be_names_of_one_file() {
    let keeps = Keeps { hard_links: true, ..Keeps::default() };
    let pairs = [(1, Some(7)), (1, Some(7)), (1, Some(8)), (1, None), (2, None), (2, None), (2, Some(9))];
    let pairs = pairs.map(|(source, target)| [name_of(Some(source)), name_of(target)]);
    assert_eq!(differing(keeps, pairs), [false, false, true, true, false, true, true]);
    assert_eq!(differing(keeps, [[name_of(None), name_of(Some(1))]; 1]), [false], "a copy separates no names");
}

#[test]
fn what_cannot_be_read_differs_and_what_is_no_file_folder_or_link_does_not() {
    let keeps = Keeps { xattrs: true, ..Keeps::default() };
    let other = Kept { extended: digest(&[(b"user.a".to_vec(), b"b".to_vec())]), ..nothing() };
    let folder = About { kind: Kind::Folder, ..about(None) };
    let pipe = About { kind: Kind::Other, ..about(None) };
    let pairs = [
        [about(Some(nothing())), about(Some(nothing()))],
        [about(Some(nothing())), about(Some(other))],
        [about(Some(nothing())), about(None)],
        [about(None), folder],
        [pipe.clone(), pipe],
    ];
    assert_eq!(differing(keeps, pairs.clone()), [false, true, true, false, false]);
    assert_eq!(differing(Keeps::default(), pairs), [false; 5]);
    let [one, other] = [["ab", "c"], ["a", "bc"]].map(|[name, value]| digest(&[(name.into(), value.into())]));
    assert_ne!(one, other);
}
