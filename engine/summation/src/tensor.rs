//! The tensors that a job sums: declared once, in the same order by all ranks, and cut into parts.
//!
//! A part is what one service owns and one message carries. Its key is its index among all parts in the order of
//! declaration, so ranks agree on keys if they agree on declarations; [`Declarations::digest`] tells whether they do, and
//! [`Declarations::first_difference`] where they do not.

use std::collections::HashSet;

pub use rsccl_collective::types::DataType;

pub use super::options::{Asked, Options};

use crate::codec::Choice;
use rsccl_collective::hash::hash;

/// Bytes of a part at most, unless set otherwise: BytePS's default, 1000 pages.
pub const DEFAULT_PARTITION_BYTES: u64 = 4_096_000;

/// Smallest setting for the bytes of a part: one element of the widest type.
pub const MIN_PARTITION_BYTES: u64 = 8;

/// Bytes of all tensors at most (128 TiB): with it what any machine sends fits into 64 bits.
pub const MAX_TOTAL_BYTES: u64 = 1 << 47;

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Unique in the job.
    pub name: String,
    /// May be 0: such a tensor has no parts.
    pub elements: u64,
    /// Of an element.
    pub data_type: DataType,
}

/// All tensors of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declarations {
    partition_bytes: u64,
    tensors: Vec<Declaration>,
    options: Vec<Options>,
    names: HashSet<String>,
    /// The key of each tensor's first part, or of what would be.
    first_keys: Vec<u32>,
    n_parts: u32,
    total_bytes: u64,
}

/// What tensors are for, by the beginning of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `gradient.`: pushed in every step.
    Gradient,
    /// `parameter.`: sent around once.
    Parameter,
    /// All others.
    Other,
}

impl Class {
    /// Every class, in the order of its index.
    pub const ALL: [Self; 3] = [Self::Gradient, Self::Parameter, Self::Other];

    /// Of a tensor of this name.
    pub fn of(name: &str) -> Self {
        match name.split_once('.') {
            Some(("gradient", _)) => Self::Gradient,
            Some(("parameter", _)) => Self::Parameter,
            _ => Self::Other,
        }
    }
}

/// A piece of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its index among all parts.
    pub key: u32,
    /// Its tensor's index among all tensors.
    pub tensor: usize,
    /// Its index among the parts of its tensor.
    pub index: u32,
    /// Where it begins in its tensor.
    pub first_element: u64,
    /// How many elements it has: at least one.
    pub elements: u64,
    /// What they take.
    pub size_bytes: u64,
}

/// A declaration that is refused; the tensors before it stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeclareError {
    /// Parts that may not hold an element.
    #[error("parts of {partition_bytes} bytes are too small; at least {MIN_PARTITION_BYTES} are needed")]
    PartitionTooSmall {
        /// What was set.
        partition_bytes: u64,
    },
    /// The name is taken.
    #[error("tensor {name:?} is declared twice; give each tensor a name of its own")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// Keys would not fit into 32 bits.
    #[error("with tensor {name:?} there are more than {} parts; set larger parts", u32::MAX)]
    TooManyParts {
        /// The tensor that is too many.
        name: String,
    },
    /// More than [`MAX_TOTAL_BYTES`].
    #[error("with tensor {name:?} there are more than {MAX_TOTAL_BYTES} bytes")]
    TooManyBytes {
        /// The tensor that is too many.
        name: String,
    },
}

/// Where two ranks' declarations part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// They cut tensors differently.
    #[error("parts have at most {here} bytes here, {there} bytes on rank {rank}; set the same on all ranks")]
    PartitionBytes {
        /// This rank's.
        here: u64,
        /// The other's.
        there: u64,
        /// Which other.
        rank: usize,
    },
    /// Name, length or type of a tensor differ, or only one of them has it.
    #[error("tensor {index}: {} here, {} on rank {rank}", side(here.as_ref()), side(there.as_ref()))]
    Tensor {
        /// In the order of declaration.
        index: usize,
        /// This rank's, if it declared as many.
        here: Option<(Declaration, Options)>,
        /// The other's, if it declared as many.
        there: Option<(Declaration, Options)>,
        /// Which other.
        rank: usize,
    },
}

impl Declarations {
    /// No tensors yet; each is to be cut into parts of `partition_bytes` or as many whole elements as fit there.
    ///
    /// # Errors
    /// Less than [`MIN_PARTITION_BYTES`].
    pub fn new(partition_bytes: u64) -> Result<Self, DeclareError> {
        if partition_bytes < MIN_PARTITION_BYTES {
            return Err(DeclareError::PartitionTooSmall { partition_bytes });
        }
        Ok(Self {
            partition_bytes,
            tensors: Vec::new(),
            options: Vec::new(),
            names: HashSet::new(),
            first_keys: Vec::new(),
            n_parts: 0,
            total_bytes: 0,
        })
    }

