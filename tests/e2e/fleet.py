"""A fleet on one machine: three gateways behind HAProxy, on one PostgreSQL and one Redis.

``python tests/e2e/fleet.py`` sends streams through the proxy while a gateway is killed, while all
of them are restarted one by one, while the database is restarted, and while Redis is gone. No
client of another gateway may notice, every response that a client received completely has to be in
the log, and the conversation that began before all this is continued after each step.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import psycopg

sys.path.insert(0, str(Path(__file__).parents[1]))

from store.databases import Postgres, postgres_server

STREAMS = int(os.environ.get("STREAMS", "300"))
PATIENCE = 120.0
PACE = 0.02
RATE = 40
LOAD_KEY, LIMITED_KEY = "fleet-load-0123456789", "fleet-limited-0123456789"
PACKAGES = {"haproxy": "haproxy", "redis-server": "redis-server"}


class FleetError(Exception):
    """The fleet did not do what it should."""


def check(is_so: bool, what: str) -> None:  # noqa: FBT001 - a condition
    """Raise `FleetError` unless it *is_so*."""
    if not is_so:
        raise FleetError(what)
    print(f"  {what}")


def install_programs() -> None:
    """Install the proxy and Redis where apt can do it."""
    missing = [name for program, name in PACKAGES.items() if _find(program) is None]
    if not missing:
        return
    apt = shutil.which("apt-get")
    if apt is None:
        sys.exit(f"fleet: please install {' and '.join(missing)}")
    for command in (["update", "-qq"], ["install", "-y", "-qq", *missing]):
        subprocess.run([apt, *command], check=True, stdout=subprocess.DEVNULL)


def _find(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")


def free_ports(number: int) -> list[int]:
    """Return ports that nothing uses."""
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def wait_until(is_so: Callable[[], Any], what: str) -> None:
    """Wait until *is_so*; raise `FleetError` if that takes too long."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise FleetError(f"not in time: {what}")
        await asyncio.sleep(0.05)


