"""A driver with one fault, around the driver of pulsar-client: ``broken_driver.py FAULT``."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time


def main(fault: str) -> None:
    real = subprocess.Popen(
        [sys.executable, "-m", "conformance.drivers.python"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert real.stdin is not None
    assert real.stdout is not None
    threading.Thread(target=answers, args=(real.stdout, fault), daemon=True).start()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        match fault, request["type"]:
            case "hangs", "nack":
                continue
            case "dies", "redeliver":
                print("Traceback: out of luck", file=sys.stderr, flush=True)
                sys.exit(3)
            case "loses-keys", "send":
                request.pop("key", None)
            case "survives", "abort":
                print(json.dumps({"type": "done", "id": request["id"]}), flush=True)
                continue
            case "acks-one", "acknowledge":
                request["cumulative"] = False
            case _:
                pass
        real.stdin.write(json.dumps(request).encode() + b"\n")
        real.stdin.flush()
    if fault == "stays":
        time.sleep(60)


def answers(lines: object, fault: str) -> None:
    for line in lines:  # type: ignore[attr-defined]
        answer = json.loads(line)
        match fault, answer["type"]:
            case "prints", "nothing":
                print("no message ...", flush=True)
            case "floods", "cancelled":
                for _ in range(10_001):
                    print('{"type":"event","what":"log"}')
            case "answers-twice", "nothing":
                print(json.dumps(answer), flush=True)
            case "says-error", "refused":
                answer = {"type": "error", "id": answer["id"], "message": "it did not work"}
            case "lies", "hello":
                answer["features"].append("telepathy")
            case "unknown-answer", "nothing":
                answer["type"] = "whatever"
            case _:
                pass
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
