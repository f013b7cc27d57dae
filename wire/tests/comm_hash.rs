//! The hashes against an independent implementation (Python, from NCCL 2.18 `src/misc/utils.cc`, 2.26
//! `src/include/bitops.h` and 2.30 `src/init.cc`).

use ringscope_wire::comm_hash::{Scheme, magic_of_grow, of_grow, of_split, of_unique_id};

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

#[test]
fn each_version_has_its_scheme() {
    for (version, scheme) in [
        (0, Scheme::Mixed),
        (21_803, Scheme::Colour),
        (22_304, Scheme::Colour),
        (22_403, Scheme::CountedColour),
        (22_501, Scheme::CountedColour),
        (22_602, Scheme::Mixed),
        (23_203, Scheme::Mixed),
    ] {
        assert_eq!(Scheme::of_version(version), scheme, "{version}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn unique_ids_hash_as_before_2_26() {
    let counting = |from: u8| -> [u8; 128] {
        std::array::from_fn(|index| from + u8::try_from(index).unwrap_or_default())
    };
    for (id, expected) in [
        ([0; 128], 0x9011_6b2e_aa8b_6505),
        (counting(0), 0xbf47_c767_cbdf_3105),
        ([0xff; 128], 0x52b0_5e75_9c3a_6d05),
        (counting(128), 0x3758_fa77_0a67_3905),
    ] {
        assert_eq!(Scheme::Colour.of_unique_id(&id), expected, "{id:02x?}");
        assert_eq!(Scheme::CountedColour.of_unique_id(&id), expected, "{id:02x?}");
    }
}

#[test]
fn splits_hash_as_before_2_24() {
    for (parent, color, expected) in [
        (0x6afe_1cc1_7717_e1f4, 0, 0x85b1_10d1_fd55_f94c),
        (0xdead_beef, 7, 0xbd92_bb4f_890b_1c7f),
        (1, i32::MAX, 0xe8dd_5b47_87e6_1823),
    ] {
        for child in [1, 2] {
            let hash = Scheme::Colour.of_split(parent, child, color);
            assert_eq!(hash, expected, "{parent:#x} {color}: how many there were before plays no part");
        }
    }
}

#[test]
fn splits_hash_as_in_2_24_and_2_25() {
    for (parent, child, color, expected) in [
        (0x6afe_1cc1_7717_e1f4, 1, 0, 0x9e88_6057_7c01_bdf0),
        (0xdead_beef, 2, 7, 0x7029_b59b_8ee4_5800),
        (u64::MAX, i32::MAX, i32::MIN, 0x213e_c055_d597_c287),
    ] {
        assert_eq!(Scheme::CountedColour.of_split(parent, child, color), expected, "{parent:#x}");
    }
}

#[test]
fn shrunk_and_grown_communicators_hash_as_in_nccl() {
    assert_eq!(Scheme::Mixed.of_shrink(0x6afe_1cc1_7717_e1f4), 0x3ab8_d78e_8fb6_dbda);
    assert_eq!(Scheme::Mixed.of_shrink(0xdead_beef), 0x4316_e1a9_3aa7_6d13);
    for (parent_magic, child, n_ranks, magic, hash) in [
        (0x0706_0504_0302_0100, 1, 16, 0x3850_3679_d539_6e63, 0x216b_1432_8612_b874),
        (0xdead_beef, 3, 9, 0xa084_243d_bd1c_fc39, 0x1c95_6fd6_ee8f_8c9c),
    ] {
        assert_eq!(magic_of_grow(parent_magic, child), magic);
        assert_eq!(of_grow(magic, n_ranks), hash);
    }
}
