//! What the nodes compute: plain loops over rows, every sum in the order of its terms.

/// `out[i, o] = bias[o] + Σ_k input[i, k] · weight[o, k]`, without what is negative if `rectifies`.
pub(crate) fn linear(input: &[f32], weight: &[f32], bias: &[f32], out: &mut [f32], rectifies: bool) {
    let (n_in, n_out) = (weight.len() / bias.len(), bias.len());
    for (row, out) in input.chunks_exact(n_in).zip(out.chunks_exact_mut(n_out)) {
        for ((out, weight), bias) in out.iter_mut().zip(weight.chunks_exact(n_in)).zip(bias) {
            let sum = row.iter().zip(weight).fold(*bias, |sum, (input, weight)| sum + input * weight);
            *out = if rectifies && sum < 0.0 { 0.0 } else { sum };
        }
    }
}

/// The mean cross entropy of the softmax of `scores`, and its gradient.
pub(crate) fn loss(scores: &[f32], digits: &[f32], loss: &mut [f32], gradient: &mut [f32]) {
    let n_classes = scores.len() / digits.len();
    let share = 1.0 / digits.len() as f32;
    let mut total = 0.0;
    let rows = scores.chunks_exact(n_classes).zip(gradient.chunks_exact_mut(n_classes)).zip(digits);
    for ((scores, gradient), digit) in rows {
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (gradient, score) in gradient.iter_mut().zip(scores) {
            *gradient = (score - most).exp();
        }
        let sum: f32 = gradient.iter().sum();
        for (class, gradient) in gradient.iter_mut().enumerate() {
            let is_it = class as f32 == *digit;
            let probability = *gradient / sum;
            if is_it {
                total -= probability.ln();
            }
            *gradient = (probability - if is_it { 1.0 } else { 0.0 }) * share;
        }
    }
    loss.fill(total * share);
}

/// `weight[o, k] = Σ_i gradient[i, o] · input[i, k]` and `bias[o] = Σ_i gradient[i, o]`.
pub(crate) fn parameter_gradients(gradient: &[f32], input: &[f32], weight: &mut [f32], bias: &mut [f32]) {
    let (n_in, n_out) = (weight.len() / bias.len(), bias.len());
    weight.fill(0.0);
    bias.fill(0.0);
    for (gradient, input) in gradient.chunks_exact(n_out).zip(input.chunks_exact(n_in)) {
        for ((gradient, weight), bias) in
            gradient.iter().zip(weight.chunks_exact_mut(n_in)).zip(bias.iter_mut())
        {
            *bias += gradient;
            for (weight, input) in weight.iter_mut().zip(input) {
                *weight += gradient * input;
            }
        }
    }
}

/// `out[i, k] = Σ_o gradient[i, o] · weight[o, k]` where `input[i, k]` was not rectified away.
pub(crate) fn input_gradient(gradient: &[f32], weight: &[f32], input: &[f32], out: &mut [f32]) {
    let n_rows = if input.is_empty() { 0 } else { gradient.len() * weight.len() / input.len() };
    // gradient is [i, o], weight [o, k], input [i, k]: o² = (i·o)(o·k)/(i·k).
    let n_out = (1..=n_rows).find(|n_out| n_out * n_out == n_rows).unwrap_or(1);
    let n_in = weight.len() / n_out;
    out.fill(0.0);
    let rows = gradient.chunks_exact(n_out).zip(input.chunks_exact(n_in)).zip(out.chunks_exact_mut(n_in));
    for ((gradient, input), out) in rows {
        for (gradient, weight) in gradient.iter().zip(weight.chunks_exact(n_in)) {
            for (out, weight) in out.iter_mut().zip(weight) {
                *out += gradient * weight;
            }
        }
        for (out, input) in out.iter_mut().zip(input) {
            if *input <= 0.0 {
                *out = 0.0;
            }
        }
    }
}

/// `momentum = factor · momentum + gradient`.
pub(crate) fn gather(momentum: &mut [f32], gradient: &[f32], factor: f32) {
    momentum
        .iter_mut()
        .zip(gradient)
        .for_each(|(momentum, gradient)| *momentum = factor * *momentum + gradient);
}

/// `parameter -= rate · momentum`.
pub(crate) fn step(parameter: &mut [f32], momentum: &[f32], rate: f32) {
    parameter.iter_mut().zip(momentum).for_each(|(parameter, momentum)| *parameter -= rate * momentum);
}
