//! The variables of a watched container: those that `ringscope run` would set, as far as they can be known before there is a
//! process, and those that say which pod it is. What the user has set stays; where it cannot be known nothing is joined to it.

use ringscope_wire::settings::{PRELOAD_FILE, file_name, is_sanitizer};
use serde_json::{Value, json};

use super::chosen::Chosen;
use super::patch::Patch;
use super::{COLLECTOR, SEGMENTS};

/// What all containers of a pod are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'r> {
    pub(super) job: &'r str,
    /// The question's number, which nobody knows before: it makes names of logs that nobody can guess.
    pub(super) run: &'r str,
}

/// What a container says of a variable.
enum Theirs<'p> {
    Nothing,
    /// Its index and value.
    Said(usize, &'p str),
    /// By reference: the value is known only on the node.
    Elsewhere,
}

/// The variables that a container names.
struct Environment<'p>(&'p [Value]);

impl<'p> Environment<'p> {
    fn of(container: &'p Value) -> Self {
        Self(container["env"].as_array().map(Vec::as_slice).unwrap_or_default())
    }

    fn theirs(&self, name: &str) -> Theirs<'p> {
        // Of two with one name the last one counts.
        let Some(index) = self.0.iter().rposition(|variable| variable["name"] == name) else {
            return Theirs::Nothing;
        };
        let variable = &self.0[index];
        match &variable["value"] {
            Value::String(value) => Theirs::Said(index, value),
            _ if variable.get("valueFrom").is_some_and(|from| !from.is_null()) => Theirs::Elsewhere,
            _ => Theirs::Said(index, ""),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|variable| variable["name"] == name)
    }
}

/// Sets the variables of a container at `at`.
pub(super) fn give(
    patch: &mut Patch,
    at: &str,
    chosen: &Chosen<'_>,
    given: &Given<'_>,
    notes: &mut Vec<String>,
) {
    let environment = Environment::of(chosen.container);
    let mut added = places(chosen.name, given.job);
    added.extend(preload(patch, at, &environment, chosen.name, notes));
    added.extend(plugin(patch, at, &environment, chosen.name, notes));
    added.extend(log(&environment, given.run, chosen.name, notes));
    python(patch, at, &environment);
    let new = added.into_iter().filter(|variable| {
        let name = variable["name"].as_str().unwrap_or_default();
        !environment.has(name)
    });
    patch.append(chosen.container.get("env"), &format!("{at}/env"), new.collect());
}

/// Where the process is, and what it belongs to.
fn places(container: &str, job: &str) -> Vec<Value> {
    let from = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}});
    vec![
        from("POD_NAME", "metadata.name"),
        from("POD_NAMESPACE", "metadata.namespace"),
        from("NODE_NAME", "spec.nodeName"),
        said("CONTAINER_NAME", container),
        from("RINGSCOPE_HOST", "spec.nodeName"),
        said("RINGSCOPE_JOB", job),
        said("RINGSCOPE_DIR", SEGMENTS),
    ]
}

/// The collector before what is preloaded already.
fn preload(
    patch: &mut Patch,
    at: &str,
    environment: &Environment<'_>,
    container: &str,
    notes: &mut Vec<String>,
) -> Vec<Value> {
    let ours = format!("{COLLECTOR}/{PRELOAD_FILE}");
    let value = match environment.theirs("LD_PRELOAD") {
        Theirs::Elsewhere => {
            notes.push(format!(
                "LD_PRELOAD of container {container} comes from elsewhere and cannot be joined: nothing is preloaded, and only \
                 NCCL's plugin tells of it"
            ));
            return Vec::new();
        }
        Theirs::Said(_, theirs) if libraries(theirs).any(|entry| is_sanitizer(entry.as_bytes())) => {
            notes.push(format!(
                "container {container} preloads a sanitizer, which wants to be first: nothing else is preloaded"
            ));
            return Vec::new();
        }
        Theirs::Said(index, theirs) => {
            // Nor another release's: two of them would call each other.
            let is_theirs = |entry: &&str| file_name(entry.as_bytes()) != PRELOAD_FILE.as_bytes();
            let theirs = libraries(theirs).filter(is_theirs);
            let joined = std::iter::once(ours.as_str()).chain(theirs).collect::<Vec<_>>().join(":");
            patch.set(&format!("{at}/env/{index}"), "value", &joined.into());
            return vec![said("RINGSCOPE_COLLECTOR", &collector())];
        }
        Theirs::Nothing => ours,
    };
    vec![said("LD_PRELOAD", &value), said("RINGSCOPE_COLLECTOR", &collector())]
}

