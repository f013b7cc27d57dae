//! `ringscope collector`: the collector for jobs that are started otherwise.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::common::scratch;
use crate::{check, end, ringscope};

#[test]
fn what_is_installed_can_be_preloaded() {
    let dir = scratch("collector");
    let folder = dir.join("libs");
    let path = folder.to_str().unwrap();
    let (code, out, words) = end(&mut ringscope(&["collector", "install", path]));
    assert!(code == Some(0) && out.contains(path), "{out}{words}");
    for file in
        ["libringscope.so", "libringscope_watcher.so", "libringscope_preload.so", "python/sitecustomize.py"]
    {
        let mode = folder.join(file).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o755, "{file} is for all");
    }
    let preload = folder.join("libringscope_preload.so");
    let quiet = Command::new("/bin/true").env("LD_PRELOAD", preload).output().unwrap();
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "{quiet:?}");
}

#[test]
fn where_it_cannot_be_installed_that_is_said_and_what_comes_after_may_go_on() {
    check(&["collector", "install", "/dev/null/libs"], 1, &["/dev/null/libs", "name a folder"]);
    let (code, out, words) = end(&mut ringscope(&["collector", "install", "--go-on", "/dev/null/libs"]));
    assert!(code == Some(0) && out.is_empty() && words.contains("is not watched"), "{out}{words}");
    check(&["collector", "install"], 64, &["<DIR>"]);
}

#[test]
fn a_folder_is_opened_to_all() {
    let dir = scratch("collector-folder");
    let folder = dir.join("segments");
    fs::create_dir(&folder).unwrap();
    let (code, _, words) = end(&mut ringscope(&["collector", "folder", folder.to_str().unwrap()]));
    assert_eq!(code, Some(0), "{words}");
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o7777, 0o1777);
    check(&["collector", "folder", "/dev/null"], 1, &["mkdir -m 1777"]);
    let (code, _, words) = end(&mut ringscope(&["collector", "folder", "--go-on", "/dev/null"]));
    assert!(code == Some(0) && words.contains("mkdir -m 1777"), "{words}");
}
