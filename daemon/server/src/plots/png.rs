//! Pixels into a PNG.

/// Halves width and height: each pixel the mean of four, which makes edges smooth.
pub(super) fn halve(pixels: &[u8], width_px: usize) -> Vec<u8> {
    let row_bytes = width_px * 3;
    let rows = pixels.chunks_exact(row_bytes * 2);
    let mut halved = Vec::with_capacity(pixels.len() / 4);
    for two in rows {
        let (upper, lower) = two.split_at(row_bytes);
        for (above, below) in upper.chunks_exact(6).zip(lower.chunks_exact(6)) {
            for channel in 0..3 {
                let sum = u16::from(above[channel])
                    + u16::from(above[channel + 3])
                    + u16::from(below[channel])
                    + u16::from(below[channel + 3]);
                halved.push(u8::try_from(sum / 4).unwrap_or(u8::MAX));
            }
        }
    }
    halved
}

/// Encodes RGB pixels.
pub(super) fn encode(pixels: &[u8], width_px: u32, height_px: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width_px, height_px);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}