/// The collector as NCCL's profiler plugin, which calls the one that the user named.
fn plugin(
    patch: &mut Patch,
    at: &str,
    environment: &Environment<'_>,
    container: &str,
    notes: &mut Vec<String>,
) -> Vec<Value> {
    // Another watcher of the summation service keeps its place: a variable that is there is left.
    let mut added = vec![said("RSUM_OBSERVER", &collector())];
    match environment.theirs("NCCL_PROFILER_PLUGIN") {
        Theirs::Elsewhere => notes.push(format!(
            "NCCL_PROFILER_PLUGIN of container {container} comes from elsewhere and is left as it is: how long operations take is \
             not seen"
        )),
        Theirs::Said(index, theirs) => {
            patch.set(&format!("{at}/env/{index}"), "value", &collector().into());
            if !theirs.is_empty() && !theirs.eq_ignore_ascii_case("none") {
                added.push(said("RINGSCOPE_CHAIN_PLUGIN", theirs));
            }
        }
        Theirs::Nothing => {
            added.push(said("NCCL_PROFILER_PLUGIN", &collector()));
            // What NCCL would have looked for.
            added.push(said("RINGSCOPE_CHAIN_PLUGIN", "libnccl-profiler.so"));
        }
    }
    added
}

/// Where NCCL writes what the rings are known from, unless the user wants to see its log.
///
/// Each container numbers its processes itself, so its name is in that of the log; not the host's, for which the agent has the node's.
fn log(environment: &Environment<'_>, run: &str, container: &str, notes: &mut Vec<String>) -> Vec<Value> {
    let theirs = ["NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"];
    if let Some(name) = theirs.into_iter().find(|name| environment.has(name)) {
        notes.push(format!(
            "container {container} sets {name}, so NCCL's log stays as it is: rings and channels are known only if it is a file in \
             {SEGMENTS} and says INFO of INIT and GRAPH"
        ));
        return Vec::new();
    }
    vec![
        said("NCCL_DEBUG", "INFO"),
        said("NCCL_DEBUG_SUBSYS", "INIT,GRAPH,ENV"),
        said("NCCL_DEBUG_FILE", &format!("{SEGMENTS}/nccl-{run}-{container}-%p.log")),
        said("RINGSCOPE_RUN_ID", run),
    ]
}

/// Names of PyTorch's groups, where the pod says where Python looks for modules. Where it does not its image may, and what that says
/// would be lost.
fn python(patch: &mut Patch, at: &str, environment: &Environment<'_>) {
    let ours = format!("{COLLECTOR}/python");
    if let Theirs::Said(index, theirs) = environment.theirs("PYTHONPATH")
        && !theirs.is_empty()
        && !theirs.split(':').any(|folder| folder == ours)
    {
        patch.set(&format!("{at}/env/{index}"), "value", &format!("{ours}:{theirs}").into());
    }
}

fn said(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn collector() -> String {
    format!("{COLLECTOR}/libringscope.so")
}

/// Libraries of an `LD_PRELOAD`.
fn libraries(list: &str) -> impl Iterator<Item = &str> {
    list.split([' ', ':']).filter(|entry| !entry.is_empty())
}
