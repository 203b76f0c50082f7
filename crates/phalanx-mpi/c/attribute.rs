//! Attributes (MPI 5.0, 7.7).

use super::argument::Out;
use super::failure::Result;
use crate::abi::{self, MPI_Comm, MPI_Datatype, MPI_Win};
use phalanx_mpi::constants::*;
use phalanx_mpi::error;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::attribute::{self, Copy as CopyAttribute, Delete, Kind, Value};
use phalanx_mpi::objects::codes;
use phalanx_mpi::objects::comm::{Comm, TAG_MOST};
use phalanx_mpi::objects::datatype::Datatype;
use phalanx_mpi::process::world::known;
use phalanx_mpi::universe::parents::universe_size;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// `MPI_Comm_copy_attr_function *`: NULL copies nothing, and one address stands for a plain copy.
type Copying<T> = Option<unsafe extern "C" fn(T, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int>;
/// `MPI_Comm_delete_attr_function *`; NULL does nothing.
type Deleting<T> = Option<unsafe extern "C" fn(T, c_int, *mut c_void, *mut c_void) -> c_int>;

/// Calls a copy function of another language: that, object, keyval, extra state, kind of the value, value, copy, flag.
pub type CopyProxy = unsafe extern "C" fn(
    *const c_void,
    c_int,
    c_int,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
) -> c_int;
/// The same for a delete function: that, object, keyval, kind of the value, value, extra state.
pub type DeleteProxy = unsafe extern "C" fn(*const c_void, c_int, c_int, c_int, *mut c_void, *mut c_void) -> c_int;

/// How functions of keys that another language has made are called.
#[derive(Clone, Copy)]
pub struct Proxy {
    pub copy: CopyProxy,
    pub delete: DeleteProxy,
}

/// By keyval.
static PROXIES: Mutex<BTreeMap<i32, Proxy>> = Mutex::new(BTreeMap::new());
/// Among the kinds of values that a proxy knows this is a number as wide as an address.
const NUMBER: c_int = 1;

fn proxies() -> MutexGuard<'static, BTreeMap<i32, Proxy>> {
    PROXIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Functions of this key are called by this.
#[allow(dead_code)] // only MPICH's interface has Fortran's functions
pub fn set_proxy(keyval: c_int, proxy: Proxy) {
    proxies().insert(abi::KEYVAL.from_c(keyval), proxy);
}

/// An object that may have attributes: whether it exists.
pub trait Attributed: Copy + 'static {
    const KIND: Kind;
    fn of(id: u32) -> Self;
    fn exists(self) -> Result<u32>;
    /// The handle for Fortran.
    fn integer(self) -> c_int;
    /// The value of a predefined attribute: an address.
    fn predefined(self, _keyval: i32) -> Result<Option<usize>> {
        Ok(None)
    }
}

impl Attributed for MPI_Comm {
    const KIND: Kind = Kind::Comm;

    fn of(id: u32) -> MPI_Comm {
        MPI_Comm::of(id)
    }

    fn integer(self) -> c_int {
        MPI_Comm::integer(self)
    }

    fn exists(self) -> Result<u32> {
        Comm::of(self.id())?;
        Ok(self.id())
    }

    fn predefined(self, keyval: i32) -> Result<Option<usize>> {
        Ok(match keyval {
            MPI_TAG_UB => Some(address(&NUMBERS.tag_most)),
            MPI_IO => Some(address(&NUMBERS.any_source)),
            MPI_HOST => Some(address(&NUMBERS.proc_null)),
            MPI_WTIME_IS_GLOBAL => Some(address(&NUMBERS.zero)),
            MPI_UNIVERSE_SIZE => Some(address(&NUMBERS.universe)),
            MPI_LASTUSEDCODE => {
                NUMBERS.last_used.store(abi::ERROR.to_c(codes::last_used()), Ordering::Relaxed);
                Some(address(&NUMBERS.last_used))
            }
            MPI_APPNUM => known()?.app.is_some().then(|| address(&NUMBERS.app)),
            _ => None,
        })
    }
}

impl Attributed for MPI_Datatype {
    const KIND: Kind = Kind::Type;

