//! Error codes: what C functions return, and what `MPI_Error_class` and `MPI_Error_string` say of them.
//!
//! A code has its class in the lowest seven bits. Above them is the place of the message that came with it, among the
//! latest ones, so that a program that prints the string of a code reads what was wrong and where. Programs add classes
//! and codes of their own, above MPI_ERR_LASTCODE.

use crate::constants::*;
use crate::error::{Class, Error, Result, fail};
use phalanx_net::sync::lock;
use std::sync::Mutex;

const CLASS_BITS: u32 = 7;
const CLASS_MASK: i32 = (1 << CLASS_BITS) - 1;
/// Codes with a message stay below MPI_ERR_LASTCODE.
const MESSAGES: usize = 1 << 7;
/// A program's own codes begin here.
const FIRST_ADDED: i32 = MPI_ERR_LASTCODE + 1;
const MOST_ADDED: usize = 1 << 20;

static LATEST: Mutex<Latest> = Mutex::new(Latest { messages: Vec::new(), next: 1 });
static ADDED: Mutex<Vec<Option<Added>>> = Mutex::new(Vec::new());

struct Latest {
    /// The first one is never used.
    messages: Vec<(Class, String)>,
    next: usize,
}

/// A class that is a program's own, or a code of a class.
struct Added {
    /// None for a class.
    class: Option<i32>,
    text: Option<String>,
}

/// A code for an error of a call: that of the program's own function, if one has failed.
pub fn code_of(error: &Error, call: &str) -> i32 {
    if let Some(code) = error.code {
        return code;
    }
    let text = format!("{call}: {} ({})", error.text, error.class.constant());
    let mut latest = lock(&LATEST);
    if latest.messages.is_empty() {
        latest.messages.resize(MESSAGES, (Class::Unknown, String::new()));
    }
    let place = latest.next;
    latest.messages[place] = (error.class, text);
    latest.next = if place + 1 < MESSAGES { place + 1 } else { 1 };
    error.class as i32 | (place << CLASS_BITS) as i32
}

/// The class of a code (MPI_Error_class).
pub fn class_of(code: i32) -> Result<i32> {
    match code {
        MPI_SUCCESS => Ok(code),
        FIRST_ADDED.. => with_added(code, |added| added.class.unwrap_or(code)),
        _ if tool_words(code).is_some() => Ok(code),
        _ => match known(code & CLASS_MASK) {
            Some(class) if code > 0 => Ok(class as i32),
            _ => fail(Class::Arg, format!("errorcode {code} is none")),
        },
    }
}

/// What a code means, in words (MPI_Error_string).
pub fn text_of(code: i32) -> Result<String> {
    match code {
        MPI_SUCCESS => Ok("no error".to_string()),
        FIRST_ADDED.. => with_added(code, |added| added.text.clone().unwrap_or_default()),
        _ => Ok(match tool_words(code) {
            Some(words) => words.to_string(),
            None => message(code, class_of(code)?),
        }),
    }
}

fn message(code: i32, class: i32) -> String {
    let place = (code >> CLASS_BITS) as usize;
    match lock(&LATEST).messages.get(place) {
        Some((of, text)) if place > 0 && *of as i32 == class => text.clone(),
        _ => known(class).map_or(String::new(), |class| format!("{}: {}", class.constant(), class.words())),
    }
}

fn known(class: i32) -> Option<Class> {
    Class::ALL.iter().copied().find(|known| *known as i32 == class)
}

/// The highest code that is in use (the attribute MPI_LASTUSEDCODE).
pub fn last_used() -> i32 {
    MPI_ERR_LASTCODE + lock(&ADDED).len() as i32
}

/// A new class (MPI_Add_error_class).
pub fn add_class() -> Result<i32> {
    add(None)
}

/// A new code of a class (MPI_Add_error_code).
pub fn add_code(class: i32) -> Result<i32> {
    if class_of(class).ok() != Some(class) {
        return fail(Class::Arg, format!("errorclass {class} is none"));
    }
    add(Some(class))
}

fn add(class: Option<i32>) -> Result<i32> {
    let mut added = lock(&ADDED);
    if added.len() == MOST_ADDED {
        return fail(Class::NoMem, "too many error classes and codes were added");
    }
    added.push(Some(Added { class, text: None }));
    Ok(MPI_ERR_LASTCODE + added.len() as i32)
}

/// The words of a class or code that was added (MPI_Add_error_string); None takes them away.
pub fn set_text(code: i32, text: Option<String>) -> Result<()> {
    with_added(code, |added| added.text = text)
}

/// MPI_Remove_error_class.
pub fn remove_class(class: i32) -> Result<()> {
    if with_added(class, |added| added.class.is_some())? {
        return fail(Class::Arg, format!("errorclass {class} is a code"));
    }
    if lock(&ADDED).iter().flatten().any(|added| added.class == Some(class)) {
        return fail(Class::Arg, format!("errorclass {class} still has codes"));
    }
    remove(class)
}

/// MPI_Remove_error_code.
pub fn remove_code(code: i32) -> Result<()> {
    if with_added(code, |added| added.class.is_none())? {
        return fail(Class::Arg, format!("errorcode {code} is a class"));
    }
    remove(code)
}

fn remove(code: i32) -> Result<()> {
    if with_added(code, |added| added.text.is_some())? {
        return fail(Class::Arg, format!("{code} still has a string: MPI_Remove_error_string takes it away"));
    }
    let mut added = lock(&ADDED);
    added[(code - FIRST_ADDED) as usize] = None;
    while added.last().is_some_and(Option::is_none) {
        added.pop();
    }
    Ok(())
}

