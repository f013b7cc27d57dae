// The real daemon, the demo and the simulated cluster as processes of their own, on ports that are free.
// RINGSCOPE_BIN: folder with `ringscope` and `examples/simulate_cluster`; default target/debug.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const BIN = process.env.RINGSCOPE_BIN ?? fileURLToPath(new URL("../../target/debug", import.meta.url));
/** Of what starts many processes, on a machine that is busy with other work. */
const PATIENCE_MS = 600_000;

/** Free ports that are tried. */
const PORTS_TRIED = 5;

/** Asks again until the answer is neither undefined nor false; fails with `what` if it does not come. */
export async function eventually(what, ask, patience = PATIENCE_MS) {
  const end = Date.now() + patience;
  let failure;
  for (;;) {
    // A daemon that is busy or begins anew answers nothing: that is no answer yet.
    const answer = await ask().catch((error) => {
      if (error.isOver) throw error;
      failure = error;
    });
    if (answer !== undefined && answer !== false) return answer;
    if (Date.now() > end) throw new Error(`after ${patience / 1000} s still not: ${what}${failure === undefined ? "" : ` (${failure.message})`}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Starts what listens on a port that is free. Somebody else may take it first: then on another one. */
async function onFreePort(start) {
  for (let left = PORTS_TRIED; ; left -= 1) {
    const server = createServer();
    await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
    const { port } = server.address();
    await new Promise((resolve) => server.close(resolve));
    try {
      return await start(port);
    } catch (error) {
      if (left === 1 || !/in use/i.test(error.message)) throw error;
    }
  }
}

export async function json(url, path) {
  const response = await fetch(url + path);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** `ringscope demo --stay-degraded`, once host-2 is degraded. */
export function startDemo() {
  return onFreePort(async (port) => {
    const url = `http://127.0.0.1:${port}`;
    const demo = start("ringscope", ["demo", "--stay-degraded", "--listen", `127.0.0.1:${port}`]);
    await demo.until("host-2 is degraded", () => fires(url, "channel_shortfall"));
    return { url, stop: () => demo.end() };
  });
}

/**
 * `ringscope serve` without an agent. `stop` and `again` end it and start it on the same port, with the same data.
 * `segments`: with an agent, which reads this folder, and believes processes which host they are on.
 */
export function startDaemon(options) {
  return onFreePort((port) => startDaemonOn(port, options));
}

async function startDaemonOn(port, { segments } = {}) {
  const url = `http://127.0.0.1:${port}`;
  const dir = mkdtempSync(join(tmpdir(), "ringscope-web-"));
  const agent = segments === undefined ? ["--with-agent", "false"] : ["--agent-dir", segments, "--agent-other-hosts", "true"];
  const args = ["serve", "--listen", `127.0.0.1:${port}`, "--data-dir", dir, ...agent];
  let daemon;
  const again = async () => {
    daemon = start("ringscope", args);
    await daemon.until("the daemon is ready", async () => (await fetch(`${url}/readyz`)).ok);
  };
  const clear = () => rmSync(dir, { recursive: true, force: true });
  await again().catch((error) => {
    clear();
    throw error;
  });
  const end = async () => {
    await daemon.end();
    clear();
  };
  return { url, again, stop: () => daemon.end(), end, pid: () => daemon.pid };
}

/** The simulated cluster, once the daemon knows all of it. */
export async function startSimulated(url, options = {}) {
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const simulated = start("examples/simulate_cluster", ["--url", url, ...args]);
  await simulated.until("the simulated cluster is known", async () => simulated.said("simulating "), 300_000);
  return { stop: () => simulated.end(), pid: simulated.pid };
}

async function fires(url, kind) {
  const { items } = await json(url, "/api/v1/findings?state=firing&limit=1000");
  return items.find((finding) => finding.finding === kind);
}

function start(program, args) {
  const path = join(BIN, program);
  if (!existsSync(path)) {
    throw new Error(`${path} is missing: cargo build --workspace && cargo build -p ringscope --example simulate_cluster`);
  }
  const child = spawn(path, args, { stdio: ["ignore", "pipe", "pipe"] });
  let words = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => (words = (words + text).slice(-20_000)));
  }
  const closed = new Promise((resolve) => child.once("close", resolve));
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  return {
    pid: child.pid,
    said: (part) => words.includes(part),
    /** Fails at once with what it said if it ends before. */
    async until(what, ask, patience) {
      const patiently = async () => {
        if (child.exitCode !== null) throw Object.assign(new Error(`${program} ended with ${child.exitCode}: ${words}`), { isOver: true });
        return ask();
      };
      try {
        return await eventually(what, patiently, patience);
      } catch (error) {
        kill();
        throw new Error(`${error.message}\n${words}`);
      }
    },
    async end() {
      child.kill("SIGTERM");
      await closed;
      process.removeListener("exit", kill);
    },
  };
}
