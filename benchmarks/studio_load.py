"""The studio under load: python benchmarks/studio_load.py [--builds 100] [--clients 10]

All builds are sent at once by several users; while they run one worker is killed, and every answer of the interface is
timed. Then the server itself is killed and started again. Told: what was answered, what was lost, the largest memory of
all processes together, the slowest answer.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import threading
import time
from pathlib import Path

from studio_server import Client, Server

FORMULAS = ("sin({k}*x)", "exp(-x**2)*{k}", "x**{k}/7", "cos({k}*x)*x", "tanh({k}*x)")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--builds", type=int, default=100)
    options.add_argument("--clients", type=int, default=10)
    options.add_argument("--seconds", type=float, default=1500.0, help="give up after so many")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), workers=2, seconds=300)
        try:
            _run(server, given.builds, given.clients, given.seconds)
        finally:
            server.close()


def _run(server: Server, builds: int, clients: int, patience: float) -> None:
    users = [Client(server.port) for _ in range(clients)]
    sent: list[int] = []
    started = time.monotonic()

    def send(number: int) -> None:
        for k in range(number, builds, clients):
            formula = FORMULAS[k % len(FORMULAS)].format(k=2 + k % 5)
            data = {"what": "approximate", "formula": formula, "domain": "x=-1:1", "tol": 1e-4}
            sent.append(users[number].post("/jobs", data)[0])

    threads = [threading.Thread(target=send, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"sent {len(sent)}, accepted {sent.count(201)}, in {time.monotonic() - started:.1f} s")
    delays, memory, killed, states = [], 0, 0, {}
    while time.monotonic() - started < patience:
        states = {}
        for user in users:
            asked = time.monotonic()
            for state, count in user.finished().items():
                states[state] = states.get(state, 0) + count
            delays.append(time.monotonic() - asked)
        memory = max(memory, server.memory())
        if not killed and states.get("done", 0) >= builds // 4 and (busy := server.workers()):
            os.kill(busy[0], signal.SIGKILL)
            killed = 1
        if not states.get("queued") and not states.get("running"):
            break
        time.sleep(0.2)
    print(f"answered: {states}, workers killed {killed}, {time.monotonic() - started:.0f} s on the clock")
    slowest, typical = max(delays), statistics.median(delays)
    print(f"interface: {len(delays)} answers, median {1e3 * typical:.0f} ms, slowest {1e3 * slowest:.0f} ms")
    print(f"memory of all processes: {memory / 2**20:.0f} MB at most")
    server.kill_and_restart()
    after: dict[str, int] = {}
    for user in users:
        for state, count in user.finished().items():
            after[state] = after.get(state, 0) + count
    whole = sum(
        user.raw("GET", f"/jobs/{job['id']}/files/network.safetensors")[0] == 200
        for user in users
        for job in user.get("/jobs")["jobs"]
        if job["state"] == "done"
    )
    print(f"after the server was killed and restarted: {after}, {whole} networks can be downloaded")
    lost = builds - sum(after.values())
    good = not lost and states == after and states.get("failed", 0) <= killed and whole == states.get("done", 0)
    print("nothing was lost" if good and slowest < 1.0 and memory < 3 << 30 else "NOT as it should be")


if __name__ == "__main__":
    main()
