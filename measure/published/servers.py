"""The table of language-model servers that others measured as a whole, under a constant number of requests."""

from typing import Annotated

from measure.domain.schema import NUMBER, Column, duration, one_of, table
from measure.published.kernels import FORMAT_BITS, Engine
from measure.published.records import CHIP_PRECISIONS, YES_OR_NO, Device, Source

AGGREGATED, DISAGGREGATED = MODES = ("aggregated", "disaggregated")

Tensor = Annotated[int | None, Column("GPUs that share each head and product of a worker's layer", NUMBER, least=1)]
Pipeline = Annotated[int | None, Column("GPUs that share a worker's layers", NUMBER, least=1)]
Data = Annotated[int | None, Column("attention's copies in a worker, each with its own sequences", NUMBER, least=1)]
ExpertTensor = Annotated[int | None, Column("GPUs that share each expert of a worker", NUMBER, least=1)]
Expert = Annotated[int | None, Column("GPUs that share the experts of a worker", NUMBER, least=1)]
Batch = Annotated[int | None, Column("sequences at once in each copy of attention", NUMBER, least=1)]
Workers = Annotated[int | None, Column("workers of this kind", NUMBER, least=1)]


@table("published/servers.csv", key=("row",), by_hand=True)
class PublishedServer:
    """A language model served on one or several GPUs, with so many requests at once: the first token and each further.

    An aggregated server has one worker, which reads prompts and generates. A disaggregated one has workers for each,
    and the columns without a prefix are empty.
    """

    row: Annotated[str, "the row's name in the source"]
    source: Source
    export: Annotated[str, "the date of the export that the row cites, or its file"]
    measured_on: Annotated[str | None, "the day of the measurement, by the source"]
    device: Device
    engine: Engine
    software: Annotated[str | None, "the engine's version, or that of its container, as the source has it"]
    image: Annotated[str | None, "the container"]
    model: Annotated[str, "the model's name on Hugging Face, as the source has it"]
    precision: Annotated[str | None, Column("the source's word for the whole", form=one_of(CHIP_PRECISIONS))]
    weights: Annotated[str | None, Column("the stored format of the weights of products", form=one_of(FORMAT_BITS))]
    expert_weights: Annotated[str | None, Column("the stored format of experts", form=one_of(FORMAT_BITS))]
    mode: Annotated[str, Column("whether one worker reads prompts and generates", form=one_of(MODES))]
    input_tokens: Annotated[int, Column("tokens of a prompt", NUMBER, least=1)]
    output_tokens: Annotated[int, Column("tokens that are generated", NUMBER, least=1)]
    concurrency: Annotated[int | None, Column("requests at once in the whole server", NUMBER, least=1)]
    batch: Batch
    tensor_parallel: Tensor
    pipeline_parallel: Pipeline
    data_parallel: Data
    expert_tensor_parallel: ExpertTensor
    expert_parallel: Expert
    prefill_workers: Workers
    prefill_batch: Batch
    prefill_tensor_parallel: Tensor
    prefill_pipeline_parallel: Pipeline
    prefill_data_parallel: Data
    prefill_expert_tensor_parallel: ExpertTensor
    prefill_expert_parallel: Expert
    decode_workers: Workers
    decode_batch: Batch
    decode_tensor_parallel: Tensor
    decode_pipeline_parallel: Pipeline
    decode_data_parallel: Data
    decode_expert_tensor_parallel: ExpertTensor
    decode_expert_parallel: Expert
    gpus: Annotated[int | None, Column("GPUs of all workers, if their number is known", NUMBER, least=1)]
    ttft_s: Annotated[float, duration("time to the first token, queueing included")]
    tpot_s: Annotated[float, duration("time of each further token of a request")]
    unfinished: Annotated[str | None, Column("whether the source marks it as work in progress", form=YES_OR_NO)]