    fn of(id: u32) -> MPI_Datatype {
        MPI_Datatype::of(id)
    }

    fn integer(self) -> c_int {
        MPI_Datatype::integer(self)
    }

    fn exists(self) -> Result<u32> {
        Datatype::of(self.id())?;
        Ok(self.id())
    }
}

impl Attributed for MPI_Win {
    const KIND: Kind = Kind::Win;

    fn of(id: u32) -> MPI_Win {
        MPI_Win::of(id)
    }

    fn integer(self) -> c_int {
        MPI_Win::integer(self)
    }

    fn exists(self) -> Result<u32> {
        super::window::exists(self)
    }

    fn predefined(self, keyval: i32) -> Result<Option<usize>> {
        super::window::attribute(self, keyval)
    }
}

/// To what predefined attributes point.
struct PredefinedNumbers {
    tag_most: AtomicI32,
    any_source: AtomicI32,
    proc_null: AtomicI32,
    zero: AtomicI32,
    /// How many processes there may be at a time, each with a core or a place of its own.
    universe: AtomicI32,
    app: AtomicI32,
    last_used: AtomicI32,
}

static NUMBERS: LazyLock<PredefinedNumbers> = LazyLock::new(|| PredefinedNumbers {
    tag_most: AtomicI32::new(TAG_MOST),
    any_source: AtomicI32::new(abi::RANK.to_c(MPI_ANY_SOURCE)),
    proc_null: AtomicI32::new(abi::RANK.to_c(MPI_PROC_NULL)),
    zero: AtomicI32::new(0),
    universe: AtomicI32::new(known().map_or(1, |world| universe_size(world) as i32)),
    app: AtomicI32::new(known().ok().and_then(|world| world.app).unwrap_or(0) as i32),
    last_used: AtomicI32::new(0),
});

fn address(number: &'static AtomicI32) -> usize {
    number.as_ptr().expose_provenance()
}

fn create<T: Attributed>(copy: Copying<T>, delete: Deleting<T>, extra: *mut c_void) -> Result<c_int> {
    let extra = extra.expose_provenance();
    let copies = copy.is_some_and(|copy| std::ptr::eq(copy as *const c_void, abi::address::DUP_FN));
    let copy: CopyAttribute = Box::new(move |object, keyval, value| {
        let Some(copy) = copy.filter(|_| !copies) else { return Ok(copies.then(|| value.copied())) };
        let (mut copied, mut flag): (*mut c_void, c_int) = (std::ptr::null_mut(), 0);
        let (proxy, keyval) = (proxies().get(&keyval).copied(), abi::KEYVAL.to_c(keyval));
        let (extra, given) = (with_exposed_provenance_mut(extra), argument(value, proxy.is_some()));
        // SAFETY: the program gave this function for this, and its language the proxy.
        let code = unsafe {
            match proxy {
                None => copy(T::of(object), keyval, extra, given, (&raw mut copied).cast(), &mut flag),
                Some(proxy) => {
                    let (copy, object) = (copy as *const c_void, T::of(object).integer());
                    (proxy.copy)(copy, object, keyval, extra, NUMBER, given, &mut copied, &mut flag)
                }
            }
        };
        if code == MPI_SUCCESS {
            let number = copied.expose_provenance();
            let new = || match proxy {
                Some(_) => value.of_kind(number as isize),
                None if number == value.address() => value.copied(), // the original's number ends with it
                None => Value::Address(number),
            };
            Ok((flag != 0).then(new))
        } else {
            Err(abi::ERROR.from_c(code))
        }
    });
    let delete: Delete = Box::new(move |object, keyval, value| {
        let Some(delete) = delete else { return Ok(()) };
        let (proxy, keyval) = (proxies().get(&keyval).copied(), abi::KEYVAL.to_c(keyval));
        let (extra, value) = (with_exposed_provenance_mut(extra), argument(value, proxy.is_some()));
        // SAFETY: the program gave this function for this, and its language the proxy.
        let code = unsafe {
            match proxy {
                None => delete(T::of(object), keyval, value, extra),
                Some(proxy) => {
                    let (delete, object) = (delete as *const c_void, T::of(object).integer());
                    (proxy.delete)(delete, object, keyval, NUMBER, value, extra)
                }
            }
        };
        if code == MPI_SUCCESS { Ok(()) } else { Err(abi::ERROR.from_c(code)) }
    });
    Ok(abi::KEYVAL.to_c(attribute::create(T::KIND, copy, delete)?))
}

