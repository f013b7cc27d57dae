"""Arrays and tensors as the C functions take them: an address, a number of elements, a type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from ._errors import Error

if TYPE_CHECKING:
    AnyArray = numpy.ndarray[Any, numpy.dtype[Any]]
else:
    AnyArray = numpy.ndarray

# ncclDataType_t, by the names that numpy (with ml_dtypes for the last three) and PyTorch have for them.
DATATYPES = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "uint32": 3,
    "int64": 4,
    "uint64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "float8_e4m3fn": 10,
    "float8_e5m2": 11,
}
# Types that can be carried but not summed, as what.
CARRIED_AS = {"bool": "uint8"}


class Buffer(NamedTuple):
    """Memory of an array."""

    address: int
    elements: int
    datatype: int
    # torch's name for the GPU in whose memory it is; None in this machine's.
    device: Any = None


def buffer_of(
    array: Any, *, is_written: bool = False, is_summed: bool = True, may_be_on_gpu: bool = False
) -> Buffer:
    """The memory of a numpy array or a torch tensor, which must be contiguous and in this machine's memory, or a CUDA GPU's
    where that may be.

    Raises `Error` that says what to do where it is not, where it is read-only but `is_written`, and where its type is
    none that the library knows; booleans are known unless they are to be summed.
    """
    shape_of(array)
    name = _type_name(array, is_summed)
    if hasattr(array, "data_ptr"):
        _check_tensor(array, ("cpu", "cuda") if may_be_on_gpu else ("cpu",))
        device = None if array.device.type == "cpu" else array.device
        return Buffer(array.data_ptr(), array.numel(), DATATYPES[name], device)
    _check_array(array, is_written)
    return Buffer(array.__array_interface__["data"][0], array.size, DATATYPES[name])


def shape_of(array: Any) -> tuple[int, ...]:
    """The shape of an array or tensor; an error for anything else."""
    if hasattr(array, "data_ptr") or isinstance(array, numpy.ndarray):
        return tuple(array.shape)
    raise Error(f"a numpy array or a torch tensor is needed, not {type(array).__name__}")


def neutral_of(datatype: int) -> float:
    """What can be added to every value of a type without changing a bit of it."""
    # 0.0 would turn -0.0 into 0.0.
    return -0.0 if datatype >= DATATYPES["float16"] else 0


def _type_name(array: Any, is_summed: bool) -> str:
    name = str(array.dtype).replace("torch.", "")
    if not is_summed:
        name = CARRIED_AS.get(name, name)
    if name not in DATATYPES:
        raise Error(f"elements of type {array.dtype} cannot be sent; these can: {', '.join(DATATYPES)}")
    return name


def _check_tensor(tensor: Any, device_types: tuple[str, ...]) -> None:
    if tensor.device.type not in device_types:
        raise Error(f"a tensor on {tensor.device} cannot be sent: copy it with .cpu() first")
    if str(tensor.layout) != "torch.strided":
        raise Error(f"a tensor of layout {tensor.layout} cannot be sent: make it dense with .to_dense() first")
    if tensor.is_neg():
        raise Error("a tensor with torch's negative bit has the other signs in memory: pass .resolve_neg()")
    if not tensor.is_contiguous():
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        raise Error(f"a tensor of shape {shape} and strides {strides} is not contiguous: pass .contiguous()")


def _check_array(array: AnyArray, is_written: bool) -> None:
    if not array.flags.c_contiguous:
        raise Error(
            f"an array of shape {array.shape} and strides {array.strides} is not contiguous: "
            "pass numpy.ascontiguousarray(…)"
        )
    if not array.dtype.isnative:
        raise Error(f"elements of type {array.dtype} have another byte order than this machine")
    if is_written and not array.flags.writeable:
        raise Error("the array that is to hold the result is read-only: pass a copy")
