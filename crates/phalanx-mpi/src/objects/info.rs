//! Info objects: hints, as keys and values in the order in which they were set (MPI 5.0, chapter 10).

use crate::constants::*;
use crate::error::{Class, Error, Result, fail};
use crate::objects::environment::processor_name;
use crate::objects::handle::Table;
use crate::process::life;
use crate::process::world::known;
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex, OnceLock};

/// Handles' kind; see [`crate::objects::handle`].
const KIND: u32 = 5;
static MADE: Table<Info> = Table::new(KIND);
/// Longest keys and values, without the zero at their end.
const LONGEST_KEY: usize = MPI_MAX_INFO_KEY as usize - 1;
const LONGEST_VALUE: usize = MPI_MAX_INFO_VAL as usize - 1;

/// See the module.
#[derive(Debug, Default)]
pub struct Info {
    pairs: Mutex<Vec<(String, String)>>,
}

impl Info {
    /// Of pairs that are in order.
    pub fn of(pairs: impl IntoIterator<Item = (String, String)>) -> Info {
        Info { pairs: Mutex::new(pairs.into_iter().collect()) }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<String> {
        lock(&self.pairs).iter().find(|pair| pair.0 == key).map(|pair| pair.1.clone())
    }

    /// Sets the value of a key.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        check_key(key)?;
        if value.len() > LONGEST_VALUE {
            return fail(Class::InfoValue, format!("value has {} bytes, more than {LONGEST_VALUE}", value.len()));
        }
        let mut pairs = lock(&self.pairs);
        match pairs.iter_mut().find(|pair| pair.0 == key) {
            Some(pair) => pair.1 = value.to_string(),
            None => pairs.push((key.to_string(), value.to_string())),
        }
        Ok(())
    }

    /// Removes a key.
    pub fn delete(&self, key: &str) -> Result<()> {
        check_key(key)?;
        let mut pairs = lock(&self.pairs);
        match pairs.iter().position(|pair| pair.0 == key) {
            Some(index) => {
                pairs.remove(index);
                Ok(())
            }
            None => fail(Class::InfoNokey, format!("info has no key {key:?}")),
        }
    }

    /// All keys and their values, in the order in which the keys were first set.
    pub fn pairs(&self) -> Vec<(String, String)> {
        lock(&self.pairs).clone()
    }

    /// The pairs that mean something: the standard's assertions, our own, and these keys. All others are ignored, which
    /// programs see when they ask for the hints of an object.
    pub fn known(&self, keys: &[&str]) -> Vec<(String, String)> {
        let is_known = |key: &str| key.starts_with("mpi_") || key.starts_with("phalanx_") || keys.contains(&key);
        self.pairs().into_iter().filter(|(key, _)| is_known(key)).collect()
    }

    /// The key at a place.
    pub fn nth_key(&self, n: usize) -> Result<String> {
        let pairs = lock(&self.pairs);
        match pairs.get(n) {
            Some(pair) => Ok(pair.0.clone()),
            None => fail(Class::Arg, format!("n is {n}, but info has {} keys", pairs.len())),
        }
    }
}

/// What a key must be, there or not.
pub fn check_key(key: &str) -> Result<()> {
    match key.len() {
        0 => fail(Class::InfoKey, "key is empty"),
        1..=LONGEST_KEY => Ok(()),
        length => fail(Class::InfoKey, format!("key has {length} bytes, more than {LONGEST_KEY}")),
    }
}

/// A handle for a new object.
pub fn put(info: Info) -> Result<u32> {
    MADE.put(Arc::new(info)).ok_or_else(|| Error::new(Class::NoMem, "too many info objects"))
}

/// The object with this handle.
pub fn find(handle: u32) -> Result<Arc<Info>> {
    match handle {
        MPI_INFO_NULL => fail(Class::Info, "info is MPI_INFO_NULL"),
        MPI_INFO_ENV => Ok(environment()),
        _ => match MADE.get(handle) {
            Some(info) => Ok(info),
            None => fail(Class::Info, format!("info {handle:#x} does not exist, or was freed")),
        },
    }
}

