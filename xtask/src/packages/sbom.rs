//! What is inside: all crates and the page's packages, with versions and licences, as CycloneDX.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::target::Target;
use super::tools;
use crate::process::{command, root, run};

/// Writes one list for the `ringscope` binaries of all architectures.
pub(super) fn make() -> Result<()> {
    let mut whole = None;
    for target in Target::ALL {
        let made = of_crates(target);
        clear()?;
        for list in made? {
            whole = Some(match whole {
                None => list,
                Some(whole) => merged(whole, list),
            });
        }
    }
    let lock = read(&root().join("web/package-lock.json"))?;
    let whole = merged(whole.context("there are no lists")?, of_page(&lock));
    // The folder of this machine says nothing to others, and would differ between two machines.
    let text = serde_json::to_string_pretty(&whole)?.replace(&root().display().to_string(), "/ringscope");
    let to = super::folder().join(format!("ringscope-{}.cdx.json", env!("CARGO_PKG_VERSION")));
    fs::write(&to, text + "\n").with_context(|| format!("cannot write {}", to.display()))
}

/// The lists of the binary and of each library inside it, the binary's first.
fn of_crates(target: Target) -> Result<Vec<Value>> {
    let mut command = tools::subcommand(tools::CYCLONEDX)?;
    command.args(["cyclonedx", "--manifest-path", "daemon/Cargo.toml", "--format", "json"]);
    command.args(["--spec-version", "1.5", "--no-build-deps", "--override-filename", NAME]);
    command.args(["--target", target.triple()]);
    run(command.env("SOURCE_DATE_EPOCH", super::source_date()?.to_string()))?;
    INSIDE.iter().map(|folder| read(&root().join(folder).join(format!("{NAME}.json")))).collect()
}

/// It leaves one beside each crate of ours.
fn clear() -> Result<()> {
    for manifest in super::output(&mut command("git", ["ls-files", "*Cargo.toml"]))?.lines() {
        let beside = root().join(manifest).with_file_name(format!("{NAME}.json"));
        if beside.exists() {
            fs::remove_file(&beside)?;
        }
    }
    Ok(())
}

/// The packages of npm that are in the page, as npm's lock names them.
fn of_page(lock: &Value) -> Value {
    let packages = lock["packages"].as_object().into_iter().flatten();
    let inside = packages.filter(|(_, package)| package["dev"] != true);
    let components: Vec<Value> = inside
        .filter_map(|(path, package)| {
            let name = path.strip_prefix("node_modules/")?;
            let version = package["version"].as_str()?;
            let purl = format!("pkg:npm/{}@{version}", name.replace('@', "%40"));
            let licenses = json!([{"expression": package["license"]}]);
            Some(json!({"type": "library", "bom-ref": purl, "name": name, "version": version, "licenses": licenses, "purl": purl}))
        })
        .collect();
    json!({"components": components})
}

/// One list with all that is in either. What the second is of becomes a part of what the first is of.
fn merged(mut whole: Value, mut part: Value) -> Value {
    let main = whole["metadata"]["component"]["bom-ref"].clone();
    let mut components = by_key(&whole["components"], "bom-ref");
    let mut dependencies = by_key(&whole["dependencies"], "ref");
    let own = part["metadata"]["component"].take();
    // Of the page there is none: its packages are parts of the whole.
    let mut parts = vec![own["bom-ref"].clone()];
    if own.is_null() {
        parts =
            part["components"].as_array().into_iter().flatten().map(|one| one["bom-ref"].clone()).collect();
    } else if own["bom-ref"] != main {
        components.entry(text(&own["bom-ref"])).or_insert(own);
    }
    for (key, component) in by_key(&part["components"], "bom-ref") {
        components.entry(key).or_insert(component);
    }
    let more = by_key(&part["dependencies"], "ref");
    let of_main = (text(&main), json!({"ref": main, "dependsOn": parts}));
    for (key, dependency) in more.into_iter().chain([of_main]) {
        let known = dependencies.entry(key).or_insert_with(|| json!({"ref": dependency["ref"]}));
        let both = [&known["dependsOn"], &dependency["dependsOn"]].into_iter().filter_map(Value::as_array);
        let both: BTreeSet<String> =
            both.flatten().map(text).filter(|one| *one != text(&known["ref"])).collect();
        known["dependsOn"] = json!(both);
    }
    components.remove(&text(&main));
    whole["components"] = components.into_values().collect();
    whole["dependencies"] = dependencies.into_values().collect();
    whole
}

fn by_key(list: &Value, key: &str) -> BTreeMap<String, Value> {
    list.as_array().into_iter().flatten().map(|one| (text(&one[key]), one.clone())).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn read(path: &Path) -> Result<Value> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is no JSON", path.display()))
}

const NAME: &str = "ringscope-sbom";
/// Folders of the crates whose products are in the binary, its own first.
const INSIDE: [&str; 5] = ["daemon", "collector", "collector/preload", "collector/summation", "engine"];

#[cfg(test)]
mod tests {
    use super::*;

    fn list(name: &str, components: &[&str]) -> Value {
        let own = json!({"bom-ref": name, "name": name});
        let others: Vec<Value> = components.iter().map(|one| json!({"bom-ref": one, "name": one})).collect();
        json!({
            "metadata": {"component": own},
            "components": others,
            "dependencies": [{"ref": name, "dependsOn": components}],
        })
    }

    #[test]
    fn a_library_inside_brings_what_is_in_it() {
        let whole = merged(list("daemon", &["serde", "wire"]), list("engine", &["cuda", "wire"]));
        let names: Vec<String> = by_key(&whole["components"], "name").into_keys().collect();
        assert_eq!(names, ["cuda", "engine", "serde", "wire"]);
        let dependencies = by_key(&whole["dependencies"], "ref");
        assert_eq!(dependencies["daemon"]["dependsOn"], json!(["engine", "serde", "wire"]));
        assert_eq!(dependencies["engine"]["dependsOn"], json!(["cuda", "wire"]));
    }

    #[test]
    fn the_same_for_another_architecture_adds_only_what_differs() {
        let whole = merged(list("daemon", &["serde"]), list("daemon", &["arm", "serde"]));
        let names: Vec<String> = by_key(&whole["components"], "name").into_keys().collect();
        assert_eq!(names, ["arm", "serde"]);
        assert_eq!(by_key(&whole["dependencies"], "ref")["daemon"]["dependsOn"], json!(["arm", "serde"]));
    }

    #[test]
    fn the_page_brings_what_browsers_load_and_not_what_built_it() {
        let lock = json!({"packages": {
            "": {"license": "Apache-2.0"},
            "node_modules/@preact/signals": {"version": "2.0.0", "license": "MIT"},
            "node_modules/vite": {"version": "8.0.0", "license": "MIT", "dev": true},
        }});
        let whole = merged(list("daemon", &[]), of_page(&lock));
        let purl = "pkg:npm/%40preact/signals@2.0.0";
        assert_eq!(whole["components"].as_array().map(Vec::len), Some(1));
        assert_eq!(whole["components"][0]["purl"], purl);
        assert_eq!(whole["components"][0]["licenses"], json!([{"expression": "MIT"}]));
        assert_eq!(by_key(&whole["dependencies"], "ref")["daemon"]["dependsOn"], json!([purl]));
    }
}
