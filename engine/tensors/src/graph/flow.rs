//! A graph as programs make it.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::tensor::{DataType, Shape};

/// A machine of the graph, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub usize);

/// A node, by the order of [`Graph::node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// A tensor, by the order of [`Graph::tensor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub usize);

/// A tensor that flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its elements' type.
    pub data_type: DataType,
    /// Its dimensions; none where one is known only when the graph runs.
    pub dims: Vec<Option<u64>>,
}

/// What a node's outputs are to its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Memory of their own.
    Computes,
    /// The only output is a part of the first input's memory. Nothing is computed.
    Views {
        /// Where the part begins.
        offset_bytes: u64,
    },
    /// The first output is the first input's memory, which the node changes.
    InPlace,
    /// Memory of their own that stays as it is from one iteration to the next: parameters. The node runs once.
    Keeps,
}

/// A node: an operation on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, which no other node has.
    pub name: String,
    /// Where it runs.
    pub machine: MachineId,
    /// What it needs.
    pub inputs: Vec<TensorId>,
    /// What it makes.
    pub outputs: Vec<TensorId>,
    /// What those are to what it needs.
    pub effect: Effect,
}

/// A graph. Nodes are added after what they need.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    tensors: Vec<Tensor>,
    nodes: Vec<Node>,
    producers: BTreeMap<TensorId, NodeId>,
}

impl Graph {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// A tensor of known dimensions.
    pub fn tensor(&mut self, name: impl Into<String>, data_type: DataType, dims: &[u64]) -> TensorId {
        let dims: Vec<Option<u64>> = dims.iter().copied().map(Some).collect();
        self.any_tensor(name, data_type, &dims)
    }

    /// A tensor of which some dimensions may be unknown.
    pub fn any_tensor(
        &mut self,
        name: impl Into<String>,
        data_type: DataType,
        dims: &[Option<u64>],
    ) -> TensorId {
        self.tensors.push(Tensor { name: name.into(), data_type, dims: dims.to_vec() });
        TensorId(self.tensors.len() - 1)
    }

    /// A node.
    ///
    /// # Errors
    /// It needs a tensor that nobody makes yet, makes one that somebody makes already, or does not fit its effect.
    pub fn node(
        &mut self,
        name: impl Into<String>,
        machine: MachineId,
        inputs: &[TensorId],
        outputs: &[TensorId],
        effect: Effect,
    ) -> Result<NodeId> {
        let name = name.into();
        let refused = |what: String| Err(Error::Node { node: name.clone(), what });
        let id = NodeId(self.nodes.len());
        if self.nodes.iter().any(|node| node.name == name) {
            return refused("there is another node of this name".to_owned());
        }
        for input in inputs {
            if !self.producers.contains_key(input) {
                return refused(format!("needs {}, which no node makes yet", self.name_of(*input)));
            }
        }
        for (place, output) in outputs.iter().enumerate() {
            if self.tensors.get(output.0).is_none() {
                return refused(format!("makes tensor {}, which is not in the graph", output.0));
            }
            if self.producers.contains_key(output)
                || outputs.get(..place).unwrap_or_default().contains(output)
            {
                return refused(format!("makes {}, which is made already", self.name_of(*output)));
            }
        }
        if let Err(what) = self.check_effect(inputs, outputs, effect) {
            return refused(what);
        }
        for output in outputs {
            self.producers.insert(*output, id);
        }
        self.nodes.push(Node { name, machine, inputs: inputs.to_vec(), outputs: outputs.to_vec(), effect });
        Ok(id)
    }

    /// Its tensors.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The shape of a tensor all of whose dimensions are known.
    pub fn shape(&self, tensor: TensorId) -> Option<Shape> {
        let found = self.tensors.get(tensor.0)?;
        let dims: Option<Vec<u64>> = found.dims.iter().copied().collect();
        Shape::new(found.data_type, &dims?).ok()
    }

    /// What a tensor is called.
    pub fn name_of(&self, tensor: TensorId) -> &str {
        self.tensors.get(tensor.0).map_or("?", |tensor| &tensor.name)
    }

    /// Who makes it.
    pub(crate) fn producer(&self, tensor: TensorId) -> Option<(NodeId, &Node)> {
        let id = *self.producers.get(&tensor)?;
        Some((id, self.nodes.get(id.0)?))
    }

    fn check_effect(
        &self,
        inputs: &[TensorId],
        outputs: &[TensorId],
        effect: Effect,
    ) -> std::result::Result<(), String> {
        let bytes = |tensor: Option<&TensorId>| self.shape(*tensor?).map(|shape| shape.size_bytes());
        let (input, output) = (bytes(inputs.first()), bytes(outputs.first()));
        match effect {
            Effect::Computes => Ok(()),
            Effect::Keeps if !inputs.is_empty() => {
                Err("keeps its outputs, so it cannot have inputs".to_owned())
            }
            Effect::Keeps if outputs.iter().any(|output| self.shape(*output).is_none()) => {
                Err("keeps a tensor of unknown shape".to_owned())
            }
            Effect::Keeps => Ok(()),
            Effect::Views { .. } | Effect::InPlace if inputs.is_empty() || outputs.is_empty() => {
                Err("works on its first input's memory, and has none or makes none".to_owned())
            }
            Effect::Views { .. } if outputs.len() != 1 => {
                Err("is a view, and makes more than one tensor".to_owned())
            }
            Effect::Views { offset_bytes } => match (input, output) {
                (Some(input), Some(output))
                    if offset_bytes.checked_add(output).is_none_or(|end| end > input) =>
                {
                    Err(format!("views {output} bytes at {offset_bytes} of {input}"))
                }
                (Some(_), Some(_)) => Ok(()),
                _ => Err("is a view of or as a tensor of unknown shape".to_owned()),
            },
            Effect::InPlace if input != output => {
                Err("works in place on a tensor of another size".to_owned())
            }
            Effect::InPlace => Ok(()),
        }
    }
}
