/** Where schedulers put processes. Pure. */

import type { Place } from "../api";

/** What tells the ranks of one job apart beside their host: the pod, or a node that is called otherwise. */
export function placeBeside(host: string, place: Place | undefined): string | undefined {
  return place?.pod ?? (place?.node === host ? undefined : place?.node);
}