/// A value as a program's function gets it: in Fortran, as a number.
fn argument(value: &Value, in_fortran: bool) -> *mut c_void {
    with_exposed_provenance_mut(if in_fortran { value.number() as usize } else { value.address() })
}

fn free(kind: Kind, keyval: Out<c_int>) -> Result {
    let number = keyval.get();
    check_own(number)?;
    attribute::free(kind, abi::KEYVAL.from_c(number))?;
    keyval.put(abi::KEYVAL_INVALID);
    Ok(())
}

/// Predefined attributes cannot be changed.
fn check_own(keyval: c_int) -> error::Result<()> {
    let own = abi::KEYVAL.from_c(keyval);
    match own {
        MPI_TAG_UB..=MPI_UNIVERSE_SIZE | MPI_WIN_BASE..=MPI_WIN_MODEL => {
            error::fail(Class::Keyval, "keyval is predefined, and cannot be changed")
        }
        MPI_KEYVAL_INVALID => error::fail(Class::Keyval, "keyval is MPI_KEYVAL_INVALID"),
        _ => Ok(()),
    }
}

pub fn set<T: Attributed>(object: T, keyval: c_int, value: Value) -> Result {
    check_own(keyval)?;
    let object = object.exists()?;
    Ok(attribute::set(object, T::KIND, abi::KEYVAL.from_c(keyval), value)?)
}

fn set_address<T: Attributed>(object: T, keyval: c_int, value: *mut c_void) -> Result {
    set(object, keyval, Value::Address(value.expose_provenance()))
}

/// The value of an attribute; of a predefined one that is the address of a number, but for MPI_WIN_BASE.
fn find<T: Attributed>(object: T, keyval: c_int) -> Result<Option<Value>> {
    let id = object.exists()?;
    let keyval = abi::KEYVAL.from_c(keyval);
    Ok(match keyval {
        MPI_TAG_UB..=MPI_UNIVERSE_SIZE | MPI_WIN_BASE..=MPI_WIN_MODEL => object.predefined(keyval)?.map(Value::Address),
        _ => attribute::get(id, T::KIND, keyval)?,
    })
}

/// The same for Fortran, which gets numbers (MPI 5.0, 19.3.7).
#[allow(dead_code)] // only MPICH's interface has Fortran's functions
pub fn find_number<T: Attributed>(object: T, keyval: c_int) -> Result<Option<isize>> {
    let found = find(object, keyval)?;
    Ok(found.map(|value| match abi::KEYVAL.from_c(keyval) {
        // SAFETY: these are addresses of such numbers, which live as long as the library or the window.
        MPI_WIN_SIZE => unsafe { *with_exposed_provenance::<isize>(value.address()) },
        // SAFETY: the same.
        MPI_TAG_UB..=MPI_UNIVERSE_SIZE | MPI_WIN_DISP_UNIT..=MPI_WIN_MODEL => unsafe {
            *with_exposed_provenance::<c_int>(value.address()) as isize
        },
        _ => value.number(),
    }))
}

fn get<T: Attributed>(object: T, keyval: c_int, value: *mut c_void, flag: Out<c_int>) -> Result {
    let found = find(object, keyval)?;
    flag.put_flag(found.is_some());
    if let Some(found) = found {
        // In C it is declared as the address of anything; it is that of a pointer.
        Out::of(value.cast::<*const c_void>(), "attribute_val")?.put(with_exposed_provenance(found.address()));
    }
    Ok(())
}

fn delete<T: Attributed>(object: T, keyval: c_int) -> Result {
    check_own(keyval)?;
    Ok(attribute::delete(object.exists()?, T::KIND, abi::KEYVAL.from_c(keyval))?)
}

