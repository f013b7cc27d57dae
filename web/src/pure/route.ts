/**
 * What is shown, as the address says it: `#/job/J/communicator/C/channel/2/host/H`, every part optional.
 * A link to one place can be pasted into an incident channel. Pure.
 */

export interface Route {
  job?: string;
  communicator?: string;
  channel?: number;
  host?: string;
}

export function parse(hash: string): Route {
  const parts = hash.replace(/^#?\/?/, "").split("/");
  const route: Route = {};
  for (let i = 0; i + 1 < parts.length; i += 2) {
    const value = decode(parts[i + 1]!);
    if (value === "") continue;
    if (parts[i] === "job") route.job = value;
    if (parts[i] === "communicator") route.communicator = value;
    if (parts[i] === "channel" && /^\d{1,4}$/.test(value)) route.channel = Number(value);
    if (parts[i] === "host") route.host = value;
  }
  return route;
}

export function format(route: Route): string {
  let hash = "#";
  if (route.job !== undefined) hash += `/job/${encodeURIComponent(route.job)}`;
  if (route.communicator !== undefined) hash += `/communicator/${encodeURIComponent(route.communicator)}`;
  if (route.channel !== undefined) hash += `/channel/${route.channel}`;
  if (route.host !== undefined) hash += `/host/${encodeURIComponent(route.host)}`;
  return hash === "#" ? "#/" : hash;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
