use super::*;
use crate::cage::{Cage, Settings};
use crate::keeper::Keeper;
use phalanx_core::cage::Kind;
use std::process::{Command, Stdio};

fn shown(at: &str, folder: &str) -> Shown {
    Shown { at: at.into(), folder: folder.into() }
}

/// The output and exit status of a script in a shell that sees these folders.
fn shell(folder: &Path, all: &[Shown], script: &str) -> (String, Option<i32>) {
    let cage = Cage::new(Settings::default()).expect("a cage");
    let view = View::new(folder, all, None).expect("a view");
    let bars = cage.around_view(Some(folder), None, None, &[], Some(view)).expect("bars");
    let said = folder.join("said");
    let mut command = Command::new("/bin/sh");
    let file = fs::File::create(&said).expect("a file");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(file.try_clone().expect("another")).stderr(file);
    bars.furnish(&mut command);
    let (mut keeper, begun) = Keeper::start(&bars, &mut [command]).expect("a keeper");
    begun.into_iter().for_each(|it| drop(it.expect("a process")));
    while !keeper.has_news() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let ended = keeper.end();
    (fs::read_to_string(said).expect("the file"), ended.first().and_then(|it| it.status.code()))
}

#[test]
fn a_program_sees_its_own_folders_at_the_paths_that_it_was_written_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let all =
        [shown("/tmp", "root/tmp"), shown("/phalanx data/in", "root/in"), shown("/var/spool/phalanx-test", "spool")];
    fs::create_dir_all(folder.path().join("root/in")).expect("a folder");
    fs::write(folder.path().join("root/in/words"), "from outside").expect("a file");
    let script = "cat '/phalanx data/in/words' && echo && ls -A /tmp && echo results > /tmp/results && pwd && \
                  echo more > /var/spool/phalanx-test/more && test -e /var/lib && test -e /etc/passwd && test -d '/phalanx data'";
    let (said, status) = shell(folder.path(), &all, script);
    assert_eq!(status, Some(0), "{said}");
    let own = folder.path().to_str().expect("text");
    let first = own.strip_prefix("/tmp/").and_then(|it| it.split('/').next());
    let expected: Vec<&str> = ["from outside"].into_iter().chain(first).chain([own]).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a file");
    assert_eq!((read("root/tmp/results"), read("spool/more")), ("results\n".into(), "more\n".into()));
    assert!(!Path::new("/phalanx data").exists() && !Path::new("/var/spool/phalanx-test").exists());
    assert!(fs::read_dir(folder.path().join(ROOT)).expect("the folder").next().is_none(), "it is empty outside");
}

#[test]
fn the_root_cannot_be_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (said, status) = shell(folder.path(), &[shown("/tmp", "tmp")], "mkdir /new");
    assert_ne!(status, Some(0), "{said}");
    assert!(said.contains("Read-only file system"), "{said}");
    let cage = Cage::new(Settings { kind: Some(Kind::None), ..Settings::default() }).expect("a cage");
    assert!(
        cage.around(Some(folder.path()), None, None, &[]).expect("bars").look().is_ok(),
        "without a view nothing changes"
    );
}

#[test]
fn what_nobody_can_be_shown_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (at, inside) in [
        ("/usr", "a"),
        ("/", "a"),
        ("relative", "a"),
        ("/a/../etc", "a"),
        ("/a", "../b"),
        ("/a", "/b"),
        ("/a", "b/../../c"),
        ("/proc", "a"),
        ("/usr/local/data", "a"),
        ("/var", "a"),
        ("/a", ".view/home"),
    ] {
        assert!(View::new(folder.path(), &[shown(at, inside)], None).is_err(), "{at} {inside}");
    }
    let nested = [shown("/a", "a"), shown("/a/b/c", "c")];
    assert!(View::new(folder.path(), &nested, None).is_err(), "a folder of the user's in which another one is made");
    let many: Vec<Shown> = (0..=MOST_SHOWN).map(|it| shown(&format!("/a/{it}"), &format!("a{it}"))).collect();
    assert!(View::new(folder.path(), &many, None).is_err_and(|error| error.to_string().contains("at most")));
}
