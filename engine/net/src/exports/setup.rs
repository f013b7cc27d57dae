//! Fence: the plugin begins and ends, and tells of its devices.

#![expect(unsafe_code, reason = "functions that C calls, with pointers")]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use nccl_net::{
    Code, Config, Logger, ProfilerCallback, PropertiesV8, PropertiesV9, PropertiesV11, SUCCESS, VirtualDevice,
};

use crate::config::settings;
use crate::device;
use crate::exports::MAX_MESSAGE_BYTES;
use crate::exports::fence::{fence, put, quiet_fence};
use crate::failure::Result;
use crate::interfaces;
use crate::log;
use crate::rendezvous::Wishes;

/// Connections that a device is asked to have at most: NCCL's own number.
const MAX_CONNECTIONS: c_int = 1 << 20;

/// What version 11 has for each communicator.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) wishes: Wishes,
}

fn begin(logger: Logger) -> Result<()> {
    log::set(logger);
    settings().mistakes.iter().for_each(|mistake| log::warn(&format!("NET/ringscope : {mistake}")));
    // NCCL then goes on with another network: no warning, but the reason.
    let all = device::all().inspect_err(|failure| {
        log::info(&format!("NET/ringscope : no device can be used: {}", failure.text));
    })?;
    let named = all.iter().enumerate().map(|(index, device)| format!(" [{index}]{}", device.shown()));
    let named: String = named.collect();
    let interface = interfaces::chosen(&settings().interfaces)?;
    log::info(&format!("NET/ringscope : Using{named}; OOB {}:{}<0>", interface.name, interface.address));
    Ok(())
}

pub(super) extern "C" fn init(logger: Logger) -> Code {
    quiet_fence(|| begin(logger))
}

pub(super) extern "C" fn init_v10(logger: Logger, _profiler: ProfilerCallback) -> Code {
    quiet_fence(|| begin(logger))
}

/// # Safety
/// NCCL's: `context` is valid for a write, `config` null or valid.
pub(super) unsafe extern "C" fn init_v11(
    context: *mut *mut c_void,
    comm_hash: u64,
    config: *mut Config,
    logger: Logger,
    _profiler: ProfilerCallback,
) -> Code {
    quiet_fence(|| {
        begin(logger)?;
        // SAFETY: NCCL's promise.
        let config = unsafe { config.as_ref() };
        let wishes = Wishes { comm_hash, traffic_class: config.and_then(traffic_class) };
        let made = Box::into_raw(Box::new(Context { wishes })).cast();
        // SAFETY: NCCL's promise.
        unsafe { put(context, made) }
    })
}

pub(super) fn traffic_class(config: &Config) -> Option<u8> {
    u8::try_from(config.traffic_class).ok()
}

/// # Safety
/// NCCL's: a context of `init_v11`, given back once.
pub(super) unsafe extern "C" fn finalize(context: *mut c_void) -> Code {
    fence(|| {
        if !context.is_null() {
            // SAFETY: made by `init_v11`, and given back once.
            drop(unsafe { Box::from_raw(context.cast::<Context>()) });
        }
        Ok(())
    })
}

pub(super) extern "C" fn set_attributes(_context: *mut c_void, _attributes: *mut c_void) -> Code {
    SUCCESS
}

/// # Safety
/// NCCL's: `count` is valid for a write.
pub(super) unsafe extern "C" fn devices(count: *mut c_int) -> Code {
    fence(|| {
        let all = c_int::try_from(device::all()?.len()).unwrap_or(c_int::MAX);
        // SAFETY: NCCL's promise.
        unsafe { put(count, all) }
    })
}

fn properties(number: c_int) -> Result<PropertiesV11> {
    let device = device::numbered(number)?;
    let text = |text: &std::ffi::CString| text.as_ptr().cast_mut();
    Ok(PropertiesV11 {
        v9: PropertiesV9 {
            name: text(&device.name),
            pci_path: device.pci_path.as_ref().map_or(null_mut(), text),
            guid: device.guid,
            ptr_support: device.memory_kinds,
            reg_is_global: 1,
            force_flush: 0,
            speed: c_int::try_from(device.speed_mbit).unwrap_or(c_int::MAX),
            port: c_int::from(device.port),
            latency: 0.0,
            max_comms: MAX_CONNECTIONS,
            max_recvs: 1,
            net_device_type: 0,
            net_device_version: 0,
            virtual_device: VirtualDevice { n_devices: 1, devices: [number, 0, 0, 0] },
            max_p2p_bytes: MAX_MESSAGE_BYTES,
            max_coll_bytes: MAX_MESSAGE_BYTES,
        },
        max_multi_request_size: 1,
    })
}

/// # Safety
/// NCCL's: `told` is valid for a write.
pub(super) unsafe extern "C" fn properties_v8(number: c_int, told: *mut PropertiesV8) -> Code {
    fence(|| {
        let PropertiesV9 {
            name,
            pci_path,
            guid,
            ptr_support,
            reg_is_global,
            speed,
            port,
            latency,
            max_comms,
            max_recvs,
            ..
        } = properties(number)?.v9;
        let all = PropertiesV8 {
            name,
            pci_path,
            guid,
            ptr_support,
            reg_is_global,
            speed,
            port,
            latency,
            max_comms,
            max_recvs,
            net_device_type: 0,
            net_device_version: 0,
        };
        // SAFETY: NCCL's promise.
        unsafe { put(told, all) }
    })
}

/// # Safety
/// NCCL's: `told` is valid for a write.
pub(super) unsafe extern "C" fn properties_v9(number: c_int, told: *mut PropertiesV9) -> Code {
    fence(|| {
        let all = properties(number)?.v9;
        // SAFETY: NCCL's promise.
        unsafe { put(told, all) }
    })
}

/// # Safety
/// NCCL's: `told` is valid for a write.
pub(super) unsafe extern "C" fn properties_v11(number: c_int, told: *mut PropertiesV11) -> Code {
    fence(|| {
        let all = properties(number)?;
        // SAFETY: NCCL's promise.
        unsafe { put(told, all) }
    })
}
