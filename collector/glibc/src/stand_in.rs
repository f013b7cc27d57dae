//! Libraries that export names and have nothing behind them, for the linker to look at.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::run;
use crate::symbols::Symbol;

/// Makes `libc.so` and its kin in a folder, under the names that the linker looks for.
pub(crate) fn make(
    compiler: &cc::Tool,
    symbols: &[Symbol],
    folder: &Path,
) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut made = Vec::new();
    for (library, symbols) in by(symbols, |symbol| symbol.library.to_owned()) {
        let stem = library.split(".so").next().unwrap_or(&library);
        let (source, script) = (folder.join(format!("{stem}.s")), folder.join(format!("{stem}.map")));
        std::fs::write(&source, assembly(&symbols))?;
        std::fs::write(&script, versions(&symbols))?;
        let mut command = compiler.to_command();
        command.args(["-shared", "-nostdlib", "-nostartfiles"]).arg(format!("-Wl,-soname,{library}"));
        command.arg(format!("-Wl,--version-script={}", script.display())).arg("-o");
        let path = folder.join(format!("{stem}.so"));
        run(command.arg(&path).arg(&source))?;
        made.push(path);
    }
    Ok(made)
}

/// Functions without a body, variables without a value.
fn assembly(symbols: &[&Symbol]) -> String {
    let mut text = String::new();
    for symbol in symbols {
        let (section, kind) = if symbol.is_function { (".text", "function") } else { (".data", "object") };
        let Symbol { name, size, .. } = symbol;
        let size = (*size).max(1);
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "{section}\n.globl {name}\n.type {name}, %{kind}\n{name}: .zero {size}\n.size {name}, {size}"
        );
    }
    text + ".section .note.GNU-stack, \"\", %progbits\n"
}

fn versions(symbols: &[&Symbol]) -> String {
    let mut text = String::new();
    for (version, symbols) in by(symbols.iter().copied(), |symbol| symbol.version.clone()) {
        let names: Vec<&str> = symbols.iter().map(|symbol| symbol.name.as_str()).collect();
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{version} {{ {}; }};", names.join("; "));
    }
    text
}

fn by<'a>(
    symbols: impl IntoIterator<Item = &'a Symbol>,
    key: impl Fn(&Symbol) -> String,
) -> BTreeMap<String, Vec<&'a Symbol>> {
    let mut groups: BTreeMap<String, Vec<&Symbol>> = BTreeMap::new();
    for symbol in symbols {
        groups.entry(key(symbol)).or_default().push(symbol);
    }
    groups
}
