import { Hosts } from "../view/hosts";

/** Every host. */
export function HostsPage() {
  return <Hosts />;
}
