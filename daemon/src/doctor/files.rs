//! Before the run: what the files of a command say.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::environment::Inherited;
use super::report::{Copy, Report, Sees, Source};
use super::verdict::{self, Version};
use super::{DoctorError, Way};
use crate::program::{Command, Interpreter, Libraries, Object, is_nccl};

/// What the files say about how NCCL is called.
#[derive(Debug, Default)]
struct Findings {
    copies: Vec<Copy>,
    /// Objects whose calls go through the loader's tables.
    linked: Vec<String>,
    /// Files among the command's words whose calls do, if they are not loaded with `RTLD_DEEPBIND`.
    later: Vec<String>,
    /// Objects with a copy that nobody can get between.
    hidden: Vec<String>,
    /// Programs, packages and scripts that take functions by `dlsym`.
    by_dlsym: Vec<String>,
    missing: BTreeSet<String>,
}

/// Judges a command.
pub(super) fn judge(words: &[OsString], inherited: &Inherited, way: Way) -> Result<Report, DoctorError> {
    let libraries = inherited.libraries();
    let command = Command::resolve(words, inherited.path.as_deref())?;
    let mut findings = Findings::default();
    findings.take(Object::read(&command.program)?, &libraries);
    findings.take_words(&command, &libraries);
    if let Some(python) = command.python().and_then(Interpreter::ask) {
        findings.take_python(&python, &libraries);
    }
    if findings.copies.is_empty() && !findings.by_dlsym.is_empty() {
        findings.take_library_of_loader(&libraries);
    }
    let versions: Vec<Version> =
        findings.copies.iter().filter_map(|copy| Version::parse(copy.version.as_deref()?)).collect();
    let mut advice = Vec::new();
    let sources = vec![
        findings.calls(way, &mut advice),
        completion(&findings, &versions, inherited, &libraries),
        rings(inherited, &mut advice),
    ];
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Ok(Report::new(words.join(" "), findings.copies, sources, advice))
}

impl Findings {
    /// An object with everything that it needs.
    fn take(&mut self, first: Object, libraries: &Libraries) {
        let loaded = libraries.load(first);
        self.missing.extend(loaded.missing.into_iter().filter(|name| is_nccl(name)));
        for object in &loaded.objects {
            self.take_one(object);
        }
    }

    fn take_one(&mut self, object: &Object) {
        let path = object.path.display().to_string();
        if self.copies.iter().any(|copy| copy.path == path) {
            return;
        }
        let name = object.soname.clone().unwrap_or_else(|| path.clone());
        if is_nccl(&name) || is_nccl(&path) {
            let version = object.nccl_version.clone();
            self.copies.push(Copy { path, version, linkage: "linked" });
            return;
        }
        if object.has_static_copy() {
            let is_open = object.interposable.iter().any(|name| object.exported.contains(name));
            let linkage = if is_open { "static, exported" } else { "static, hidden" };
            self.copies.push(Copy { path: path.clone(), version: object.nccl_version.clone(), linkage });
            let list = if is_open { &mut self.linked } else { &mut self.hidden };
            list.push(path);
        } else if !object.imported.is_empty() {
            self.linked.push(path);
        } else if object.uses_dlopen && object.names_nccl {
            self.by_dlsym.push(path);
        }
    }

    /// Libraries that the command is given by name: it loads them itself, nobody knows how. And scripts.
    fn take_words(&mut self, command: &Command, libraries: &Libraries) {
        let linked = self.linked.clone();
        for object in command.files.iter().filter_map(|file| Object::read(file).ok()) {
            self.take(object, libraries);
        }
        self.later = self.linked.iter().filter(|path| !linked.contains(path)).cloned().collect();
        self.linked = linked;
        let scripts = command.files.iter().filter(|file| names_nccl(file));
        self.by_dlsym.extend(scripts.map(|file| file.display().to_string()));
    }

    fn take_python(&mut self, python: &Interpreter, libraries: &Libraries) {
        for framework in python.frameworks() {
            if let Ok(object) = Object::read(&framework) {
                self.take(object, libraries);
            }
        }
        self.by_dlsym.extend(python.callers_by_dlsym().into_iter().map(|name| format!("the package {name}")));
        if let Some(path) = python.nccl() {
            self.take_copy(&path, "package of this Python");
        }
    }

