import { Findings } from "../view/findings";
import { Hosts } from "../view/hosts";
import { JobCards } from "../view/scope";

/** Everything at a glance: jobs, hosts, what fires. */
export function OverviewPage() {
  return (
    <>
      <JobCards />
      <div class="board">
        <div class="column">
          <Hosts />
        </div>
        <div class="column">
          <Findings />
        </div>
      </div>
    </>
  );
}
