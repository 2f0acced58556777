"""Writes a GGUF file again in Q8_0: `python -P llama_cpp_requantise.py SOURCE DESTINATION THREADS`.

Runs under a Python that has llama_cpp and need not have eagle3.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

llama_cpp: Any = importlib.import_module("llama_cpp")


def main(source: str, destination: str, threads: str) -> int:
    """Give llama.cpp's own code, 0 if all went well."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0
    params.allow_requantize = True
    params.nthread = int(threads)
    code: int = llama_cpp.llama_model_quantize(source.encode(), destination.encode(), params)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
