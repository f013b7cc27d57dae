/** A dashboard out of sections: places the panels from left to right, and gives every dashboard what all have. */

import {
  type AnnotationQuery, type Dashboard, DashboardCursorSync, type DashboardLink, type Panel, type RowPanel, type VariableModel,
} from "@grafana/schema";
import { DAEMON, daemonVariables, DATASOURCE, datasourceVariable, pageVariable } from "./query.js";

export interface Section {
  /** Absent: no heading. */
  title?: string;
  panels: Panel[];
}

export interface Plan {
  uid: string;
  title: string;
  description: string;
  variables: VariableModel[];
  /** Selects the findings to mark in all panels, e.g. `job=~"$job"`. */
  marks: string;
  /** Page of ringscope that shows the same, e.g. `/#/hosts/$host`. */
  page: string;
  sections: Section[];
}

const COLUMNS = 24;
const TAG = "ringscope";

export function dashboard(plan: Plan): Dashboard {
  return {
    uid: plan.uid, title: plan.title, description: plan.description, tags: [TAG], schemaVersion: SCHEMA_VERSION, editable: true,
    graphTooltip: DashboardCursorSync.Crosshair, refresh: "10s", time: { from: "now-30m", to: "now" }, timezone: "browser",
    annotations: { list: [findingMarks(plan.marks)] },
    links: [others, inRingscope(plan.page)],
    templating: { list: [datasourceVariable, pageVariable, ...daemonVariables, ...plan.variables] },
    panels: place(plan.sections),
  };
}

/** The one in which the types of panels that are used here have these shapes (Grafana 10 and later read it). */
const SCHEMA_VERSION = 39;

function place(sections: Section[]): (Panel | RowPanel)[] {
  const placed: (Panel | RowPanel)[] = [];
  let y = 0;
  let id = 1;
  for (const section of sections) {
    if (section.title !== undefined) {
      placed.push({ id: id++, type: "row", title: section.title, collapsed: false, panels: [], gridPos: { x: 0, y, w: COLUMNS, h: 1 } });
      y += 1;
    }
    let [x, height] = [0, 0];
    for (const panel of section.panels) {
      const { w, h } = panel.gridPos!;
      if (x + w > COLUMNS) [x, y, height] = [0, y + height, 0];
      placed.push({ ...panel, id: id++, gridPos: { x, y, w, h } });
      x += w;
      height = Math.max(height, h);
    }
    y += height;
  }
  return placed;
}

/** A mark where a finding begins to fire: the moment that a step in a curve is asked about. */
function findingMarks(selector: string): AnnotationQuery {
  const target = {
    refId: "Anno", expr: `ringscope_finding{severity=~"warning|critical",${selector}} unless ringscope_finding{${DAEMON}} offset 1m`,
    interval: "", legendFormat: "",
  };
  const query = {
    name: "Findings", datasource: DATASOURCE, enable: true, iconColor: "red",
    // Fields of the Prometheus data source, which the schema leaves to it.
    expr: target.expr, step: "15s", titleFormat: "{{finding}}", textFormat: "{{host}}: {{cause}} ({{severity}})", tagKeys: "job,host",
    useValueForTime: false,
  };
  return query;
}

const link = { icon: "external link", tooltip: "", asDropdown: false, includeVars: true, keepTime: true, targetBlank: false };
const others: DashboardLink = { ...link, title: "ringscope dashboards", type: "dashboards", tags: [TAG], asDropdown: true };

function inRingscope(page: string): DashboardLink {
  return {
    ...link, title: "Open in ringscope", type: "link", tags: [], targetBlank: true, includeVars: false, keepTime: false, url: `\${ringscope_url}${page}`,
  };
}
