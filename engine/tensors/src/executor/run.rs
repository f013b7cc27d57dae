//! Iterations.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::{Deadline, Patience};
use crate::error::{Error, Result};
use crate::executor::queue::Queue;
use crate::executor::{Call, Executor, Kernel};
use crate::graph::{Effect, Home, MachineId, Node, NodeId, Step, TensorId};
use crate::link::Link;
use crate::memory::Part;
use crate::tensor::Shape;

/// What one iteration keeps in mind.
#[derive(Debug, Default)]
struct Iteration {
    /// Sends that are posted but have not left their memory.
    posted: BTreeSet<usize>,
    /// For every allocation the steps that still use it.
    users: BTreeMap<TensorId, usize>,
}

impl<'k> Executor<'k> {
    /// Runs every step of this machine once.
    ///
    /// # Errors
    /// A kernel failed, a peer is gone, or nothing happened for as long as the options say; by name.
    pub fn iterate(&mut self) -> Result<()> {
        let mut queue = Queue::new(&self.plan.operators);
        let mut iteration = Iteration { users: self.n_users.clone(), ..Iteration::default() };
        let mut patience = Patience::default();
        let mut lost = None;
        let mut deadline = Deadline::after(self.options.patience);
        while let Some(number) = queue.next() {
            if self.attempt(number, &mut iteration)? {
                queue.done(number);
                if let Some(step) = self.plan.operators.get(number).map(|operator| operator.step) {
                    self.leave(step, &mut iteration)?;
                }
                patience.found();
                lost = None;
                deadline = Deadline::after(self.options.patience);
                continue;
            }
            self.tally.requeued += 1;
            if !queue.later(number) {
                continue;
            }
            // What the peer wrote before it went was there to be seen in one more round.
            if let Some(error) = lost.take() {
                return Err(error);
            }
            // Peers may want to read here, whoever this machine waits for.
            self.links.values_mut().try_for_each(Link::serve)?;
            if self.links.values().any(Link::is_moving) {
                patience.moved();
            }
            if patience.wait() {
                lost = self.look_around(&queue, deadline)?;
            }
        }
        if queue.left() > 0 {
            return Err(Error::Usage(format!("{} steps wait for each other", queue.left())));
        }
        self.tally.iterations += 1;
        Ok(())
    }

    /// Waits until no machine needs this one any more, at the end. All machines call it.
    ///
    /// # Errors
    /// A peer is gone without having called it, or does not in time.
    pub fn finish(&mut self) -> Result<()> {
        let deadline = Deadline::after(self.options.patience);
        self.on_all_links(deadline, Link::flushing, Link::is_flushed)?;
        self.links.values_mut().try_for_each(Link::begin_finish)?;
        self.on_all_links(deadline, Link::finishing, Link::has_finished)
    }

    /// Does something on each link until it is done there, and serves the others meanwhile.
    fn on_all_links(
        &mut self,
        deadline: Deadline,
        waiting_for: impl Fn(&Link) -> String,
        mut is_done: impl FnMut(&mut Link) -> Result<bool>,
    ) -> Result<()> {
        let (mut done, mut patience) = (BTreeSet::new(), Patience::default());
        loop {
            for (peer, link) in &mut self.links {
                if done.contains(peer) {
                    link.serve()?;
                } else if is_done(link)? {
                    done.insert(*peer);
                }
            }
            let missing = self.links.iter().find(|(peer, _)| !done.contains(peer));
            let Some((_, link)) = missing else { return Ok(()) };
            if self.links.values().any(Link::is_moving) {
                patience.moved();
            }
            if patience.wait() && deadline.passed() {
                return Err(Error::NoProgress {
                    seconds: deadline.seconds(),
                    waiting_for: waiting_for(link),
                });
            }
        }
    }

    /// All that is ready waits: an error if the deadline has passed; a peer's, if one that is waited for is gone.
    fn look_around(&mut self, queue: &Queue, deadline: Deadline) -> Result<Option<Error>> {
        let waits: Vec<String> = queue.ready().filter_map(|number| self.waiting_for(number)).collect();
        let all = waits.join("; ");
        for peer in self.awaited(queue) {
            let gone = self.links.get_mut(&peer).and_then(|link| link.device().check_peer().err());
            if let Some(error) = gone {
                return Ok(Some(error.during(|| all)));
            }
        }
        if deadline.passed() {
            return Err(Error::NoProgress { seconds: deadline.seconds(), waiting_for: all });
        }
        Ok(None)
    }