class Fleet:
    """Three gateways, their proxy and Redis; the log is at *database*."""

    def __init__(self, folder: Path, database: str) -> None:
        self._folder = folder
        *self.ports, self.proxy_port, self._redis_port = free_ports(5)
        self._settings = folder / "penstock.toml"
        self._settings.write_text(
            f'[store]\nurl = "{database}"\n[quotas]\nurl = "redis://127.0.0.1:{self._redis_port}/0"\n'
            '[keys.load]\nenv = "LOAD_KEY"\n'
            f'[keys.limited]\nenv = "LIMITED_KEY"\nrate = {RATE}\n'
            f'[upstreams.scripted]\napi = "demo"\ndemo = {{ pace = {PACE} }}\n'
            '[models.demo]\nupstream = "scripted"\n'
        )
        self._gateways: dict[int, subprocess.Popen[bytes]] = {}
        self._proxy: subprocess.Popen[bytes] | None = None
        self._redis: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start everything, and wait until it serves."""
        self.start_redis()
        for port in self.ports:
            self.start_gateway(port)
        proxy = self._folder / "haproxy.cfg"
        proxy.write_text(self._proxy_settings())
        for port in self.ports:
            await self.wait_for(port)
        self._proxy = self._run(_find("haproxy"), "-db", "-f", str(proxy))
        await self.wait_for(self.proxy_port)

    def start_redis(self) -> None:
        """Start Redis, without a file for its data."""
        flags = ["--port", str(self._redis_port), "--bind", "127.0.0.1", "--save", ""]
        self._redis = self._run(_find("redis-server"), *flags, "--dir", str(self._folder))

    def kill_redis(self) -> None:
        """Kill Redis, and what it knew of quotas with it."""
        assert self._redis is not None
        self._redis.kill()
        self._redis.wait()

    def _proxy_settings(self) -> str:
        servers = "\n".join(
            f"  server g{at} 127.0.0.1:{port} check inter 100ms fall 1 rise 1"
            for at, port in enumerate(self.ports)
        )
        # A request that a gateway refuses because it is shutting down is sent to another one.
        return (
            # Without `timeout check` a gateway is down if it takes longer than `inter` once.
            "defaults\n  mode http\n  timeout connect 5s\n  timeout check 5s\n"
            "  timeout client 120s\n  timeout server 120s\n  option redispatch\n  retries 3\n"
            "  retry-on conn-failure empty-response 503\n"
            f"frontend in\n  bind 127.0.0.1:{self.proxy_port}\n  default_backend gateways\n"
            "backend gateways\n  balance roundrobin\n  option httpchk GET /health/ready\n"
            f"  http-response set-header x-served-by %s\n{servers}\n"
        )

    def _run(self, program: str | None, *flags: str) -> subprocess.Popen[bytes]:
        with (self._folder / "programs.txt").open("ab") as out:
            return subprocess.Popen([str(program), *flags], stdout=out, stderr=out)

    def start_gateway(self, port: int) -> None:
        """Start the gateway at *port*."""
        command = [sys.executable, "-m", "penstock", "serve", "--config", str(self._settings)]
        environment = {**os.environ, "LOAD_KEY": LOAD_KEY, "LIMITED_KEY": LIMITED_KEY}
        with (self._folder / f"gateway-{port}.txt").open("ab") as out:
            self._gateways[port] = subprocess.Popen(
                [*command, "--port", str(port), "--quiet"],
                env=environment,
                cwd=self._folder,
                stdout=out,
                stderr=out,
            )

    async def wait_for(self, port: int) -> None:
        """Wait until what is at *port* is ready."""

        async def is_ready(session: aiohttp.ClientSession) -> bool:
            try:
                async with session.get(f"http://127.0.0.1:{port}/health/ready") as response:
                    return response.status == 200
            except aiohttp.ClientError:
                return False

        deadline = time.monotonic() + PATIENCE
        async with aiohttp.ClientSession() as session:
            while not await is_ready(session):
                if time.monotonic() > deadline:
                    raise FleetError(f"nothing serves port {port}")
                await asyncio.sleep(0.05)

    def end_gateway(self, port: int, number: signal.Signals) -> None:
        """Send a signal to the gateway at *port*, and wait for its end."""
        process = self._gateways[port]
        process.send_signal(number)
        process.wait(PATIENCE)

    def stop(self) -> None:
        """End everything."""
        for process in (*self._gateways.values(), self._proxy, self._redis):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


class Response:
    """What a client received: the id, the gateway, and whether it was whole."""

    def __init__(self) -> None:
        self.id = ""
        self.gateway = ""
        self.status = 0
        self.is_whole = False
        self.problem = ""


async def stream(session: aiohttp.ClientSession, port: int) -> Response:
    """Request a stream, and read it to its end."""
    found = Response()
    body = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": "Hello!"}]}
    headers = {"authorization": f"Bearer {LOAD_KEY}"}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    try:
        async with session.post(url, json=body, headers=headers) as response:
            found.status = response.status
            found.id = response.headers.get("x-request-id", "")
            found.gateway = response.headers.get("x-served-by", "")
            data = await response.read()
            found.is_whole = response.status == 200 and data.rstrip().endswith(b"data: [DONE]")
            found.is_whole = found.is_whole and b'"error"' not in data
            found.problem = "" if found.is_whole else data[-300:].decode("utf-8", "replace")
    except (aiohttp.ClientError, OSError) as exc:
        found.problem = str(exc) or type(exc).__name__
    return found


def make_session() -> aiohttp.ClientSession:
    """Return a session of clients that have a connection each."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(PATIENCE))


