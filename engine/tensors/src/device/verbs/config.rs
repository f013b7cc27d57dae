//! Which NIC is used, and how: settings of the environment, all with defaults.

use crate::device::FlagForm;
use crate::error::{Error, Result};

/// Settings of a connection over verbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `RTENSOR_IB_HCA`: the device's name; the first with an active port by default.
    pub device: Option<String>,
    /// `RTENSOR_IB_PORT`: its port; the first active one by default.
    pub port: Option<u8>,
    /// `RTENSOR_IB_GID_INDEX`: the place in the port's table of identifiers; by default the first of RoCE v2 with an IPv4
    /// address, then the first of RoCE v2, then the first.
    pub gid_index: Option<u32>,
    /// `RTENSOR_IB_TC`: traffic class; 0 by default, the network's best effort.
    pub traffic_class: u8,
    /// `RTENSOR_IB_SL`: service level; 0 by default.
    pub service_level: u8,
    /// `RTENSOR_IB_TIMEOUT`: an answer is waited for 4.096 µs × 2^this before a request is repeated; 18 by default: 1.1 s. 0 is for
    /// ever.
    pub timeout: u8,
    /// `RTENSOR_IB_RETRIES`: how often it is repeated before the peer counts as lost; 6 by default: 7.5 s in all, longer than a
    /// network needs for another way round a link that is down. 7 is for ever on some devices. Soft RoCE counts each packet that is
    /// missed until a whole request is through, also while there is progress.
    pub retries: u8,
    /// `RTENSOR_IB_FLAG`: how transfers end, the same at both ends: `immediate` (the default: right on every NIC, one work
    /// request), `behind` (two work requests; on NICs that place one write after the other, which InfiniBand does not ask for)
    /// or `tail` (one work request; only on networks and NICs that place a write's bytes in their order).
    pub form: FlagForm,
}

/// Of [`Settings::timeout`].
const TIMEOUT: u8 = 18;
/// Of [`Settings::retries`].
const RETRIES: u8 = 6;

impl Default for Settings {
    fn default() -> Self {
        let (device, port, gid_index) = (None, None, None);
        let (traffic_class, service_level, form) = (0, 0, FlagForm::Immediate);
        let (timeout, retries) = (TIMEOUT, RETRIES);
        Self { device, port, gid_index, traffic_class, service_level, timeout, retries, form }
    }
}

impl Settings {
    /// What the environment says.
    ///
    /// # Errors
    /// A setting makes no sense; all that make none are named.
    #[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
    pub fn from_env() -> Result<Self> {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(value: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut wrong = Vec::new();
        let mut number = |name: &str, most: u32| {
            let text = value(name)?;
            let number = text.parse::<u32>().ok().filter(|number| *number <= most);
            if number.is_none() {
                wrong.push(format!("{name}={text} (a number up to {most})"));
            }
            number
        };
        let byte = |number: Option<u32>| number.and_then(|number| u8::try_from(number).ok());
        let mut settings = Self {
            device: value("RTENSOR_IB_HCA"),
            port: byte(number("RTENSOR_IB_PORT", 255)),
            gid_index: number("RTENSOR_IB_GID_INDEX", 255),
            traffic_class: byte(number("RTENSOR_IB_TC", 255)).unwrap_or(0),
            service_level: byte(number("RTENSOR_IB_SL", 15)).unwrap_or(0),
            timeout: byte(number("RTENSOR_IB_TIMEOUT", 31)).unwrap_or(TIMEOUT),
            retries: byte(number("RTENSOR_IB_RETRIES", 7)).unwrap_or(RETRIES),
            form: FlagForm::Immediate,
        };
        match value("RTENSOR_IB_FLAG").as_deref() {
            None | Some("immediate") => {}
            Some("behind") => settings.form = FlagForm::Behind,
            Some("tail") => settings.form = FlagForm::Tail,
            Some(other) => wrong.push(format!("RTENSOR_IB_FLAG={other} (immediate, behind or tail)")),
        }
        if wrong.is_empty() { Ok(settings) } else { Err(Error::Usage(wrong.join(", "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_defaults_and_all_mistakes_are_named() {
        assert_eq!(Settings::from_lookup(|_| None).unwrap(), Settings::default());
        let told = |name: &str| match name {
            "RTENSOR_IB_HCA" => Some("rxe0".to_owned()),
            "RTENSOR_IB_TC" => Some("106".to_owned()),
            "RTENSOR_IB_TIMEOUT" => Some("16".to_owned()),
            "RTENSOR_IB_FLAG" => Some("behind".to_owned()),
            _ => None,
        };
        let settings = Settings::from_lookup(told).unwrap();
        assert_eq!(
            (settings.device.as_deref(), settings.traffic_class, settings.timeout),
            (Some("rxe0"), 106, 16)
        );
        assert_eq!(settings.form, FlagForm::Behind);
        let text = Settings::from_lookup(|_| Some("300".to_owned())).unwrap_err().to_string();
        for name in ["PORT", "GID_INDEX", "TC", "SL", "TIMEOUT", "RETRIES", "FLAG"] {
            assert!(text.contains(&format!("RTENSOR_IB_{name}=300")), "{text}");
        }
    }
}
