use super::*;
use crate::summation::placement::assign::Placement;
use crate::summation::placement::hosts::Hosts;
use crate::summation::placement::machines::Machines;
use crate::summation::placement::shares::Shares;
use crate::summation::server::message::Epochs;
use crate::summation::server::sums::{Mode, Sums};
use crate::summation::tensor::Declaration;
use crate::transport::sim::{Terms, connect};
use crate::types::DataType;

#[test]
fn a_connection_that_takes_nothing_holds_up_no_other() {
    let tensor = Declaration { name: "a".to_owned(), elements: 80, data_type: DataType::F32 };
    let declarations = Arc::new(Declarations::of(40, [tensor]).unwrap());
    let shares = Shares::parameter_server(&Machines::even(1, 4, 1).unwrap()).unwrap();
    let placement = Arc::new(Placement::by_shares(0, &declarations, &shares));
    let routes = Arc::new(Routes::direct(placement, Hosts::new(&[0]), (1, 4)));
    let wire = Wire::new(Epochs::default());
    let (mut links, mut receivers) = (Links::default(), Vec::new());
    let mut line = |peer: usize| {
        let (half, receiver) = connect(Terms { seed: peer as u64, bound_bytes: 8, lost_after: None });
        links.sends.connect(0, peer, Box::new(half));
        receivers.push(receiver);
        Some(Line::new(peer, links.recvs.index(0, peer), links.sends.index(0, peer)))
    };
    let lines = vec![line(1), line(2), line(3), line(4), None];
    let service = || Sums::new(Mode::Rounds, 1, [], Epochs::default());
    let services = (service(), service());
    let mut serving = Serving::new(services, wire, Arc::clone(&declarations), 64, 0, vec![None]);
    let pipeline = Pipeline::new(&shares.fractions(), worker::Settings::default());
    let mut contributing = Contributing::new(0, pipeline, wire, declarations, routes, lines);
    let bytes = vec![0; 320];
    let (send, reduction) = (Region::of_slice(&bytes), Reduction::Sum);
    contributing.submit(Request::Push { ticket: 0, tensor: 0, send, reduction, submitted_ns: 0 }, 0).unwrap();
    contributing.begin(0).unwrap();
    while contributing.push(&mut links, &mut serving, 0).unwrap() {}
    assert!(contributing.services.iter().take(4).all(|service| service.current.is_some()));
}
