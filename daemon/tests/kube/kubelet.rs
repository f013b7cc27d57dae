//! What kubelet does to a pod before its containers start, as far as podman 4 does not: fields of the pod in variables, secrets,
//! settings and claims as folders. What only a cluster has (probes, service accounts, scheduling) is left out.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::common::free_port;

/// A node, with its folders below `dir`.
pub(crate) struct Kubelet<'d> {
    pub(crate) node: &'static str,
    pub(crate) namespace: &'static str,
    pub(crate) dir: &'d Path,
    /// Secrets and settings of the namespace.
    pub(crate) objects: &'d [Value],
    /// Names of the cluster's services, as its DNS tells them.
    pub(crate) hosts: Vec<(String, Vec<String>)>,
}

impl Kubelet<'_> {
    /// The pod of a template, under a name.
    pub(crate) fn pod(&self, name: &str, template: &Value) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"].clone(),
            "spec": template["spec"].clone()});
        pod["metadata"]["name"] = name.into();
        pod["metadata"]["namespace"] = self.namespace.into();
        self.complete(&mut pod);
        pod
    }

    /// The pod as it starts here.
    pub(crate) fn complete(&self, pod: &mut Value) {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let owner = pod["spec"]["securityContext"]["fsGroup"].as_u64().and_then(|id| u32::try_from(id).ok());
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                self.complete_container(container, &name);
            }
        }
        for volume in pod["spec"]["volumes"].as_array_mut().into_iter().flatten() {
            self.complete_volume(volume, &name, owner);
        }
        // podman would remove them once they have ended, and fails where it does not see that at once.
        pod["metadata"]["annotations"]["io.podman.annotations.init.container.type"] = "always".into();
        let spec = pod["spec"].as_object_mut().unwrap();
        // It would start init containers again and again.
        spec.insert("restartPolicy".to_owned(), "Never".into());
        let aliases = self.hosts.iter().map(|(ip, names)| json!({"ip": ip, "hostnames": names}));
        spec.insert("hostAliases".to_owned(), aliases.collect());
        for clusters in ["serviceAccountName", "automountServiceAccountToken", "tolerations", "nodeSelector"]
        {
            spec.remove(clusters);
        }
    }

    fn complete_container(&self, container: &mut Value, pod: &str) {
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            container.as_object_mut().unwrap().remove(probe);
        }
        for variable in container["env"].as_array_mut().into_iter().flatten() {
            let Some(path) = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() else { continue };
            let value = match path {
                "metadata.name" => pod,
                "metadata.namespace" => self.namespace,
                "spec.nodeName" => self.node,
                other => panic!("{other} is not known here"),
            };
            *variable = json!({"name": variable["name"], "value": value});
        }
        // podman opens each port on the node too, where it may be another's.
        for port in container["ports"].as_array_mut().into_iter().flatten() {
            port["hostPort"] = free_port().into();
        }
        if container["env"].is_null() {
            container.as_object_mut().unwrap().remove("env");
        }
    }

    fn complete_volume(&self, volume: &mut Value, pod: &str, owner: Option<u32>) {
        let name = volume["name"].as_str().unwrap().to_owned();
        let folder = self.dir.join(format!("{pod}-{name}"));
        let files = if let Some(secret) = volume.get("secret") {
            let data = &self.object("Secret", &secret["secretName"])["data"];
            picked(secret, &decoded(data))
        } else if let Some(settings) = volume.get("configMap") {
            let data = &self.object("ConfigMap", &settings["name"])["data"];
            serde_json::from_value(data.clone()).unwrap()
        } else if volume.get("emptyDir").is_some() {
            // podman's would be one for all pods that call it so.
            fs::create_dir_all(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
            *volume = json!({"name": name, "hostPath": {"path": folder, "type": "Directory"}});
            return;
        } else if let Some(claim) = volume.get("persistentVolumeClaim") {
            let claim = self.dir.join(claim["claimName"].as_str().unwrap());
            fs::create_dir_all(&claim).unwrap();
            chown(&claim, owner, owner).unwrap();
            *volume = json!({"name": name, "hostPath": {"path": claim, "type": "Directory"}});
            return;
        } else {
            return;
        };
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in files {
            let file = folder.join(file);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).unwrap();
            chown(&file, None, owner).unwrap();
        }
        *volume = json!({"name": name, "hostPath": {"path": folder, "type": "Directory"}});
    }

    fn object(&self, kind: &str, name: &Value) -> &Value {
        let found = self.objects.iter().find(|one| one["kind"] == kind && one["metadata"]["name"] == *name);
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    }
}

/// What a secret says, decoded.
pub(crate) fn decoded(data: &Value) -> BTreeMap<String, String> {
    let entries = data.as_object().unwrap().iter();
    let text = |value: &Value| String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
    entries.map(|(key, value)| (key.clone(), text(value))).collect()
}

/// The files of a secret that a volume wants; all, if it names none.
fn picked(volume: &Value, all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let Some(items) = volume["items"].as_array() else { return all.clone() };
    let items = items.iter().map(|item| (item["path"].as_str().unwrap(), item["key"].as_str().unwrap()));
    items.map(|(path, key)| (path.to_owned(), all[key].clone())).collect()
}
