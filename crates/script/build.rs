//! Looks that the interpreter is built to raise errors by `longjmp`: see `.cargo/config.toml`.

#![expect(clippy::disallowed_methods, reason = "a build script is told by its environment")]

fn main() {
    println!("cargo:rerun-if-env-changed=CXXFLAGS");
    let flags = std::env::var("CXXFLAGS").unwrap_or_default();
    assert!(
        flags.contains("-DLUA_USE_LONGJMP=1"),
        "CXXFLAGS lacks -DLUA_USE_LONGJMP=1, which .cargo/config.toml sets unless the environment has the variable: add it there, or \
         unset CXXFLAGS; without it the server would end at the first error in a script"
    );
}