    /// Of these tensors.
    ///
    /// # Errors
    /// As [`Declarations::new`] and [`Declarations::declare`].
    pub fn of(
        partition_bytes: u64,
        tensors: impl IntoIterator<Item = Declaration>,
    ) -> Result<Self, DeclareError> {
        let mut declarations = Self::new(partition_bytes)?;
        for tensor in tensors {
            declarations.declare(tensor)?;
        }
        Ok(declarations)
    }

    /// Adds a tensor behind the others, and returns its index.
    ///
    /// # Errors
    /// The name is taken, or there would be too many parts or bytes.
    pub fn declare(&mut self, tensor: Declaration) -> Result<usize, DeclareError> {
        self.declare_with(tensor, Options::default())
    }

    /// The same for one that travels in a way of its own.
    ///
    /// # Errors
    /// As [`Declarations::declare`].
    pub fn declare_with(&mut self, tensor: Declaration, options: Options) -> Result<usize, DeclareError> {
        let Declaration { name, elements, data_type } = &tensor;
        if self.names.contains(name) {
            return Err(DeclareError::Duplicate { name: name.clone() });
        }
        let parts = u32::try_from(elements.div_ceil(self.elements_per_part(*data_type, options))).ok();
        let Some(n_parts) = parts.and_then(|parts| self.n_parts.checked_add(parts)) else {
            return Err(DeclareError::TooManyParts { name: name.clone() });
        };
        let bytes = elements.checked_mul(data_type.size_bytes() as u64);
        let total = bytes.and_then(|bytes| self.total_bytes.checked_add(bytes));
        let Some(total_bytes) = total.filter(|&total| total <= MAX_TOTAL_BYTES) else {
            return Err(DeclareError::TooManyBytes { name: name.clone() });
        };
        self.names.insert(name.clone());
        self.first_keys.push(self.n_parts);
        self.tensors.push(tensor);
        self.options.push(options);
        (self.n_parts, self.total_bytes) = (n_parts, total_bytes);
        Ok(self.tensors.len() - 1)
    }

    /// Bytes of a part at most.
    pub fn partition_bytes(&self) -> u64 {
        self.partition_bytes
    }

    /// In the order of declaration.
    pub fn tensors(&self) -> &[Declaration] {
        &self.tensors
    }

    /// How a tensor travels; the default for one that was never declared.
    pub fn options(&self, tensor: usize) -> Options {
        self.options.get(tensor).copied().unwrap_or_default()
    }

    /// A tensor's index, if it is declared.
    pub fn index(&self, name: &str) -> Option<usize> {
        let declared = self.names.contains(name);
        declared.then(|| self.tensors.iter().position(|tensor| tensor.name == name))?
    }

    /// Keys are below this.
    pub fn n_parts(&self) -> u32 {
        self.n_parts
    }

    /// Of all tensors.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The part with a key, if there is one.
    pub fn part(&self, key: u32) -> Option<Part> {
        let tensor = self.first_keys.partition_point(|&first| first <= key).checked_sub(1)?;
        (key < self.n_parts).then(|| self.part_of(tensor, key))
    }

    /// All parts, by key.
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        (0..self.tensors.len()).flat_map(|tensor| self.parts_of(tensor))
    }

    /// What a tensor is for; of one that was never declared, [`Class::Other`].
    pub fn class(&self, tensor: usize) -> Class {
        self.tensors.get(tensor).map_or(Class::Other, |tensor| Class::of(&tensor.name))
    }

    /// The parts of a tensor, from its beginning; none of a tensor that was never declared.
    pub fn parts_of(&self, tensor: usize) -> impl Iterator<Item = Part> + '_ {
        let first = self.first_keys.get(tensor).copied().unwrap_or(self.n_parts);
        let end = self.first_keys.get(tensor.saturating_add(1)).copied().unwrap_or(self.n_parts);
        (first..end).map(move |key| self.part_of(tensor, key))
    }

    /// Equal on ranks with equal declarations, whatever machine they run on; else equal once in 2⁶⁴ times.
    pub fn digest(&self) -> u64 {
        let mut bytes = self.partition_bytes.to_le_bytes().to_vec();
        for (tensor, options) in self.tensors.iter().zip(&self.options) {
            bytes.extend((tensor.name.len() as u64).to_le_bytes());
            bytes.extend(tensor.name.as_bytes());
            bytes.extend(tensor.elements.to_le_bytes());
            bytes.push(tensor.data_type as u8);
            bytes.extend(options.digested());
        }
        hash(&bytes)
    }

    /// The first thing that is different on another rank.
    pub fn first_difference(&self, there: &Self, rank: usize) -> Option<Difference> {
        if self.partition_bytes != there.partition_bytes {
            let (here, there) = (self.partition_bytes, there.partition_bytes);
            return Some(Difference::PartitionBytes { here, there, rank });
        }
        let longest = self.tensors.len().max(there.tensors.len());
        let tensor = |of: &Self, index| Some((of.tensors.get(index).cloned()?, of.options(index)));
        let index = (0..longest).find(|&index| tensor(self, index) != tensor(there, index))?;
        let (here, there) = (tensor(self, index), tensor(there, index));
        Some(Difference::Tensor { index, here, there, rank })
    }

    /// At least 1, as parts hold one element of the widest type; whole rows, where these travel and fit.
    fn elements_per_part(&self, data_type: DataType, options: Options) -> u64 {
        let most = self.partition_bytes / data_type.size_bytes() as u64;
        let grain = options.codec.map_or(1, Choice::grain);
        if most < grain { most } else { most - most % grain }
    }

    fn part_of(&self, tensor: usize, key: u32) -> Part {
        let Declaration { elements, data_type, .. } = &self.tensors[tensor];
        let index = key - self.first_keys[tensor];
        let most = self.elements_per_part(*data_type, self.options(tensor));
        let first_element = u64::from(index) * most;
        let elements = most.min(elements - first_element);
        let size_bytes = elements * data_type.size_bytes() as u64;
        Part { key, tensor, index, first_element, elements, size_bytes }
    }
}

