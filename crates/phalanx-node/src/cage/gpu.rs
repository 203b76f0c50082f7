//! Device files of graphics processors, and the files in `/sys` that describe them.

use std::fs;
use std::path::{Path, PathBuf};

/// Prefixes of device paths: NVIDIA's devices and partitions (MIG), AMD's compute device, render nodes of any card, and the device of
/// Windows' subsystem for Linux. Devices that drive a screen, like `dri/card0`, are not among them.
const DEVICES: [&str; 4] = ["nvidia", "kfd", "dri/renderD", "dxg"];
/// Prefixes of files from which libraries learn the cards and their topology.
const FACTS: [&str; 7] =
    ["bus/pci", "class/drm", "class/kfd", "devices/pci", "devices/virtual/kfd", "module/amdgpu", "module/nvidia"];

/// PCI vendor IDs.
const NVIDIA: &str = "0x10de";
const AMD: &str = "0x1002";
const INTEL: &str = "0x8086";

/// Who has made a graphics processor, whose libraries read variables of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Intel.
    Intel,
    /// Another maker, or one that the system does not tell.
    Unknown,
}

/// The paths that the grant `gpu` opens: devices in `dev` for writing, and facts in `sys` for reading.
///
/// # Errors
///
/// There is no device.
pub(super) fn opened(dev: &Path, sys: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), String> {
    let devices = beginning(dev, &DEVICES);
    match devices.is_empty() {
        true => Err(format!("cannot grant gpu: {} has no device of a graphics processor", dev.display())),
        false => Ok((devices, beginning(sys, &FACTS))),
    }
}

/// The makers of the graphics processors that the grant `gpu` opens, one for each. It counts an NVIDIA card once, although the card has its own device and,
/// with its display driver, a render node too.
pub(super) fn makers(dev: &Path, sys: &Path) -> Vec<Maker> {
    let named = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let has_number = |name: &String| name["nvidia".len()..].parse::<u32>().is_ok();
    let numbered = beginning(dev, &["nvidia"]).iter().map(named).filter(has_number).count();
    let cards: Vec<String> = beginning(dev, &["dri/renderD"]).iter().map(named).collect();
    let vendor = |card: &String| fs::read_to_string(sys.join("class/drm").join(card).join("device/vendor"));
    let maker = |card: &String| match vendor(card).unwrap_or_default().trim() {
        NVIDIA => Maker::Nvidia,
        AMD => Maker::Amd,
        INTEL => Maker::Intel,
        _ => Maker::Unknown,
    };
    let (of_nvidia, others): (Vec<Maker>, Vec<Maker>) = cards.iter().map(maker).partition(|it| *it == Maker::Nvidia);
    let of_windows = beginning(dev, &["dxg"]).len();
    let nvidia = numbered.max(of_nvidia.len());
    [vec![Maker::Nvidia; nvidia], others, vec![Maker::Unknown; of_windows]].concat()
}

/// The paths in a folder with one of these prefixes.
fn beginning(folder: &Path, begins: &[&str]) -> Vec<PathBuf> {
    let of = |begin: &str| {
        let (inner, name) = begin.rsplit_once('/').unwrap_or(("", begin));
        let entries = fs::read_dir(folder.join(inner)).into_iter().flatten().flatten();
        let is_it = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(name.as_bytes());
        entries.filter(is_it).map(|entry| entry.path()).collect::<Vec<_>>()
    };
    begins.iter().flat_map(|begin| of(begin)).filter_map(|path| fs::canonicalize(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_its_devices_and_what_is_known_of_them() {
        let made = tempfile::tempdir().unwrap();
        let [dev, sys] = ["dev", "sys"].map(|name| fs::canonicalize(made.path()).unwrap().join(name));
        for path in ["dev/dri", "sys/class/drm", "sys/class/net", "sys/devices/pci0000:00"] {
            fs::create_dir_all(made.path().join(path)).unwrap();
        }
        assert!(opened(&dev, &sys).unwrap_err().contains("no device of a graphics processor"));
        for name in ["nvidia0", "nvidiactl", "dri/card0", "dri/renderD128", "sda"] {
            fs::write(dev.join(name), "").unwrap();
        }
        assert_eq!(makers(&dev, &sys), [Maker::Nvidia, Maker::Unknown]);
        for (card, maker) in [("renderD128", "0x10de\n"), ("renderD129", "0x1002\n")] {
            fs::write(dev.join("dri").join(card), "").unwrap();
            fs::create_dir_all(sys.join("class/drm").join(card).join("device")).unwrap();
            fs::write(sys.join("class/drm").join(card).join("device/vendor"), maker).unwrap();
        }
        assert_eq!(makers(&dev, &sys), [Maker::Nvidia, Maker::Amd], "two devices of the same card, and another one");
        fs::remove_file(dev.join("dri/renderD129")).unwrap();
        let (mut devices, mut facts) = opened(&dev, &sys).unwrap();
        devices.sort();
        facts.sort();
        let expected = ["dri/renderD128", "nvidia0", "nvidiactl"];
        assert_eq!(devices, expected.map(|name| dev.join(name)));
        assert_eq!(facts, ["class/drm", "devices/pci0000:00"].map(|name| sys.join(name)));
    }
}
