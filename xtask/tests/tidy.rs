//! The rules of the house that a compiler does not know: which crate may depend on which, which room may do what.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every `.rs` file below `folder`, with its text, sorted.
fn sources(folder: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(!found.is_empty(), "no sources below {folder}");
    found
}

/// Lines of code (no comments) of the files below `folder` that contain one of `words`, except in `allowed` files.
fn offenders(folder: &str, words: &[&str], allowed: &[&str]) -> Vec<String> {
    let mut offenders = Vec::new();
    for (name, text) in sources(folder) {
        if allowed.iter().any(|allowed| name.contains(allowed)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if words.iter().any(|word| code.contains(word)) {
                offenders.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    offenders
}

/// Folders of sources of the daemon's crates.
fn daemon() -> Vec<String> {
    let entries = fs::read_dir(root().join("daemon")).unwrap().map(|entry| entry.unwrap().path());
    let crates = entries.filter(|path| path.join("Cargo.toml").is_file());
    let mut folders: Vec<String> =
        crates.map(|path| format!("daemon/{}/src", path.file_name().unwrap().display())).collect();
    folders.push("daemon/src".to_owned());
    folders
}

/// [`offenders`] in all of the daemon's crates.
fn daemon_offenders(words: &[&str], allowed: &[&str]) -> Vec<String> {
    daemon().iter().flat_map(|folder| offenders(folder, words, allowed)).collect()
}

/// The folders with sources of ours, and those of the daemon's crates.
fn with_daemon(folders: &[&str]) -> Vec<String> {
    folders.iter().map(|folder| (*folder).to_owned()).chain(daemon()).collect()
}

/// Which of our crates each may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ringscope-wire", &[]),
    ("ringscope-collector", &["ringscope-wire"]),
    ("ringscope-summation-watcher", &["ringscope-observer", "ringscope-wire"]),
    ("ringscope-glibc", &[]),
    ("ringscope-preload", &[]),
    ("ringscope-collective", &["ringscope-net-abi"]),
    ("ringscope-connections", &[]),
    ("ringscope-net", &["ringscope-connections", "ringscope-glibc", "ringscope-net-abi", "ringscope-verbs"]),
    ("ringscope-net-abi", &[]),
    ("ringscope-observer", &[]),
    ("ringscope-verbs", &[]),
    ("ringscope-summation", &["ringscope-collective", "ringscope-observer"]),
    ("ringscope-tensors", &["ringscope-verbs"]),
    ("ringscope-engine", &["ringscope-collective", "ringscope-summation"]),
    ("ringscope-api", &[]),
    ("ringscope-tls", &["ringscope-api"]),
    ("ringscope-access", &["ringscope-api", "ringscope-wire"]),
    ("ringscope-logs", &["ringscope-wire"]),
    ("ringscope-model", &["ringscope-api", "ringscope-wire"]),
    ("ringscope-judge", &["ringscope-api", "ringscope-model", "ringscope-wire"]),
    ("ringscope-view", &["ringscope-api", "ringscope-judge", "ringscope-model", "ringscope-wire"]),
    (
        "ringscope-import",
        &[
            "ringscope-api",
            "ringscope-judge",
            "ringscope-logs",
            "ringscope-model",
            "ringscope-view",
            "ringscope-wire",
        ],
    ),
    ("ringscope-store", &["ringscope-access", "ringscope-api", "ringscope-wire"]),
    (
        "ringscope-agent",
        &["ringscope-api", "ringscope-connections", "ringscope-logs", "ringscope-tls", "ringscope-wire"],
    ),
    (
        "ringscope-server",
        &[
            "ringscope-access",
            "ringscope-api",
            "ringscope-import",
            "ringscope-judge",
            "ringscope-model",
            "ringscope-store",
            "ringscope-tls",
            "ringscope-view",
            "ringscope-wire",
        ],
    ),
    (
        "ringscope",
        &[
            "ringscope-access",
            "ringscope-agent",
            "ringscope-api",
            "ringscope-import",
            "ringscope-judge",
            "ringscope-server",
            "ringscope-store",
            "ringscope-tls",
            "ringscope-wire",
        ],
    ),
    // Only tests may depend on it.
    ("ringscope-samples", &["ringscope-api", "ringscope-wire"]),
    // `harm` reads what a collector has left.
    ("xtask", &["ringscope-connections", "ringscope-wire"]),
];

#[test]
fn crates_depend_only_in_the_allowed_direction() {
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec().unwrap();
    for package in &metadata.packages {
        let ours = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind == DependencyKind::Normal && dependency.path.is_some());
        for dependency in ours {
            let package_name = package.name.as_str();
            let (_, may) = (ALLOWED.iter().find(|(name, _)| *name == package_name))
                .unwrap_or_else(|| panic!("say what {package_name} may depend on"));
            assert!(
                may.contains(&dependency.name.as_str()),
                "{package_name} must not depend on {}",
                dependency.name
            );
        }
    }
}

/// Files of macros, whose unsafe code is where they expand.
const MACROS: [&str; 3] = [
    "engine/collective/src/api/fence.rs",
    "collector/src/exports/called.rs",
    "collector/src/exports/forward.rs",
];

#[test]
fn unsafe_code_stands_only_in_fences_that_say_why() {
    for folder in with_daemon(&[
        "wire/src",
        "collector/src",
        "engine/src",
        "engine/collective/src",
        "engine/summation/src",
        "engine/tensors/src",
        "xtask/src",
    ]) {
        for (name, text) in sources(&folder) {
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            let uses_unsafe = code.clone().any(|line| {
                // A function's definition, not a pointer to one in a type.
                let item = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
                ["unsafe {", "unsafe impl", "#[unsafe("].iter().any(|word| line.contains(word))
                    || item.starts_with("unsafe fn ")
                    || item.starts_with("unsafe extern") && !item.contains("fn(")
            });
            // Macros of exports expand only inside fences.
            let is_macro = MACROS.contains(&name.as_str());
            // A fence of one architecture expects it only there.
            let says_why = text.contains("#![expect(") || text.contains("#![cfg_attr(");
            let is_fence = is_macro || says_why && text.contains("unsafe_code");
            assert!(!uses_unsafe || is_fence, "{name} has unsafe code and is no fence module");
        }
    }
}

#[test]
fn model_and_diagnosis_do_no_io_and_read_no_clock() {
    let words = [
        "tokio",
        "sqlx",
        "axum",
        "reqwest",
        "std::fs",
        "std::net",
        "clock::now",
        "clock::monotonic",
        "async fn",
    ];
    for room in ["model", "judge", "view", "logs"] {
        assert_eq!(offenders(&format!("daemon/{room}/src"), &words, &[]), Vec::<String>::new());
    }
    // Of import, only those that fetch files.
    assert_eq!(offenders("daemon/import/src", &words, &["source.rs", "upload.rs"]), Vec::<String>::new());
}

#[test]
fn sql_stands_only_in_the_store_and_routes_only_in_http() {
    assert_eq!(daemon_offenders(&["sqlx::"], &["daemon/store/"]), Vec::<String>::new());
    let routes = ["Router::new", "OpenApiRouter", "utoipa::path"];
    assert_eq!(daemon_offenders(&routes, &["daemon/server/src/http/"]), Vec::<String>::new());
}

#[test]
fn the_environment_is_read_only_in_config() {
    for folder in with_daemon(&[
        "collector/src",
        "engine/src",
        "engine/collective/src",
        "engine/summation/src",
        "engine/tensors/src",
    ]) {
        assert_eq!(offenders(&folder, &["env::var"], &["config.rs"]), Vec::<String>::new());
    }
}

#[test]
fn the_collective_library_knows_nothing_of_the_summation() {
    assert_eq!(
        offenders("engine/collective/src", &["RSUM_", "rsum", "summation"], &[]),
        Vec::<String>::new()
    );
}

#[test]
fn the_collector_writes_nothing_and_takes_no_lock() {
    let words = ["println!", "eprintln!", "Mutex", "RwLock", "thread::spawn", "dbg!"];
    assert_eq!(offenders("collector/src", &words, &[]), Vec::<String>::new());
}

#[test]
fn a_room_has_one_purpose_and_says_it() {
    for folder in with_daemon(&[
        "wire/src",
        "collector/src",
        "engine/src",
        "engine/collective/src",
        "engine/summation/src",
        "engine/tensors/src",
        "xtask/src",
    ]) {
        for (name, text) in sources(&folder) {
            assert!(
                text.starts_with("//!") || name.ends_with("tests.rs"),
                "{name} does not open with what it is for"
            );
            let lines = text.lines().count();
            assert!(lines <= 800, "{name} has {lines} lines: two things live in one room");
        }
    }
}
