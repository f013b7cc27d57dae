/** Where data comes from: the data source, the variables of the dashboards, the queries of panels. */

import { type DataSourceRef, type VariableModel, VariableHide, VariableRefresh, VariableSort } from "@grafana/schema";

export const DATASOURCE: DataSourceRef = { type: "prometheus", uid: "${datasource}" };

/** A query of the Prometheus data source. Its own types are in a plugin, not in @grafana/schema. */
export interface PromTarget extends Record<string, unknown> {
  refId: string;
  datasource: DataSourceRef;
  expr: string;
  legendFormat: string;
  range: boolean;
  instant: boolean;
  format: "time_series" | "table";
}

const LETTERS = "ABCDEFGHIJ";

/** Queries over the time range, each with the words of its legend. */
export function over(...queries: [legend: string, expr: string][]): PromTarget[] {
  return queries.map(([legendFormat, expr], i) => ({
    ...common(i, expr), legendFormat, range: true, instant: false, format: "time_series",
  }));
}

/** Queries for the last value only. */
export function now(...queries: [legend: string, expr: string][]): PromTarget[] {
  return queries.map(([legendFormat, expr], i) => ({
    ...common(i, expr), legendFormat, range: false, instant: true, format: "time_series",
  }));
}

/** The last values as rows of a table. */
export function rows(...exprs: string[]): PromTarget[] {
  return exprs.map((expr, i) => ({ ...common(i, expr), legendFormat: "", range: false, instant: true, format: "table" }));
}

function common(i: number, expr: string): Pick<PromTarget, "refId" | "datasource" | "expr"> {
  return { refId: LETTERS.charAt(i), datasource: DATASOURCE, expr };
}

/** Which Prometheus. */
export const datasourceVariable: VariableModel = {
  name: "datasource", label: "Prometheus", type: "datasource", query: "prometheus", refresh: VariableRefresh.onDashboardLoad,
};

/** Where ringscope's own pages are, for the links to them. */
export const pageVariable: VariableModel = {
  name: "ringscope_url", label: "ringscope", type: "textbox", query: "http://127.0.0.1:9440",
  description: "Address of ringscope's pages, to which the links lead.",
  current: { text: "http://127.0.0.1:9440", value: "http://127.0.0.1:9440" },
  hide: VariableHide.dontHide,
};

/** Selects what the chosen daemons of the chosen clusters show. */
export const DAEMON = 'cluster=~"$cluster",instance=~"$instance"';

/**
 * Which daemons. `cluster` is a label of where several Prometheus write to, or of a scrape job; where there is none, all of it is
 * what has none too.
 */
export const daemonVariables: VariableModel[] = [
  labelVariable("cluster", "Cluster", "ringscope_health"),
  labelVariable("instance", "Daemon", 'ringscope_health{cluster=~"$cluster"}'),
];

/** All values of a label. `of` is a metric with its selector. */
export function labelVariable(name: string, label: string, of: string, several = true): VariableModel {
  return {
    name, label, type: "query", datasource: DATASOURCE,
    query: { query: `label_values(${of}, ${name})`, refId: "variable" },
    refresh: VariableRefresh.onTimeRangeChanged, sort: VariableSort.naturalAsc,
    ...(several && { includeAll: true, multi: true, allValue: ".*", current: { text: "All", value: "$__all" } }),
  };
}