mpi! {
    fn MPI_Comm_create_keyval(
        comm_copy_attr_fn: Copying<MPI_Comm>, comm_delete_attr_fn: Deleting<MPI_Comm>, comm_keyval: Out<c_int>,
        extra_state: *mut c_void,
    ) {
        comm_keyval.put(create(comm_copy_attr_fn, comm_delete_attr_fn, extra_state)?);
    }

    fn MPI_Type_create_keyval(
        type_copy_attr_fn: Copying<MPI_Datatype>, type_delete_attr_fn: Deleting<MPI_Datatype>, type_keyval: Out<c_int>,
        extra_state: *mut c_void,
    ) {
        type_keyval.put(create(type_copy_attr_fn, type_delete_attr_fn, extra_state)?);
    }

    fn MPI_Win_create_keyval(
        win_copy_attr_fn: Copying<MPI_Win>, win_delete_attr_fn: Deleting<MPI_Win>, win_keyval: Out<c_int>,
        extra_state: *mut c_void,
    ) {
        win_keyval.put(create(win_copy_attr_fn, win_delete_attr_fn, extra_state)?);
    }

    fn MPI_Comm_free_keyval(comm_keyval: Out<c_int>) {
        free(Kind::Comm, comm_keyval)?;
    }

    fn MPI_Type_free_keyval(type_keyval: Out<c_int>) {
        free(Kind::Type, type_keyval)?;
    }

    fn MPI_Win_free_keyval(win_keyval: Out<c_int>) {
        free(Kind::Win, win_keyval)?;
    }

    fn MPI_Comm_set_attr(comm: MPI_Comm, comm_keyval: c_int, attribute_val: *mut c_void) on comm {
        set_address(comm, comm_keyval, attribute_val)?;
    }

    fn MPI_Type_set_attr(datatype: MPI_Datatype, type_keyval: c_int, attribute_val: *mut c_void) {
        set_address(datatype, type_keyval, attribute_val)?;
    }

    fn MPI_Win_set_attr(win: MPI_Win, win_keyval: c_int, attribute_val: *mut c_void) on win {
        set_address(win, win_keyval, attribute_val)?;
    }

    fn MPI_Comm_get_attr(comm: MPI_Comm, comm_keyval: c_int, attribute_val: *mut c_void, flag: Out<c_int>) on comm {
        get(comm, comm_keyval, attribute_val, flag)?;
    }

    fn MPI_Type_get_attr(datatype: MPI_Datatype, type_keyval: c_int, attribute_val: *mut c_void, flag: Out<c_int>) {
        get(datatype, type_keyval, attribute_val, flag)?;
    }

    fn MPI_Win_get_attr(win: MPI_Win, win_keyval: c_int, attribute_val: *mut c_void, flag: Out<c_int>) on win {
        get(win, win_keyval, attribute_val, flag)?;
    }

    fn MPI_Comm_delete_attr(comm: MPI_Comm, comm_keyval: c_int) on comm {
        delete(comm, comm_keyval)?;
    }

    fn MPI_Type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) {
        delete(datatype, type_keyval)?;
    }

    fn MPI_Win_delete_attr(win: MPI_Win, win_keyval: c_int) on win {
        delete(win, win_keyval)?;
    }

    // The names of MPI 1.
    fn MPI_Keyval_create(
        copy_fn: Copying<MPI_Comm>, delete_fn: Deleting<MPI_Comm>, keyval: Out<c_int>, extra_state: *mut c_void,
    ) {
        keyval.put(create(copy_fn, delete_fn, extra_state)?);
    }

    fn MPI_Keyval_free(keyval: Out<c_int>) {
        free(Kind::Comm, keyval)?;
    }

    fn MPI_Attr_put(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void) on comm {
        set_address(comm, keyval, attribute_val)?;
    }

    fn MPI_Attr_get(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void, flag: Out<c_int>) on comm {
        get(comm, keyval, attribute_val, flag)?;
    }

    fn MPI_Attr_delete(comm: MPI_Comm, keyval: c_int) on comm {
        delete(comm, keyval)?;
    }
}
