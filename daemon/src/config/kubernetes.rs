//! What pods of Kubernetes get that ask for it, as the settings of `ringscope serve` say it.

use ringscope_agent::DEFAULT_DIR;
use ringscope_server::kubernetes::{Architecture, Injection};

use super::Settings;

/// Options of `ringscope serve` that say what pods get.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct KubernetesArgs {
    /// Answer the mutating webhook of a Kubernetes cluster, at /kubernetes/admission: pods with the label ringscope.io/watch=true get
    /// the collector from this image, which has the ringscope program; without it nothing is answered [default: none]
    #[arg(long = "kubernetes-image", value_name = "IMAGE")]
    pub image: Option<String>,
    /// Folder on the nodes in which those pods leave their segments, the one that the agents read [default: /dev/shm/ringscope]
    #[arg(long = "kubernetes-folder", value_name = "DIR")]
    pub folder: Option<String>,
    /// Architecture that the image has, amd64 or arm64; may be repeated. Pods that ask for nodes of others are left alone [default:
    /// this daemon's own]
    #[arg(long = "kubernetes-arch", value_name = "ARCH")]
    pub arch: Vec<String>,
}

impl KubernetesArgs {
    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, &Option<String>)> {
        NAMES.into_iter().zip([&self.image, &self.folder])
    }

    pub(super) fn lists(&self) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
        LISTS.into_iter().zip([&self.arch])
    }
}

/// What pods get. `None`: nothing.
pub(super) fn kubernetes(settings: &mut Settings<'_>) -> Option<Injection> {
    let n_mistakes = settings.mistakes.len();
    let image = settings.get("kubernetes_image", image);
    let is_wrong = settings.mistakes.len() > n_mistakes;
    let folder = settings.get("kubernetes_folder", folder);
    let architectures = settings.get("kubernetes_archs", architectures);
    let Some(image) = image else {
        if !is_wrong && (folder.is_some() || architectures.is_some()) {
            let words =
                "kubernetes_.. without kubernetes_image: name the image that pods get the collector from";
            settings.mistakes.push(words.to_owned());
        }
        return None;
    };
    let architectures = architectures.unwrap_or_else(|| Architecture::here().into_iter().collect());
    Some(Injection { image, folder: folder.unwrap_or_else(|| DEFAULT_DIR.to_owned()), architectures })
}

fn image(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("expected the name of an image, e.g. registry.example/ringscope:1.0".to_owned());
    }
    Ok(text.to_owned())
}

fn folder(text: &str) -> Result<String, String> {
    let is_plain = text.starts_with('/') && !text.split('/').any(|part| part == "..");
    if is_plain {
        Ok(text.to_owned())
    } else {
        Err("expected a folder from the root, e.g. /dev/shm/ringscope".to_owned())
    }
}

fn architectures(text: &str) -> Result<Vec<Architecture>, String> {
    text.split([',', ' ', '\n']).filter(|name| !name.is_empty()).map(str::parse).collect()
}

/// Settings with one value.
pub(super) const NAMES: [&str; 2] = ["kubernetes_image", "kubernetes_folder"];
/// Settings that may have several.
pub(super) const LISTS: [&str; 1] = ["kubernetes_archs"];

#[cfg(test)]
mod tests {
    use super::super::{ServeArgs, ServeConfig};
    use super::*;

    fn load(args: KubernetesArgs) -> Result<Option<Injection>, Vec<String>> {
        let args = ServeArgs { kubernetes: args, ..ServeArgs::default() };
        let config = ServeConfig::load(&args, &|_| None);
        config.map(|config| config.kubernetes).map_err(|error| error.mistakes)
    }

    #[test]
    fn an_image_is_all_that_is_needed_and_the_rest_needs_it() {
        assert_eq!(load(KubernetesArgs::default()), Ok(None));
        let image = Some("registry.example/ringscope:1".to_owned());
        let given =
            load(KubernetesArgs { image: image.clone(), ..KubernetesArgs::default() }).unwrap().unwrap();
        assert_eq!((given.folder.as_str(), given.architectures.len()), (DEFAULT_DIR, 1));
        let both = vec!["amd64".to_owned(), "arm64".to_owned()];
        let given =
            load(KubernetesArgs { image: image.clone(), folder: Some("/x/y".into()), arch: both.clone() });
        let given = given.unwrap().unwrap();
        assert_eq!(given.architectures, [Architecture::Amd64, Architecture::Arm64]);
        for (args, part) in [
            (KubernetesArgs { arch: both, ..KubernetesArgs::default() }, "without kubernetes_image"),
            (
                KubernetesArgs { image: Some("a b".into()), ..KubernetesArgs::default() },
                "the name of an image",
            ),
            (
                KubernetesArgs {
                    image: image.clone(),
                    folder: Some("shm".into()),
                    ..KubernetesArgs::default()
                },
                "from the root",
            ),
            (
                KubernetesArgs { image, arch: vec!["s390x".into()], ..KubernetesArgs::default() },
                "amd64 or arm64",
            ),
        ] {
            let mistakes = load(args).unwrap_err();
            assert!(mistakes.iter().any(|mistake| mistake.contains(part)), "{part} in {mistakes:?}");
        }
    }
}
