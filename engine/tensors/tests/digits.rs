//! The digits example as two processes: the same parameters, bit for bit, over every device.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn parameters_have_the_same_bits_over_every_device() {
    let example = std::env::current_exe().unwrap();
    let example = example.parent().unwrap().parent().unwrap().join("examples/digits");
    let said = ["local", "tcp", "grpc"].map(|device| {
        let output = Command::new(&example).args(["--device", device, "--steps", "8"]).output();
        let output = output.expect("cargo build -p ringscope-tensors --example digits");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{device}: {text}{}", String::from_utf8_lossy(&output.stderr));
        let (name, result) = text.lines().next().unwrap().split_once(": ").unwrap();
        assert_eq!(name, device);
        (result.to_owned(), text.lines().nth(1).unwrap().to_owned())
    });
    let [local, tcp, grpc] = said;
    assert!(local.0.contains("loss 2.") && local.0.contains("parameters "), "{}", local.0);
    assert_eq!((&tcp.0, &grpc.0), (&local.0, &local.0));
    // 6 parameters go out and 6 gradients and the loss come back, each by one write and nothing else.
    let expected =
        "of this machine in 8 steps: 48 work requests, 0 messages, 0 bytes copied, 0 registrations";
    assert!(local.1.contains("13 edges, 13 static") && local.1.contains(expected), "{}", local.1);
}
