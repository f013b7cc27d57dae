use ringscope_judge::Diagnosis;
use ringscope_samples::cluster::{Cluster, at, hardware, nic, reading};
use ringscope_wire::batch::{Gpu, Nic, NicCounter};

use super::*;
use crate as view;

fn check(gpu: &[&str], gpu_numa: Option<u32>, nic: &[&str], nic_numa: Option<u32>, expected: &str) {
    let path = |path: &[&str]| path[..path.len() - 1].iter().map(|name| (*name).into()).collect();
    let (gpu_path, nic_path): (Vec<Name>, Vec<Name>) = (path(gpu), path(nic));
    let place = |address, bridges, numa_node| Place { address, bridges, numa_node };
    let one = place(gpu[gpu.len() - 1], gpu_path.as_slice(), gpu_numa);
    let other = place(nic[nic.len() - 1], nic_path.as_slice(), nic_numa);
    assert_eq!(Distance::between(&one, &other).word(), expected, "{gpu:?} {nic:?}");
    assert_eq!(Distance::between(&other, &one).word(), expected, "{nic:?} {gpu:?}");
}

#[test]
fn distances_are_named_as_nvidia_smi_names_them() {
    let (root, up) = ("0000:15:01.0", "0000:16:00.0");
    let gpu = [root, up, "0000:17:00.0", "0000:18:00.0"];
    let nodes = (Some(0), Some(0));
    check(&gpu, nodes.0, &[root, up, "0000:17:01.0", "0000:19:00.0"], nodes.1, "PIX");
    let deeper = [root, up, "0000:17:02.0", "0000:1a:00.0", "0000:1b:00.0", "0000:1c:00.0"];
    check(&gpu, nodes.0, &deeper, nodes.1, "PXB");
    check(&gpu, nodes.0, &["0000:15:02.0", "0000:30:00.0"], nodes.1, "PHB");
    check(&gpu, nodes.0, &["0000:40:01.0", "0000:41:00.0"], nodes.1, "NODE");
    check(&gpu, nodes.0, &["0000:80:01.0", "0000:81:00.0"], Some(1), "SYS");
    check(&gpu, None, &["0000:80:01.0", "0000:81:00.0"], None, "SYS");
    check(&["0000:00:05.0"], None, &["0000:00:06.0"], None, "PHB");
}

#[test]
fn a_host_shows_what_it_has_and_which_channels_go_through_it() {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 2);
    let mut model = Model::new();
    model.apply(&cluster.batch(1, 2), at(2));
    let errors = vec![NicCounter { name: "symbol_error".to_owned(), value: 3 }];
    let busy = |bytes| Nic { sent_bytes: Some(bytes), errors: errors.clone(), ..nic("mlx5_0") };
    let bridges = |last: &str| ["0000:15:01.0", "0000:16:00.0", last].map(str::to_owned).to_vec();
    for i in 1..=2 {
        let near = Nic { pci: "0000:19:00.0".to_owned(), pci_path: bridges("0000:17:01.0"), ..busy(i * 500) };
        let far = Nic { pci: "0000:81:00.0".to_owned(), numa_node: Some(1), ..nic("mlx5_1") };
        let mut told = hardware("host-0", i * 5, vec![far, near]);
        told.gpus_known = true;
        told.gpus = vec![Gpu {
            index: 0,
            pci: "0000:18:00.0".to_owned(),
            pci_path: bridges("0000:17:00.0"),
            numa_node: Some(0),
            ..Gpu::default()
        }];
        model.apply(&reading(1 + i, i * 5, vec![told]), at(i * 5));
    }
    let look = |s| view::host(&model, &Diagnosis::new(), at(s), "host-0").unwrap();
    let host = look(11);
    let summary = &host.summary;
    assert_eq!((summary.n_nics, summary.n_nics_down, summary.n_gpus), (Some(2), Some(0), Some(1)));
    let hardware = host.hardware.unwrap();
    let first = &hardware.nics[0];
    assert_eq!((first.name.as_str(), first.port, first.rdma, first.up), ("mlx5_0", 1, true, true));
    assert_eq!((first.rate_bytes_per_s, first.sent_bytes_per_s), (Some(5e10), Some(100.0)));
    assert_eq!(first.errors, [NicError { name: "symbol_error".to_owned(), value: 3, risen: 0 }]);
    let through = |nic: &api::Nic| nic.channels.iter().map(|of| of.channels.clone()).collect::<Vec<_>>();
    assert_eq!((through(first), through(&hardware.nics[1])), (vec![vec![0, 1]], vec![]));
    let gpus = hardware.gpus.unwrap();
    let close: Vec<_> = gpus[0].nics.iter().map(|of| (of.nic.as_str(), of.distance.as_str())).collect();
    assert_eq!(close, [("mlx5_0", "PIX"), ("mlx5_1", "SYS")]);
    assert_eq!(look(60).hardware.unwrap().nics[0].sent_bytes_per_s, None, "nobody knows what it does now");
    let other = view::host(&model, &Diagnosis::new(), at(11), "host-1").unwrap();
    assert!(other.hardware.is_none() && other.summary.n_nics.is_none());
}
