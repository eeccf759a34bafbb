"""What a variant of running a network says of itself, and does."""

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from measure.cache.call import Call
    from measure.cache.models import Model


class Variant:
    """A way to run a network that joins with others: ``channels_last+compile``.

    ``order`` is its place in such a name. ``words`` complete the sentence "NAME ...", for the paper; ``tried_on`` are
    the kinds of chip (``cpu``, ``gpu``) on which the paper advises a trial. With ``is_autocast`` weights and inputs
    stay at fp32 and torch casts each operator's; with ``is_cold`` caches are emptied before each call. ``first_call_s``
    is how much longer than any other the first call may take, where it sets something up. ``unprofiled`` says why the
    operators cannot be profiled, where they cannot.
    """

    name: ClassVar[str]
    order: ClassVar[int]
    words: ClassVar[str]
    tried_on: ClassVar[tuple[str, ...]] = ()
    is_autocast: ClassVar[bool] = False
    is_cold: ClassVar[bool] = False
    first_call_s: ClassVar[float] = 0.0
    unprofiled: ClassVar[str | None] = None

    known: ClassVar[dict[str, "Variant"]] = {}

    def __init_subclass__(cls, is_abstract: bool = False) -> None:
        if not is_abstract:
            Variant.known[cls.name] = cls()

    def is_usual(self, environment: Any) -> bool:
        """Return whether a run that names no variants measures this one too, in such an environment."""
        return False

    @staticmethod
    def need_a_cpu(device_kind: str) -> None:
        """Raise NotImplementedError for another device: torch has an allocator of its own there, which keeps memory."""
        if device_kind != "cpu":
            raise NotImplementedError(f"torch keeps the memory of {device_kind} in any case")

    def variables(self) -> dict[str, str]:
        """Return environment variables that the process must have when it starts."""
        return {}

    def begin(self, device_kind: str, precision: str) -> None:
        """Set this process up before the network is built.

        Raises NotImplementedError, with a reason, where the variant is not for this kind of device or precision.
        """

    def change(self, call: "Call", model: "Model") -> "Call":
        """Return the call as this variant runs it.

        Raises NotImplementedError, with a reason, where the variant is not for this model.
        """
        return call
