import "uplot/dist/uPlot.min.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/parts.css";
import "./styles/shell.css";
import "./styles/ring.css";
import "./styles/pages.css";
import "./styles/summation.css";
import "./styles/incidents.css";
import "./styles/time.css";
import "./styles/access.css";
import { render } from "preact";
import { start } from "./state/live";
import { Shell } from "./view/shell";
import { copyWholeTimes } from "./view/time";

render(<Shell />, document.getElementById("page")!);
start();
copyWholeTimes();