    /// The peers that a step waits for.
    fn awaited(&mut self, queue: &Queue) -> BTreeSet<MachineId> {
        let edges = queue.ready().filter_map(|number| match self.plan.operators.get(number)?.step {
            Step::Receive(edge) | Step::Send(edge) => Some(edge),
            Step::Node(_) => None,
        });
        let edges: Vec<usize> = edges.collect();
        edges.into_iter().filter_map(|edge| self.link(edge).ok().map(|(peer, ..)| peer)).collect()
    }

    fn waiting_for(&mut self, number: usize) -> Option<String> {
        match self.plan.operators.get(number)?.step {
            Step::Receive(edge) | Step::Send(edge) => {
                let (_, id, link) = self.link(edge).ok()?;
                Some(link.waiting_for(id))
            }
            Step::Node(_) => None,
        }
    }

    /// Tries a step; whether it is done.
    fn attempt(&mut self, number: usize, iteration: &mut Iteration) -> Result<bool> {
        match self.plan.operators.get(number).map(|operator| operator.step) {
            Some(Step::Node(node)) => self.run_node(number, node).map(|()| true),
            Some(Step::Receive(edge)) => {
                self.tally.polls += 1;
                let is_here = self.receive(edge)?;
                self.tally.hits += u64::from(is_here);
                Ok(is_here)
            }
            Some(Step::Send(edge)) => self.send(edge, iteration),
            None => Ok(true),
        }
    }

    fn receive(&mut self, edge: usize) -> Result<bool> {
        let (peer, id, _) = self.link(edge)?;
        let Self { memory, links, edges, .. } = self;
        let Some((link, found)) = links.get_mut(&peer).zip(edges.get(edge)) else { return Ok(false) };
        if !link.poll_into(id, &mut |shape| memory.take_for(peer, shape))? {
            return Ok(false);
        }
        let (shape, part) = link.received(id)?;
        memory.set(found.tensor, shape, part);
        Ok(true)
    }

    fn send(&mut self, edge: usize, iteration: &mut Iteration) -> Result<bool> {
        if !iteration.posted.contains(&edge) {
            let (_, id, link) = self.link(edge)?;
            if !link.may_send(id)? {
                return Ok(false);
            }
            self.settle(edge);
            self.post(edge)?;
            iteration.posted.insert(edge);
        }
        let waits_for_reader =
            self.edges.get(edge).is_some_and(|edge| edge.shape.is_none() && edge.is_changed);
        let (_, id, link) = self.link(edge)?;
        if waits_for_reader { link.may_send(id) } else { link.has_left(id) }
    }

    fn post(&mut self, edge: usize) -> Result<()> {
        let (peer, id, _) = self.link(edge)?;
        let Some(found) = self.edges.get(edge) else { return Ok(()) };
        let tensor = found.tensor;
        if found.has_slot {
            return self.link(edge)?.2.send(id);
        }
        let (shape, part) = self.memory.value(&self.graph, &self.plan, tensor)?;
        let part = if self.memory.is_registered(&part) {
            part
        } else {
            self.tally.copied_bytes += part.size_bytes();
            let copy = self.memory.copy_to_registered(&part)?;
            self.lent.push((vec![edge], copy.clone()));
            copy
        };
        let part = self.memory.known_to(peer, &part)?;
        self.link(edge)?.2.send_from(id, &shape, &part)
    }

