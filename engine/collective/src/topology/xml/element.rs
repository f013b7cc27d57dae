//! Elements of a file, one after the other.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::topology::seat::PciDevice;
use crate::topology::xml::{MAX_ELEMENTS, XmlError};

/// An element of a file.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    /// Its name.
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn new(start: &BytesStart<'_>) -> Result<Self, XmlError> {
        let name = start.name().as_ref().to_owned();
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute?;
            let key = attribute.key.as_ref().to_owned();
            let value = attribute.normalized_value(XmlVersion::Implicit1_0)?.into_owned();
            attributes.push((key, value));
        }
        Ok(Self { name, attributes })
    }

    /// All attributes, in their order.
    pub(super) fn attributes(&self) -> &[(String, String)] {
        &self.attributes
    }

    /// An attribute, if it is there.
    pub(crate) fn find(&self, attribute: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == attribute);
        found.map(|(_, value)| value.as_str())
    }

    /// An attribute that must be there.
    pub(crate) fn text(&self, attribute: &'static str) -> Result<&str, XmlError> {
        let missing = || XmlError::Missing { element: self.name.clone(), attribute };
        self.find(attribute).ok_or_else(missing)
    }

    /// A number, in decimal or after `0x` in hexadecimal.
    pub(super) fn number(&self, attribute: &'static str) -> Result<i64, XmlError> {
        let text = self.text(attribute)?.trim();
        let number = match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.map_err(|why| XmlError::Number {
            element: self.name.clone(),
            attribute,
            value: text.to_owned(),
            why,
        })
    }

    /// A number that is cut to 32 bits.
    pub(crate) fn small(&self, attribute: &'static str) -> Result<u32, XmlError> {
        Ok(u32::try_from(self.number(attribute)?).unwrap_or(u32::MAX))
    }

    /// An index without the system that NCCL 2.21 and later put into the upper bits.
    pub(super) fn local(&self, attribute: &'static str) -> Result<usize, XmlError> {
        Ok(usize::try_from(self.number(attribute)? & ((1 << 56) - 1)).unwrap_or(usize::MAX))
    }

    /// A number that may be missing.
    pub(crate) fn optional(&self, attribute: &'static str) -> Result<Option<i64>, XmlError> {
        self.find(attribute).map(|_| self.number(attribute)).transpose()
    }

    /// A PCI device.
    pub(crate) fn pci(&self) -> Result<PciDevice, XmlError> {
        let text = |attribute| self.find(attribute).unwrap_or("").to_owned();
        Ok(PciDevice {
            bus_id: self.text("busid")?.to_ascii_lowercase(),
            class: text("class"),
            link_speed: text("link_speed"),
            link_width: text("link_width"),
        })
    }
}

/// Calls `visit` with each element as it opens (`true`) and closes.
pub(super) fn walk(
    text: &str,
    wanted: &'static str,
    mut visit: impl FnMut(&Element, bool) -> Result<(), XmlError>,
) -> Result<(), XmlError> {
    let mut reader = Reader::from_str(text);
    let mut open: Vec<Element> = Vec::new();
    let mut has_root = false;
    for _ in 0..MAX_ELEMENTS {
        match reader.read_event()? {
            Event::Start(start) => {
                let element = Element::new(&start)?;
                root(open.is_empty(), &element, wanted)?;
                has_root = true;
                visit(&element, true)?;
                open.push(element);
            }
            Event::Empty(start) => {
                let element = Element::new(&start)?;
                root(open.is_empty(), &element, wanted)?;
                has_root = true;
                visit(&element, true)?;
                visit(&element, false)?;
            }
            Event::End(_) => open.pop().map_or(Ok(()), |element| visit(&element, false))?,
            Event::Eof if !has_root => return Err(XmlError::NoElement(wanted)),
            Event::Eof => return open.pop().map_or(Ok(()), |element| Err(XmlError::Cut(element.name))),
            _ => {}
        }
    }
    Err(XmlError::TooLarge)
}

fn root(is_root: bool, element: &Element, wanted: &'static str) -> Result<(), XmlError> {
    if is_root && element.name != wanted {
        return Err(XmlError::OtherKind { found: element.name.clone(), wanted });
    }
    Ok(())
}
