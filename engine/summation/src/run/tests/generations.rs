//! Groups whose workers declare more after the start.

use super::{Shape, TENSORS, TRANSPORTS, contribution, declare_one, reduction, wanted};
use crate::run::group::Group;
use crate::run::members::Role;
use rsccl_collective::memory::Region;

/// Sums the first so many tensors a few times.
fn sum_first(group: &Group, worker: usize, n_workers: usize, n_tensors: usize) {
    for round in 0..3 {
        let mut buffers: Vec<Vec<u8>> =
            (0..n_tensors).map(|tensor| contribution(tensor, round, worker)).collect();
        let submit = |(tensor, bytes): (usize, &mut Vec<u8>)| {
            let region = Region::of_slice_mut(bytes);
            group.push_pull(tensor, region, region, reduction(tensor)).unwrap()
        };
        let handles: Vec<_> = buffers.iter_mut().enumerate().map(submit).collect();
        handles.iter().for_each(|handle| handle.wait().unwrap());
        for (tensor, got) in buffers.iter().enumerate() {
            assert!(*got == wanted(tensor, round, n_workers), "round {round} of tensor {tensor} on {worker}");
        }
    }
}

#[test]
fn more_may_be_declared_later_and_servers_need_not_know() {
    for transport in TRANSPORTS {
        let shape = Shape::new(transport, 3, 2, 10_000);
        shape.run(|mut group, role| {
            let Role::Worker(worker) = role else { return group.leave().unwrap() };
            for (index, (name, elements, data_type)) in TENSORS.into_iter().enumerate() {
                assert!(group.is_behind() || index > 0);
                assert_eq!(declare_one(&mut group, name, elements, data_type), Ok(index));
                assert!(group.is_behind());
                group.start().unwrap();
                sum_first(&group, worker, shape.n_workers, index + 1);
            }
            group.leave().unwrap();
        });
    }
}

#[test]
fn a_group_that_sums_nothing_can_be_left() {
    let shape = Shape::new(TRANSPORTS[0], 2, 1, 64);
    shape.run(|group, _| group.leave().unwrap());
}

#[test]
fn who_goes_on_without_the_others_declarations_is_told() {
    for transport in TRANSPORTS {
        let shape = Shape::new(transport, 2, 1, 10_000);
        let errors = shape.run(|mut group, role| {
            let Role::Worker(worker) = role else { return group.leave().unwrap_err().to_string() };
            let (name, elements, data_type) = TENSORS[0];
            declare_one(&mut group, name, elements, data_type).unwrap();
            group.start().unwrap();
            sum_first(&group, worker, 2, 1);
            if worker == 1 {
                declare_one(&mut group, "more", 9, data_type).unwrap();
                return group.start().unwrap_err().to_string();
            }
            let mut bytes = contribution(0, 3, worker);
            let region = Region::of_slice_mut(&mut bytes);
            group.push_pull(0, region, region, reduction(0)).unwrap().wait().unwrap_err().to_string()
        });
        let told = "worker 0 began a round after worker 1 had declared more tensors";
        assert!(errors.iter().all(|error| error.contains(told)), "{errors:?}");
    }
}
