//! The model that is pretended to be trained: ResNet-18's own tensors (He et al., 2015, as torchvision has it), all
//! scaled by one factor, and when each gradient is there: the backward pass goes from the last layer to the first, and a layer takes its
//! share of it by its multiplications.

use super::formulas::Message;

/// Of a step's compute, what the backward pass takes: gradients of inputs and of weights are two of three products.
const BACKWARD: f64 = 2.0 / 3.0;

/// A convolution or matrix, and what stands behind it.
struct Layer {
    /// Its elements.
    weight: u64,
    /// Elements of each of the two small tensors behind it: a normalization, or a bias (then one).
    small: u64,
    n_small: usize,
    /// Edge of its output: each weight is used at each place of it.
    edge: u64,
}

const fn convolution(inputs: u64, outputs: u64, kernel: u64, edge: u64) -> Layer {
    Layer { weight: inputs * outputs * kernel * kernel, small: outputs, n_small: 2, edge }
}

/// In the order of the forward pass.
const LAYERS: [Layer; 21] = [
    convolution(3, 64, 7, 112),
    convolution(64, 64, 3, 56),
    convolution(64, 64, 3, 56),
    convolution(64, 64, 3, 56),
    convolution(64, 64, 3, 56),
    convolution(64, 128, 3, 28),
    convolution(128, 128, 3, 28),
    convolution(64, 128, 1, 28),
    convolution(128, 128, 3, 28),
    convolution(128, 128, 3, 28),
    convolution(128, 256, 3, 14),
    convolution(256, 256, 3, 14),
    convolution(128, 256, 1, 14),
    convolution(256, 256, 3, 14),
    convolution(256, 256, 3, 14),
    convolution(256, 512, 3, 7),
    convolution(512, 512, 3, 7),
    convolution(256, 512, 1, 7),
    convolution(512, 512, 3, 7),
    convolution(512, 512, 3, 7),
    Layer { weight: 512_000, small: 1000, n_small: 1, edge: 1 },
];

/// Bytes of an element.
const ELEMENT_BYTES: u64 = 4;

/// The gradients of a step that computes for so long, in the order in which they are there. All together they are about
/// `gradient_bytes`; each has an element at least.
pub(super) fn gradients(gradient_bytes: u64, compute_s: f64) -> Vec<Message> {
    let elements: u64 = LAYERS.iter().map(Layer::elements).sum();
    let work: u64 = LAYERS.iter().map(Layer::work).sum();
    let scaled = |of_tensor: u64| {
        let bytes = u128::from(of_tensor) * u128::from(gradient_bytes) / u128::from(elements * ELEMENT_BYTES);
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1) * ELEMENT_BYTES
    };
    let mut done = 0;
    let mut messages = Vec::new();
    for layer in LAYERS.iter().rev() {
        done += layer.work();
        let ready_s = compute_s * (1.0 - BACKWARD + BACKWARD * share(done, work));
        let small = std::iter::repeat_n(layer.small, layer.n_small);
        messages.extend(small.chain([layer.weight]).map(|tensor| Message { ready_s, bytes: scaled(tensor) }));
    }
    messages
}

impl Layer {
    fn elements(&self) -> u64 {
        self.weight + self.small * self.n_small as u64
    }

    fn work(&self) -> u64 {
        self.weight * self.edge * self.edge
    }
}

#[expect(clippy::cast_precision_loss, reason = "some 10^9 multiplications")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn these_are_the_tensors_of_resnet_18() {
        let elements: u64 = LAYERS.iter().map(Layer::elements).sum();
        let work: u64 = LAYERS.iter().map(Layer::work).sum();
        assert_eq!((elements, work), (11_689_512, 1_814_073_344));
        assert_eq!(gradients(elements * 4, 1.0).len(), 62);
    }

    #[test]
    fn gradients_come_in_the_backward_pass_from_the_last_layer_on() {
        let whole = gradients(4 * 11_689_512, 0.6);
        assert_eq!(
            (whole[0].bytes, whole[1].bytes),
            (4000, 2_048_000),
            "the last layer's bias, then its weight"
        );
        assert!(whole[0].ready_s > 0.2 && whole[0].ready_s < 0.201, "{:?}", whole[0]);
        assert!(whole.is_sorted_by(|one, next| one.ready_s <= next.ready_s));
        assert!((whole[61].ready_s - 0.6).abs() < 1e-9);
        assert_eq!(whole[61].bytes, 4 * 9408);
    }

    #[test]
    fn a_smaller_model_has_as_many_tensors() {
        for bytes in [1 << 20, 4 << 20, 400 << 20] {
            let scaled = gradients(bytes, 1.0);
            let sum: u64 = scaled.iter().map(|message| message.bytes).sum();
            assert_eq!(scaled.len(), 62);
            assert!(sum.abs_diff(bytes) < 62 * 4, "{sum} of {bytes}");
            assert!(scaled.iter().all(|message| message.bytes >= 4 && message.bytes % 4 == 0));
        }
        assert!(gradients(1, 1.0).iter().all(|message| message.bytes == 4));
    }
}
