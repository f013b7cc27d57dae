/** Where a sign-in elsewhere begins, and where it leads back to. Pure. */

/** The longest that the daemon takes. */
const MAX_PLACE = 2000;

/** The address that begins it; `search` and `hash` are where the page is now. */
export function returning(address: string, search: string, hash: string): string {
  const place = `/${search}${hash}`;
  // A place that is too long is left, and not the sign-in.
  return `${address}?return=${encodeURIComponent(new Blob([place]).size <= MAX_PLACE ? place : "/")}`;
}
