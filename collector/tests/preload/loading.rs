//! What is preloaded loads into every program at next to no cost, opens the collector where that can be, and leads to the
//! program's own functions everywhere else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use object::elf::{DT_INIT, DT_INIT_ARRAY, DT_NEEDED, DT_TEXTREL, DT_VERNEED, PT_TLS, STT_GNU_IFUNC};
use object::read::elf::{Dyn as _, ElfFile64, ProgramHeader as _};
use object::{Object as _, ObjectSymbol as _};

use crate::harness::{Job, assert_good, compile, library, preload, programs};

/// More would no longer be "a few kilobytes".
const MAX_PRELOAD_BYTES: usize = 32 * 1024;

/// Names of functions in a file that others may find.
fn exported(file: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(file).unwrap();
    let object = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    let defined = object.dynamic_symbols().filter(|symbol| symbol.is_definition());
    defined.map(|symbol| symbol.name().unwrap().to_owned()).collect()
}

#[test]
fn what_is_preloaded_needs_nothing_and_does_nothing_when_it_is_loaded() {
    let bytes = std::fs::read(preload()).unwrap();
    assert!(bytes.len() <= MAX_PRELOAD_BYTES, "{} bytes", bytes.len());
    let object = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    let endian = object.endian();
    let headers = object.elf_program_headers();
    assert!(headers.iter().all(|header| header.p_type(endian) != PT_TLS), "no memory of threads");
    let entries = headers.iter().find_map(|header| header.dynamic(endian, &*bytes).unwrap()).unwrap();
    let tags: Vec<_> = entries.iter().map(|entry| entry.d_tag(endian)).collect();
    for (tag, what) in [
        (DT_NEEDED, "needs a library"),
        (DT_VERNEED, "needs a version"),
        (DT_INIT, "has code that runs when it is loaded"),
        (DT_INIT_ARRAY, "has constructors"),
        (DT_TEXTREL, "writes into its code"),
    ] {
        assert!(!tags.contains(&tag), "it {what}");
    }
    for symbol in object.dynamic_symbols() {
        assert!(symbol.is_definition() || symbol.is_weak() || symbol.name() == Ok(""), "{:?}", symbol.name());
        assert_ne!(symbol.elf_symbol().st_type(), STT_GNU_IFUNC, "{:?}", symbol.name());
    }
}

/// The versions of glibc's that a library needs.
fn glibc_versions(library: &Path) -> Vec<String> {
    let bytes = std::fs::read(library).unwrap();
    let object = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    let (endian, sections) = (object.endian(), object.elf_section_table());
    let (mut libraries, link) = sections.gnu_verneed(endian, &*bytes).unwrap().unwrap();
    let strings = sections.strings(endian, &*bytes, link).unwrap();
    let mut versions = Vec::new();
    while let Some((_, mut names)) = libraries.next().unwrap() {
        while let Some(name) = names.next().unwrap() {
            let name = std::str::from_utf8(name.name(endian, strings).unwrap()).unwrap();
            versions.extend(name.strip_prefix("GLIBC_").map(str::to_owned));
        }
    }
    versions
}

#[test]
fn the_collector_and_its_watcher_run_on_a_glibc_of_2012() {
    for name in ["libringscope.so", "libringscope_watcher.so"] {
        let versions = glibc_versions(&library().with_file_name(name));
        assert!(!versions.is_empty(), "{name}");
        for version in versions {
            let numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap()).collect();
            assert!(numbers <= vec![2, 17], "{name} needs GLIBC_{version}");
        }
    }
}

#[test]
fn it_exports_what_leads_to_the_collectors_functions_and_two_answers_for_the_collector() {
    let collectors = exported(&library());
    let is_call = |name: &&String| !name.starts_with("ncclProfiler_v") && *name != "rsumObserver_v1";
    let mut expected: BTreeSet<String> = collectors.iter().filter(is_call).cloned().collect();
    expected.extend(["ringscope_preload_holds", "ringscope_preload_next"].map(str::to_owned));
    assert_eq!(exported(preload()), expected, "left: preloaded, right: the collector's");
}

/// The folder of the loading tests' programs, made once.
fn built() -> &'static Path {
    static BUILT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    BUILT.get_or_init(|| {
        let dir = programs().join("loading");
        std::fs::create_dir_all(&dir).unwrap();
        let rpath = "-Wl,-rpath,$ORIGIN";
        let library = ["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"];
        compile(&dir, "libnccl.so.2", "loading_nccl.c", &library);
        let nccl = ["-L.", "-l:libnccl.so.2", rpath];
        compile(&dir, "use.o", "loading_use.c", &["-c", "-fPIC"]);
        compile(&dir, "libuse.so", "loading_use.c", &[&["-shared", "-fPIC"], &nccl[..]].concat());
        compile(&dir, "program", "loading.c", &[&["use.o"], &nccl[..]].concat());
        compile(&dir, "early", "loading.c", &[&["-DEARLY", "use.o"], &nccl[..]].concat());
        compile(&dir, "copy", "loading.c", &[&["-DCOPY", "use.o"], &nccl[..]].concat());
        // Two objects, for the linker to be in the middle of.
        compile(&dir, "libinner.so", "other_watcher.c", &["-shared", "-fPIC"]);
        compile(
            &dir,
            "libouter.so",
            "other_watcher.c",
            &["-shared", "-fPIC", "-Wl,--no-as-needed", "-L.", "-l:libinner.so", rpath],
        );
        // Compiled so that it has no copy of what the linker says.
        let stuck = ["-fPIC", "use.o", "-ldl", "-Wl,--export-dynamic"];
        compile(&dir, "stuck", "loading_stuck.c", &[&stuck, &nccl[..]].concat());
        compile(&dir, "local", "loading_local.c", &["-ldl", rpath]);
        let cpp = ["-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libunwind_nccl.so", "-lstdc++"];
        compile(&dir, "libunwind_nccl.so", "loading_unwind.cc", &cpp);
        let unwind = ["-L.", "-l:libunwind_nccl.so", "-lstdc++", rpath];
        compile(&dir, "unwind", "loading_unwind.cc", &unwind);
        compile(&dir, "stuck_local", "loading_stuck.c", &["-fPIC", "-ldl", rpath]);
        compile(&dir, "atfork", "loading_atfork.c", &["-ldl", "-Wl,--export-dynamic"]);
        dir
    })
}

