//! A machine's tensors: where each lies, those that have a place from the start and those that get one as they come.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::graph::{Graph, Home, MachineId, MachinePlan, TensorId};
use crate::memory::arena::Arena;
use crate::memory::{Part, Region};
use crate::tensor::Shape;

/// Memory of an executor.
#[derive(Debug)]
pub(super) struct Memory {
    /// What each peer's device calls the registered region, in which the registered arena lies, and that of dynamic tensors.
    registered: BTreeMap<MachineId, Region>,
    own: Region,
    dynamic: Arena,
    dynamic_region: Region,
    dynamic_of: BTreeMap<MachineId, Region>,
    plain_dynamic: Arena,
    /// Tensors that have a place, with their shapes.
    values: BTreeMap<TensorId, (Shape, Part)>,
}

impl Memory {
    /// Memory for a plan's tensors.
    pub(super) fn new(plan: &MachinePlan, dynamic_bytes: u64) -> Result<Self> {
        let has_dynamic = |registered| {
            plan.homes.values().any(|home| match home {
                Home::Dynamic { is_registered } => *is_registered == registered,
                Home::Received(_) => registered,
                _ => false,
            })
        };
        let bytes = |registered| if has_dynamic(registered) { dynamic_bytes } else { 0 };
        let dynamic_region = Region::new(bytes(true))?;
        Ok(Self {
            registered: BTreeMap::new(),
            own: Region::new(plan.registered_bytes)?,
            dynamic: Arena::new(
                "the arena of tensors of unknown shape that are sent",
                dynamic_region.clone(),
            ),
            dynamic_region,
            dynamic_of: BTreeMap::new(),
            plain_dynamic: Arena::new("the arena of tensors of unknown shape", Region::new(bytes(false))?),
            values: BTreeMap::new(),
        })
    }

    /// The regions that every peer's device has to know.
    pub(super) fn regions(&self) -> [&Region; 2] {
        [&self.own, &self.dynamic_region]
    }

    /// What a peer's device calls them.
    pub(super) fn set_registered(&mut self, peer: MachineId, [own, dynamic]: [Region; 2]) {
        self.registered.insert(peer, own);
        self.dynamic_of.insert(peer, dynamic);
    }

    /// Gives every tensor of a fixed place its place. `slot` says where an edge's slot is.
    pub(super) fn place(
        &mut self,
        graph: &Graph,
        plan: &MachinePlan,
        mut slot: impl FnMut(usize) -> Result<Part>,
    ) -> Result<()> {
        let plain = Region::new(plan.plain_bytes)?;
        for (tensor, home) in &plan.homes {
            let Some(shape) = graph.shape(*tensor) else { continue };
            let bytes = shape.size_bytes();
            let part = match home {
                Home::SlotOf(edge) => slot(*edge)?,
                Home::Registered { offset_bytes } => self.own.part(*offset_bytes, bytes)?,
                Home::Plain { offset_bytes } => plain.part(*offset_bytes, bytes)?,
                Home::Received(_) | Home::Dynamic { .. } | Home::Within { .. } => continue,
            };
            self.values.insert(*tensor, (shape, part));
        }
        Ok(())
    }

    /// A tensor and its shape, through the tensor in whose memory it lies.
    pub(super) fn value(&self, graph: &Graph, plan: &MachinePlan, tensor: TensorId) -> Result<(Shape, Part)> {
        let missing = || Error::Usage(format!("tensor {} has no memory yet", graph.name_of(tensor)));
        if let Some(Home::Within { tensor: whole, offset_bytes }) = plan.homes.get(&tensor) {
            let (whole_shape, part) = self.values.get(whole).ok_or_else(missing)?;
            // A node in place may have a tensor of unknown shape, which then is its input's.
            let shape = graph.shape(tensor).unwrap_or_else(|| whole_shape.clone());
            let part = part.part(*offset_bytes, shape.size_bytes())?;
            return Ok((shape, part));
        }
        self.values.get(&tensor).cloned().ok_or_else(missing)
    }

    /// A tensor's bytes, if it has a place.
    pub(super) fn bytes(&self, tensor: TensorId) -> Option<&[u8]> {
        self.values.get(&tensor).map(|(_, part)| part.bytes())
    }

    /// A tensor has come to lie somewhere.
    pub(super) fn set(&mut self, tensor: TensorId, shape: Shape, part: Part) {
        self.values.insert(tensor, (shape, part));
    }

    /// Allocates a tensor of a shape that was unknown.
    pub(super) fn allocate(&mut self, tensor: TensorId, shape: Shape, is_registered: bool) -> Result<()> {
        let arena = if is_registered { &mut self.dynamic } else { &mut self.plain_dynamic };
        let part = arena.take(shape.size_bytes())?;
        self.values.insert(tensor, (shape, part));
        Ok(())
    }

    /// Memory for a tensor that comes from a peer, as its device knows it.
    pub(super) fn take_for(&mut self, peer: MachineId, shape: &Shape) -> Result<Part> {
        let own = self.dynamic.take(shape.size_bytes())?;
        self.known_to(peer, &own)
    }

    /// The same bytes, as the peer's device knows them; an error where they are not registered with it.
    pub(super) fn known_to(&self, peer: MachineId, part: &Part) -> Result<Part> {
        let own = self.own.part(0, self.own.size_bytes())?;
        let dynamic = self.dynamic_region.part(0, self.dynamic_region.size_bytes())?;
        let region = match () {
            () if own.overlaps(part) => self.registered.get(&peer),
            () if dynamic.overlaps(part) => self.dynamic_of.get(&peer),
            () => None,
        };
        let unknown = || Error::Usage("a tensor to be sent is not in registered memory".to_owned());
        region.ok_or_else(unknown)?.part(part.offset(), part.size_bytes())
    }

    /// Whether a part is of the memory that all peers' devices know.
    pub(super) fn is_registered(&self, part: &Part) -> bool {
        let whole =
            |region: &Region| region.part(0, region.size_bytes()).is_ok_and(|whole| whole.overlaps(part));
        whole(&self.own) || whole(&self.dynamic_region)
    }

    /// A copy of a tensor in registered memory.
    pub(super) fn copy_to_registered(&mut self, part: &Part) -> Result<Part> {
        let copy = self.dynamic.take(part.size_bytes())?;
        copy.place(part.bytes())?;
        Ok(copy)
    }

    /// Takes a tensor's memory back, if it was allocated as it came; the block, where peers may still read it.
    pub(super) fn forget(&mut self, tensor: TensorId, is_registered: bool) -> Option<Part> {
        let (_, part) = self.values.remove(&tensor)?;
        if is_registered {
            return Some(part);
        }
        self.plain_dynamic.give_back(&part);
        None
    }

    /// Gives a block of registered memory back.
    pub(super) fn give_back(&mut self, block: &Part) {
        self.dynamic.give_back(block);
    }
}
