//! The gradients of models that BytePS was measured with: names, sizes and order of their parameters, all `f32`.
//!
//! | model | as in | parameters | tensors | bytes |
//! |---|---|---|---|---|
//! | VGG-16 | torchvision `vgg16` | 138 357 544 | 32 | 553 430 176 |
//! | ResNet-50 | torchvision `resnet50` | 25 557 032 | 161 | 102 228 128 |
//! | BERT-large | transformers `BertModel` of bert-large-uncased: with a pooler, without heads | 335 141 888 | 391 | 1 340 567 552 |
//!
//! Tensors are declared in the order of layers, as `named_parameters` lists them.

use crate::tensor::{DataType, Declaration};

/// A model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Simonyan and Zisserman, 2014, configuration D.
    Vgg16,
    /// He et al., 2015.
    ResNet50,
    /// Devlin et al., 2018.
    BertLarge,
}

impl Model {
    /// Every model.
    pub const ALL: [Self; 3] = [Self::Vgg16, Self::ResNet50, Self::BertLarge];

    /// Its name in settings and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vgg16 => "vgg-16",
            Self::ResNet50 => "resnet-50",
            Self::BertLarge => "bert-large",
        }
    }

    /// The model of a name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.name() == name)
    }

    /// What it declares.
    pub fn tensors(self) -> Vec<Declaration> {
        let mut tensors = Vec::new();
        match self {
            Self::Vgg16 => vgg16(&mut tensors),
            Self::ResNet50 => resnet50(&mut tensors),
            Self::BertLarge => bert_large(&mut tensors),
        }
        tensors
    }
}

fn declare(tensors: &mut Vec<Declaration>, name: String, elements: u64) {
    tensors.push(Declaration { name, elements, data_type: DataType::F32 });
}

/// A weight, and a bias of one element for each output.
fn layer(tensors: &mut Vec<Declaration>, name: &str, weight: u64, outputs: u64) {
    declare(tensors, format!("{name}.weight"), weight);
    declare(tensors, format!("{name}.bias"), outputs);
}

fn linear(tensors: &mut Vec<Declaration>, name: &str, inputs: u64, outputs: u64) {
    layer(tensors, name, inputs * outputs, outputs);
}

/// A weight and a bias for each channel.
fn norm(tensors: &mut Vec<Declaration>, name: &str, channels: u64) {
    layer(tensors, name, channels, channels);
}

fn vgg16(tensors: &mut Vec<Declaration>) {
    const BLOCKS: [(u64, u64); 5] = [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)];
    let (mut index, mut inputs) = (0, 3);
    for (convolutions, outputs) in BLOCKS {
        for _ in 0..convolutions {
            layer(tensors, &format!("features.{index}"), 9 * inputs * outputs, outputs);
            (index, inputs) = (index + 2, outputs);
        }
        index += 1;
    }
    linear(tensors, "classifier.0", 7 * 7 * 512, 4096);
    linear(tensors, "classifier.3", 4096, 4096);
    linear(tensors, "classifier.6", 4096, 1000);
}

fn resnet50(tensors: &mut Vec<Declaration>) {
    const STAGES: [(u64, u64); 4] = [(3, 64), (4, 128), (6, 256), (3, 512)];
    declare(tensors, "conv1.weight".to_owned(), 49 * 3 * 64);
    norm(tensors, "bn1", 64);
    let mut inputs = 64;
    for (stage, (blocks, width)) in (1..).zip(STAGES) {
        for block in 0..blocks {
            let name = format!("layer{stage}.{block}");
            let outputs = 4 * width;
            let convolutions =
                [(inputs * width, width), (9 * width * width, width), (width * outputs, outputs)];
            for (index, (weight, channels)) in (1..).zip(convolutions) {
                declare(tensors, format!("{name}.conv{index}.weight"), weight);
                norm(tensors, &format!("{name}.bn{index}"), channels);
            }
            if block == 0 {
                declare(tensors, format!("{name}.downsample.0.weight"), inputs * outputs);
                norm(tensors, &format!("{name}.downsample.1"), outputs);
            }
            inputs = outputs;
        }
    }
    linear(tensors, "fc", inputs, 1000);
}

fn bert_large(tensors: &mut Vec<Declaration>) {
    const HIDDEN: u64 = 1024;
    const LAYERS: u64 = 24;
    for (name, rows) in [("word", 30_522), ("position", 512), ("token_type", 2)] {
        declare(tensors, format!("embeddings.{name}_embeddings.weight"), rows * HIDDEN);
    }
    norm(tensors, "embeddings.LayerNorm", HIDDEN);
    for index in 0..LAYERS {
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        for part in ["self.query", "self.key", "self.value", "output.dense"] {
            linear(tensors, &name(&format!("attention.{part}")), HIDDEN, HIDDEN);
        }
        norm(tensors, &name("attention.output.LayerNorm"), HIDDEN);
        linear(tensors, &name("intermediate.dense"), HIDDEN, 4 * HIDDEN);
        linear(tensors, &name("output.dense"), 4 * HIDDEN, HIDDEN);
        norm(tensors, &name("output.LayerNorm"), HIDDEN);
    }
    linear(tensors, "pooler.dense", HIDDEN, HIDDEN);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DEFAULT_PARTITION_BYTES, Declarations};

    #[test]
    fn models_have_the_published_sizes_and_these_parts() {
        let cases = [
            (Model::Vgg16, 138_357_544, 32, 162),
            (Model::ResNet50, 25_557_032, 161, 175),
            (Model::BertLarge, 335_141_888, 391, 710),
        ];
        for (model, parameters, n_tensors, n_parts) in cases {
            let declarations = Declarations::of(DEFAULT_PARTITION_BYTES, model.tensors()).unwrap();
            assert_eq!(declarations.total_bytes(), 4 * parameters, "{model:?}");
            assert_eq!(declarations.tensors().len(), n_tensors, "{model:?}");
            assert_eq!(declarations.n_parts(), n_parts, "{model:?}");
            assert_eq!(Model::from_name(model.name()), Some(model));
        }
    }

    #[test]
    fn tensors_are_named_as_their_libraries_do() {
        let cases = [
            (Model::Vgg16, 25, "features.28.bias", 512),
            (Model::Vgg16, 30, "classifier.6.weight", 4_096_000),
            (Model::ResNet50, 12, "layer1.0.downsample.0.weight", 16_384),
            (Model::ResNet50, 159, "fc.weight", 2_048_000),
            (Model::BertLarge, 0, "embeddings.word_embeddings.weight", 31_254_528),
            (Model::BertLarge, 388, "encoder.layer.23.output.LayerNorm.bias", 1024),
        ];
        for (model, index, name, elements) in cases {
            let tensor = &model.tensors()[index];
            assert_eq!((tensor.name.as_str(), tensor.elements), (name, elements));
        }
    }
}
