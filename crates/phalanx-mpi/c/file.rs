//! Files: opened, described, seen, positioned (MPI 5.0, chapter 14). How they are read and written is in `access.rs`.

use super::argument::{MPI_Aint, MPI_Offset, Number, Out, OutText, Text};
use super::datatype::datatype_of;
use super::failure::{Owner, Result, fail};
use crate::abi::{self, MPI_Comm, MPI_Datatype, MPI_File, MPI_Group, MPI_Info, longest};
use phalanx_mpi::constants::*;
use phalanx_mpi::error::{Class, Error};
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::datatype::Datatype;
use phalanx_mpi::objects::errhandler::{self, Kind};
use phalanx_mpi::objects::{group, info};
use phalanx_mpi::operations::file::representation::{self, Extent};
use phalanx_mpi::operations::file::{self, File, From, View};
use phalanx_mpi::process::tasks::Lent;
use phalanx_mpi::process::world::{check_part, world};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The number of a file.
pub fn exists(file: MPI_File) -> Result<u32> {
    known(file)?;
    Ok(file.id())
}

pub fn find(file: MPI_File) -> Result<Arc<File>> {
    check_part()?;
    known(file)
}

/// The file of an argument that is only asked about: by a fork too.
fn known(file: MPI_File) -> Result<Arc<File>> {
    Ok(File::of(file.id())?)
}

/// Whose handler hears of failures where there is no file yet: that of MPI_FILE_NULL.
struct NoFile;

const NO_FILE: NoFile = NoFile;

impl std::convert::From<NoFile> for Owner {
    fn from(_: NoFile) -> Owner {
        Owner::new(MPI_FILE_NULL, Kind::File)
    }
}

/// `MPI_Datarep_extent_function`: the extent of a datatype in files.
type ExtentFunction = unsafe extern "C" fn(MPI_Datatype, *mut MPI_Aint, *mut c_void) -> c_int;

fn extent_of(function: ExtentFunction, state: *mut c_void) -> Extent {
    let state = Lent(state);
    Box::new(move |datatype| {
        let (mut extent, state) = (0, &state);
        // SAFETY: the program gave this function, with its state, for this.
        match unsafe { function(MPI_Datatype::of(datatype), &mut extent, state.0) } {
            0 => Ok(extent),
            code => Err(Error::new(Class::Conversion, format!("dtype_file_extent_fn returned {code}"))),
        }
    })
}

fn from(whence: c_int) -> Result<From> {
    match abi::SEEK.from_c(whence) {
        MPI_SEEK_SET => Ok(From::Start),
        MPI_SEEK_CUR => Ok(From::Current),
        MPI_SEEK_END => Ok(From::End),
        _ => fail(Class::Arg, format!("whence is {whence}")),
    }
}

