//! The model (64-256-128-10, as in examples/digits) and one step of its training as a graph.

use std::cell::RefCell;
use std::rc::Rc;

use rtensor::error::Result;
use rtensor::executor::{Call, Kernel};
use rtensor::graph::{Effect, Graph, MachineId, Node, TensorId};
use rtensor::tensor::DataType;

use crate::data::{BATCH, Data, PIXELS, Random};
use crate::ops;

/// The machine that has the parameters.
pub(crate) const PARAMETERS: MachineId = MachineId(0);
/// The machine that computes gradients.
pub(crate) const WORKER: MachineId = MachineId(1);

const WIDTHS: [usize; 4] = [PIXELS, 256, 128, 10];
const LEARNING_RATE: f32 = 0.05;
const MOMENTUM: f32 = 0.9;

/// The losses that came to the machine with the parameters.
pub(crate) type Losses = Rc<RefCell<Vec<f32>>>;

/// The graph, and which tensors are the parameters.
pub(crate) struct Model {
    pub(crate) graph: Graph,
    parameters: Vec<TensorId>,
}

/// The tensors of a layer on the worker.
#[derive(Clone, Copy)]
struct Layer {
    input: TensorId,
    weight: TensorId,
    width: usize,
    below: usize,
}

impl Model {
    pub(crate) fn new() -> Result<Self> {
        let mut model = Self { graph: Graph::new(), parameters: Vec::new() };
        let pictures = model.tensor("pictures", &[BATCH, PIXELS]);
        let digits = model.tensor("digits", &[BATCH]);
        model.graph.node("batch", WORKER, &[], &[pictures, digits], Effect::Computes)?;
        let mut layers = Vec::new();
        let mut input = pictures;
        for (number, widths) in WIDTHS.windows(2).enumerate() {
            let [below, width] = [widths[0], widths[1]];
            let weight = model.kept(&format!("weight {number}"), &[width, below])?;
            let bias = model.kept(&format!("bias {number}"), &[width])?;
            model.parameters.extend([weight, bias]);
            let output = model.tensor(&format!("output {number}"), &[BATCH, width]);
            let inputs = [input, weight, bias];
            model.graph.node(format!("forward {number}"), WORKER, &inputs, &[output], Effect::Computes)?;
            layers.push(Layer { input, weight, width, below });
            input = output;
        }
        let loss = model.tensor("loss", &[1]);
        let gradient = model.tensor("gradient of the scores", &[BATCH, WIDTHS[3]]);
        model.graph.node("loss", WORKER, &[input, digits], &[loss, gradient], Effect::Computes)?;
        let note = model.tensor("note", &[1]);
        model.graph.node("note", PARAMETERS, &[loss], &[note], Effect::Computes)?;
        model.backward(&layers, gradient)?;
        Ok(model)
    }

    /// Weight and bias of each layer.
    pub(crate) fn parameters(&self) -> &[TensorId] {
        &self.parameters
    }

    fn backward(&mut self, layers: &[Layer], mut gradient: TensorId) -> Result<()> {
        for (number, layer) in layers.iter().enumerate().rev() {
            let weight = self.tensor(&format!("gradient of weight {number}"), &[layer.width, layer.below]);
            let bias = self.tensor(&format!("gradient of bias {number}"), &[layer.width]);
            let inputs = [gradient, layer.input];
            self.graph.node(
                format!("gradients {number}"),
                WORKER,
                &inputs,
                &[weight, bias],
                Effect::Computes,
            )?;
            for (place, of) in [weight, bias].into_iter().enumerate() {
                self.update(self.parameters[2 * number + place], of)?;
            }
            if number > 0 {
                let below = self.tensor(&format!("gradient of output {}", number - 1), &[BATCH, layer.below]);
                let inputs = [gradient, layer.weight, layer.input];
                self.graph.node(format!("backward {number}"), WORKER, &inputs, &[below], Effect::Computes)?;
                gradient = below;
            }
        }
        Ok(())
    }

    /// Both in place: the momentum takes the gradient, the parameter a step.
    fn update(&mut self, parameter: TensorId, gradient: TensorId) -> Result<()> {
        let name = self.graph.name_of(parameter).to_owned();
        let dims = self.dims(parameter);
        let momentum = self.kept(&format!("momentum of {name}"), &dims)?;
        let gathered = self.tensor(&format!("new momentum of {name}"), &dims);
        let changed = self.tensor(&format!("new {name}"), &dims);
        let inputs = [momentum, gradient];
        self.graph.node(format!("gather {name}"), PARAMETERS, &inputs, &[gathered], Effect::InPlace)?;
        let inputs = [parameter, gathered];
        self.graph.node(format!("step {name}"), PARAMETERS, &inputs, &[changed], Effect::InPlace)?;
        Ok(())
    }

