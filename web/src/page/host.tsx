import { HostPanel } from "../view/host-panel";

/** One host. */
export function HostPage({ host }: { host: string }) {
  return <HostPanel name={host} />;
}
