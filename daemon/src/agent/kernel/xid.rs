//! The numbers of NVIDIA's driver in words. Source: NVIDIA's "XID Errors" (docs.nvidia.com/deploy/xid-errors), whose
//! descriptions are shortened here.

/// What an Xid means; `None` for numbers that the catalogue does not explain.
pub(super) const fn words(xid: u32) -> Option<&'static str> {
    Some(match xid {
        8 => "GPU stopped processing",
        11 | 13 => "a kernel of the program made an invalid access or instruction on the GPU",
        31 => "a kernel of the program touched memory on the GPU that is not its own",
        32 => "GPU got a corrupted command",
        38 => "GPU driver's firmware failed",
        43 => "GPU stopped processing for one program",
        44 => "graphics engine of the GPU failed",
        45 => "GPU ended the program's work after an earlier error",
        48 => "GPU memory error that cannot be corrected (double bit ECC)",
        56 | 57 => "display engine of the GPU failed",
        58 | 62 => "GPU's own controller halted",
        61 => "GPU's own controller hit a breakpoint",
        63 => "GPU memory page retired or row remapped: takes effect with the next reset of the GPU",
        64 => "GPU memory page could not be retired or row not remapped",
        68 => "video engine of the GPU failed",
        69 => "graphics engine of the GPU got an invalid class",
        71 | 137 => "NVLink fault: a peer GPU's memory could not be reached",
        74 => "NVLink error",
        78 => "virtual GPU did not start",
        79 => "GPU has fallen off the bus",
        92 => "many corrected memory errors on the GPU",
        94 => "GPU memory error that hit one program (contained ECC error)",
        95 => "GPU memory error that hit all programs (uncontained ECC error)",
        109 => "a program's context switch on the GPU timed out",
        110 => "GPU security fault",
        119 | 120 => "GPU's system processor (GSP) does not answer",
        121 => "NVLink to the processor was retrained (C2C)",
        122 => "GPU's SPI flash failed",
        123 => "GPU's power management failed",
        136 => "GPU's link training failed",
        140 => "GPU memory error that was not recovered (ECC)",
        143 => "GPU did not start",
        144..=150 => "NVLink error",
        154 => "GPU driver asks for a recovery action",
        _ => return None,
    })
}
