import type { ChartMark } from "../../pure/chart-marks";
import { plural } from "../../pure/format";
import { atWords } from "../../pure/past";
import type { Route } from "../../pure/route";
import * as store from "../../state/store";
import { Time } from "../time";
import { withCommands } from "../with-commands";

/** What the marks of the charts stand for, as links to those moments: for who has no pointer. */
export function Moments({ marks }: { marks: ChartMark[] }) {
  if (marks.length === 0) return null;
  return (
    <details class="moments">
      <summary>{plural(marks.length, "moment")} to go back to</summary>
      <ol>
        {marks.map((one, i) => (
          <li key={i}>
            <a href={store.link({ ...store.route.value, at: atWords(one.ms) } as Route)}>
              <Time at={one.ms} />
            </a>{" "}
            {withCommands(one.words)}
          </li>
        ))}
      </ol>
    </details>
  );
}