/// One rank's tensor, in words.
fn side(tensor: Option<&(Declaration, Options)>) -> String {
    tensor.map_or("none".to_owned(), |(tensor, options)| {
        format!("{:?} of {} {}{}", tensor.name, tensor.elements, tensor.data_type.name(), options.words())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tensor(name: &str, elements: u64, data_type: DataType) -> Declaration {
        Declaration { name: name.to_owned(), elements, data_type }
    }

    fn declared(partition_bytes: u64, tensors: &[(&str, u64)]) -> Declarations {
        let tensors = tensors.iter().map(|&(name, elements)| tensor(name, elements, DataType::F32));
        Declarations::of(partition_bytes, tensors).unwrap()
    }

    #[test]
    fn keys_count_all_parts_in_the_order_of_declaration() {
        let declarations = declared(8, &[("a", 5), ("nothing", 0), ("b", 2)]);
        let found: Vec<_> = declarations
            .parts()
            .map(|part| {
                (part.key, part.tensor, part.index, part.first_element, part.elements, part.size_bytes)
            })
            .collect();
        assert_eq!(found, [(0, 0, 0, 0, 2, 8), (1, 0, 1, 2, 2, 8), (2, 0, 2, 4, 1, 4), (3, 2, 0, 0, 2, 8)]);
        assert_eq!((declarations.n_parts(), declarations.total_bytes()), (4, 28));
        assert_eq!(declarations.part(4), None);
        assert_eq!(declarations.parts_of(1).count() + declarations.parts_of(3).count(), 0);
    }

    #[test]
    fn parts_hold_whole_elements() {
        let declarations = Declarations::of(13, [tensor("a", 3, DataType::F64)]).unwrap();
        assert!(declarations.parts().all(|part| part.elements == 1 && part.size_bytes == 8));
        let declarations = Declarations::of(13, [tensor("a", 7, DataType::Bf16)]).unwrap();
        let sizes: Vec<u64> = declarations.parts().map(|part| part.size_bytes).collect();
        assert_eq!(sizes, [12, 2]);
    }

    #[test]
    fn parts_hold_whole_rows_where_these_fit() {
        let parts = |row: &str| -> Vec<u64> {
            let options = Options { priority: 0, codec: Some(row.parse().unwrap()) };
            let mut declarations = Declarations::new(40).unwrap();
            declarations.declare_with(tensor("a", 25, DataType::F32), options).unwrap();
            declarations.parts().map(|part| part.elements).collect()
        };
        assert_eq!(parts("rows:4"), [8, 8, 8, 1]);
        assert_eq!(parts("rows:10"), [10, 10, 5]);
        assert_eq!(parts("rows:11"), [10, 10, 5], "a row is longer than a part");
    }

    #[test]
    fn what_cannot_be_declared_is_named_and_changes_nothing() {
        let mut declarations = declared(8, &[("a", 5)]);
        let before = declarations.clone();
        let mut refuse = |name: &str, elements, data_type| {
            declarations.declare(tensor(name, elements, data_type)).unwrap_err().to_string()
        };
        assert!(refuse("a", 1, DataType::F32).starts_with("tensor \"a\" is declared twice"));
        assert!(
            refuse("b", 1 << 34, DataType::F32)
                .starts_with("with tensor \"b\" there are more than 4294967295 parts")
        );
        assert_eq!(declarations, before);
        let mut wide = Declarations::new(1 << 40).unwrap();
        assert!(wide.declare(tensor("b", 1 << 44, DataType::I64)).is_ok());
        let error = wide.declare(tensor("c", 1, DataType::I8)).unwrap_err().to_string();
        assert_eq!(error, "with tensor \"c\" there are more than 140737488355328 bytes");
        assert!(wide.declare(tensor("c", u64::MAX, DataType::I64)).is_err());
        assert_eq!(Declarations::new(7), Err(DeclareError::PartitionTooSmall { partition_bytes: 7 }));
    }

    #[test]
    fn the_last_key_is_possible_and_none_beyond_it() {
        let mut declarations = declared(8, &[("a", 2 * u64::from(u32::MAX))]);
        let last = declarations.part(u32::MAX - 1).unwrap();
        assert_eq!(last.first_element, 2 * u64::from(u32::MAX - 1));
        assert_eq!(declarations.part(u32::MAX), None);
        assert!(declarations.declare(tensor("b", 0, DataType::F32)).is_ok());
        assert!(declarations.declare(tensor("c", 1, DataType::F32)).is_err());
    }

    #[test]
    fn the_digest_is_the_same_everywhere_and_sees_every_difference() {
        let declarations = declared(4096, &[("fc.weight", 4096), ("fc.bias", 64)]);
        assert_eq!(declarations.digest(), GOLDEN_DIGEST);
        let others = [
            declared(8192, &[("fc.weight", 4096), ("fc.bias", 64)]),
            declared(4096, &[("fc.bias", 64), ("fc.weight", 4096)]),
            declared(4096, &[("fc.weight", 4096)]),
            declared(4096, &[("fc.weight", 4096), ("fc.bias", 65)]),
            declared(4096, &[("fc.weightf", 4096), ("c.bias", 64)]),
            Declarations::of(
                4096,
                [tensor("fc.weight", 4096, DataType::F32), tensor("fc.bias", 64, DataType::I32)],
            )
            .unwrap(),
        ];
        for other in others {
            assert_ne!(other.digest(), declarations.digest());
            assert!(declarations.first_difference(&other, 1).is_some());
        }
        assert_eq!(declarations.first_difference(&declarations.clone(), 1), None);
    }

    #[test]
    fn the_first_tensor_that_differs_is_described() {
        let here = declared(4096, &[("conv", 9), ("fc.weight", 4096)]);
        let say = |there: &Declarations| here.first_difference(there, 2).unwrap().to_string();
        let cases = [
            (
                declared(4096, &[("conv", 9), ("fc.bias", 64)]),
                r#"tensor 1: "fc.weight" of 4096 f32 here, "fc.bias" of 64 f32 on rank 2"#,
            ),
            (declared(4096, &[("conv", 9)]), r#"tensor 1: "fc.weight" of 4096 f32 here, none on rank 2"#),
            (
                declared(4096, &[("conv", 9), ("fc.weight", 4096), ("fc.bias", 64)]),
                r#"tensor 2: none here, "fc.bias" of 64 f32 on rank 2"#,
            ),
            (
                Declarations::of(4096, [tensor("conv", 9, DataType::F16)]).unwrap(),
                r#"tensor 0: "conv" of 9 f32 here, "conv" of 9 f16 on rank 2"#,
            ),
            (
                declared(8192, &[]),
                "parts have at most 4096 bytes here, 8192 bytes on rank 2; set the same on all ranks",
            ),
        ];
        for (there, expected) in cases {
            assert_eq!(say(&there), expected);
        }
    }

    proptest! {
        #[test]
        fn parts_cover_every_tensor_once(
            partition_bytes in 8_u64..200,
            elements in prop::collection::vec((0_u64..300, 0_usize..12), 0..12),
        ) {
            let tensors = elements.iter().enumerate().map(|(index, &(elements, data_type))| {
                tensor(&index.to_string(), elements, DataType::ALL[data_type])
            });
            let declarations = Declarations::of(partition_bytes, tensors).unwrap();
            let mut ends = vec![0; elements.len()];
            for (key, part) in (0..).zip(declarations.parts()) {
                prop_assert_eq!(declarations.part(key), Some(part));
                prop_assert_eq!((part.key, part.first_element), (key, ends[part.tensor]));
                prop_assert!(part.elements > 0 && part.size_bytes <= partition_bytes);
                ends[part.tensor] += part.elements;
            }
            prop_assert!(ends.iter().zip(&elements).all(|(end, (elements, _))| end == elements));
            let bytes: u64 = declarations.parts().map(|part| part.size_bytes).sum();
            prop_assert_eq!(bytes, declarations.total_bytes());
        }
    }

    /// Computed by a separate Python of the same bytes and hash.
    const GOLDEN_DIGEST: u64 = 0xb6d2_c1a0_d8c2_3a47;
}
