//! The hash against an independent implementation (Python, from NCCL 2.26 `src/include/bitops.h`).

use ringscope_wire::comm_hash::{of_split, of_unique_id};

#[test]
fn unique_ids_hash_as_in_nccl() {
    let counting: [u8; 128] = std::array::from_fn(|index| u8::try_from(index).unwrap_or_default());
    for (id, expected) in [
        ([0; 128], 0xcc97_6ec6_c24b_b53c),
        (counting, 0x6afe_1cc1_7717_e1f4),
        ([0xff; 128], 0xb291_227e_082b_b663),
    ] {
        assert_eq!(of_unique_id(&id), expected, "{id:02x?}");
    }
}

#[test]
fn splits_hash_as_in_nccl() {
    for (parent, child, color, expected) in [
        (0x6afe_1cc1_7717_e1f4, 1, 0, 0x7903_0d07_3b3c_579f),
        (0x6afe_1cc1_7717_e1f4, 2, 0, 0xcee9_955a_1c80_c08f),
        (0xdead_beef, 1, 7, 0x3dd7_98e3_0f04_d90b),
        (1, 3, -1, 0xc10e_33df_3ddc_203b),
    ] {
        assert_eq!(of_split(parent, child, color), expected, "{parent:#x} {child} {color}");
    }
}
