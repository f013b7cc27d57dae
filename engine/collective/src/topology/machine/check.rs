//! What a machine's file must not say: what would be lost without a word, or taken for something else. Each mistake names the
//! element that has it.

use std::collections::HashSet;

use crate::topology::xml::{Branch, Element, XmlError};

/// The oldest compute capability whose NVLinks carry both ways alike: Ampere's.
const OLDEST: u32 = 80;

/// Looks through the whole file.
pub(super) fn check(system: &Branch) -> Result<(), XmlError> {
    let mut seen = Seen::default();
    for branch in &system.below {
        seen.visit(branch, Place::System)?;
    }
    seen.check_ages()?;
    seen.check_links()
}

/// What an element is in.
#[derive(Clone, Copy)]
enum Place {
    /// The root.
    System,
    /// A NUMA node.
    Cpu,
    /// A device with this bus id in a NUMA node.
    Pci(u64),
    /// Anything else, where no GPU is looked for.
    Other,
}

struct Gpu {
    device: u32,
    bus_id: u64,
    capability: u32,
}

struct Link {
    name: String,
    target: String,
    from: u64,
    to: u64,
}

/// What has been seen so far.
#[derive(Default)]
struct Seen {
    bus_ids: HashSet<u64>,
    gpus: Vec<Gpu>,
    /// From GPU to GPU.
    links: Vec<Link>,
    is_amd: bool,
}

impl Seen {
    fn visit(&mut self, branch: &Branch, above: Place) -> Result<(), XmlError> {
        let element = &branch.element;
        let place = match element.name.as_str() {
            "cpu" if matches!(above, Place::System) => Place::Cpu,
            "pci" => self.pci(element, above)?,
            "gpu" => self.gpu(element, above)?,
            "nvlink" | "xgmi" => self.link(element, above)?,
            _ => Place::Other,
        };
        // No way leads over a GPU to what hangs below it.
        let ends = branch.below.iter().any(|below| below.element.name == "gpu");
        branch.below.iter().try_for_each(|below| {
            let hidden = ends && below.element.name == "pci";
            self.visit(below, if hidden { Place::Other } else { place })
        })
    }

    fn pci(&mut self, element: &Element, above: Place) -> Result<Place, XmlError> {
        let text = element.text("busid")?;
        let id = bus_id(element, "busid", text)?;
        if !self.bus_ids.insert(id) {
            return Err(XmlError::Unfit(format!("two <pci> have busid=\"{text}\"")));
        }
        Ok(if matches!(above, Place::Cpu | Place::Pci(_)) { Place::Pci(id) } else { Place::Other })
    }

    fn gpu(&mut self, element: &Element, above: Place) -> Result<Place, XmlError> {
        let device = element.small("dev")?;
        let Place::Pci(bus_id) = above else {
            return Err(XmlError::Unfit(format!(
                "<gpu dev=\"{device}\"> is not in a <pci> of a <cpu>, so it has no bus id"
            )));
        };
        if self.gpus.iter().any(|gpu| gpu.device == device) {
            return Err(XmlError::Unfit(format!("two <gpu> have dev=\"{device}\"")));
        }
        if let Some(other) = self.gpus.iter().find(|gpu| gpu.bus_id == bus_id) {
            let other = other.device;
            return Err(XmlError::Unfit(format!(
                "<gpu dev=\"{other}\"> and <gpu dev=\"{device}\"> are in one <pci>"
            )));
        }
        self.gpus.push(Gpu { device, bus_id, capability: element.small("sm")? });
        Ok(above)
    }

    /// A link that does not lead to a switch.
    fn link(&mut self, element: &Element, above: Place) -> Result<Place, XmlError> {
        self.is_amd |= element.name == "xgmi";
        if let Place::Pci(from) = above
            && !element.text("tclass")?.starts_with("0x0680")
        {
            let target = element.text("target")?;
            let to = bus_id(element, "target", target)?;
            self.links.push(Link { name: element.name.clone(), target: target.to_owned(), from, to });
        }
        Ok(Place::Other)
    }

    fn check_ages(&self) -> Result<(), XmlError> {
        let old = self.gpus.iter().find(|gpu| gpu.capability < OLDEST && !self.is_amd);
        old.map_or(Ok(()), |Gpu { device, capability, .. }| {
            let told = format!("<gpu dev=\"{device}\"> has sm=\"{capability}\"");
            Err(XmlError::Unfit(format!("{told}: GPUs before Ampere ({OLDEST}) are not described")))
        })
    }

