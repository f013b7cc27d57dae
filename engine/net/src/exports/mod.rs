//! The tables that NCCL and the engine look for, one for each version of the interface.
//!
//! NCCL's contract: one thread at a time sends, receives and tests on one connection; another may register memory for it.

#![expect(unsafe_code, reason = "symbols that C looks for, and tables of pointers")]

mod connect;
mod fence;
mod setup;
mod transfer;

use std::ffi::c_char;

use nccl_net::{NetV8, NetV9, NetV10, NetV11};

use connect::{accept, close, close_listen, connect_v8, connect_v10, connect_v11, listen_v8, listen_v11};
use setup::{
    devices, finalize, init, init_v10, init_v11, properties_v8, properties_v9, properties_v11, set_attributes,
};
use transfer::{
    deregister, flush, receive_v8, receive_v9, receive_v10, register_dma_buf, register_memory, send_v8,
    send_v9, send_v10, test,
};

/// As the log and `NCCL_NET` call it.
const NAME: *const c_char = c"ringscope".as_ptr();
/// Bytes of one message at most: its length travels in 32 bits, and a registration may begin before it.
const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// A table that C reads. Its pointers are to functions and constants, which any thread may use.
#[repr(transparent)]
#[derive(Debug)]
pub struct Table<T>(T);

// SAFETY: constants.
unsafe impl<T> Sync for Table<T> {}

/// Version 8.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v8: Table<NetV8> = Table(NetV8 {
    name: NAME,
    init: Some(init),
    devices: Some(devices),
    properties: Some(properties_v8),
    listen: Some(listen_v8),
    connect: Some(connect_v8),
    accept: Some(accept),
    register: Some(register_memory),
    register_dma_buf: Some(register_dma_buf),
    deregister: Some(deregister),
    send: Some(send_v8),
    receive: Some(receive_v8),
    flush: Some(flush),
    test: Some(test),
    close_send: Some(close),
    close_receive: Some(close),
    close_listen: Some(close_listen),
    device_memory: None,
    consumed: None,
});

/// Version 9.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v9: Table<NetV9> = Table(NetV9 {
    name: NAME,
    init: Some(init),
    devices: Some(devices),
    properties: Some(properties_v9),
    listen: Some(listen_v8),
    connect: Some(connect_v8),
    accept: Some(accept),
    register: Some(register_memory),
    register_dma_buf: Some(register_dma_buf),
    deregister: Some(deregister),
    send: Some(send_v9),
    receive: Some(receive_v9),
    flush: Some(flush),
    test: Some(test),
    close_send: Some(close),
    close_receive: Some(close),
    close_listen: Some(close_listen),
    device_memory: None,
    consumed: None,
    make_virtual_device: None,
});

/// Version 10.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v10: Table<NetV10> = Table(NetV10 {
    name: NAME,
    init: Some(init_v10),
    devices: Some(devices),
    properties: Some(properties_v9),
    listen: Some(listen_v8),
    connect: Some(connect_v10),
    accept: Some(accept),
    register: Some(register_memory),
    register_dma_buf: Some(register_dma_buf),
    deregister: Some(deregister),
    send: Some(send_v10),
    receive: Some(receive_v10),
    flush: Some(flush),
    test: Some(test),
    close_send: Some(close),
    close_receive: Some(close),
    close_listen: Some(close_listen),
    device_memory: None,
    consumed: None,
    make_virtual_device: None,
});

/// Version 11.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v11: Table<NetV11> = Table(NetV11 {
    name: NAME,
    init: Some(init_v11),
    devices: Some(devices),
    properties: Some(properties_v11),
    listen: Some(listen_v11),
    connect: Some(connect_v11),
    accept: Some(accept),
    register: Some(register_memory),
    register_dma_buf: Some(register_dma_buf),
    deregister: Some(deregister),
    send: Some(send_v10),
    receive: Some(receive_v10),
    flush: Some(flush),
    test: Some(test),
    close_send: Some(close),
    close_receive: Some(close),
    close_listen: Some(close_listen),
    device_memory: None,
    consumed: None,
    make_virtual_device: None,
    finalize: Some(finalize),
    set_attributes: Some(set_attributes),
});