mpi! {
    fn MPI_File_open(comm: MPI_Comm, filename: Text, amode: c_int, info: MPI_Info, fh: Out<MPI_File>) on NO_FILE {
        let (comm, hints) = (Comm::of(comm.id())?, info::hints(info.id())?);
        let file = file::open(world()?, comm, &file::path(filename.bytes()), abi::FILE_MODE.from_c(amode), &hints)?;
        let handle = file.put()?;
        errhandler::inherit(MPI_FILE_NULL, handle);
        fh.put(MPI_File::of(handle));
    }

    fn MPI_File_close(fh: Out<MPI_File>) on fh {
        let handle = fh.get().id();
        let file = File::take(handle)?;
        fh.put(MPI_File::of(MPI_FILE_NULL));
        errhandler::forget(handle);
        file::close(file)?;
    }

    fn MPI_File_delete(filename: Text, info: MPI_Info) on NO_FILE {
        info::hints(info.id())?;
        file::delete(&file::path(filename.bytes()))?;
    }

    fn MPI_File_set_size(fh: MPI_File, size: MPI_Offset) on fh {
        find(fh)?.set_size(size)?;
    }

    fn MPI_File_preallocate(fh: MPI_File, size: MPI_Offset) on fh {
        find(fh)?.preallocate(size)?;
    }

    fn MPI_File_get_size(fh: MPI_File, size: Out<MPI_Offset>) on fh {
        size.put(MPI_Offset::try_from(known(fh)?.size()?).unwrap_or(MPI_Offset::MAX));
    }

    fn MPI_File_get_group(fh: MPI_File, group: Out<MPI_Group>) on fh {
        group.put(MPI_Group::of(group::put(known(fh)?.comm().group.clone())?));
    }

    fn MPI_File_get_amode(fh: MPI_File, amode: Out<c_int>) on fh {
        amode.put(abi::FILE_MODE.to_c(known(fh)?.amode()));
    }

    fn MPI_File_set_info(fh: MPI_File, info: MPI_Info) on fh {
        find(fh)?.add_hints(&*info::find(info.id())?)?;
    }

    fn MPI_File_get_info(fh: MPI_File, info_used: Out<MPI_Info>) on fh {
        info_used.put(MPI_Info::of(info::put(known(fh)?.hints())?));
    }

    fn MPI_File_set_view(
        fh: MPI_File, disp: MPI_Offset, etype: MPI_Datatype, filetype: MPI_Datatype, datarep: Text, info: MPI_Info,
    ) on fh {
        let (file, hints) = (find(fh)?, info::hints(info.id())?);
        let current = disp == abi::DISPLACEMENT_CURRENT;
        let (etype, filetype) = (Datatype::of(etype.id()), Datatype::of(filetype.id()));
        // What is wrong at one process is told to all.
        file.set_view((!current).then_some(disp), |disp, written| {
            View::new(disp, etype?, filetype?, &datarep.get(), written)
        })?;
        file.add_hints(&hints)?;
    }

    fn MPI_File_get_view(
        fh: MPI_File, disp: Out<MPI_Offset>, etype: Out<MPI_Datatype>, filetype: Out<MPI_Datatype>, datarep: OutText,
    ) on fh {
        let view = known(fh)?.view();
        disp.put(view.displacement);
        let [own_etype, own_filetype] = view.given.clone();
        etype.put(MPI_Datatype::of(own_etype.put()?));
        filetype.put(MPI_Datatype::of(own_filetype.put()?));
        datarep.put(&view.representation, longest::DATAREP);
    }

    large_fn MPI_File_get_type_extent(fh: MPI_File, datatype: MPI_Datatype, extent: Out<Address>) on fh {
        let bytes = known(fh)?.view().in_file(&datatype_of(datatype)?)?.extent();
        match Address::narrow(bytes as i64) {
            Some(bytes) => extent.put(bytes),
            None => return fail(Class::ValueTooLarge, format!("extent is {bytes}")),
        }
    }

    fn MPI_File_get_byte_offset(fh: MPI_File, offset: MPI_Offset, disp: Out<MPI_Offset>) on fh {
        disp.put(known(fh)?.byte_offset(offset)?);
    }

    fn MPI_File_seek(fh: MPI_File, offset: MPI_Offset, whence: c_int) on fh {
        find(fh)?.seek(offset, from(whence)?)?;
    }

    fn MPI_File_get_position(fh: MPI_File, offset: Out<MPI_Offset>) on fh {
        offset.put(known(fh)?.position()?);
    }

    fn MPI_File_seek_shared(fh: MPI_File, offset: MPI_Offset, whence: c_int) on fh {
        find(fh)?.seek_shared(offset, from(whence)?)?;
    }

    fn MPI_File_get_position_shared(fh: MPI_File, offset: Out<MPI_Offset>) on fh {
        offset.put(find(fh)?.shared_position()?);
    }

    fn MPI_File_set_atomicity(fh: MPI_File, flag: c_int) on fh {
        find(fh)?.set_atomic(flag != 0)?;
    }

    fn MPI_File_get_atomicity(fh: MPI_File, flag: Out<c_int>) on fh {
        flag.put_flag(known(fh)?.is_atomic());
    }

    large_fn MPI_Register_datarep(
        datarep: Text, read_conversion_fn: *const c_void, write_conversion_fn: *const c_void,
        dtype_file_extent_fn: Option<ExtentFunction>, extra_state: *mut c_void,
    ) {
        let Some(function) = dtype_file_extent_fn else { return fail(Class::Arg, "dtype_file_extent_fn is NULL") };
        let converted = !read_conversion_fn.is_null() || !write_conversion_fn.is_null();
        representation::register(&datarep.get(), converted, extent_of(function, extra_state))?;
    }

    fn MPI_File_sync(fh: MPI_File) on fh {
        find(fh)?.sync()?;
    }
}