    /// What `dlopen("libnccl.so.2")` would find.
    fn take_library_of_loader(&mut self, libraries: &Libraries) {
        if let Some(path) = crate::program::SONAMES.iter().find_map(|name| libraries.find(name)) {
            self.take_copy(&path, "found by dlopen");
        }
    }

    fn take_copy(&mut self, path: &Path, linkage: &'static str) {
        let shown = path.display().to_string();
        let is_known = self.copies.iter().any(|copy| copy.path == shown);
        if let Ok(object) = Object::read(path)
            && !is_known
        {
            self.copies.push(Copy { path: shown, version: object.nccl_version, linkage });
        }
    }

    fn calls(&self, way: Way, advice: &mut Vec<String>) -> Source {
        let (mut seen, mut unseen) = (self.linked.clone(), Vec::new());
        if way == Way::Shim { &mut seen } else { &mut unseen }.extend(self.by_dlsym.iter().cloned());
        let source = |sees, why| Source { source: "calls", sees, why };
        if way == Way::PluginOnly {
            return source(
                Sees::No,
                "nothing is preloaded (--plugin-only): calls go past ringscope".to_owned(),
            );
        }
        if !unseen.is_empty() {
            advice.push(
                "start it with `ringscope run --shim`: functions are taken by dlsym or ctypes".to_owned(),
            );
        }
        if let Some(hidden) = self.hidden.first() {
            advice.push(format!(
                "the copy of NCCL inside {hidden} cannot be preloaded over: rely on the profiler plugin, or use a build \
                 that links libnccl.so.2"
            ));
        }
        for name in &self.missing {
            advice.push(format!("{name} is not found: set LD_LIBRARY_PATH as for the run"));
        }
        let hidden = self.hidden.iter().map(|path| format!("{path} has NCCL inside, hidden"));
        let by_dlsym = unseen.iter().map(|who| format!("{who} takes functions by dlsym"));
        let unseen: Vec<String> = hidden.chain(by_dlsym).collect();
        if unseen.is_empty() && !self.later.is_empty() {
            advice.push(ASK_AGAIN.to_owned());
            let later = self.later.join(", ");
            let why = format!(
                "the calls of {later} can be intercepted, unless the program loads it with RTLD_DEEPBIND"
            );
            // The stand-in is found by those too.
            return source(if way == Way::Shim { Sees::Yes } else { Sees::Unknown }, why);
        }
        match (seen.is_empty(), unseen.is_empty()) {
            (false, true) => {
                source(Sees::Yes, format!("the calls of {} can be intercepted", seen.join(", ")))
            }
            (false, false) => source(Sees::Partly, unseen.join("; ")),
            (true, false) => source(Sees::No, unseen.join("; ")),
            (true, true) => {
                advice.push(ASK_AGAIN.to_owned());
                source(
                    Sees::Unknown,
                    "nothing that the command loads at its start calls NCCL; it may load it later".to_owned(),
                )
            }
        }
    }
}

fn completion(
    findings: &Findings,
    versions: &[Version],
    inherited: &Inherited,
    libraries: &Libraries,
) -> Source {
    let has_driver = libraries.find("libcuda.so.1").is_some();
    let mut source = verdict::completion(versions, findings.copies.len(), has_driver);
    if let Some(plugin) = inherited.other_plugin(libraries) {
        source.why += &format!("; the profiler plugin {plugin} is called too, by ringscope's");
    }
    source
}

fn rings(inherited: &Inherited, advice: &mut Vec<String>) -> Source {
    if let Some(file) = inherited.overruled_file() {
        advice.push(format!(
            "{file} sets NCCL_DEBUG, which the environment overrules: to keep seeing those lines, export the same NCCL_DEBUG"
        ));
    }
    Source { source: "rings", sees: Sees::Yes, why: format!("from NCCL's log: {}", inherited.log()) }
}

/// Whether a script names the library.
fn names_nccl(script: &Path) -> bool {
    let mut text = Vec::new();
    let read = File::open(script).and_then(|file| file.take(MAX_SCRIPT_BYTES).read_to_end(&mut text));
    read.is_ok() && !text.contains(&0) && String::from_utf8_lossy(&text).contains("libnccl")
}

const ASK_AGAIN: &str = "run it, and ask again beside the run: `ringscope doctor --pid PID`";
/// No script that a person wrote is longer.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;
