//! C programs, compiled with the header and run: the example, and the tests in tests/c.
//!
//! Each is linked with the static library, under AddressSanitizer where the compiler has it, and with the shared one.
#![cfg(all(target_os = "linux", not(miri)))]

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");
const WARNINGS: [&str; 7] =
    ["-std=c11", "-g", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror"];

/// The directory in which cargo has put the libraries that belong to this test.
fn libraries() -> PathBuf {
    let test = env::current_exe().unwrap();
    let deps = test.parent().unwrap().to_path_buf();
    for library in ["libframewright_c.a", "libframewright_c.so"] {
        assert!(deps.join(library).exists(), "{library} is not in {}", deps.display());
    }
    deps
}

/// A new directory for the files of a test.
fn scratch(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    place
}

/// Runs a command that must succeed.
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

fn compiler() -> Command {
    Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// Whether the compiler can link with AddressSanitizer.
fn has_sanitizer(place: &Path) -> bool {
    let source = place.join("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut command = compiler();
    command.arg("-fsanitize=address").arg(&source).arg("-o").arg(place.join("empty"));
    command.output().is_ok_and(|output| output.status.success())
}

/// Compiles a program, and returns what it prints.
fn compile_and_run<S: AsRef<OsStr>>(source: &str, name: &Path, flags: &[S]) -> String {
    let mut command = compiler();
    command.args(WARNINGS).arg(format!("-I{PACKAGE}")).arg(Path::new(PACKAGE).join(source));
    run(command.args(flags).arg("-pthread").arg("-o").arg(name));
    let printed = run(Command::new(name).env("LD_LIBRARY_PATH", libraries()));
    String::from_utf8(printed.stdout).unwrap()
}

/// Runs a program with each library.
fn with_each_library(source: &str) -> String {
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let (place, libraries) = (scratch(name), libraries());
    let archive = libraries.join("libframewright_c.a").into_os_string();
    let search = OsString::from(format!("-L{}", libraries.display()));
    let shared =
        compile_and_run(source, &place.join("shared"), &[search, "-lframewright_c".into()]);
    let mut flags = vec![archive];
    let plain = compile_and_run(source, &place.join("static"), &flags);
    assert_eq!(plain, shared);
    if has_sanitizer(&place) {
        flags.insert(0, "-fsanitize=address".into());
        assert_eq!(compile_and_run(source, &place.join("sanitized"), &flags), plain);
    } else {
        eprintln!("the compiler has no AddressSanitizer: {source} ran without it");
    }
    plain
}

#[test]
fn the_example_runs() {
    let printed = with_each_library("examples/allocate.c");
    assert_eq!(
        printed,
        "16384 frames, 2048 in use, 27 huge pages\n\
         16384 frames, 3561 in use, 23 huge pages\n\
         reported: bad free of pfn 0x900 order 0: frames of the block are free already\n\
         freed twice: frames are free already\n\
         16384 frames, 0 in use, 31 huge pages\n"
    );
}

#[test]
fn every_call_does_what_the_header_says() {
    assert_eq!(with_each_library("tests/c/memory.c"), "ok\n");
}

#[test]
fn bad_input_is_refused_and_nothing_is_lost() {
    assert_eq!(with_each_library("tests/c/bad_input.c"), "ok\n");
}

#[test]
fn threads_allocate_and_free_at_once() {
    assert_eq!(with_each_library("tests/c/threads.c"), "ok\n");
}

#[test]
fn the_header_compiles_as_cpp() {
    let place = scratch("cpp");
    let source = place.join("header.cpp");
    fs::write(
        &source,
        "#include \"framewright.h\"\nint main() { return *fw_error_text(0) == 0; }\n",
    )
    .unwrap();
    let mut command = Command::new("c++");
    if command.arg("--version").output().is_err() {
        eprintln!("there is no C++ compiler");
        return;
    }
    let program = place.join("header");
    let mut command = Command::new("c++");
    command.args(["-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror"]);
    command.arg(format!("-I{PACKAGE}")).arg(&source).arg(libraries().join("libframewright_c.a"));
    run(command.args(["-pthread", "-ldl", "-lm", "-o"]).arg(&program));
    run(&mut Command::new(&program));
}

#[test]
fn pkg_config_finds_what_was_installed() {
    let place = scratch("installed");
    let install = Path::new(PACKAGE).join("install");
    run(Command::new(&install).arg(&place).arg(libraries()));
    if Command::new("pkg-config").arg("--version").output().is_err() {
        eprintln!("there is no pkg-config");
        return;
    }
    let ask = |arguments: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", place.join("lib/pkgconfig")).args(arguments);
        String::from_utf8(run(command.arg("framewright")).stdout).unwrap()
    };
    assert_eq!(ask(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    for (program, arguments) in
        [("shared", &["--cflags", "--libs"][..]), ("static", &["--static", "--cflags", "--libs"])]
    {
        let flags = ask(arguments);
        let program = place.join(program);
        let mut command = compiler();
        command.args(WARNINGS).arg(Path::new(PACKAGE).join("examples/allocate.c"));
        run(command.args(flags.split_whitespace()).arg("-o").arg(&program));
        run(Command::new(&program).env("LD_LIBRARY_PATH", place.join("lib")));
    }
}

#[test]
fn a_wrong_installation_is_refused() {
    let place = scratch("refused");
    let nothing = place.join("nothing");
    let install = |arguments: &[&OsStr]| {
        let mut command = Command::new(Path::new(PACKAGE).join("install"));
        let output = command.args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(install(&[]).contains("usage"));
    assert!(install(&["relative".as_ref()]).contains("absolute"));
    let prefix = place.join("prefix");
    assert!(install(&[prefix.as_ref(), nothing.as_ref()]).contains("libframewright_c.a"));
    assert!(!prefix.exists());
}
