//! What every codec keeps to.

use proptest::prelude::*;

use super::*;

const CHOICES: [&str; 7] = ["f16", "bf16", "one-bit", "top-k:0.01", "top-k:0.3", "top-k:1", "rows:3"];

pub(super) fn any_f32() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits)
}

pub(super) fn encoded(codec: &dyn Codec, gradient: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec.encode(gradient, &mut bytes).unwrap();
    bytes
}

pub(super) fn round_trip<const N: usize>(codec: &dyn Codec, gradient: &[f32; N]) -> [f32; N] {
    let mut decoded = [f32::NAN; N];
    codec.decode(&encoded(codec, gradient), &mut decoded).unwrap();
    decoded
}

fn codec(choice: &str) -> Box<dyn Codec> {
    choice.parse::<Choice>().unwrap().codec()
}

fn choices() -> impl Strategy<Value = &'static str> {
    prop::sample::select(CHOICES.to_vec())
}

pub(super) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Equal but for the bits of NaNs.
fn assert_alike(got: &[f32], want: &[f32]) {
    let is_alike = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    assert!(got.len() == want.len() && got.iter().zip(want).all(is_alike), "{got:?}, not {want:?}");
}

#[test]
fn sizes_in_closed_form() {
    let table = [
        ("f16", [8, 10, 26, 2_048_008]),
        ("bf16", [8, 10, 26, 2_048_008]),
        ("one-bit", [12, 13, 14, 128_012]),
        ("top-k:0.01", [12, 20, 20, 81_932]),
        ("top-k:1", [12, 20, 84, 8_192_012]),
        ("rows:3", [16, 20, 52, 4_096_016]),
    ];
    for (choice, want) in table {
        assert_eq!(
            [0, 1, 9, 1_024_000].map(|elements| codec(choice).encoded_bytes(elements)),
            want,
            "{choice}"
        );
    }
}

#[test]
fn a_header_that_does_not_fit_says_why() {
    let good = encoded(&Half::F16, &[1.0, 2.0]);
    let decode = |bytes: &[u8], elements| Half::F16.decode(bytes, &mut vec![0.0; elements]).unwrap_err();
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        decode(&bad, 2)
    };
    assert_eq!(
        with(0, b'X').to_string(),
        "not an encoded gradient: it begins with [58, 53, 47], not with \"RSG\""
    );
    assert_eq!(with(3, 9).to_string(), "an encoded gradient of unknown codec 9");
    assert_eq!(
        with(3, 3).to_string(),
        "a gradient encoded as one-bit, where f16 is set: give all processes the same codec"
    );
    assert_eq!(decode(&good, 3).to_string(), "an encoded gradient of 2 elements for a part of 3");
    assert_eq!(decode(&good[..7], 2).to_string(), "an encoded gradient is cut off: 7 bytes of 8");
    assert_eq!(decode(&good[..11], 2).to_string(), "an encoded gradient is cut off: 11 bytes of 12");
    let more = [&good[..], &[0; 3]].concat();
    assert_eq!(decode(&more, 2).to_string(), "an encoded gradient of 12 bytes is followed by 3 more");
    assert_eq!(Header::read(&good), Ok(Header { kind: Kind::F16, elements: 2 }));
}

#[test]
fn every_beginning_of_a_gradient_is_refused() {
    for choice in CHOICES {
        let codec = codec(choice);
        let bytes = encoded(codec.as_ref(), &[1.0; 9]);
        for len in 0..bytes.len() {
            let error = codec.decode(&bytes[..len], &mut [0.0; 9]).unwrap_err();
            assert!(matches!(error, CodecError::Truncated { found, .. } if found == len), "{choice} {len}");
        }
    }
}

proptest! {
    #[test]
    fn encoding_appends_what_the_closed_form_says(
        gradient in prop::collection::vec(any_f32(), 0..100),
        choice in choices(),
    ) {
        let codec = codec(choice);
        let mut bytes = vec![1, 2, 3];
        codec.encode(&gradient, &mut bytes).unwrap();
        prop_assert_eq!(&bytes[..3], &[1, 2, 3]);
        prop_assert_eq!(&bytes[3..], &encoded(codec.as_ref(), &gradient)[..]);
        let (got, most) = (bytes.len() - 3, codec.encoded_bytes(gradient.len()));
        let has_one_length = choice.parse::<Choice>().unwrap().has_one_length();
        prop_assert!(got == most || !has_one_length && got < most, "{} of {}", got, most);
    }

    #[test]
    fn nothing_that_is_not_finite_is_lost(
        gradient in prop::collection::vec(any_f32(), 1..100),
        bad in prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY]),
        at in any::<prop::sample::Index>(),
        choice in choices(),
    ) {
        let mut gradient = gradient;
        let at = at.index(gradient.len());
        gradient[at] = bad;
        let codec = codec(choice);
        let mut decoded = vec![0.0; gradient.len()];
        codec.decode(&encoded(codec.as_ref(), &gradient), &mut decoded).unwrap();
        let has_nan = gradient.iter().any(|value| value.is_nan());
        let is_kept = |value: &f32| value.is_nan() || !has_nan && value.is_infinite();
        prop_assert!(decoded.iter().any(is_kept));
    }

    #[test]
    fn adding_is_decoding_and_adding_in_f32(
        pairs in prop::collection::vec((any_f32(), any_f32()), 0..100),
        choice in choices(),
    ) {
        let codec = codec(choice);
        let (gradient, sum): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let bytes = encoded(codec.as_ref(), &gradient);
        let (mut decoded, mut added) = (vec![f32::NAN; sum.len()], sum.clone());
        codec.decode(&bytes, &mut decoded).unwrap();
        codec.add(&bytes, &mut added).unwrap();
        let want: Vec<f32> = sum.iter().zip(&decoded).map(|(a, b)| a + b).collect();
        // What was left out is not added, not even to a negative zero.
        let want: Vec<f32> = want.into_iter().zip(&sum).map(|(w, s)| if w == *s { *s } else { w }).collect();
        let added: Vec<f32> = added.into_iter().zip(&sum).map(|(a, s)| if a == *s { *s } else { a }).collect();
        assert_alike(&added, &want);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused_with_nothing_written(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        tag in prop::option::of(0_u8..7),
        elements in 0_u8..40,
        choice in choices(),
    ) {
        let codec = codec(choice);
        let header = tag.map(|tag| [b'R', b'S', b'G', tag, elements, 0, 0, 0]);
        let bytes = [header.as_ref().map_or(&[][..], |header| header), &bytes].concat();
        let before = vec![0.5; usize::from(elements)];
        for function in [Codec::decode, Codec::add] {
            let mut into = before.clone();
            if function(codec.as_ref(), &bytes, &mut into).is_err() {
                prop_assert_eq!(&into, &before);
            }
        }
    }

    #[test]
    fn damaged_gradients_are_decoded_or_refused_with_nothing_written(
        gradient in prop::collection::vec(any_f32(), 1..60),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        choice in choices(),
    ) {
        let codec = codec(choice);
        let mut bytes = encoded(codec.as_ref(), &gradient);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for function in [Codec::decode, Codec::add] {
            let mut into = gradient.clone();
            if function(codec.as_ref(), &bytes, &mut into).is_err() {
                prop_assert_eq!(bits(&into), bits(&gradient));
            }
        }
    }
}
