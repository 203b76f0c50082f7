//! What C passes: pointers that are checked for NULL and are otherwise as good as the caller promises, and numbers.

use super::failure::{Owner, Result, fail};
use crate::abi;
use crate::abi::*;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::errhandler::Kind;
use std::ffi::{CStr, c_char, c_double, c_int, c_void};

pub type MPI_Aint = isize;
pub type MPI_Count = i64;
pub type MPI_Offset = i64;

/// What is checked of an argument before a call.
pub trait Argument {
    /// Fails with words that have the argument's name.
    #[inline(always)]
    fn check(&self, _name: &'static str) -> Result {
        Ok(())
    }
}

#[inline(always)]
fn not_null(is_null: bool, name: &'static str) -> Result {
    if is_null { null(name) } else { Ok(()) }
}

#[cold]
fn null(name: &'static str) -> Result {
    fail(Class::Arg, format!("{name} is NULL"))
}

macro_rules! plain {
    ($($type:ty)*) => { $(impl Argument for $type {})* };
}

plain! {
    c_int MPI_Aint MPI_Count c_double
    MPI_Comm MPI_Group MPI_Win MPI_File MPI_Session MPI_Message MPI_Info MPI_Errhandler MPI_Request MPI_Op MPI_Datatype
}

// Buffers may be NULL where they are empty, and stand for other things at some addresses.
impl<T> Argument for *const T {}
impl<T> Argument for *mut T {}

// So may functions.
impl<T> Argument for Option<T> {}

/// `T *`: takes a result, and may have a value before.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Argument for Out<T> {
    #[inline(always)]
    fn check(&self, name: &'static str) -> Result {
        not_null(self.0.is_null(), name)
    }
}

impl<T> Out<T> {
    /// Where a result is put that C declares otherwise, or that may be NULL in other cases.
    pub fn of(pointer: *mut T, name: &'static str) -> Result<Out<T>> {
        not_null(pointer.is_null(), name)?;
        Ok(Out(pointer))
    }

    #[inline]
    pub fn put(self, value: T) {
        // SAFETY: not NULL (checked), so C promises that it may be written.
        unsafe { self.0.write_unaligned(value) }
    }

    #[inline]
    pub fn get(self) -> T
    where
        T: Copy,
    {
        // SAFETY: not NULL (checked), so C promises that it may be read.
        unsafe { self.0.read_unaligned() }
    }

    pub fn pointer(self) -> *mut T {
        self.0
    }
}

/// The owner is the object that a call frees, which may be none already: 0 is the number of no object.
macro_rules! freed {
    ($($handle:ty => $kind:ident,)*) => {
        $(impl From<Out<$handle>> for Owner {
            fn from(handle: Out<$handle>) -> Owner {
                Owner::new(if handle.0.is_null() { 0 } else { handle.get().id() }, Kind::$kind)
            }
        })*
    };
}

freed! {
    MPI_Comm => Comm,
    MPI_Win => Win,
    MPI_File => File,
    MPI_Session => Session,
}

impl Out<c_int> {
    pub fn put_flag(self, flag: bool) {
        self.put(flag as c_int);
    }
}

/// `const T *`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> Argument for In<T> {
    #[inline(always)]
    fn check(&self, name: &'static str) -> Result {
        not_null(self.0.is_null(), name)
    }
}

impl<T: Copy> In<T> {
    #[inline]
    pub fn get(self) -> T {
        // SAFETY: not NULL (checked), so C promises that it may be read.
        unsafe { self.0.read_unaligned() }
    }
}

/// `const T[]`, as long as another argument says; may be NULL when that is nothing.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Array<T>(*const T);

impl<T> Argument for Array<T> {}

impl<T> Array<T> {
    /// The first `count` elements.
    #[inline]
    pub fn slice<'a>(self, count: usize) -> Result<&'a [T]> {
        match (count, self.0.is_null()) {
            (0, _) => Ok(&[]),
            (_, true) => fail(Class::Arg, format!("an array of {count} elements is NULL")),
            // SAFETY: C promises that there are as many.
            _ => Ok(unsafe { std::slice::from_raw_parts(self.0, count) }),
        }
    }

    pub fn pointer(self) -> *const T {
        self.0
    }

    /// One that is written, for reading.
    pub fn of(array: OutArray<T>) -> Array<T> {
        Array(array.0)
    }
}

/// `T[]`, to be written, as long as another argument says; may be NULL when that is nothing.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct OutArray<T>(*mut T);

impl<T> Argument for OutArray<T> {}

