use super::*;
use cap_std::ambient_authority;
use std::os::unix::fs::symlink;

/// What a walk finds in the folder `copied` of an exported one; paths, with the size of files, and failures.
fn walked(export: &Path, links: Links, is_own: bool) -> (Vec<String>, Vec<String>) {
    let base = Dir::open_ambient_dir(export, ambient_authority()).expect("is there");
    let source = Source::open(&base, Path::new("copied"), Path::new("copied")).expect("is there");
    let mut source = source.filtered(&Filter { links, ..Filter::default() }).expect("is one");
    if is_own {
        source = source.following_anywhere(&export.join("copied")).expect("is there");
    }
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    let walk = source.walk(&mut |one| {
        match one {
            Ok(entry) => found.push(entry),
            Err((path, why)) => failed.push(format!("{}: {why}", path.display())),
        }
        Ok(())
    });
    walk.expect("ends");
    let mut names = Vec::new();
    for (number, entry) in found.iter().enumerate() {
        let mut name = source.path(number as u32).to_str().expect("is text").to_owned();
        if let Kind::File { size } = entry.kind {
            let mut data = vec![0; size as usize];
            source.read(number as u32, &mut data, 0, true).expect("is read");
            name += &format!("={}", String::from_utf8(data).expect("is text"));
        }
        names.push(name + if matches!(entry.kind, Kind::Link { .. }) { "@" } else { "" });
    }
    names.sort();
    failed.sort();
    (names, failed)
}

fn export() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("copied")).expect("is made");
    std::fs::create_dir_all(folder.path().join("beside/in")).expect("is made");
    std::fs::write(folder.path().join("beside/in/x"), "x").expect("is written");
    folder
}

#[test]
fn links_are_left_out_or_followed_within_an_export() {
    let export = export();
    let at = |name: &str| export.path().join("copied").join(name);
    std::fs::write(export.path().join("y"), "y").expect("is written");
    symlink("../beside", at("folder")).expect("is linked");
    symlink("../y", at("file")).expect("is linked");
    symlink("/etc/hostname", at("out")).expect("is linked");
    symlink("nothing", at("broken")).expect("is linked");
    rustix::fs::mknodat(rustix::fs::CWD, export.path().join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("is made");
    symlink("../pipe", at("pipe")).expect("is linked");
    assert_eq!(walked(export.path(), Links::Skip, false), (vec!["copied".to_owned()], vec![]));
    let (found, failed) = walked(export.path(), Links::Follow, false);
    assert_eq!(found, ["copied", "copied/file=y", "copied/folder", "copied/folder/in", "copied/folder/in/x=x"]);
    let failing: Vec<_> = failed.iter().map(|one| one.split(':').next().expect("is one")).collect();
    assert_eq!(failing, ["copied/broken", "copied/out", "copied/pipe"]);
    let (found, _) = walked(export.path(), Links::Keep, false);
    assert_eq!(found.iter().filter(|one| one.ends_with('@')).count(), 5);
}

#[test]
fn links_of_ones_own_lead_anywhere() {
    let (export, outside) = (export(), tempfile::tempdir().expect("a folder"));
    std::fs::write(outside.path().join("z"), "z").expect("is written");
    symlink(outside.path(), export.path().join("copied/out")).expect("is linked");
    let (found, failed) = walked(export.path(), Links::Follow, true);
    assert_eq!((found, failed), (vec!["copied".into(), "copied/out".into(), "copied/out/z=z".into()], vec![]));
    assert_eq!(walked(export.path(), Links::Follow, false).1.len(), 1);
}

#[test]
fn links_that_lead_round_end() {
    let export = export();
    symlink(".", export.path().join("copied/self")).expect("is linked");
    symlink("..", export.path().join("copied/up")).expect("is linked");
    symlink("../beside", export.path().join("copied/there")).expect("is linked");
    symlink("../copied", export.path().join("beside/back")).expect("is linked");
    let (found, failed) = walked(export.path(), Links::Follow, false);
    assert!(found.contains(&"copied/there/in/x=x".to_owned()));
    assert!(found.len() < 10_000 && failed.iter().any(|one| one.contains("that it is in")));
}

#[test]
fn links_that_double_are_bounded() {
    let export = export();
    for number in 0..12 {
        let folder = export.path().join(format!("copied/{number}"));
        std::fs::create_dir(&folder).expect("is made");
        for name in ["a", "b"] {
            symlink(format!("../{}", number + 1), folder.join(name)).expect("is linked");
        }
    }
    let (found, failed) = walked(export.path(), Links::Follow, false);
    assert!(found.len() <= 12 * 512 && failed.iter().any(|one| one.contains("links lead to it")), "{}", found.len());
}
