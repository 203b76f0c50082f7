//! One-sided communication (MPI 5.0, chapter 12): windows and their epochs. What is done in them is in `access.rs`.

use super::argument::{MPI_Aint, Number, Out, OutText, Text};
use super::failure::{Result, fail};
use crate::abi::{self, MPI_Comm, MPI_Group, MPI_Info, MPI_Win, longest};
use phalanx_mpi::constants::*;
use phalanx_mpi::error;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::{attribute, errhandler, group, info};
use phalanx_mpi::operations::collective::Call;
use phalanx_mpi::operations::window::{self, Part, Unit, Window, quick};
use phalanx_mpi::process::blocking::block_on_quick;
use phalanx_mpi::process::world::{check_part, world};
use std::ffi::{c_int, c_void};
use std::future::Future;
use std::ptr::with_exposed_provenance_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of a window.
pub fn exists(win: MPI_Win) -> Result<u32> {
    Window::of(win.id())?;
    Ok(win.id())
}

/// The window of an argument that is only asked about: by a fork too.
fn known(win: MPI_Win) -> Result<Arc<Window>> {
    Ok(Window::of(win.id())?)
}

/// The window of an argument.
pub fn find(win: MPI_Win) -> Result<Arc<Window>> {
    check_part()?;
    known(win)
}

/// The value of a predefined attribute: an address.
pub fn attribute(win: MPI_Win, keyval: i32) -> Result<Option<usize>> {
    let window = known(win)?;
    let shown = &window.shown;
    Ok(match keyval {
        MPI_WIN_BASE => Some(window.own().base),
        MPI_WIN_SIZE => Some((&raw const shown.size).expose_provenance()),
        MPI_WIN_DISP_UNIT => Some(shown.unit.as_ptr().expose_provenance()),
        MPI_WIN_CREATE_FLAVOR => {
            shown.flavor.store(abi::FLAVOR.to_c(window.flavor as i32), Ordering::Relaxed);
            Some(shown.flavor.as_ptr().expose_provenance())
        }
        MPI_WIN_MODEL => {
            shown.model.store(abi::MODEL.to_c(MPI_WIN_UNIFIED), Ordering::Relaxed);
            Some(shown.model.as_ptr().expose_provenance())
        }
        _ => None,
    })
}

/// Waits for what a window does.
#[inline]
pub fn done<T>(work: impl Future<Output = error::Result<T>>) -> Result<T> {
    Ok(block_on_quick(world()?, work)?)
}

fn operation(comm: MPI_Comm) -> Result<Call> {
    Ok(Call::new(world()?, Comm::of(comm.id())?))
}

fn put(window: Arc<Window>, win: Out<MPI_Win>) -> Result {
    win.put(MPI_Win::of(window.put_handle()?));
    Ok(())
}

/// In C it is declared as the address of anything; it is that of a pointer.
fn put_base(base: *mut c_void, part: Part) -> Result {
    Out::of(base.cast::<*mut c_void>(), "baseptr")?.put(with_exposed_provenance_mut(part.base));
    Ok(())
}

/// What a program asserts: hints, of which only what would be wrong is refused.
fn assertion(assert: c_int) -> Result<i32> {
    const ALL: i32 = MPI_MODE_NOCHECK | MPI_MODE_NOPRECEDE | MPI_MODE_NOPUT | MPI_MODE_NOSTORE | MPI_MODE_NOSUCCEED;
    match abi::WINDOW_ASSERT.from_c(assert) {
        own if own & !ALL == 0 => Ok(own),
        _ => fail(Class::Assert, format!("assert is {assert}, no combination of MPI_MODE_NOCHECK and its like")),
    }
}

