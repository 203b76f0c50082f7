//! Generalized requests: operations of the program's own that complete as MPI's do (MPI 5.0, 13.2).

use super::argument::Out;
use super::failure::{fail, nobody};
use crate::abi::{self, MPI_Request, MPI_Status};
use phalanx_mpi::constants::MPI_SUCCESS;
use phalanx_mpi::error::{self, Class};
use phalanx_mpi::objects::codes;
use phalanx_mpi::objects::request::{Active, General, Request};
use phalanx_mpi::process::engine::{EMPTY, Status};
use phalanx_mpi::process::world::world;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

type Query = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
/// The same in Fortran, with the error at the end; the numbers of a status stand in an array there as they do here.
type FortranQuery = unsafe extern "C" fn(*mut c_void, *mut MPI_Status, *mut c_int);
type FortranFree = unsafe extern "C" fn(*mut c_void, *mut c_int);
type FortranCancel = unsafe extern "C" fn(*mut c_void, *const c_int, *mut c_int);

/// Those that the program has not completed yet, by their handles.
static UNDER_WAY: Mutex<BTreeMap<u32, Arc<Generalized>>> = Mutex::new(BTreeMap::new());

fn under_way() -> MutexGuard<'static, BTreeMap<u32, Arc<Generalized>>> {
    UNDER_WAY.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

struct Generalized {
    query: Option<Query>,
    free: Option<Free>,
    cancel: Option<Cancel>,
    extra: usize,
    complete: AtomicBool,
    freed: AtomicBool,
    /// Its functions are Fortran's.
    fortran: AtomicBool,
}

impl Generalized {
    fn extra(&self) -> *mut c_void {
        with_exposed_provenance_mut(self.extra)
    }

    fn is_fortran(&self) -> bool {
        self.fortran.load(Ordering::Relaxed)
    }
}

impl General for Generalized {
    fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    fn query(&self) -> error::Result<Status> {
        let mut status = MPI_Status::default();
        (status.source, status.tag) = (abi::RANK.to_c(EMPTY.source), abi::TAG.to_c(EMPTY.tag));
        if let Some(query) = self.query {
            let mut code = MPI_SUCCESS;
            // SAFETY: the program gave this function for this, and said of which language it is.
            unsafe {
                match self.is_fortran() {
                    false => code = query(self.extra(), &mut status),
                    true => transmute::<Query, FortranQuery>(query)(self.extra(), &mut status, &mut code),
                }
            }
            check("query", code)?;
        }
        let (source, tag) = (abi::RANK.from_c(status.source), abi::TAG.from_c(status.tag));
        Ok(Status { source, tag, bytes: status.bytes(), cancelled: status.cancelled(), error: None })
    }

    fn free(&self) -> error::Result<()> {
        let Some(free) = self.free.filter(|_| !self.freed.swap(true, Ordering::AcqRel)) else { return Ok(()) };
        let mut code = MPI_SUCCESS;
        // SAFETY: as above.
        unsafe {
            match self.is_fortran() {
                false => code = free(self.extra()),
                true => transmute::<Free, FortranFree>(free)(self.extra(), &mut code),
            }
        }
        check("free", code)
    }

    fn cancel(&self) -> error::Result<()> {
        let Some(cancel) = self.cancel else { return Ok(()) };
        let (complete, mut code) = (self.is_complete() as c_int, MPI_SUCCESS); // .true. is 1, as gfortran has it
        // SAFETY: as above.
        unsafe {
            match self.is_fortran() {
                false => code = cancel(self.extra(), complete),
                true => transmute::<Cancel, FortranCancel>(cancel)(self.extra(), &complete, &mut code),
            }
        }
        check("cancel", code)
    }
}

/// Nobody will ask for its outcome any more.
impl Drop for Generalized {
    fn drop(&mut self) {
        let _ = General::free(self);
    }
}

/// The request was made by Fortran.
#[allow(dead_code)] // only MPICH's interface has Fortran's functions
pub fn set_fortran(request: MPI_Request) {
    if let Some(own) = under_way().get(&request.id()) {
        own.fortran.store(true, Ordering::Relaxed);
    }
}

fn check(function: &str, code: c_int) -> error::Result<()> {
    if code == MPI_SUCCESS {
        return Ok(());
    }
    let class = codes::class_of(abi::ERROR.from_c(code)).ok();
    let class = Class::ALL.iter().copied().find(|known| class == Some(*known as i32)).unwrap_or(Class::Other);
    let text = format!("the {function} function of a generalized request returned error {code}");
    Err(error::Error { code: Some(abi::ERROR.from_c(code)), ..error::Error::new(class, text) })
}

mpi! {
    fn MPI_Grequest_start(
        query_fn: Option<Query>, free_fn: Option<Free>, cancel_fn: Option<Cancel>, extra_state: *mut c_void,
        request: Out<MPI_Request>,
    ) {
        let extra = extra_state.expose_provenance();
        let [complete, freed, fortran] = [const { AtomicBool::new(false) }; 3];
        let (query, free, cancel) = (query_fn, free_fn, cancel_fn);
        let own = Arc::new(Generalized { query, free, cancel, extra, complete, freed, fortran });
        let handle = Request::put(nobody(), Active::General(own.clone()))?;
        under_way().insert(handle, own);
        request.put(MPI_Request::of(handle));
    }

    fn MPI_Grequest_complete(request: MPI_Request) {
        let Some(own) = under_way().remove(&request.id()) else {
            return fail(Class::Request, "request is no generalized request, or was completed before");
        };
        own.complete.store(true, Ordering::Release);
        world()?.note_completion();
    }
}
