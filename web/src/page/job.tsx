import * as store from "../state/store";
import { Findings } from "../view/findings";
import { Hosts } from "../view/hosts";
import { CommunicatorCards } from "../view/scope";

/** One job: its communicators, hosts, and what was found in it. */
export function JobPage({ id }: { id: string }) {
  const job = store.job.value;
  if (job === undefined) return <p class="notice">Job {id} is not known to this daemon.</p>;
  return (
    <>
      <CommunicatorCards />
      <div class="board">
        <div class="column">
          <Hosts job={job} />
        </div>
        <div class="column">
          <Findings job={id} />
        </div>
      </div>
    </>
  );
}
