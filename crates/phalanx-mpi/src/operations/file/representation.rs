//! How numbers are written in files (MPI 5.0, 14.5).
//!
//! "native" is as in memory, and so is "internal": all processes of a program write numbers in one way. "external32" is
//! the same everywhere. A program may add names of its own for representations that need no conversion; conversion functions
//! are not called.

use crate::constants::MPI_MAX_DATAREP_STRING;
use crate::error::{Class, Result, fail};
use crate::objects::datatype::Datatype;
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex};

/// Big endian, with the standard's own sizes.
pub const EXTERNAL: &str = "external32";
const PREDEFINED: [&str; 3] = ["native", "internal", EXTERNAL];

/// The extent that a datatype has in files, by the program's word; takes its handle.
pub type Extent = Box<dyn Fn(u32) -> Result<isize> + Send + Sync>;

static ADDED: Mutex<Vec<(String, Arc<Extent>)>> = Mutex::new(Vec::new());

/// Adds a representation (MPI_Register_datarep).
pub fn register(name: &str, converted: bool, extent: Extent) -> Result<()> {
    if name.len() >= MPI_MAX_DATAREP_STRING as usize {
        return fail(Class::Arg, format!("datarep has {} bytes, {MPI_MAX_DATAREP_STRING} with its end", name.len()));
    }
    let mut added = lock(&ADDED);
    if PREDEFINED.contains(&name) || added.iter().any(|known| known.0 == name) {
        return fail(Class::DupDatarep, format!("datarep is {name:?}, which is there already"));
    }
    if converted {
        return fail(Class::Conversion, "conversion functions are not supported: only MPI_CONVERSION_FN_NULL is");
    }
    added.push((name.to_string(), Arc::new(extent)));
    Ok(())
}

/// That a file may be seen in it: in one of the program's own, numbers are as large as they are in memory.
pub(super) fn check(name: &str, etype: &Arc<Datatype>) -> Result<()> {
    if PREDEFINED.contains(&name) {
        return Ok(());
    }
    let known = lock(&ADDED).iter().find(|known| known.0 == name).map(|known| known.1.clone());
    let Some(extent) = known else {
        return fail(Class::UnsupportedDatarep, format!("datarep is {name:?}"));
    };
    let there = etype.with_handle(|handle| extent(handle))??;
    match there == etype.extent() {
        true => Ok(()),
        false => fail(Class::UnsupportedDatarep, format!("datarep is {name:?}, where etype has the extent {there}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_added_once_and_sizes_must_be_those_of_memory() {
        let own = |extent: isize| -> Extent { Box::new(move |_| Ok(extent)) };
        register("four", false, own(4)).expect("a new name");
        assert_eq!(register("four", false, own(4)).expect_err("twice").class, Class::DupDatarep);
        assert_eq!(register("native", false, own(4)).expect_err("predefined").class, Class::DupDatarep);
        assert_eq!(register("five", true, own(4)).expect_err("converted").class, Class::Conversion);
        assert_eq!(register(&"x".repeat(128), false, own(4)).expect_err("too long").class, Class::Arg);
        let of = |handle| Datatype::of(handle).expect("predefined");
        assert!(check("four", &of(crate::constants::MPI_INT)).is_ok());
        for (name, etype) in [("four", crate::constants::MPI_DOUBLE), ("other", crate::constants::MPI_INT)] {
            assert_eq!(check(name, &of(etype)).expect_err("not there").class, Class::UnsupportedDatarep);
        }
    }
}
