// A daemon that makes it all up: serves web/dist under the real content security policy, the API from fixtures, and events.
// By hand: node test/mock-daemon.mjs [scenario] [port]

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { audit } from "./fixtures-access.mjs";
import { hostConnections, hostDetail, RUNBOOK, search, series, world } from "./fixtures.mjs";
import { hostChannels, jobSeries } from "./fixtures-ring.mjs";
import { paceSeries, past } from "./fixtures-past.mjs";
import { summationSeries } from "./fixtures-summation.mjs";
import { bandwidth, pace, timeline } from "./fixtures-time.mjs";

const DIST = fileURLToPath(new URL("../dist", import.meta.url));
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const CSP = "default-src 'self'";

/** Starts on `port` (0: any free one). `scenario` may be changed while it runs. */
/** `wants`: who signs in with which token, or is `known` from the beginning. Undefined: nobody need. */
export async function startMock(scenario, port = 0, proxy = undefined, wants = undefined) {
  const state = { scenario, proxy, wants, sessions: 1, tick: 0, asked: [], streams: new Set(), sockets: new Set(), said: new Map() };
  const server = createServer((request, response) => {
    answer(state, request, response).catch((error) => {
      response.writeHead(500).end(String(error));
    });
  });
  server.on("connection", (socket) => {
    if (state.away) return socket.destroy();
    state.sockets.add(socket);
    socket.on("close", () => state.sockets.delete(socket));
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  const timer = setInterval(() => {
    state.tick += 1;
    announce(state);
  }, 1000);
  const address = server.address();
  return {
    port: address.port,
    url: `http://127.0.0.1:${address.port}/`,
    show(next) {
      state.scenario = next;
      announce(state);
    },
    /** What was asked for, the last first. */
    asked: () => state.asked,
    /** A proxy in front of the daemon answers in its place from now on: one of PROXIES, or undefined: it is gone. */
    proxy(kind) {
      state.proxy = kind;
      for (const stream of state.streams) stream.end();
    },
    /** Answers below this path are refused from now on. */
    refuse(path, status) {
      state.refused = path === undefined ? undefined : { path: `/api/v1/${path}`, status };
    },
    /** Whoever has signed in is not known any more. */
    endSessions() {
      state.sessions += 1;
      for (const stream of state.streams) stream.end();
    },
    loseStore() {
      state.storeAway = true;
    },
    /** Nobody gets an answer, as of a daemon that is down; its port stays its own. */
    away(is) {
      state.away = is;
      if (is) for (const socket of state.sockets) socket.destroy();
    },
    async stop() {
      clearInterval(timer);
      for (const socket of state.sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function announce(state) {
  const communicators = [...worldOf(state).byId.keys()];
  const data = JSON.stringify({ version: state.tick, communicators, findings: true, incidents: true });
  for (const stream of state.streams) stream.write(`event: changed\ndata: ${data}\n\n`);
}

/** Made anew when the tick or the scenario changes: a thousand hosts take their time. */
function worldOf(state) {
  const key = `${state.scenario} ${state.tick}`;
  if (state.key !== key) Object.assign(state, { key, world: world(state.scenario, Date.now(), state.tick, state.said) });
  return state.world;
}

async function answer(state, request, response) {
  const url = new URL(request.url, "http://mock");
  state.asked = [request.url, ...state.asked.slice(0, 999)];
  if (url.pathname.startsWith("/api/v1/") && state.proxy !== undefined) return PROXIES[state.proxy](response);
  if (state.refused !== undefined && url.pathname.startsWith(state.refused.path)) return refuse(response, "something went wrong", state.refused.status);
  if (url.pathname === "/api/v1/session/ways") return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ oidc: state.wants?.oidc }));
  if (url.pathname === "/api/v1/session") return session(state, request, response);
  if (url.pathname.startsWith("/api/v1/") && !isKnown(state, request)) return stranger(state, response);
  if (request.method === "POST") return post(state, url, await bodyOf(request), response);
  if (url.pathname.startsWith("/api/v1/")) return api(state, url, response);
  const path = normalize(url.pathname === "/" ? "/index.html" : url.pathname);
  try {
    const body = await readFile(join(DIST, path));
    response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream", "content-security-policy": CSP });
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
}

const LOGIN = "<!doctype html><title>Sign in</title><form>Sign in to the cluster</form>";
const html = (status, body) => (response) => response.writeHead(status, { "content-type": "text/html; charset=utf-8" }).end(body);
/** What stands between people and daemons. */
const PROXIES = {
  unauthorized: html(401, LOGIN),
  forbidden: html(403, "<h1>403 Forbidden</h1>"),
  gateway: html(502, "<h1>502 Bad Gateway</h1>"),
  login: html(200, LOGIN),
  redirect: (response) => response.writeHead(302, { location: "/login" }).end(),
  torn: (response) => response.writeHead(200, { "content-type": "application/json" }).end('{"items": [{"id": "llm'),
};

async function bodyOf(request) {
  let text = "";
  for await (const part of request) text += part;
  return JSON.parse(text);
}

const isKnown = (state, request) => state.wants === undefined || state.wants.known || (request.headers.cookie ?? "").includes(`ringscope_session=${state.sessions};`) || (request.headers.cookie ?? "").endsWith(`ringscope_session=${state.sessions}`);

/** Who looks, and signs in and out. */
async function session(state, request, response) {
  const json = (cookie) => ({ "content-type": "application/json", ...(cookie === undefined ? {} : { "set-cookie": `ringscope_session=${cookie}; Path=/; HttpOnly; SameSite=Strict` }) });
  const { name, role } = state.wants ?? { name: "", role: "operate" };
  const body = JSON.stringify({ name, role, known_by: state.wants === undefined ? "nothing" : "session" });
  if (request.method === "DELETE") return response.writeHead(204, json("gone")).end();
  if (request.method === "GET") return isKnown(state, request) ? response.writeHead(200, json()).end(body) : stranger(state, response);
  const { token } = await bodyOf(request);
  return token === state.wants?.token ? response.writeHead(200, json(state.sessions)).end(body) : refuse(response, "this token is not known here", 401);
}

/** What somebody says of an incident. */
function post(state, url, body, response) {
  const [, , , , id, what] = url.pathname.split("/").map(decodeURIComponent);
  const last = state.said.get(id) ?? {};
  const at = new Date().toISOString();
  if (!body.by) return refuse(response, "by: who speaks is missing");
  const known = state.wants?.name ?? "";
  const by = known === "" || known === body.by ? body.by : `${known} (for ${body.by})`;
  if (what === "acknowledge") state.said.set(id, { ...last, acknowledged: { by, at } });
  else if (what === "unacknowledge") state.said.set(id, { ...last, acknowledged: undefined });
  else if (what === "silence") state.said.set(id, { ...last, silenced_until: new Date(Date.now() + body.for_s * 1000).toISOString() });
  else if (what === "unsilence") state.said.set(id, { ...last, silenced_until: undefined });
  else if (what === "notes") state.said.set(id, { ...last, notes: [...(last.notes ?? []), { by, at, text: body.text }] });
  state.key = undefined;
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(worldOf(state).incidents.find((one) => one.id === id)));
}

function api(state, url, response) {
  const path = url.pathname.slice("/api/v1/".length).split("/").map(decodeURIComponent);
  const query = url.searchParams;
  if (path[0] === "events") {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.write(": hello\n\n");
    state.streams.add(response);
    response.on("close", () => state.streams.delete(response));
    return;
  }
  const all = worldOf(state);
  // A history over all communicators is that of the first.
  const one = path[0] === "series" && !query.has("comm") ? [...all.byId.values()][0] : all.byId.get(path[0] === "series" ? query.get("comm") : path[1]);
  const send = (body) => {
    response.writeHead(body === undefined ? 404 : 200, {
      "content-type": body === undefined ? "application/problem+json" : "application/json",
    });
    response.end(JSON.stringify(body ?? { type: "about:blank", title: "Not found", status: 404, detail: "no such thing" }));
  };
  if (path[0] === "runbook") return send(RUNBOOK);
  if (path[0] === "search") return send(search(all, query.get("q"), Number(query.get("limit") ?? 20)));
  const page = (items) => {
    const start = Number(query.get("cursor") ?? 0);
    const limit = Number(query.get("limit") ?? 100);
    send({ items: items.slice(start, start + limit), ...(start + limit < items.length ? { next_cursor: String(start + limit) } : {}) });
  };
  if (path[0] === "jobs" && path[2] === "timeline") return timelineOf(state, query, send);
  if (path[0] === "jobs" && path[2] === "pace" && path[3] === "series") return send(paceSeries(path[1], query));
  if (path[0] === "jobs" && path[2] === "pace") return paceOf(state, all, path[1], query, send);
  if (path[0] === "jobs" && path[2] !== undefined) return send(undefined);
  if (path[0] === "jobs") return page(all.jobs);
  if (path[0] === "audit") {
    const same = (name, of) => !query.has(name) || query.get(name) === of;
    return state.wants?.role === "admin" ? page(audit(Date.now()).filter((one) => same("who", one.who) && same("action", one.action))) : refuse(response, "this needs admin", 403);
  }
  if (path[0] === "health") return send(all.health);
  if (path[0] === "past") return send(past(all, query));
  if (path[0] === "incidents" && path.length === 1) return page(all.incidents.filter((one) => (!query.has("state") || one.state === query.get("state")) && (!query.has("job") || one.job === query.get("job"))));
  if (path[0] === "incidents") {
    const found = all.incidents.find((one) => one.id === path[1]);
    return send(found && { ...found, members: [...all.firing, ...all.resolved].filter((one) => found.findings.includes(one.id)) });
  }
  if (path[0] === "summation") {
    const found = all.summations.find(({ group }) => group.id === path[2]);
    if (path[2] === undefined) return page(all.summations.map(({ group }) => group).filter((one) => !query.has("job") || one.job === query.get("job"))
      .filter((one) => !query.has("host") || all.summations.some(({ group, detail }) => group.id === one.id && [...detail.workers, ...detail.services].some(({ host }) => host === query.get("host")))));
    if (path[3] === "series" && found !== undefined) {
      const toMs = query.has("to") ? Date.parse(query.get("to")) : Date.now();
      const fromMs = query.has("from") ? Date.parse(query.get("from")) : toMs - 900_000;
      return send(summationSeries(found.detail, query.get("metric"), query.has("by_service"), fromMs, toMs, Number(/^(\d+)s$/.exec(query.get("step"))[1])));
    }
    return path[3] === "rounds" && found !== undefined ? page(found.rounds) : send(found?.detail);
  }
  if (path[0] === "nodes" && path[2] === "channels") return page(hostChannels(Date.now(), path[1], [...all.byId.values()].map((one) => one.detail)));
  if (path[0] === "nodes" && path[2] === "connections") return page(hostConnections(all, path[1]));
  if (path[0] === "nodes" && path.length === 2) return send(hostDetail(all, path[1]));
  if (path[0] === "nodes") return page(all.nodes);
  if (path[0] === "findings") return page(findings(all, query));
  if (path[0] === "series") {
    const step = /^(\d+)s$/.exec(query.get("step"));
    if (step === null) return refuse(response, "step: expected a number and a unit, e.g. 10s");
    if (state.storeAway) return refuse(response, "the database is away", 503);
    const toMs = query.has("to") ? Date.parse(query.get("to")) : Date.now();
    const fromMs = query.has("from") ? Date.parse(query.get("from")) : toMs - 900_000;
    if (query.has("job")) return send(jobSeries([...all.byId.values()].filter((c) => c.job.id === query.get("job") && c.communicator.ended === undefined), query.get("metric"), query.get("by"), fromMs, toMs, Number(step[1])));
    return send(one && series(one, query.get("metric"), fromMs, toMs, Number(step[1])));
  }
  if (path[0] === "communicators" && path.length === 1) {
    return page(all.communicators.filter((c) => query.get("job") === null || c.job === query.get("job")));
  }
  return send({ undefined: one?.detail, rings: one?.rings, primitives: one?.primitives, bandwidth: one && bandwidth(one.detail) }[path[2]]);
}

/** Only some daemons tell it: scenarios whose name begins with "slow". */
function timelineOf({ scenario }, query, send) {
  if (!scenario.startsWith("slow")) return send(undefined);
  const many = scenario === "slow-many" ? { nRanks: 1024, perHost: 8, calls: Math.floor(Number(query.get("limit")) / 1024), slow: 613 } : {};
  return send(timeline({ fromMs: Date.parse(query.get("from")), ...many }));
}

/** As the timeline; and where names of hosts are long, as rows have them. */
function paceOf({ scenario }, all, id, query, send) {
  const job = all.jobs.find((one) => one.id === id);
  if (job === undefined || !(scenario.startsWith("slow") || scenario.startsWith("long"))) return send(undefined);
  const perHost = Math.ceil(job.n_processes / job.hosts.length);
  send(pace({ job: id, nRanks: job.n_processes, perHost, slow: scenario === "slow-many" ? 613 : 5, limit: Number(query.get("limit") ?? 64), hostName: (i) => job.hosts[i] }));
}

const SEVERITIES = ["info", "warning", "critical"];

/** Firing first, as the daemon filters them. */
function findings(all, query) {
  const kept = { firing: all.firing, resolved: all.resolved }[query.get("state")] ?? [...all.firing, ...all.resolved];
  const same = (name, of) => !query.has(name) || query.get(name) === of;
  const least = SEVERITIES.indexOf(query.get("severity"));
  return kept.filter((one) => same("job", one.job) && same("host", one.host) && same("comm", one.comm) && same("group", one.group) && same("kind", one.finding)
    && SEVERITIES.indexOf(one.severity) >= least);
}

/** Nobody who is known, or whom a proxy names and who may do nothing. */
function stranger(state, response) {
  const { noRole } = state.wants;
  return noRole === undefined ? refuse(response, "this daemon wants to know who asks", 401) : refuse(response, noRole, 403, "no-role");
}

function refuse(response, detail, status = 400, kind = "refused") {
  response.writeHead(status, { "content-type": "application/problem+json" });
  response.end(JSON.stringify({ type: `about:blank#${kind}`, title: "Refused", status, detail }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = await startMock(process.argv[2] ?? "degraded", Number(process.argv[3] ?? 9440));
  process.stdout.write(`${mock.url}\n`);
}
