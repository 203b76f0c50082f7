//! Programs ask for the library by this name.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system != "macos") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libphalanx_bsp.so");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
