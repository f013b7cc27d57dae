"""How tensors travel in fewer bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Union

from ._errors import Error

# rsumCodecTopK, which has a fraction and so no codec of its own below.
TOP_K = 4


@dataclass(frozen=True)
class Codec:
    """One way of travelling; for float32. What a lossy one loses is added to the next contribution (error feedback)."""

    name: str
    # rsumCodec….
    number: int
    # Fraction of the elements that is sent, of top-k; 0 is the library's default.
    kept: float = 0.0
    # Elements of a row, of rows.
    row: int = 0

    @property
    def is_lossy(self) -> bool:
        """Whether what it loses of a tensor comes with the next contribution to a tensor of that name."""
        return self.number in (Compression.onebit.number, TOP_K)

    def label(self) -> str:
        """What tells it from others whose tensors are not the same."""
        return f"{self.name}.{self.row}" if self.row else self.name


class Compression:
    """The codecs, under the names that Horovod and BytePS have for them where they have one."""

    none: ClassVar[Codec] = Codec("none", 0)
    fp16: ClassVar[Codec] = Codec("f16", 1)
    bf16: ClassVar[Codec] = Codec("bf16", 2)
    onebit: ClassVar[Codec] = Codec("one-bit", 3)

    @staticmethod
    def topk(kept: float = 0.01) -> Codec:
        """Only the largest of the elements, as many as this fraction of them."""
        if not 0.0 < kept <= 1.0:
            raise Error(f"top-k cannot keep {kept} of the elements: between 0 and 1")
        return Codec("top-k", TOP_K, kept)

    @staticmethod
    def rows(elements: int) -> Codec:
        """Only rows of so many elements that have anything but zeros, and their indices; exact, for tensors of any length."""
        if not 0 < elements < 1 << 32:
            raise Error(f"rows cannot have {elements} elements: 1 to 2^32 - 1")
        return Codec("rows", 5, row=elements)


AnyCodec = Union[None, str, Codec]


def codec_of(compression: AnyCodec) -> Codec:
    """A codec, its name (none, f16, bf16, one-bit, top-k), or None for no compression."""
    if compression is None:
        return Compression.none
    if isinstance(compression, Codec):
        return compression
    known = [Compression.none, Compression.fp16, Compression.bf16, Compression.onebit, Compression.topk()]
    for codec in known:
        if codec.name == compression:
            return codec
    names = ", ".join(codec.name for codec in known)
    raise Error(f"there is no compression {compression!r}; there are {names}")
