import { CommunicatorCards } from "../view/scope";
import { RanksPanel } from "../view/ranks";
import { RingPanel } from "../view/ring-panel";
import { Traffic } from "../view/traffic";

/** One communicator: its rings, ranks and bytes. */
export function CommunicatorPage() {
  return (
    <>
      <CommunicatorCards />
      <div class="board">
        <div class="column words">
          <RanksPanel />
        </div>
        <div class="column pictures">
          <RingPanel />
          <Traffic />
        </div>
      </div>
    </>
  );
}