    fn run_node(&mut self, number: usize, id: NodeId) -> Result<()> {
        let Some(node) = self.graph.nodes().get(id.0).cloned() else { return Ok(()) };
        let is_first = self.tally.iterations == 0;
        if matches!(node.effect, Effect::Views { .. }) || node.effect == Effect::Keeps && !is_first {
            return Ok(());
        }
        let failed = |what: String| Error::Node { node: node.name.clone(), what };
        let value = |own: &Self, tensor: &TensorId| own.memory.value(&own.graph, &own.plan, *tensor);
        let inputs = node.inputs.iter().map(|input| value(self, input)).collect::<Result<Vec<_>>>()?;
        let mut kernel = self.kernels.remove(&number).ok_or_else(|| failed("has no kernel".to_owned()))?;
        self.allocate_outputs(&node, kernel.as_mut(), &inputs)?;
        let outputs = node.outputs.iter().map(|output| value(self, output)).collect::<Result<Vec<_>>>()?;
        let mut call = Call::new(self.tally.iterations, &inputs, &outputs)?;
        let outcome = kernel.run(&mut call);
        self.kernels.insert(number, kernel);
        outcome.map_err(failed)
    }

    /// Allocates the outputs whose shapes the kernel has to tell.
    fn allocate_outputs(
        &mut self,
        node: &Node,
        kernel: &mut dyn Kernel,
        inputs: &[(Shape, Part)],
    ) -> Result<()> {
        let is_dynamic =
            |output: &TensorId| matches!(self.plan.homes.get(output), Some(Home::Dynamic { .. }));
        if !node.outputs.iter().any(is_dynamic) {
            return Ok(());
        }
        let failed = |what: String| Error::Node { node: node.name.clone(), what };
        let shapes: Vec<&Shape> = inputs.iter().map(|(shape, _)| shape).collect();
        let shapes = kernel.shapes(&shapes).map_err(failed)?;
        if shapes.len() != node.outputs.len() {
            return Err(failed(format!(
                "its kernel tells {} shapes for {} outputs",
                shapes.len(),
                node.outputs.len()
            )));
        }
        for (output, shape) in node.outputs.iter().zip(shapes) {
            let declared = self.graph.tensors().get(output.0);
            let fits = declared.is_some_and(|tensor| {
                let dims = tensor.dims.iter().zip(shape.dims());
                tensor.data_type == shape.data_type()
                    && tensor.dims.len() == shape.dims().len()
                    && dims.into_iter().all(|(known, dim)| known.is_none_or(|known| known == *dim))
            });
            if !fits {
                return Err(failed(format!(
                    "makes {} as {shape}, which does not fit",
                    self.graph.name_of(*output)
                )));
            }
            if let Some(Home::Dynamic { is_registered }) = self.plan.homes.get(output).copied() {
                self.memory.allocate(*output, shape, is_registered)?;
            }
        }
        Ok(())
    }

    /// A step is done with its tensors: what nobody uses any more is released.
    fn leave(&mut self, step: Step, iteration: &mut Iteration) -> Result<()> {
        for tensor in self.memory_used_by(step) {
            let Some(users) = iteration.users.get_mut(&tensor) else { continue };
            *users -= 1;
            if *users > 0 {
                continue;
            }
            match self.plan.homes.get(&tensor).copied() {
                Some(Home::Received(edge)) => {
                    if self.edges.get(edge).is_some_and(|edge| edge.shape.is_none()) {
                        self.forget(tensor, true);
                    }
                    let (_, id, link) = self.link(edge)?;
                    link.release(id)?;
                }
                Some(Home::Dynamic { is_registered }) => self.forget(tensor, is_registered),
                _ => {}
            }
        }
        Ok(())
    }

    /// Nobody uses a tensor here any more, that was allocated as it came; peers may still read it.
    fn forget(&mut self, tensor: TensorId, is_registered: bool) {
        let Some(block) = self.memory.forget(tensor, is_registered) else { return };
        let readers = self
            .edges
            .iter()
            .enumerate()
            .filter(|(_, edge)| edge.from == self.machine && self.plan.whole(edge.tensor) == tensor);
        let readers: Vec<usize> = readers.map(|(number, _)| number).collect();
        if readers.is_empty() {
            self.memory.give_back(&block);
        } else {
            self.lent.push((readers, block));
        }
    }

    /// Gives blocks back whose last reader is known to be done: the sender of `edge` has just heard of its receiver.
    fn settle(&mut self, edge: usize) {
        let mut lent = std::mem::take(&mut self.lent);
        lent.retain_mut(|(readers, block)| {
            readers.retain(|reader| *reader != edge);
            if readers.is_empty() {
                self.memory.give_back(block);
            }
            !readers.is_empty()
        });
        self.lent = lent;
    }
}
