//! Info objects (MPI 5.0, chapter 10).

use super::argument::{Number, Out, OutText, Text};
use super::failure::Result;
use crate::abi::MPI_Info;
use crate::abi::longest::INFO_KEY;
use phalanx_mpi::constants::MPI_INFO_NULL;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::info::{self, Info};
use std::ffi::{c_char, c_int};

fn value_of(info: MPI_Info, key: Text) -> Result<Option<String>> {
    let (info, key) = (info::find(info.id())?, key.get());
    info::check_key(&key)?;
    Ok(info.get(&key))
}

mpi! {
    early_fn MPI_Info_create(info: Out<MPI_Info>) {
        info.put(MPI_Info::of(info::put(Info::default())?));
    }

    /// What C's main was called with is known without its arguments.
    early_fn MPI_Info_create_env(_argc: c_int, _argv: *const *const c_char, info: Out<MPI_Info>) {
        info.put(MPI_Info::of(info::put(info::environment_at_any_time())?));
    }

    /// Processes are not bound to parts of the hardware: there is nothing to say.
    early_fn MPI_Get_hw_resource_info(hw_info: Out<MPI_Info>) {
        hw_info.put(MPI_Info::of(info::put(Info::default())?));
    }

    early_fn MPI_Info_dup(info: MPI_Info, newinfo: Out<MPI_Info>) {
        newinfo.put(MPI_Info::of(info::put(Info::of(info::find(info.id())?.pairs()))?));
    }

    early_fn MPI_Info_free(info: Out<MPI_Info>) {
        info::free(info.get().id())?;
        info.put(MPI_Info::of(MPI_INFO_NULL));
    }

    early_fn MPI_Info_set(info: MPI_Info, key: Text, value: Text) {
        info::find_own(info.id())?.set(&key.get(), &value.get())?;
    }

    early_fn MPI_Info_delete(info: MPI_Info, key: Text) {
        info::find_own(info.id())?.delete(&key.get())?;
    }

    early_fn MPI_Info_get_nkeys(info: MPI_Info, nkeys: Out<c_int>) {
        nkeys.put(info::find(info.id())?.pairs().len() as c_int);
    }

    early_fn MPI_Info_get_nthkey(info: MPI_Info, n: c_int, key: OutText) {
        let info = info::find(info.id())?;
        key.put(&info.nth_key(n.natural(Class::Arg, "n")?)?, INFO_KEY);
    }

    early_fn MPI_Info_get_valuelen(info: MPI_Info, key: Text, valuelen: Out<c_int>, flag: Out<c_int>) {
        let value = value_of(info, key)?;
        flag.put_flag(value.is_some());
        value.into_iter().for_each(|value| valuelen.put(value.len() as c_int));
    }

    early_fn MPI_Info_get(info: MPI_Info, key: Text, valuelen: c_int, value: OutText, flag: Out<c_int>) {
        let room = valuelen.natural(Class::InfoValue, "valuelen")?;
        let found = value_of(info, key)?;
        flag.put_flag(found.is_some());
        found.into_iter().for_each(|found| { value.put(&found, room.saturating_add(1)); });
    }

    early_fn MPI_Info_get_string(info: MPI_Info, key: Text, buflen: Out<c_int>, value: *mut c_char, flag: Out<c_int>) {
        let room = buflen.get().natural(Class::Arg, "buflen")?;
        let found = value_of(info, key)?;
        flag.put_flag(found.is_some());
        if let Some(found) = found {
            if room > 0 {
                OutText::of(value, "value")?.put(&found, room);
            }
            buflen.put(found.len() as c_int + 1);
        }
    }
}