mpi! {
    large_fn MPI_Win_create(
        base: *mut c_void, size: MPI_Aint, disp_unit: Displacement, info: MPI_Info, comm: MPI_Comm, win: Out<MPI_Win>,
    ) on comm {
        let (size, unit) = (size.natural(Class::Size, "size")?, Unit::new(disp_unit.wide())?);
        put(done(window::create(operation(comm)?, base.cast(), size, unit, &*info::hints(info.id())?))?, win)?;
    }

    large_fn MPI_Win_allocate(
        size: MPI_Aint, disp_unit: Displacement, info: MPI_Info, comm: MPI_Comm, baseptr: *mut c_void,
        win: Out<MPI_Win>,
    ) on comm {
        let (size, unit) = (size.natural(Class::Size, "size")?, Unit::new(disp_unit.wide())?);
        let made = done(window::allocate(operation(comm)?, size, unit, &*info::hints(info.id())?))?;
        put_base(baseptr, made.own())?;
        put(made, win)?;
    }

    large_fn MPI_Win_allocate_shared(
        size: MPI_Aint, disp_unit: Displacement, info: MPI_Info, comm: MPI_Comm, baseptr: *mut c_void,
        win: Out<MPI_Win>,
    ) on comm {
        let (size, unit) = (size.natural(Class::Size, "size")?, Unit::new(disp_unit.wide())?);
        let made = done(window::allocate_shared(operation(comm)?, size, unit, &*info::hints(info.id())?))?;
        put_base(baseptr, made.own())?;
        put(made, win)?;
    }

    large_fn MPI_Win_shared_query(
        win: MPI_Win, rank: c_int, size: Out<MPI_Aint>, disp_unit: Out<Displacement>, baseptr: *mut c_void,
    ) on win {
        let part = known(win)?.shared(abi::RANK.from_c(rank))?;
        size.put(part.size as MPI_Aint);
        disp_unit.put(Displacement::narrow(part.unit as i64).unwrap_or(Displacement::MAX));
        // As MPICH: no memory is nowhere, wherever the next rank's begins.
        put_base(baseptr, if part.size == 0 { Part { base: 0, ..part } } else { part })?;
    }

    fn MPI_Win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: Out<MPI_Win>) on comm {
        put(done(window::create_dynamic(operation(comm)?, &*info::hints(info.id())?))?, win)?;
    }

    fn MPI_Win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) on win {
        find(win)?.attach(base.cast(), size.natural(Class::Size, "size")?)?;
    }

    fn MPI_Win_detach(win: MPI_Win, base: *const c_void) on win {
        find(win)?.detach(base.cast())?;
    }

    fn MPI_Win_free(win: Out<MPI_Win>) on win {
        free(win)?;
    }

    fn MPI_Win_get_group(win: MPI_Win, group: Out<MPI_Group>) on win {
        group.put(MPI_Group::of(group::put(known(win)?.group().clone())?));
    }

    fn MPI_Win_set_info(win: MPI_Win, info: MPI_Info) on win {
        find(win)?.set_hints(&*info::find(info.id())?)?;
    }

    fn MPI_Win_get_info(win: MPI_Win, info_used: Out<MPI_Info>) on win {
        info_used.put(MPI_Info::of(info::put(known(win)?.hints())?));
    }

    fn MPI_Win_set_name(win: MPI_Win, win_name: Text) on win {
        known(win)?.set_name(&win_name.get());
    }

    fn MPI_Win_get_name(win: MPI_Win, win_name: OutText, resultlen: Out<c_int>) on win {
        let name = match win.id() {
            MPI_WIN_NULL => "MPI_WIN_NULL".to_string(),
            _ => known(win)?.name(),
        };
        resultlen.put(win_name.put(&name, longest::OBJECT_NAME) as c_int);
    }

    fn MPI_Win_fence(assert: c_int, win: MPI_Win) on win {
        let assert = assertion(assert)?;
        match quick::fence_all(assert, win.id()) {
            Some(met) => met?,
            None => done(find(win)?.fence(assert))?,
        }
    }

    fn MPI_Win_start(group: MPI_Group, assert: c_int, win: MPI_Win) on win {
        assertion(assert)?;
        find(win)?.start(&*group::find(group.id())?)?;
    }

    fn MPI_Win_complete(win: MPI_Win) on win {
        done(find(win)?.complete())?;
    }

    fn MPI_Win_post(group: MPI_Group, assert: c_int, win: MPI_Win) on win {
        assertion(assert)?;
        find(win)?.post(&*group::find(group.id())?)?;
    }

    fn MPI_Win_wait(win: MPI_Win) on win {
        done(find(win)?.wait())?;
    }

    fn MPI_Win_test(win: MPI_Win, flag: Out<c_int>) on win {
        world()?.progress();
        flag.put_flag(find(win)?.test()?);
    }

    fn MPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) on win {
        assertion(assert)?;
        let exclusive = match abi::LOCK.from_c(lock_type) {
            MPI_LOCK_EXCLUSIVE => true,
            MPI_LOCK_SHARED => false,
            _ => return fail(Class::Locktype, format!("lock_type is {lock_type}")),
        };
        if !quick::lock(exclusive, abi::RANK.from_c(rank), win.id()) {
            done(find(win)?.lock(exclusive, abi::RANK.from_c(rank)))?;
        }
    }

    fn MPI_Win_lock_all(assert: c_int, win: MPI_Win) on win {
        assertion(assert)?;
        done(find(win)?.lock_all())?;
    }

    fn MPI_Win_unlock(rank: c_int, win: MPI_Win) on win {
        if !quick::unlock(abi::RANK.from_c(rank), win.id()) {
            done(find(win)?.unlock(abi::RANK.from_c(rank)))?;
        }
    }

    fn MPI_Win_unlock_all(win: MPI_Win) on win {
        done(find(win)?.unlock_all())?;
    }

    fn MPI_Win_flush(rank: c_int, win: MPI_Win) on win {
        let rank = abi::RANK.from_c(rank);
        if !quick::flush(rank, win.id()) {
            done(find(win)?.flush(rank))?;
        }
    }

    fn MPI_Win_flush_all(win: MPI_Win) on win {
        done(find(win)?.flush_all())?;
    }

    fn MPI_Win_flush_local(rank: c_int, win: MPI_Win) on win {
        let rank = abi::RANK.from_c(rank);
        if !quick::flush(rank, win.id()) {
            done(find(win)?.flush(rank))?;
        }
    }

    fn MPI_Win_flush_local_all(win: MPI_Win) on win {
        done(find(win)?.flush_all())?;
    }

    fn MPI_Win_sync(win: MPI_Win) on win {
        find(win)?.sync();
    }
}

fn free(win: Out<MPI_Win>) -> Result {
    let (handle, window) = (win.get().id(), find(win.get())?);
    window.check_close()?;
    attribute::delete_all(handle)?;
    done(window.close())?;
    Window::forget(handle);
    errhandler::forget(handle);
    win.put(MPI_Win::of(MPI_WIN_NULL));
    Ok(())
}
