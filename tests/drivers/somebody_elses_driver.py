"""Somebody else's driver: seventy lines of Python, from docs/driver-protocol.md alone. It declares no features."""

# ruff: noqa
# mypy: ignore-errors
# fmt: off
import base64, json, os, sys, threading, time

import pulsar

things, received, cancelled, output = {}, {}, set(), os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # what the library prints is no message

def say(r, kind, **fields):
    output.write(json.dumps({"type": kind, "id": r["id"], **fields}) + "\n")

def send(r):
    def sent(result, it):
        if result == pulsar.Result.Ok:
            return say(r, "sent", ledger=it.ledger_id(), entry=it.entry_id())
        why = "timeout" if result == pulsar.Result.Timeout else "disconnected"
        return say(r, "gave-up", why=why, message=str(result))

    more = {"partition_key": r.get("key"), "properties": r.get("properties")}
    things[r["producer"]].send_async(base64.b64decode(r["payload"]), sent, **more)

def receive(r):
    mine, until = received[r["consumer"]], time.monotonic() + r["timeout_ms"] / 1000
    while r["id"] not in cancelled:
        try:
            it = things[r["consumer"]].receive(timeout_millis=50)
        except pulsar.Timeout:
            if time.monotonic() > until:
                return say(r, "nothing")
            continue
        mine.append(it)
        at = it.message_id()
        more = {"key": it.partition_key(), "properties": it.properties(), "redelivery_count": it.redelivery_count()}
        more |= {"topic": it.topic_name(), "payload": base64.b64encode(it.data()).decode(), "entry": at.entry_id()}
        return say(r, "message", message=len(mine) - 1, ledger=at.ledger_id(), batch_index=at.batch_index(), **more)
    return say(r, "cancelled")

def perform(r):
    match r["type"]:
        case "hello":
            return say(r, "hello", protocol=1, client="mine", version=pulsar.__version__, features=[])
        case "connect":
            things[r["client"]] = pulsar.Client(r["url"])
        case "open-producer":
            timeout = r.get("send_timeout_ms", 0)
            opened = things[r["client"]].create_producer(r["topic"], r.get("name"), send_timeout_millis=timeout)
            things[r["producer"]] = opened
            return say(r, "opened", name=opened.producer_name())
        case "subscribe":
            place = pulsar.InitialPosition.Earliest if r.get("initial") == "earliest" else pulsar.InitialPosition.Latest
            of = {"consumer_type": getattr(pulsar.ConsumerType, r["kind"]), "initial_position": place}
            things[r["consumer"]] = things[r["client"]].subscribe(r["topic"], r["subscription"], **of)
            received[r["consumer"]] = []
        case "receive":
            return receive(r)
        case "acknowledge":
            things[r["consumer"]].acknowledge(received[r["consumer"]][r["message"]])
        case "unsubscribe":
            things[r["consumer"]].unsubscribe()
        case "close":
            things.pop(r["name"]).close()
        case "cancel":
            cancelled.add(r["request"])
        case _:
            return say(r, "error", message=f"cannot {r['type']}")
    return say(r, "done")

def answer(r):
    try:
        perform(r)
    except pulsar.Timeout as error:
        say(r, "gave-up", why="timeout", message=str(error))
    except pulsar.PulsarException as error:
        say(r, "refused", code=type(error).__name__, message=str(error))
    except Exception as error:
        say(r, "error", message=repr(error))

for line in sys.stdin:
    r = json.loads(line)
    send(r) if r["type"] == "send" else threading.Thread(target=answer, args=(r,), daemon=True).start()
os._exit(0)