/// One of the programs, in one of its ways.
fn job(program: &str, way: &str) -> Job {
    let mut job = Job::of(&built().join(program), &format!("{program}-{way}")).without("LD_LIBRARY_PATH");
    job.command().arg(way);
    job
}

/// Runs it to its good end; the number of processes that left a segment.
fn n_segments(job: Job) -> usize {
    job.succeed().segments().len()
}

#[test]
fn a_program_without_the_library_goes_on_untouched() {
    let mut job = Job::of(Path::new("/bin/true"), "true");
    assert_good(&job.command().output().unwrap());
    assert!(!job.dir.exists());
}

#[test]
fn the_first_call_opens_the_collector_from_wherever_it_comes() {
    for way in ["plain", "threads", "child", "cancelled"] {
        assert_eq!(n_segments(job("program", way)), 1, "{way}");
    }
    assert_eq!(n_segments(job("early", "early")), 1, "a constructor");
    assert_eq!(n_segments(job("copy", "plain")), 1, "a copy of what the linker says");
}

#[test]
fn the_collector_may_be_preloaded_itself() {
    for way in ["plain", "threads", "child"] {
        assert_eq!(n_segments(job("program", way).env("LD_PRELOAD", library())), 1, "{way}");
        let both = format!("{}:{}", preload().display(), library().display());
        assert_eq!(n_segments(job("program", way).env("LD_PRELOAD", both)), 1, "both, {way}");
        let both = format!("{}:{}", library().display(), preload().display());
        assert_eq!(n_segments(job("program", way).env("LD_PRELOAD", both)), 1, "the other way, {way}");
    }
}

#[test]
fn without_a_collector_calls_go_to_the_programs_own_library() {
    for way in ["plain", "threads", "child", "cancelled"] {
        let missing = job("program", way).env("RINGSCOPE_COLLECTOR", "/nowhere/libringscope.so");
        assert_eq!(n_segments(missing), 0, "missing, {way}");
        assert_eq!(n_segments(job("program", way).without("RINGSCOPE_COLLECTOR")), 0, "not named, {way}");
        let other = job("program", way).env("RINGSCOPE_COLLECTOR", built().join("libnccl.so.2"));
        assert_eq!(n_segments(other), 0, "something else, {way}");
        let relative = library().file_name().unwrap().to_owned();
        assert_eq!(
            n_segments(job("program", way).env("RINGSCOPE_COLLECTOR", relative)),
            0,
            "relative, {way}"
        );
    }
}

#[test]
fn a_child_with_half_of_another_object_goes_on() {
    // Its own process is recorded; the child only where what it opens is there already.
    for (who, n) in [("both", 2), ("child", 1)] {
        assert_eq!(n_segments(job("stuck", who)), n, "{who}");
        let mut local = job("stuck_local", who);
        local.command().arg("libuse.so");
        n_segments(local);
    }
}

#[test]
fn a_job_that_has_called_can_be_aborted_while_a_thread_is_in_the_linker() {
    // The first call of a function would wait for the linker's lock: for ever, if what is opened hangs.
    assert_eq!(n_segments(job("stuck", "thread")), 1);
    let mut local = job("stuck_local", "thread");
    local.command().arg("libuse.so");
    n_segments(local);
}

#[test]
fn a_child_that_waits_in_vain_for_the_linker_can_be_ended() {
    assert_eq!(n_segments(job("stuck", "ended")), 0);
}

#[test]
fn an_object_opened_for_itself_gets_its_own_library_also_without_a_collector() {
    for (collector, n) in [(Some(library()), 1), (Some("/nowhere/libringscope.so".into()), 0), (None, 0)] {
        let mut local = job("local", "libuse.so");
        local = match collector {
            Some(path) => local.env("RINGSCOPE_COLLECTOR", path),
            None => local.without("RINGSCOPE_COLLECTOR"),
        };
        assert_eq!(n_segments(local), n);
    }
}

#[test]
fn what_unwinds_out_of_the_library_passes() {
    // Thrown, ended by itself, cancelled, returned: by the first call of all or a later one.
    for ways in ["trec", "etc", "ctr", "rtec"] {
        n_segments(job("unwind", ways));
        n_segments(job("unwind", ways).env("RINGSCOPE_COLLECTOR", "/nowhere/libringscope.so"));
    }
}

#[test]
fn forks_are_watched_from_the_first_call_and_not_while_the_collector_is_opened() {
    n_segments(job("atfork", "").without("LD_PRELOAD"));
}

#[test]
fn a_child_that_is_made_while_forks_begin_to_be_watched_calls_also_where_the_kernel_wipes_no_pages() {
    n_segments(job("atfork", "unwiped").without("LD_PRELOAD"));
}
