use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn blob(text: &str, own: &[u8]) -> Blob {
    Blob { text: text.as_bytes().to_vec(), own: own.to_vec() }
}

fn there_and_back(blobs: &[Blob]) -> usize {
    let gathered = Gathered::new(blobs.iter().cloned());
    let bytes = gathered.to_bytes();
    assert_eq!(Gathered::from_bytes(&bytes, blobs.len()).unwrap(), gathered);
    let back = gathered.which.iter().zip(&gathered.own);
    let back: Vec<Blob> =
        back.map(|(which, own)| Blob { text: gathered.texts[*which].clone(), own: own.clone() }).collect();
    assert_eq!(back, blobs);
    bytes.len()
}

#[test]
fn what_all_say_travels_once() {
    let all = vec![blob(r#"{"n_channels":16,"has_memory":true}"#, b""); 1024];
    assert!(there_and_back(&all) < 64);
}

#[test]
fn hosts_alike_differ_in_their_words_only() {
    let host = |host: usize| {
        let nic = |nic| format!(r#"{{"name":"mlx5_{nic}","address":"10.0.{host}.{nic}","speed":400000}}"#);
        let nics: Vec<String> = (0..8).map(nic).collect();
        format!(r#"{{"host":"node-{host}","nics":[{}]}}"#, nics.join(","))
    };
    let ranks: Vec<Blob> = (0..1024).map(|rank| blob(&host(rank / 8), &[7; 8])).collect();
    assert!(there_and_back(&ranks) < 1024 * 8 + 128 * 48 + 1024);
    let dealt: Vec<Blob> = (0..1024).map(|rank| blob(&host(rank % 128), &[7; 8])).collect();
    assert!(there_and_back(&dealt) < 1024 * 8 + 128 * 48 + 4096);
}

#[test]
fn own_bytes_may_differ_in_length() {
    there_and_back(&[blob("a", b""), blob("a", b"12"), blob("", b"1")]);
    there_and_back(&[]);
}

#[test]
fn a_gathering_of_another_number_of_ranks_is_refused() {
    let bytes = Gathered::new(vec![blob("a", b"1"); 3]).to_bytes();
    assert!(Gathered::from_bytes(&bytes, 3).is_ok());
    assert!(Gathered::from_bytes(&bytes, 2).is_err() && Gathered::from_bytes(&bytes, 4).is_err());
}

proptest! {
    #[test]
    fn any_gathering_survives_the_bytes(ranks in vec(("[a-c0-2.,:\"]{0,12}", vec(any::<u8>(), 0..4)), 0..20)) {
        let blobs: Vec<Blob> = ranks.iter().map(|(text, own)| blob(text, own)).collect();
        there_and_back(&blobs);
    }

    #[test]
    fn foreign_bytes_are_an_error_or_a_gathering(bytes in vec(any::<u8>(), 0..80)) {
        let _ = Gathered::from_bytes(&bytes, 3);
    }

    #[test]
    fn a_gathering_with_a_wrong_byte_is_an_error_or_a_gathering(at in 0..200_usize, wrong in any::<u8>()) {
        let ranks = (0..20_u8).map(|rank| blob(&format!("host {} of {}", rank / 4, rank % 2), &[rank; 3]));
        let mut bytes = Gathered::new(ranks).to_bytes();
        let at = at % bytes.len();
        bytes[at] = wrong;
        let _ = Gathered::from_bytes(&bytes, 20);
    }
}
