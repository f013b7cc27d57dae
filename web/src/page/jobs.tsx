import { JobCards } from "../view/scope";

/** Every job. */
export function JobsPage() {
  return <JobCards />;
}