/// The hints that a call is given, where MPI_INFO_NULL is none.
pub fn hints(handle: u32) -> Result<Arc<Info>> {
    if handle == MPI_INFO_NULL { Ok(Arc::default()) } else { find(handle) }
}

/// An object that a program may change.
pub fn find_own(handle: u32) -> Result<Arc<Info>> {
    match handle {
        MPI_INFO_ENV => fail(Class::Info, "info is MPI_INFO_ENV, which cannot be changed"),
        _ => find(handle),
    }
}

/// Frees the handle.
pub fn free(handle: u32) -> Result<()> {
    find_own(handle)?;
    MADE.take(handle);
    Ok(())
}

/// How this process was started (MPI_INFO_ENV; MPI 5.0, 11.2.1): what is known of it.
pub fn environment() -> Arc<Info> {
    static ENVIRONMENT: OnceLock<Arc<Info>> = OnceLock::new();
    match life::is_begun() {
        true => ENVIRONMENT.get_or_init(|| Arc::new(started())).clone(),
        false => Arc::new(started()), // more is known later
    }
}

/// The same, of what is known before and after MPI runs too (MPI_Info_create_env).
pub fn environment_at_any_time() -> Info {
    let always = |pair: &(String, String)| !matches!(pair.0.as_str(), "maxprocs" | "thread_level");
    Info::of(started().pairs().into_iter().filter(always))
}

fn started() -> Info {
    let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let command = arguments.next();
    let argv: Vec<String> = arguments.collect();
    let folder = std::env::current_dir().ok().map(|folder| folder.to_string_lossy().into_owned());
    let level = match life::thread_level() {
        MPI_THREAD_SINGLE => "MPI_THREAD_SINGLE",
        MPI_THREAD_FUNNELED => "MPI_THREAD_FUNNELED",
        MPI_THREAD_SERIALIZED => "MPI_THREAD_SERIALIZED",
        _ => "MPI_THREAD_MULTIPLE",
    };
    let known = [
        ("command", command),
        ("argv", Some(argv.join(" "))),
        ("maxprocs", known().ok().map(|world| world.size.to_string())),
        ("host", Some(processor_name())),
        ("arch", Some(std::env::consts::ARCH.to_string())),
        ("wdir", folder),
        ("thread_level", Some(level.to_string())),
    ];
    let fits = |value: &String| !value.is_empty() && value.len() <= LONGEST_VALUE;
    Info::of(known.into_iter().filter_map(|(key, value)| Some((key.to_string(), value.filter(fits)?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_their_last_value() {
        let info = Info::default();
        for (key, value) in [("b", "1"), ("a", "2"), ("b", "3")] {
            info.set(key, value).expect("they are short");
        }
        assert_eq!((info.nth_key(0), info.get("b")), (Ok("b".to_string()), Some("3".to_string())));
        info.delete("b").expect("it is there");
        assert_eq!(info.delete("b").expect_err("it is gone").class, Class::InfoNokey);
        assert_eq!(info.nth_key(1).expect_err("there is one").class, Class::Arg);
    }

    #[test]
    fn long_keys_and_values_are_refused() {
        let info = Info::default();
        assert_eq!(info.set(&"k".repeat(256), "").expect_err("too long").class, Class::InfoKey);
        assert_eq!(info.set("", "").expect_err("empty").class, Class::InfoKey);
        assert_eq!(info.set("k", &"v".repeat(1024)).expect_err("too long").class, Class::InfoValue);
        assert!(info.set(&"k".repeat(255), &"v".repeat(1023)).is_ok());
    }

    #[test]
    fn predefined_objects_stay() {
        assert_eq!(free(MPI_INFO_ENV).expect_err("predefined").class, Class::Info);
        assert_eq!(find(MPI_INFO_NULL).expect_err("none").class, Class::Info);
        assert!(hints(MPI_INFO_NULL).expect("no hints").pairs().is_empty());
        assert!(find(MPI_INFO_ENV).expect("it is there").get("thread_level").is_some());
    }
}
