//! The numbers of NVIDIA's driver: what each means and what it ends. Source: NVIDIA, "XID Errors"
//! (docs.nvidia.com/deploy/xid-errors) and "GPU Memory Error Management" (docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt),
//! whose words are shortened here.

/// What does not go on after an Xid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The program that it hits, most often by its own mistake. The GPU is well.
    Program,
    /// The program that it hits, by no mistake of its own. The GPU goes on, and wants a reset when it is free.
    Victim,
    /// Nothing. The GPU wants a reset when it is free.
    Nothing,
    /// The GPU: it takes a reset at once, or another GPU.
    Gpu,
    /// The catalogue leaves it open.
    Unknown,
}

/// What an Xid means, and what it ends; `None` for numbers that the catalogue does not explain.
#[must_use]
pub const fn meaning(xid: u32) -> Option<(&'static str, Ends)> {
    Some(match xid {
        8 => ("GPU stopped processing", Ends::Program),
        11 | 13 => {
            ("a kernel of the program made an invalid access or instruction on the GPU", Ends::Program)
        }
        31 => ("a kernel of the program touched memory on the GPU that is not its own", Ends::Program),
        32 => ("GPU got a corrupted command", Ends::Unknown),
        38 => ("GPU driver's firmware failed", Ends::Unknown),
        43 => ("GPU stopped processing for one program", Ends::Program),
        44 => ("graphics engine of the GPU failed", Ends::Unknown),
        45 => ("GPU ended the program's work after an earlier error", Ends::Program),
        48 => ("GPU memory error that cannot be corrected (double bit ECC)", Ends::Gpu),
        56 => ("display engine of the GPU failed", Ends::Unknown),
        57 | 58 => ("GPU's memory interface failed", Ends::Unknown),
        62 => ("GPU's own controller halted", Ends::Unknown),
        61 => ("GPU's own controller hit a breakpoint", Ends::Unknown),
        63 => (
            "GPU memory page retired or row remapped: takes effect with the next reset of the GPU",
            Ends::Nothing,
        ),
        64 => ("GPU memory page could not be retired or row not remapped", Ends::Gpu),
        68 => ("video engine of the GPU failed", Ends::Unknown),
        69 => ("graphics engine of the GPU got an invalid class", Ends::Unknown),
        137 => ("NVLink fault: a peer GPU's memory could not be reached", Ends::Unknown),
        74 => ("NVLink error", Ends::Gpu),
        78 => ("virtual GPU did not start", Ends::Unknown),
        79 => ("GPU has fallen off the bus", Ends::Gpu),
        92 => ("many corrected memory errors on the GPU", Ends::Nothing),
        94 => ("GPU memory error that hit one program (contained ECC error)", Ends::Victim),
        95 => ("GPU memory error that hit all programs (uncontained ECC error)", Ends::Gpu),
        109 => ("a program's context switch on the GPU timed out", Ends::Gpu),
        110 => ("GPU security fault", Ends::Unknown),
        119 | 120 => ("GPU's system processor (GSP) does not answer", Ends::Gpu),
        121 => ("NVLink to the processor was retrained (C2C)", Ends::Nothing),
        122..=124 => ("GPU's flash memory could not be read or written", Ends::Unknown),
        125 => ("GPU's InfoROM failed", Ends::Unknown),
        140 => ("GPU memory error that was not recovered (ECC)", Ends::Gpu),
        143 => ("GPU did not start", Ends::Unknown),
        144..=150 => ("NVLink error", Ends::Unknown),
        154 => ("GPU driver asks for a recovery action", Ends::Unknown),
        _ => return None,
    })
}

/// What an Xid ends.
#[must_use]
pub const fn ends(xid: u32) -> Ends {
    match meaning(xid) {
        Some((_, ends)) => ends,
        None => Ends::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runbook_says_of_each_number_what_the_table_says() {
        let (_, entry) =
            include_str!("../../../dashboards/runbook.md").split_once("## kernel_fault").unwrap();
        let entry = entry.split("\n## ").next().unwrap();
        let numbers = |beginning: &str| -> Vec<u32> {
            let line = entry.lines().find(|line| line.starts_with(beginning)).unwrap();
            let (said, _) = line.split_once("Xid ").unwrap().1.split_once(':').unwrap();
            let words = said.split(|c: char| !c.is_ascii_digit());
            words.filter_map(|word| word.parse().ok()).collect()
        };
        for (beginning, of) in [
            ("1. Xid", Ends::Gpu),
            ("2. Xid", Ends::Victim),
            ("3. Xid", Ends::Nothing),
            ("4. Xid", Ends::Program),
        ] {
            let all: Vec<u32> = (0..200).filter(|xid| ends(*xid) == of).collect();
            assert_eq!(numbers(beginning), all, "{of:?}");
        }
    }
}
