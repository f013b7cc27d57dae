//! Compiles the batch format without needing `protoc`, and writes down what its fields are for who weighs a batch.

use std::fmt::Write as _;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

type Failure = Box<dyn std::error::Error>;

#[expect(clippy::disallowed_methods, reason = "Cargo tells a build script by it where to write")]
fn main() -> Result<(), Failure> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["ringscope/v1/batch.proto"], ["proto"])?;
    let table = Table::of(&files).text()?;
    std::fs::write(std::path::Path::new(&std::env::var("OUT_DIR")?).join("weights.rs"), table)?;
    prost_build::Config::new().btree_map(["."]).compile_fds(files)?;
    Ok(())
}

/// All messages, those of maps too, each with its full name.
struct Table<'f> {
    messages: Vec<(String, &'f DescriptorProto)>,
}

impl<'f> Table<'f> {
    fn of(files: &'f FileDescriptorSet) -> Self {
        let mut messages = Vec::new();
        for file in &files.file {
            for message in &file.message_type {
                let name = format!(".{}.{}", file.package(), message.name());
                let nested = message.nested_type.iter();
                messages.extend(nested.map(|inner| (format!("{name}.{}", inner.name()), inner)));
                messages.push((name, message));
            }
        }
        Self { messages }
    }

    /// The table as Rust.
    fn text(&self) -> Result<String, Failure> {
        let first = self.index(".ringscope.v1.Batch")?;
        let mut text = format!(
            "const BATCH: u16 = {first};\nstatic MESSAGES: [&[(u32, Kind)]; {}] = [\n",
            self.messages.len()
        );
        for (name, message) in &self.messages {
            writeln!(text, "    // {name}\n    &[")?;
            for field in &message.field {
                if let Some(kind) = self.kind(field)? {
                    writeln!(text, "        ({}, {kind}),", field.number())?;
                }
            }
            text.push_str("    ],\n");
        }
        text.push_str("];\n");
        Ok(text)
    }

    /// What a field takes of memory. `None`: nothing of its own.
    fn kind(&self, field: &FieldDescriptorProto) -> Result<Option<String>, Failure> {
        let repeated = field.label() == Label::Repeated;
        Ok(match (field.r#type(), repeated) {
            (Type::String | Type::Bytes, false) => Some("Kind::Text".to_owned()),
            (Type::String | Type::Bytes, true) => Some("Kind::Texts".to_owned()),
            (Type::Message, repeated) => {
                let index = self.index(field.type_name())?;
                let (_, message) = &self.messages[usize::from(index)];
                let is_entry = message.options.as_ref().is_some_and(|options| options.map_entry());
                Some(match (repeated, is_entry) {
                    (false, _) => format!("Kind::One({index})"),
                    (true, true) => format!("Kind::Many({index}, ENTRY_BYTES)"),
                    (true, false) => {
                        format!("Kind::Many({index}, size_of::<super::{}>() as u64)", message.name())
                    }
                })
            }
            (_, true) => Some("Kind::Numbers".to_owned()),
            (_, false) => None,
        })
    }

    fn index(&self, name: &str) -> Result<u16, Failure> {
        let index = self.messages.iter().position(|(known, _)| known == name);
        Ok(u16::try_from(index.ok_or_else(|| format!("no message {name}"))?)?)
    }
}
