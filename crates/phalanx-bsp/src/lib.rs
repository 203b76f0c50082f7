//! `libphalanx_bsp.so`: BSPlib for C programs (Hill et al., "BSPlib: the BSP programming library", Parallel Computing 24,
//! 1998). Conversions and errors, no logic.

mod process;

use phalanx_mpi::error::{Class, Result, fail};
use phalanx_mpi::operations::collective::Span;
use phalanx_mpi::universe::joining::join;
use process::{alone, begin, end, exit_with, with};
use std::ffi::{CStr, c_char, c_int, c_void};

/// Declares C functions. What their bodies fail with ends the program, and so does a panic.
macro_rules! bsp {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $value:ty)? $body:block)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) $(-> $value)? {
            process::guard(stringify!($name), move || $body)
        })*
    };
}

bsp! {
    fn bsp_init(spmd: Option<extern "C" fn()>, _argc: c_int, _argv: *mut *mut c_char) {
        let world = join()?;
        if world.place() > 0 {
            let Some(spmd) = spmd else { return fail(Class::Arg, "spmd is NULL") };
            spmd();
            std::process::exit(0);
        }
        Ok(())
    }

    fn bsp_begin(maxprocs: c_int) {
        begin(length("maxprocs", maxprocs)? as u32)
    }

    fn bsp_end() {
        end()
    }

    fn bsp_nprocs() -> c_int {
        alone(|bsp| match bsp {
            Some(bsp) => Ok(bsp.nprocs() as c_int),
            None => Ok(join()?.size as c_int),
        })
    }

    fn bsp_pid() -> c_int {
        with(|bsp| Ok(bsp.pid() as c_int))
    }

    fn bsp_time() -> f64 {
        with(|bsp| Ok(bsp.time()))
    }

    fn bsp_sync() {
        with(|bsp| bsp.sync())
    }

    fn bsp_push_reg(area: *mut c_void, nbytes: c_int) {
        let area = span("area", area, nbytes)?;
        with(|bsp| {
            // SAFETY: the program lends its areas; that is what registering means.
            unsafe { bsp.push_reg(area.address, area.span, None) };
            Ok(())
        })
    }

    fn bsp_pop_reg(area: *const c_void) {
        with(|bsp| bsp.pop_reg(area as usize))
    }

    fn bsp_put(pid: c_int, source: *mut c_void, area: *const c_void, offset: c_int, nbytes: c_int) {
        let source = span("source", source, nbytes)?.span;
        // SAFETY: the program's memory, for the time of the call.
        with(|bsp| bsp.put(pid.into(), unsafe { source.bytes() }, area as usize, offset.into()))
    }

    fn bsp_get(pid: c_int, area: *const c_void, offset: c_int, destination: *mut c_void, nbytes: c_int) {
        let into = span("destination", destination, nbytes)?.span;
        // SAFETY: lent until the end of the superstep, as BSPlib says.
        with(|bsp| unsafe { bsp.get(pid.into(), area as usize, offset.into(), into, None) })
    }

    fn bsp_hpput(pid: c_int, source: *mut c_void, area: *const c_void, offset: c_int, nbytes: c_int) {
        let source = span("source", source, nbytes)?.span;
        // SAFETY: as above.
        with(|bsp| unsafe { bsp.hpput(pid.into(), source, area as usize, offset.into(), None) })
    }

    fn bsp_hpget(pid: c_int, area: *const c_void, offset: c_int, destination: *mut c_void, nbytes: c_int) {
        let into = span("destination", destination, nbytes)?.span;
        // SAFETY: as above.
        with(|bsp| unsafe { bsp.hpget(pid.into(), area as usize, offset.into(), into, None) })
    }

    fn bsp_set_tagsize(nbytes: *mut c_int) {
        // SAFETY: NULL, or an int of the program.
        let Some(nbytes) = (unsafe { nbytes.as_mut() }) else { return fail(Class::Arg, "nbytes is NULL") };
        let size = length("*nbytes", *nbytes)?;
        with(|bsp| {
            *nbytes = bsp.set_tagsize(size as u64) as c_int;
            Ok(())
        })
    }

    fn bsp_send(pid: c_int, tag: *mut c_void, payload: *mut c_void, nbytes: c_int) {
        let payload = span("payload", payload, nbytes)?.span;
        with(|bsp| {
            let tag = span("tag", tag, bsp.tagsize() as c_int)?.span;
            // SAFETY: the program's memory, for the time of the call.
            unsafe { bsp.send(pid.into(), tag.bytes(), payload.bytes()) }
        })
    }

    fn bsp_qsize(messages: *mut c_int, nbytes: *mut c_int) {
        with(|bsp| {
            let (count, bytes) = bsp.qsize();
            store(messages, count);
            store(nbytes, bytes);
            Ok(())
        })
    }

    fn bsp_get_tag(nbytes: *mut c_int, tag: *mut c_void) {
        with(|bsp| {
            let Some((first, payload)) = bsp.first() else {
                // SAFETY: NULL, or an int of the program.
                unsafe { nbytes.as_mut() }.into_iter().for_each(|nbytes| *nbytes = -1);
                return Ok(());
            };
            store(nbytes, payload.len());
            copy(first, span("tag", tag, first.len() as c_int)?.span);
            Ok(())
        })
    }

    fn bsp_move(payload: *mut c_void, nbytes: c_int) {
        let into = span("payload", payload, nbytes)?.span;
        with(|bsp| match bsp.take() {
            Some((_, payload)) => {
                copy(payload, into);
                Ok(())
            }
            None => fail(Class::Arg, "the queue is empty: bsp_qsize says how many messages are left"),
        })
    }

    fn bsp_hpmove(tag: *mut *mut c_void, payload: *mut *mut c_void) -> c_int {
        with(|bsp| {
            let Some((its_tag, its_payload)) = bsp.take() else { return Ok(-1) };
            // SAFETY: NULL, or a pointer of the program.
            let (tag, payload) = unsafe { (tag.as_mut(), payload.as_mut()) };
            let (Some(tag), Some(payload)) = (tag, payload) else { return fail(Class::Arg, "tag or payload is NULL") };
            *tag = its_tag.as_ptr().cast_mut().cast();
            *payload = its_payload.as_ptr().cast_mut().cast();
            Ok(its_payload.len().min(c_int::MAX as usize) as c_int)
        })
    }

    fn bsp_set_checkpoint(supersteps: c_int) {
        process::set_checkpoints(length("supersteps", supersteps)? as u32)
    }

    fn bsp_declare(memory: *mut c_void, nbytes: c_int) {
        process::declare(span("memory", memory, nbytes)?.span);
        Ok(())
    }

    fn bsp_checkpoint() -> c_int {
        process::checkpoint().map(c_int::from)
    }

    fn bsp_leave_machine() {
        with(|bsp| bsp.leave_machine())
    }

    fn phalanx_bsp_abort(text: *const c_char) {
        // SAFETY: a string of the header's function.
        let text = if text.is_null() { "".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
        exit_with(text.trim_end())
    }
}

/// Memory of the program, and its address even where nothing is in it.
struct Memory {
    address: usize,
    span: Span,
}

fn span(name: &str, start: *mut c_void, bytes: c_int) -> Result<Memory> {
    let bytes = length("nbytes", bytes)?;
    if bytes > 0 && start.is_null() {
        return fail(Class::Buffer, format!("{name} is NULL, but nbytes is {bytes}"));
    }
    // SAFETY: the program lends it to the call.
    Ok(Memory { address: start as usize, span: unsafe { Span::new(start.cast(), bytes) } })
}

fn length(name: &str, value: c_int) -> Result<usize> {
    usize::try_from(value).or_else(|_| fail(Class::Count, format!("{name} is {value}")))
}

/// As much as there is room for.
fn copy(bytes: &[u8], into: Span) {
    // SAFETY: the program's memory, which is none of the queue's.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.start(), bytes.len().min(into.length())) };
}

fn store(place: *mut c_int, value: usize) {
    // SAFETY: NULL, or an int of the program.
    if let Some(place) = unsafe { place.as_mut() } {
        *place = value.min(c_int::MAX as usize) as c_int;
    }
}
