// Real jobs in which something goes wrong, under a real daemon with its agent, started as a user starts them: the engine's
// job program (engine/examples/fault_job), and a Python job whose loader waits (examples/loader). And what may stand
// between the daemon and the page.

import { execFileSync, spawn } from "node:child_process";
import { closeSync, constants, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, symlinkSync, writeSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BIN, eventually, json, startDaemon } from "./real.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const BATCH_BYTES = 4096;
/** Batches that the late rank gets before its loader waits, and how often one. */
const BATCHES = 100;
const BATCH_MS = 150;
/** The step in which a fault happens. */
const FAULT_STEP = 400;
const RANKS_PER_HOST = 2;
/** What may be healthy, as a wait for one that is merely elsewhere, is told of after half a minute. */
const PATIENCE_MS = 300_000;

/** A daemon with its agent, and room for jobs. `start` starts one, which `end` ends with all the others. `hostName`: of the host of this number. */
export async function startStage({ hostName = (i) => `host-${i}` } = {}) {
  const dir = mkdtempSync(join(tmpdir(), "ringscope-hangs-"));
  const segments = mkdtempSync("/dev/shm/ringscope-hangs-");
  const children = [];
  const daemon = await startDaemon({ segments }).catch((error) => {
    for (const folder of [dir, segments]) rmSync(folder, { recursive: true, force: true });
    throw error;
  });
  const kill = () => children.forEach((child) => child.kill("SIGKILL"));
  process.once("exit", kill);
  const start = (job, rank, ranks, command, environment) => {
    const host = Math.floor(rank / RANKS_PER_HOST);
    const log = openSync(join(dir, `${job}-${rank}.log`), "w");
    const child = spawn(join(BIN, "ringscope"), ["run", "--job", job, "--dir", segments, "--cache-dir", join(dir, "cache"), "--", ...command], {
      stdio: ["ignore", log, log],
      env: {
        ...process.env, RANK: `${rank}`, WORLD_SIZE: `${ranks}`, LOCAL_RANK: `${rank % RANKS_PER_HOST}`,
        RINGSCOPE_HOST: hostName(host), RSCCL_HOST: hostName(host), RSCCL_NICS: `lo=127.1.${host + 1}.1`,
        // Faults show as NCCL shows them: as nothing.
        RSCCL_FAITHFUL: "2.28", RSCCL_LIBRARY: join(BIN, "librsccl.so"), PYTHONDONTWRITEBYTECODE: "1", ...environment,
      },
    });
    closeSync(log);
    children.push(child);
  };
  return {
    dir,
    url: daemon.url,
    daemon,
    start,
    /** What all ranks of a job wrote. */
    words: (job) => readdirSync(dir).filter((name) => name.startsWith(`${job}-`) && name.endsWith(".log")).map((name) => readFileSync(join(dir, name), "utf8").slice(-500)).join("\n"),
    async end() {
      kill();
      process.removeListener("exit", kill);
      await daemon.end();
      for (const folder of [dir, segments]) rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The worst open incident that `is` says yes to, as soon as there is one; `kinds`: of these kinds alone. */
export async function incidentOf(stage, job, is) {
  const find = async () => (await json(stage.url, "/api/v1/incidents?state=firing&limit=1000")).items.find((one) => one.job === job && is(one));
  return eventually(`${job} has its incident`, () => find().catch(() => undefined), PATIENCE_MS).catch((error) => {
    throw new Error(`${error.message}\n${stage.words(job)}`);
  });
}

/** A job of the engine's job program, with `fault` at `victim`. */
export function startFault(stage, { job, fault, victim, ranks = 4, shape = "dp", more = [] }) {
  const program = jobProgram();
  const meet = join(stage.dir, `${job}-meet`);
  mkdirSync(meet);
  for (let rank = 0; rank < ranks; rank += 1) {
    const args = ["--rank", rank, "--ranks", ranks, "--job", shape, "--dir", meet, "--fault", fault, "--victim", victim, "--at", FAULT_STEP, "--steps", 100_000, "--step-ms", 30, "--on-error", "wait", ...more];
    stage.start(job, rank, ranks, [program, ...args.map(String)], {});
  }
}

/** Four ranks in Python, of which rank 3 waits for a pipe after some batches. `more` gives it one more. */
export function startLoader(stage, job, python = "python3") {
  const [data, meet] = ["data", "meet"].map((name) => join(stage.dir, `${job}-${name}`));
  for (const folder of [data, meet]) mkdirSync(folder);
  for (const rank of [0, 1, 2]) symlinkSync("/dev/zero", join(data, `rank-${rank}`));
  const file = join(data, "rank-3");
  execFileSync("mkfifo", [file]);
  // Open for both, so that neither end waits for the other.
  const pipe = openSync(file, constants.O_RDWR | constants.O_NONBLOCK);
  /** Whether there was room: who writes must not wait for a rank that starts slowly. */
  const more = () => {
    try {
      return writeSync(pipe, Buffer.alloc(BATCH_BYTES, 1)) > 0;
    } catch (error) {
      if (error.code === "EAGAIN") return false;
      throw error;
    }
  };
  let n = 0;
  const feed = setInterval(() => {
    if (more()) n += 1;
    if (n === BATCHES) clearInterval(feed);
  }, BATCH_MS);
  for (let rank = 0; rank < 4; rank += 1) stage.start(job, rank, 4, [python, join(ROOT, "examples/loader/plain.py"), data, "--meet", meet], {});
  const close = () => {
    clearInterval(feed);
    closeSync(pipe);
  };
  return { file, more, close };
}

/** A program under `ringscope run` that never calls the library. */
export function startSilent(stage, job) {
  stage.start(job, 0, 1, ["sleep", "600"], {});
}

/** In front of the daemon: passes everything on until it is told to `answer` itself, the page's own files aside. */
export async function startProxy(url) {
  let answer;
  const sockets = new Set();
  const server = createServer((from, to) => {
    if (answer !== undefined && from.url.startsWith("/api/")) return to.writeHead(answer.status, { "content-type": "text/html" }).end(answer.body);
    const on = request(url + from.url, { method: from.method, headers: from.headers }, (response) => {
      to.writeHead(response.statusCode, response.headers);
      response.pipe(to);
    });
    on.on("error", () => to.destroy());
    from.pipe(on);
  });
  server.on("connection", (socket) => sockets.add(socket).size && socket.on("close", () => sockets.delete(socket)));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const drop = () => sockets.forEach((socket) => socket.destroy());
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    /** From now on; undefined: passes on again. Streams that stand are cut. */
    answer(status) {
      answer = status === undefined ? undefined : { status, body: `<!doctype html><title>${status}</title><h1>${status}</h1>` };
      drop();
    },
    async end() {
      server.close();
      drop();
    },
  };
}

/** The engine's job program; built here where it is not there yet. */
function jobProgram() {
  const program = join(BIN, "fault_job");
  if (existsSync(program)) return program;
  const folder = join(ROOT, "engine/examples/fault_job");
  const sources = readdirSync(folder).filter((name) => name.endsWith(".c")).map((name) => join(folder, name));
  execFileSync("cc", ["-O1", "-g", "-pthread", "-I", join(ROOT, "engine/include"), ...sources, "-L", BIN, `-Wl,-rpath,${BIN}`, "-Wl,--no-as-needed", "-lrsccl", "-o", program]);
  return program;
}
