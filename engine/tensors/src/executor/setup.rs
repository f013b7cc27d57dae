//! Makes an executor: declares the plan's edges on the links, places tensors, asks for kernels.

use std::collections::BTreeMap;

use crate::clock::Deadline;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::executor::memory::Memory;
use crate::executor::{Executor, Kernel, Lent, Options, Tally};
use crate::graph::{Effect, Graph, MachineId, Node, Plan, Step, TensorId};
use crate::link::{Declaration, EdgeId, Hold, Link};

impl<'k> Executor<'k> {
    /// Sets one machine up, together with those that it shares edges with; `devices` leads to them. All machines make the
    /// same graph and plan.
    ///
    /// # Errors
    /// A device is missing, the other machines have another graph or do not answer in time, or there is no memory.
    pub fn new(
        graph: &Graph,
        plan: &Plan,
        machine: MachineId,
        devices: BTreeMap<MachineId, Box<dyn Device>>,
        mut kernel: impl FnMut(&Node) -> Option<Box<dyn Kernel + 'k>>,
        options: Options,
    ) -> Result<Self> {
        let none = || Error::Usage(format!("the graph has no nodes on machine {}", machine.0));
        let own = plan.machines.get(&machine).cloned().ok_or_else(none)?;
        let links = devices.into_iter().map(|(peer, device)| (peer, Link::new(device))).collect();
        let mut executor = Self {
            memory: Memory::new(&own, options.dynamic_bytes)?,
            graph: graph.clone(),
            machine,
            plan: own,
            edges: plan.edges.clone(),
            ids: BTreeMap::new(),
            links,
            kernels: BTreeMap::new(),
            n_users: BTreeMap::new(),
            lent: Lent::new(),
            options,
            tally: Tally::default(),
        };
        executor.ask_for_kernels(&mut kernel)?;
        executor.declare()?;
        let deadline = Deadline::after(options.patience);
        for (peer, link) in &mut executor.links {
            let [own, dynamic] = executor.memory.regions().map(|region| link.register(region));
            executor.memory.set_registered(*peer, [own?, dynamic?]);
            link.ready(deadline)?;
        }
        executor.place()?;
        executor.count_users();
        Ok(executor)
    }

    fn ask_for_kernels(
        &mut self,
        kernel: &mut dyn FnMut(&Node) -> Option<Box<dyn Kernel + 'k>>,
    ) -> Result<()> {
        for (step, operator) in self.plan.operators.iter().enumerate() {
            let Step::Node(node) = operator.step else { continue };
            let Some(node) = self.graph.nodes().get(node.0) else { continue };
            if matches!(node.effect, Effect::Views { .. }) {
                continue;
            }
            let missing = || Error::Node { node: node.name.clone(), what: "has no kernel".to_owned() };
            self.kernels.insert(step, kernel(node).ok_or_else(missing)?);
        }
        Ok(())
    }

    /// Edges are declared in the plan's order on both ends.
    fn declare(&mut self) -> Result<()> {
        for number in 0..self.edges.len() {
            let Some(edge) = self.edges.get(number) else { continue };
            let sends = edge.from == self.machine;
            let peer = if sends { edge.to } else { edge.from };
            if !sends && edge.to != self.machine {
                continue;
            }
            let held = edge.hold.and_then(|hold| self.edges.get(hold)).map(|hold| hold.name.clone());
            let hold = held.map_or(Hold::Release, Hold::By);
            let (name, limit_bytes) = (edge.name.clone(), self.options.limit_bytes);
            let mut declaration = match (&edge.shape, sends) {
                (Some(shape), true) => Declaration::static_sender(name, shape.clone(), hold),
                (Some(shape), false) => Declaration::static_receiver(name, shape.clone()),
                (None, true) => Declaration::dynamic_sender(name, limit_bytes, hold),
                (None, false) => Declaration::dynamic_receiver(name, limit_bytes),
            };
            // Dynamic tensors lie in the executor's own arena.
            declaration.has_slot = edge.shape.is_some() && (edge.has_slot || !sends);
            let missing = || Error::Usage(format!("edge {} needs a device to machine {}", edge.name, peer.0));
            let id = self.links.get_mut(&peer).ok_or_else(missing)?.declare(declaration)?;
            self.ids.insert(number, id);
        }
        Ok(())
    }

    fn place(&mut self) -> Result<()> {
        let Self { memory, graph, plan, edges, ids, links, .. } = self;
        memory.place(graph, plan, |number| {
            let edge = edges.get(number);
            let link = edge.and_then(|edge| links.get(&edge.to));
            let missing = || Error::Usage(format!("edge {number} has no slot"));
            let (link, id) = link.zip(ids.get(&number)).ok_or_else(missing)?;
            link.slot(*id)
        })
    }

    fn count_users(&mut self) {
        for operator in &self.plan.operators {
            for tensor in self.memory_used_by(operator.step) {
                *self.n_users.entry(tensor).or_default() += 1;
            }
        }
    }

    /// The allocations that a step reads or makes, once each.
    pub(super) fn memory_used_by(&self, step: Step) -> Vec<TensorId> {
        let node = |node: usize| self.graph.nodes().get(node);
        let tensors: Vec<TensorId> = match step {
            Step::Node(id) => {
                node(id.0).map(|node| [node.inputs.as_slice(), &node.outputs].concat()).unwrap_or_default()
            }
            Step::Send(edge) | Step::Receive(edge) => {
                self.edges.get(edge).map(|edge| edge.tensor).into_iter().collect()
            }
        };
        let mut memory: Vec<TensorId> = tensors.into_iter().map(|tensor| self.plan.whole(tensor)).collect();
        memory.sort_unstable();
        memory.dedup();
        memory
    }

    /// A link of this machine's, and the edge's number on it.
    pub(super) fn link(&mut self, edge: usize) -> Result<(MachineId, EdgeId, &mut Link)> {
        let missing = || Error::Usage(format!("there is no edge {edge} on this machine"));
        let found = self.edges.get(edge).ok_or_else(missing)?;
        let peer = if found.from == self.machine { found.to } else { found.from };
        let id = *self.ids.get(&edge).ok_or_else(missing)?;
        Ok((peer, id, self.links.get_mut(&peer).ok_or_else(missing)?))
    }
}