fn with_added<R>(code: i32, read: impl FnOnce(&mut Added) -> R) -> Result<R> {
    let mut added = lock(&ADDED);
    let index = code.checked_sub(FIRST_ADDED).and_then(|index| usize::try_from(index).ok());
    match index.and_then(|index| added.get_mut(index)?.as_mut()) {
        Some(found) => Ok(read(found)),
        None => fail(Class::Arg, format!("{code} was not added by MPI_Add_error_class or MPI_Add_error_code")),
    }
}

/// Codes of the tools interface, which are none of MPI's.
fn tool_words(code: i32) -> Option<&'static str> {
    Some(match code {
        MPI_T_ERR_CANNOT_INIT => "MPI_T_ERR_CANNOT_INIT: the tools interface cannot be initialized",
        MPI_T_ERR_NOT_ACCESSIBLE => "MPI_T_ERR_NOT_ACCESSIBLE: not accessible",
        MPI_T_ERR_NOT_INITIALIZED => "MPI_T_ERR_NOT_INITIALIZED: call MPI_T_init_thread first",
        MPI_T_ERR_NOT_SUPPORTED => "MPI_T_ERR_NOT_SUPPORTED: not supported",
        MPI_T_ERR_MEMORY => "MPI_T_ERR_MEMORY: out of memory",
        MPI_T_ERR_INVALID => "MPI_T_ERR_INVALID: invalid argument",
        MPI_T_ERR_INVALID_INDEX => "MPI_T_ERR_INVALID_INDEX: no such index",
        MPI_T_ERR_INVALID_ITEM => "MPI_T_ERR_INVALID_ITEM: no such item",
        MPI_T_ERR_INVALID_SESSION => "MPI_T_ERR_INVALID_SESSION: invalid session",
        MPI_T_ERR_INVALID_HANDLE => "MPI_T_ERR_INVALID_HANDLE: invalid handle",
        MPI_T_ERR_INVALID_NAME => "MPI_T_ERR_INVALID_NAME: no such name",
        MPI_T_ERR_OUT_OF_HANDLES => "MPI_T_ERR_OUT_OF_HANDLES: too many handles",
        MPI_T_ERR_OUT_OF_SESSIONS => "MPI_T_ERR_OUT_OF_SESSIONS: too many sessions",
        MPI_T_ERR_CVAR_SET_NOT_NOW => "MPI_T_ERR_CVAR_SET_NOT_NOW: the variable cannot be set now",
        MPI_T_ERR_CVAR_SET_NEVER => "MPI_T_ERR_CVAR_SET_NEVER: the variable cannot be set",
        MPI_T_ERR_PVAR_NO_WRITE => "MPI_T_ERR_PVAR_NO_WRITE: the variable cannot be written",
        MPI_T_ERR_PVAR_NO_STARTSTOP => "MPI_T_ERR_PVAR_NO_STARTSTOP: the variable cannot be started or stopped",
        MPI_T_ERR_PVAR_NO_ATOMIC => "MPI_T_ERR_PVAR_NO_ATOMIC: the variable cannot be read and reset at once",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_a_class_and_the_message_of_its_call() {
        let code = code_of(&Error::new(Class::Rank, "rank 7 is not in 0..4"), "MPI_Send");
        assert!(code <= MPI_ERR_LASTCODE);
        assert_eq!(class_of(code), Ok(Class::Rank as i32));
        assert_eq!(text_of(code).as_deref(), Ok("MPI_Send: rank 7 is not in 0..4 (MPI_ERR_RANK)"));
        assert_eq!(text_of(Class::Rank as i32).as_deref(), Ok("MPI_ERR_RANK: invalid rank"));
    }

    #[test]
    fn old_messages_give_way_and_codes_keep_their_class() {
        let first = code_of(&Error::new(Class::Tag, "first"), "MPI_Send");
        for _ in 0..MESSAGES {
            code_of(&Error::new(Class::Comm, "later"), "MPI_Send");
        }
        assert_eq!(class_of(first), Ok(Class::Tag as i32));
        assert_eq!(text_of(first).as_deref(), Ok("MPI_ERR_TAG: invalid tag"));
    }

    #[test]
    fn numbers_that_are_no_codes_are_refused() {
        for code in [-1, i32::MIN, i32::MAX, 127, FIRST_ADDED + 1000] {
            assert!(class_of(code).is_err() && text_of(code).is_err(), "{code}");
        }
        assert_eq!(class_of(MPI_T_ERR_INVALID_INDEX), Ok(MPI_T_ERR_INVALID_INDEX));
    }

    #[test]
    fn programs_add_classes_and_codes_and_remove_them() {
        let class = add_class().expect("there is room");
        let code = add_code(class).expect("it is a class");
        assert!(class > MPI_ERR_LASTCODE && code > class && last_used() >= code);
        assert_eq!(class_of(code), Ok(class));
        assert_eq!(text_of(code).as_deref(), Ok(""));
        assert!(set_text(code, Some("mine".to_string())).is_ok() && remove_class(class).is_err());
        assert_eq!(text_of(code).as_deref(), Ok("mine"));
        assert!(remove_code(code).is_err() && set_text(code, None).is_ok());
        assert!(remove_code(class).is_err() && remove_code(code).is_ok() && remove_code(code).is_err());
        assert!(remove_class(class).is_ok() && add_code(class).is_err());
    }
}
