"""What the workers of the tests of gradients that are summed, not averaged, do: none is summed again."""

import ringscope_engine.torch as bps
import torch
from gradients_worker import Training, refused


def sums() -> None:
    """With Sum, what is everyone's already would be there as often as there are workers."""
    bps.init()
    for part in (summed_again, kept_by_nesterov, replaced_sums):
        part()
    bps.shutdown()


def summed_again() -> None:
    """With Sum, what is everyone's already would be there as often as there are workers."""
    training = Training("summed", op=bps.Sum)
    for again in (training.optimizer.step, training.backward):
        training.backward()
        training.optimizer.step()
        training.expect_change(training.sum)
        refused("zero_grad() before backward()", again)
        training.optimizer.zero_grad()
    for set_to_none in (True, False):
        training.backward()
        training.optimizer.step()
        training.expect_change(training.sum)
        training.layer.zero_grad(set_to_none=set_to_none)
    # Clipping and some optimizers write into it.
    training.backward()
    training.optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(training.layer.parameters(), 0.5)
    training.optimizer.step()
    refused("zero_grad() before backward()", training.backward)
    training.optimizer.zero_grad()


def kept_by_nesterov() -> None:
    """The last sum is known again after a step that writes into gradients."""
    training = Training("nesterov", op=bps.Sum, momentum=0.9, nesterov=True, foreach=True)
    for again in (training.optimizer.step, training.backward):
        training.backward()
        training.optimizer.step()
        refused("zero_grad() before backward()", again)
        training.optimizer.zero_grad()


def replaced_sums() -> None:
    """What is made of sums, or beside sums that were clipped, is not sent to be summed again."""
    training = Training("sums", op=bps.Sum)
    layer, optimizer = training.layer, training.optimizer
    for parameters in ([layer.bias], [*layer.parameters()]):
        optimizer.zero_grad()
        training.backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_value_(layer.parameters(), 0.25)
        for parameter in parameters:
            parameter.grad = parameter.grad / 2
        for call in (optimizer.step, optimizer.synchronize):
            refused("zero_grad() before gradients are computed anew", call)
    optimizer.zero_grad()
    for parameter, value in zip(layer.parameters(), torch.autograd.grad(layer(training.own).sum(), [*layer.parameters()])):
        parameter.grad = value
    optimizer.synchronize()
    optimizer.step()
    training.expect_change(training.sum)
