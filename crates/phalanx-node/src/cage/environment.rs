//! The environment of caged processes. It is an allow list, because variables of an executor can hold its owner's secrets.

use std::ffi::{OsStr, OsString};

/// Names of variables that caged processes get from the executor.
const NAMES: &[&str] = &[
    "CONDA_PREFIX",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
];
/// Names of variables without which programs and libraries of Windows do not work, its sockets among them.
#[cfg(windows)]
const OF_SYSTEM: &[&str] = &[
    "COMSPEC",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "WINDIR",
];
#[cfg(not(windows))]
const OF_SYSTEM: &[&str] = &[];
/// Prefixes of such names: the locale, Python, and numerical libraries.
const PREFIXES: &[&str] = &[
    "BLIS_",
    "CUDA_",
    "GOMP_",
    "HIP_",
    "KMP_",
    "LC_",
    "MALLOC_",
    "MKL_",
    "MPI4PY_",
    "NUMEXPR_",
    "NVIDIA_",
    "OMP_",
    "OPENBLAS_",
    "PYTHON",
    "ROCR_",
    "VECLIB_",
];

/// The variables on the allow list, followed by the variables that the owner adds.
pub fn allowed(
    all: impl Iterator<Item = (OsString, OsString)>,
    added: Vec<(OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    all.filter(|(name, _)| is_allowed(name)).chain(added).collect()
}

fn is_allowed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let name = if cfg!(windows) { &name.to_uppercase() } else { name }; // Windows has one variable of a name, as Path and PATH
    NAMES.contains(&name) || OF_SYSTEM.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_behind_and_what_the_owner_names_goes() {
        let pair = |(name, value): (&str, &str)| (OsString::from(name), OsString::from(value));
        let all =
            [("PATH", "/bin"), ("AWS_SECRET_ACCESS_KEY", "x"), ("LC_ALL", "C"), ("SSH_AUTH_SOCK", "/s"), ("PATHS", "")];
        let found = allowed(all.map(pair).into_iter(), vec![pair(("LICENCE", "42"))]);
        assert_eq!(found, [("PATH", "/bin"), ("LC_ALL", "C"), ("LICENCE", "42")].map(pair));
    }
}