    /// Each GPU tells its own direction of a link. A link to a GPU that is not in the file counts as none, as in NCCL: a file
    /// that a part of a host's ranks have written has such links.
    fn check_links(&self) -> Result<(), XmlError> {
        let known: HashSet<(u64, u64)> = self.links.iter().map(|link| (link.from, link.to)).collect();
        let gpu = |id: u64| self.gpus.iter().find(|gpu| gpu.bus_id == id).map(|gpu| gpu.device);
        for Link { name, target, from, to } in &self.links {
            if let (Some(device), Some(other)) = (gpu(*from), gpu(*to))
                && !known.contains(&(*to, *from))
            {
                return Err(XmlError::Unfit(format!(
                    "<{name} target=\"{target}\"> of <gpu dev=\"{device}\"> has none back from <gpu dev=\"{other}\">"
                )));
            }
        }
        Ok(())
    }
}

/// `0000:05:00.0` as a number.
fn bus_id(element: &Element, attribute: &str, text: &str) -> Result<u64, XmlError> {
    let digits: String = text.chars().filter(|mark| !matches!(mark, ':' | '.')).collect();
    u64::from_str_radix(&digits, 16).map_err(|_| {
        let name = &element.name;
        XmlError::Unfit(format!("{attribute}=\"{text}\" of <{name}> is not a bus id such as 0000:05:00.0"))
    })
}

#[cfg(test)]
mod tests {
    use crate::topology::machine::files::{self, Machine};

    const SWITCH: &str = r#"<nvlink target="0000:01:00.0" count="8" tclass="0x068000"/>"#;

    fn gpu(bus_id: &str, device: u32, capability: u32, links: &str) -> String {
        format!(
            r#"<pci busid="{bus_id}" class="0x030200"><gpu dev="{device}" sm="{capability}" gdr="1">{links}</gpu></pci>"#
        )
    }

    fn link(to: &str) -> String {
        format!(r#"<nvlink target="{to}" count="1" tclass="0x030200"/>"#)
    }

    fn refusal(cpu: &str) -> String {
        let text = format!(r#"<system version="1"><cpu numaid="0">{cpu}</cpu></system>"#);
        Machine::parse(&text).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn each_mistake_names_its_element() {
        let (one, two) = ("0000:05:00.0", "0000:06:00.0");
        let table = [
            (
                r#"<gpu dev="0" sm="80" gdr="0"/>"#.to_owned(),
                r#"<gpu dev="0"> is not in a <pci> of a <cpu>, so it has no bus id"#,
            ),
            (
                gpu(one, 0, 70, SWITCH),
                r#"<gpu dev="0"> has sm="70": GPUs before Ampere (80) are not described"#,
            ),
            (gpu("xx", 0, 80, SWITCH), r#"busid="xx" of <pci> is not a bus id such as 0000:05:00.0"#),
            (gpu(one, 0, 80, "") + &gpu(one, 1, 80, ""), r#"two <pci> have busid="0000:05:00.0""#),
            (gpu(one, 0, 80, "") + &gpu(two, 0, 80, ""), r#"two <gpu> have dev="0""#),
            (
                gpu(one, 0, 80, "").replace("</pci>", r#"<gpu dev="1" sm="80"/></pci>"#),
                r#"<gpu dev="0"> and <gpu dev="1"> are in one <pci>"#,
            ),
            (
                gpu(one, 0, 80, "").replace("</pci>", &(gpu(two, 1, 80, "") + "</pci>")),
                r#"<gpu dev="1"> is not in a <pci> of a <cpu>, so it has no bus id"#,
            ),
            (
                gpu(one, 0, 80, &link("there")),
                r#"target="there" of <nvlink> is not a bus id such as 0000:05:00.0"#,
            ),
            (
                gpu(one, 0, 80, &link(two)) + &gpu(two, 1, 80, &link("0000:07:00.0")),
                r#"<nvlink target="0000:06:00.0"> of <gpu dev="0"> has none back from <gpu dev="1">"#,
            ),
        ];
        for (cpu, expected) in table {
            assert_eq!(refusal(&cpu), expected, "{cpu}");
        }
    }

    #[test]
    fn what_a_part_of_the_ranks_has_written_is_no_mistake() {
        assert_eq!(refusal(&gpu("0000:05:00.0", 3, 90, &link("0000:4e:00.0"))), "");
    }

    #[test]
    fn machines_that_are_known_have_no_mistakes() {
        for name in files::names().split(", ") {
            assert!(Machine::parse(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn what_is_no_xml_is_not_said_to_be_cut() {
        let error = Machine::parse("root:x:0:0:root:/root:/bin/bash\n").unwrap_err();
        assert_eq!(error.to_string(), "no XML: has no <system>");
    }
}
