use super::*;
use crate::placement::assign::Placement;
use crate::placement::hosts::Hosts;
use crate::placement::machines::Machines;
use crate::placement::shares::Shares;
use crate::run::wire::Epochs;
use crate::server::sums::{Mode, Sums};
use crate::tensor::Declaration;
use rsccl_collective::transport::{Description, Fault, Part, Progress, SendHalf};
use rsccl_collective::types::DataType;

/// A connection that takes so many bytes and then none.
#[derive(Debug)]
struct Stalled {
    room: usize,
}

impl SendHalf for Stalled {
    fn post(&mut self, _: Part<'_>) -> Result<Progress, Fault> {
        Ok(if std::mem::take(&mut self.room) > 0 { Progress::Moved } else { Progress::Idle })
    }

    fn released(&mut self) -> Result<u64, Fault> {
        Ok(0)
    }

    fn wait_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn describe(&self) -> Description {
        Description::Shm { direct: false }
    }
}

#[test]
fn a_connection_that_takes_nothing_holds_up_no_other() {
    let tensor = Declaration { name: "a".to_owned(), elements: 80, data_type: DataType::F32 };
    let declarations = Arc::new(Declarations::of(40, [tensor]).unwrap());
    let shares = Shares::parameter_server(&Machines::even(1, 4, 1).unwrap()).unwrap();
    let placement = Arc::new(Placement::by_shares(0, &declarations, &shares));
    let routes = Arc::new(Routes::direct(placement, Hosts::new(&[0]), (1, 4)));
    let wire = Wire::new(Epochs::default());
    let mut links = Links::default();
    let mut line = |peer: usize| {
        links.sends.connect(0, peer, Box::new(Stalled { room: 8 }));
        Some(Line::new(peer, links.recvs.index(0, peer), links.sends.index(0, peer)))
    };
    let lines = vec![line(1), line(2), line(3), line(4), None];
    let service = || Sums::new(Mode::Rounds, 1, []);
    let services = (service(), service());
    let mut serving = Serving::new(services, wire, Arc::clone(&declarations), 64, 0, vec![None]);
    let pipeline = Pipeline::new(&shares.fractions(), worker::Settings::default());
    let mut contributing = Contributing::new(0, pipeline, wire, declarations, routes, lines);
    let mut bytes = vec![0; 320];
    let (send, reduction) = (Region::of_slice_mut(&mut bytes), Reduction::Sum);
    contributing.submit(Request::Push { ticket: 0, tensor: 0, send, reduction, submitted_ns: 0 }, 0).unwrap();
    contributing.begin(0).unwrap();
    while contributing.push(&mut links, &mut serving, 0).unwrap() {}
    assert!(contributing.services.iter().take(4).all(|service| service.current.is_some()));
}
