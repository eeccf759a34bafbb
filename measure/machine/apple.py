"""The GPU of an Apple chip, as macOS tells of it."""

import re
import subprocess


def gpu_cores() -> int | None:
    """Return the number of the GPU's cores, in which chips of one name differ; None where it is not told."""
    asked = ["ioreg", "-r", "-d", "1", "-w", "0", "-c", "AGXAccelerator"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    except OSError:
        return None
    told = re.search(r'"gpu-core-count" = (\d+)', answer)
    return int(told[1]) if told else None
