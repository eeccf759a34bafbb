"""The best micro-batch of each layout, and the best layouts first."""

from itertools import product

from measure.errors import UserError
from measure.planning.layout import Layout, choose, divisors, layouts, nearest
from measure.planning.training import FULL, RECOMPUTATIONS, TrainingPlan, TrainingSetup, plan_step
from measure.serving.plan import MOST


def best_plans(
    setup: TrainingSetup, gpus: int, fixed: dict[str, int], micro_batch: int | None = None, recompute: str | None = None
) -> list[TrainingPlan]:
    """Return the best plan of each layout that the ``fixed`` sizes allow, the best first.

    ``fixed`` has sizes by the names of ``layout.FLAGS``. Raises UserError if there is none.
    """
    most_tensor = setup.fabric.node_gpus if setup.fabric.network_byte_per_s is None else None
    found = choose(setup.network, gpus, setup.batch, fixed, most_tensor)
    plans = [best_schedule(setup, layout, micro_batch, recompute) for layout in found]
    return sorted(plans, key=lambda each: each.rank)


def best_schedule(
    setup: TrainingSetup, layout: Layout, micro_batch: int | None = None, recompute: str | None = None
) -> TrainingPlan:
    """Return the best plan of a layout: with each micro-batch that divides a data group's inputs, recomputing or not.

    Raises UserError for a ``micro_batch`` that does not divide them.
    """
    able = divisors(setup.batch // layout.data)
    if micro_batch is not None and micro_batch not in able:
        raise UserError(
            f"--micro-batch: {micro_batch} does not divide the {able[-1]} {setup.network.inputs} of a data group; "
            f"use {nearest(able, micro_batch)}"
        )
    tried = product([micro_batch] if micro_batch else able, [recompute] if recompute else RECOMPUTATIONS)
    return min((plan_step(setup, layout, *each) for each in tried), key=lambda each: each.rank)


def next_that_fits(setup: TrainingSetup, gpus: int) -> Layout | None:
    """Return a layout whose memory fits, of twice as many GPUs, of four times and so on; None up to ``MOST``.

    One input at a time, with blocks computed again: no plan needs less.
    """
    while (gpus := 2 * gpus) <= MOST:
        able = layouts(setup.network, gpus, setup.batch, setup.fabric.node_gpus)
        plans = [plan_step(setup, layout, 1, FULL) for layout in able]
        if found := [plan for plan in plans if plan.fits]:
            return min(found, key=lambda plan: plan.rank).layout
    return None