    fn dims(&self, tensor: TensorId) -> Vec<usize> {
        let shape = self.graph.shape(tensor);
        let dims = shape.iter().flat_map(|shape| shape.dims());
        dims.map(|dim| usize::try_from(*dim).unwrap_or(0)).collect()
    }

    fn tensor(&mut self, name: &str, dims: &[usize]) -> TensorId {
        let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        self.graph.tensor(name, DataType::F32, &dims)
    }

    fn kept(&mut self, name: &str, dims: &[usize]) -> Result<TensorId> {
        let tensor = self.tensor(name, dims);
        self.graph.node(name, PARAMETERS, &[], &[tensor], Effect::Keeps)?;
        Ok(tensor)
    }

    /// What a node computes.
    pub(crate) fn kernel<'a>(
        &self,
        node: &Node,
        data: &'a Data,
        losses: &Losses,
    ) -> Option<Box<dyn Kernel + 'a>> {
        let (what, of) = node.name.split_once(' ').unwrap_or((&node.name, ""));
        let rectifies = of != "2";
        let name = node.name.clone();
        let losses = Rc::clone(losses);
        let kernel = move |call: &mut Call<'_>, what: &str| -> Option<()> {
            let step = call.iteration();
            let (inputs, mut outputs) = call.floats().ok()?;
            match (what, inputs.as_slice(), outputs.as_mut_slice()) {
                ("weight" | "bias", [], [out]) => begin(&name, out),
                ("momentum", [], [out]) => out.fill(0.0),
                ("batch", [], [pictures, digits]) => fill(data, step, pictures, digits),
                ("forward", [input, weight, bias], [out]) => ops::linear(input, weight, bias, out, rectifies),
                ("loss", [scores, digits], [loss, gradient]) => ops::loss(scores, digits, loss, gradient),
                ("note", [loss], [out]) => {
                    losses.borrow_mut().extend(loss.first());
                    out.copy_from_slice(loss);
                }
                ("gradients", [gradient, input], [weight, bias]) => {
                    ops::parameter_gradients(gradient, input, weight, bias);
                }
                ("backward", [gradient, weight, input], [out]) => {
                    ops::input_gradient(gradient, weight, input, out);
                }
                ("gather", [_, gradient], [momentum]) => ops::gather(momentum, gradient, MOMENTUM),
                ("step", [_, momentum], [parameter]) => ops::step(parameter, momentum, LEARNING_RATE),
                _ => return None,
            }
            Some(())
        };
        let what = what.to_owned();
        let named =
            move |call: &mut Call<'_>| kernel(call, &what).ok_or_else(|| "has other operands".to_owned());
        Some(Box::new(named))
    }
}

fn fill(data: &Data, step: u64, pictures: &mut [f32], digits: &mut [f32]) {
    let places = pictures.chunks_exact_mut(PIXELS).zip(digits);
    for ((place, known), (picture, digit)) in places.zip(data.batch(step)) {
        place.copy_from_slice(picture);
        *known = f32::from(digit);
    }
}

/// Uniform, by the number of inputs; seeded by the name.
fn begin(name: &str, out: &mut [f32]) {
    let seed = name.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(131).wrapping_add(u64::from(byte)));
    let layer: usize = name.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let bound = 1.0 / (WIDTHS.get(layer).copied().unwrap_or(1) as f32).sqrt();
    let mut random = Random(seed);
    out.iter_mut().for_each(|value| *value = bound * random.uniform());
}

/// The share of the pictures that were not learnt from whose digit is found.
pub(crate) fn accuracy(parameters: &[&[u8]], data: &Data) -> f32 {
    let floats = |bytes: &&[u8]| -> Vec<f32> {
        bytes
            .chunks_exact(4)
            .filter_map(|bytes| bytes.first_chunk().map(|bytes| f32::from_ne_bytes(*bytes)))
            .collect()
    };
    let parameters: Vec<Vec<f32>> = parameters.iter().map(floats).collect();
    let (mut right, mut all) = (0_u16, 0_u16);
    for (picture, digit) in data.others() {
        let mut values = picture.to_vec();
        for (number, layer) in parameters.chunks_exact(2).enumerate() {
            let mut out = vec![0.0; layer[1].len()];
            ops::linear(&values, &layer[0], &layer[1], &mut out, number < 2);
            values = out;
        }
        let best = (0..values.len()).max_by(|one, other| values[*one].total_cmp(&values[*other]));
        right += u16::from(best == Some(usize::from(digit)));
        all += 1;
    }
    f32::from(right) / f32::from(all)
}