class Proof:
    """The steps of the proof; *fleet* serves, and its log is at *database*."""

    def __init__(self, fleet: Fleet, postgres: Postgres, database: str) -> None:
        self._fleet = fleet
        self._postgres = postgres
        self._database = database
        self._whole: list[str] = []  # ids of responses that clients received completely
        self._cut = 0  # streams that the killed gateway served
        self._turns: list[str] = []  # ids of the responses of one conversation

    async def run(self) -> None:
        """Run all steps."""
        async with make_session() as session:
            for step in (
                self._send_streams,
                self._kill_one,
                self._restart_all,
                self._restart_database,
                self._lose_redis,
            ):
                await step(session)
                await self._continue_conversation(session)
            await self._limit_rate(session)
        await self._check_log()

    async def _load(self, session: aiohttp.ClientSession, number: int) -> list[Response]:
        tasks = [stream(session, self._fleet.proxy_port) for _ in range(number)]
        found = await asyncio.gather(*tasks)
        self._whole += [one.id for one in found if one.is_whole]
        return found

    async def _send_streams(self, session: aiohttp.ClientSession) -> None:
        print(f"{STREAMS} streams")
        found = await self._load(session, STREAMS)
        self._check_whole(found, "all streams are whole")
        served = Counter(one.gateway for one in found)
        check(len(served) == len(self._fleet.ports), f"all gateways served: {dict(served)}")

    async def _kill_one(self, session: aiohttp.ClientSession) -> None:
        print(f"{STREAMS} streams, kill -9 of one gateway")
        load = asyncio.create_task(self._load(session, STREAMS))
        await asyncio.sleep(1.0)
        killed = self._fleet.ports[0]
        self._fleet.end_gateway(killed, signal.SIGKILL)
        found = await load
        others = [one for one in found if one.gateway and one.gateway != "g0"]
        self._check_whole(others, f"{len(others)} streams of the other gateways are whole")
        lost = sum(not one.is_whole for one in found)
        check(lost <= STREAMS // 2, f"{lost} streams were cut, all of them of the killed gateway")
        self._cut = lost
        self._fleet.start_gateway(killed)
        await self._fleet.wait_for(killed)

    async def _restart_all(self, session: aiohttp.ClientSession) -> None:
        print("rolling restart under load")
        done = asyncio.Event()
        found: list[Response] = []

        async def keep_asking() -> None:
            while not done.is_set():
                found.extend(await self._load(session, 1))

        clients = [asyncio.create_task(keep_asking()) for _ in range(20)]
        for port in self._fleet.ports:
            await asyncio.to_thread(self._fleet.end_gateway, port, signal.SIGTERM)
            self._fleet.start_gateway(port)
            await self._fleet.wait_for(port)
            await asyncio.sleep(0.5)  # The proxy checks every tenth of a second.
        done.set()
        await asyncio.gather(*clients)
        self._check_whole(found, f"all {len(found)} streams are whole")

    async def _restart_database(self, session: aiohttp.ClientSession) -> None:
        print("restart of the database under load")
        load = asyncio.create_task(self._load(session, STREAMS // 3))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(self._postgres.stop)
        found = await self._load(session, 20)
        await asyncio.to_thread(self._postgres.start)
        found += await load
        self._check_whole(found, f"all {len(found)} streams are whole")

    async def _lose_redis(self, session: aiohttp.ClientSession) -> None:
        print("kill -9 of Redis under load, and its restart")
        load = asyncio.create_task(self._load(session, STREAMS // 3))
        await asyncio.sleep(0.3)
        self._fleet.kill_redis()
        statuses = Counter([await self._ask_limited(session) for _ in range(6)])
        check(statuses == {200: 6}, "a key with limits is served without Redis")
        await self._wait_for_quotas(session, "local, because the shared database does not respond")
        self._fleet.start_redis()
        await self._wait_for_quotas(session, "shared")
        found = await load
        self._check_whole(found, f"all {len(found)} streams are whole")

    async def _wait_for_quotas(self, session: aiohttp.ClientSession, state: str) -> None:
        """Wait until every gateway reports this *state* of its quotas."""
        deadline = time.monotonic() + PATIENCE
        for port in self._fleet.ports:
            while True:
                async with session.get(f"http://127.0.0.1:{port}/health/ready") as response:
                    if (await response.json())["quotas"] == state:
                        break
                if time.monotonic() > deadline:
                    raise FleetError(f"port {port}: quotas are not {state}")
                await asyncio.sleep(0.05)
        check(is_so=True, what=f"all gateways report: quotas {state}")

    async def _continue_conversation(self, session: aiohttp.ClientSession) -> None:
        """Continue the conversation on each gateway, from the response of the one before."""
        headers = {"authorization": f"Bearer {LOAD_KEY}"}
        for port in self._fleet.ports:
            body = {"model": "demo", "input": f"Turn {len(self._turns)}", "store": True}
            if self._turns:
                body["previous_response_id"] = self._turns[-1]
            url = f"http://127.0.0.1:{port}/v1/responses"
            async with session.post(url, json=body, headers=headers) as response:
                data = json.loads(await response.read())
            if response.status != 200:
                raise FleetError(f"turn {len(self._turns)} on port {port}: {data}")
            self._turns.append(data["id"])
        check(is_so=True, what=f"the conversation has {len(self._turns)} turns, on all gateways")

    async def _limit_rate(self, session: aiohttp.ClientSession) -> None:
        print(f"a key with {RATE} requests per minute, over all gateways")
        began = time.monotonic()
        asked = [self._ask_limited(session) for _ in range(2 * RATE)]
        statuses = Counter(await asyncio.gather(*asked))
        # The bucket is refilled while the requests are sent.
        most = RATE * 1.05 + (time.monotonic() - began) * RATE / 60
        check(RATE <= statuses[200] <= most, f"{statuses[200]} granted, {statuses[429]} refused")
        check(set(statuses) == {200, 429}, "no other status")

    async def _ask_limited(self, session: aiohttp.ClientSession) -> int:
        """Send a request with the key that has a rate; return the status."""
        headers = {"authorization": f"Bearer {LIMITED_KEY}"}
        body = {"model": "demo", "messages": [{"role": "user", "content": "Hello!"}]}
        url = f"http://127.0.0.1:{self._fleet.proxy_port}/v1/chat/completions"
        async with session.post(url, json=body, headers=headers) as response:
            await response.read()
            return response.status

    async def _check_log(self) -> None:
        print("the log")
        wanted = set(self._whole)

        def is_logged() -> bool:
            with psycopg.connect(self._database) as connection:
                rows = connection.execute("SELECT id FROM requests WHERE state = 'done'").fetchall()
            return wanted <= {row[0] for row in rows}

        def count_states() -> Counter[str]:
            with psycopg.connect(self._database) as connection:
                rows = connection.execute("SELECT state FROM requests").fetchall()
            return Counter(row[0] for row in rows)

        await wait_until(is_logged, "every whole response is in the log")
        check(is_logged(), f"all {len(wanted)} whole responses are in the log")
        await wait_until(lambda: count_states()["started"] == 0, "every request has an end")
        states = count_states()
        check(states["interrupted"] <= self._cut, f"{states['interrupted']} are interrupted")
        check(set(states) == {"done", "interrupted"}, f"no other state: {dict(states)}")
        with psycopg.connect(self._database) as connection:
            rows = connection.execute("SELECT id FROM responses").fetchall()
        check(
            set(self._turns) <= {row[0] for row in rows}, "all turns of the conversation are stored"
        )

    @staticmethod
    def _check_whole(found: list[Response], what: str) -> None:
        broken = [one for one in found if not one.is_whole]
        if broken:
            one = broken[0]
            raise FleetError(f"{len(broken)} streams are not whole: {one.status} {one.problem}")
        check(is_so=True, what=what)


def main() -> None:
    """Start a fleet, and prove that it loses nothing."""
    install_programs()
    with tempfile.TemporaryDirectory() as name, postgres_server(f"fleet-{os.getpid()}") as postgres:
        database = postgres.make_database()
        fleet = Fleet(Path(name), database)

        async def work() -> None:
            await fleet.start()
            await Proof(fleet, postgres, database).run()

        try:
            asyncio.run(work())
        except FleetError as exc:
            for file in Path(name).glob("*.txt"):
                print(f"--- {file.name}\n{file.read_text()[-2000:]}")
            sys.exit(f"fleet: {exc}")
        finally:
            fleet.stop()
    print("the fleet is well")


if __name__ == "__main__":
    main()