impl<T> OutArray<T> {
    /// The first `count` elements.
    #[inline]
    pub fn slice<'a>(self, count: usize) -> Result<&'a mut [T]> {
        match (count, self.0.is_null()) {
            (0, _) => Ok(&mut []),
            (_, true) => fail(Class::Arg, format!("an array of {count} elements is NULL")),
            // SAFETY: C promises that there are as many, for this call alone.
            _ => Ok(unsafe { std::slice::from_raw_parts_mut(self.0, count) }),
        }
    }

    pub fn pointer(self) -> *mut T {
        self.0
    }
}

/// `const char *`, a string.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Text(*const c_char);

impl Argument for Text {
    #[inline(always)]
    fn check(&self, name: &'static str) -> Result {
        not_null(self.0.is_null(), name)
    }
}

impl Text {
    /// What is no UTF-8 becomes the replacement character.
    pub fn get(self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// As it is, for names of files.
    pub fn bytes(self) -> Vec<u8> {
        // SAFETY: not NULL (checked), so C promises that a zero ends it.
        unsafe { CStr::from_ptr(self.0) }.to_bytes().to_vec()
    }
}

/// `char *`, with room for a string of some length.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct OutText(*mut c_char);

impl Argument for OutText {
    #[inline(always)]
    fn check(&self, name: &'static str) -> Result {
        not_null(self.0.is_null(), name)
    }
}

impl OutText {
    /// Where a string is written that may be NULL in other cases.
    pub fn of(pointer: *mut c_char, name: &'static str) -> Result<OutText> {
        let text = OutText(pointer);
        text.check(name)?;
        Ok(text)
    }

    /// Writes what fits into `room` bytes, a zero at the end, and returns its length without that.
    pub fn put(self, text: &str, room: usize) -> usize {
        let mut length = text.len().min(room.saturating_sub(1));
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        // SAFETY: not NULL (checked), so C promises that there is this room.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), self.0, length);
            self.0.add(length).write(0);
        }
        length
    }
}

/// `MPI_Status *`, where MPI_STATUS_IGNORE takes nothing.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct OutStatus(*mut MPI_Status);

impl Argument for OutStatus {
    #[inline(always)]
    fn check(&self, name: &'static str) -> Result {
        not_null(self.0.is_null() && !self.is_ignored(), name)
    }
}

/// `MPI_Status[]`, to be written, or ignored: may be NULL when there is nothing to be written.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct OutStatuses(*mut MPI_Status);

impl Argument for OutStatuses {}

impl OutStatuses {
    /// The first `count`; None when they are ignored.
    pub fn slice<'a>(self, count: usize) -> Result<Option<&'a mut [MPI_Status]>> {
        let ignored = std::ptr::eq(self.0, abi::address::STATUS_IGNORE);
        if ignored { Ok(None) } else { OutArray(self.0).slice(count).map(Some) }
    }

    /// Fails for NULL where `count` statuses are to be written: to be asked before anything is done.
    pub fn has_room(self, count: usize) -> Result {
        self.slice(count).map(drop)
    }
}

impl OutStatus {
    #[inline]
    pub fn is_ignored(self) -> bool {
        std::ptr::eq(self.0, abi::address::STATUS_IGNORE)
    }

    /// The status that is to be filled; None when it is ignored.
    #[inline]
    pub fn get<'a>(self) -> Option<&'a mut MPI_Status> {
        // SAFETY: not NULL (checked), so C promises that it may be written, for this call alone.
        if self.is_ignored() { None } else { Some(unsafe { &mut *self.0 }) }
    }
}

/// A number that C has as int, MPI_Aint or MPI_Count.
pub trait Number: Copy {
    /// As a count or size that must not be negative.
    fn natural(self, class: Class, name: &str) -> Result<usize>;
    /// As it is.
    fn wide(self) -> i64;
    /// None when it is too large for this type.
    fn narrow(number: i64) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty)*) => { $(impl Number for $type {
        #[inline]
        fn natural(self, class: Class, name: &str) -> Result<usize> {
            match usize::try_from(self) {
                Ok(number) => Ok(number),
                Err(_) => fail(class, format!("{name} is {self}")),
            }
        }

        #[inline]
        fn wide(self) -> i64 {
            self as i64
        }

        #[inline]
        fn narrow(number: i64) -> Option<$type> {
            <$type>::try_from(number).ok()
        }
    })* };
}

numbers! { c_int i64 isize }

/// A count that is an argument.
#[inline]
pub fn count(number: impl Number, name: &str) -> Result<usize> {
    number.natural(Class::Count, name)
}

/// Whether a buffer is MPI_IN_PLACE.
#[inline]
pub fn is_in_place(buffer: *const c_void) -> bool {
    std::ptr::eq(buffer, abi::address::IN_PLACE)
}
