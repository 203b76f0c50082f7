//! Paths at which servers of this machine are found.
#![cfg(unix)]

use phalanx_net::dial::dial;
use phalanx_net::runtime::{Place, paths_to};
use phalanx_net::socket::{Listener, Socket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

/// One test of all that depends on the folder, which the environment names for the whole process.
#[test]
fn a_server_is_found_at_its_address_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    // SAFETY: no other thread of this test reads the environment now.
    unsafe { std::env::set_var("XDG_RUNTIME_DIR", home) };
    let folder = home.join("phalanx");
    let address = "0.0.0.0:7477".parse().unwrap();

    let (listener, place) = Place::of(&address).unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let paths = paths_to(&"127.0.0.1:7477".parse().unwrap());
    assert!(paths.contains(&place.path().to_owned()), "who listens everywhere is found at each address");
    assert!(paths_to(&"192.0.2.1:7477".parse().unwrap()).is_empty(), "another machine's");
    let client = dial_path(place.path()).unwrap();
    let (accepted, from) = listener.accept().unwrap();
    assert!(from.is_none() && accepted.peer_is_same_user().unwrap() && client.peer_is_same_user().unwrap());
    assert_eq!(Place::of(&address).unwrap_err().kind(), io::ErrorKind::AddrInUse, "it is there");

    // A killed server removes nothing: the next one does, whatever its own address is.
    let killed = folder.join("killed");
    drop(Listener::bind_path(&killed).unwrap());
    assert!(killed.exists());
    let other = Place::of(&"127.0.0.1:7478".parse().unwrap()).unwrap();
    assert!(!killed.exists() && place.path().exists());
    drop((listener, place));
    assert!(folder.exists(), "the other one is there");
    drop(other);
    assert!(!folder.exists());

    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Place::of(&address).unwrap_err().to_string();
    assert!(error.contains("not a folder that only this user can enter"), "{error}");
    assert!(paths_to(&"127.0.0.1:7477".parse().unwrap()).is_empty(), "what is there may be another user's");

    let named = home.join("named");
    let (listener, place) = Place::at(&named).unwrap();
    assert_eq!(fs::metadata(&named).unwrap().permissions().mode() & 0o077, 0);
    assert!(Place::at(&named).is_err());
    drop(listener);
    std::mem::forget(place);
    let (_listener, place) = Place::at(&named).expect("what a dead server left is replaced");
    fs::remove_file(&named).unwrap();
    let (_listener, successor) = Place::at(&named).unwrap();
    drop(place);
    assert!(dial_path(&named).is_ok(), "who ends leaves the path of another one alone");
    drop(successor);
    assert!(!named.exists());
    fs::write(&named, "a user's file").unwrap();
    assert!(Place::at(&named).is_err(), "nothing else is replaced");
}

fn dial_path(path: &Path) -> io::Result<Socket> {
    dial(&path.into(), Duration::from_secs(60)).map(|dialled| dialled.socket)
}
