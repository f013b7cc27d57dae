/** Panels as an operator of these dashboards wants them: a title, a sentence what it shows, a unit, and queries. */

import {
  BigValueColorMode, BigValueGraphMode, BigValueJustifyMode, BigValueTextMode, type DashboardLink, type FieldConfig, FieldColorModeId,
  type FieldConfigSource, LegendDisplayMode, MappingType, type Panel, PercentChangeColorMode, SortOrder, StackingMode, TableCellDisplayMode, TableCellHeight,
  ThresholdsMode, TooltipDisplayMode, VizOrientation,
} from "@grafana/schema";
import type { Options as StatOptions } from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type { Options as TableOptions } from "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type {
  FieldConfig as TimeSeriesField, Options as TimeSeriesOptions,
} from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
import { DATASOURCE, type PromTarget } from "./query.js";

export type Unit = "Bps" | "bytes" | "short" | "s" | "dateTimeFromNow" | "percentunit" | "ops" | "none";

export interface Spec {
  title: string;
  /** What it shows and how to read it. */
  description: string;
  unit: Unit;
  targets: PromTarget[];
  /** Width in 24ths, height in rows of 30 px. */
  w: number;
  h: number;
  links?: { title: string; url: string }[];
}

/** At which value a colour begins. */
export type Steps = [from: number | null, colour: "green" | "yellow" | "red" | "blue" | "text"][];
export const GOOD_IS_ZERO: Steps = [[null, "green"], [1, "red"]];
export const NEUTRAL: Steps = [[null, "text"]];

/** One number, large. */
export function stat(spec: Spec & { steps: Steps; zero?: string; sparkline?: boolean; each?: boolean }): Panel {
  const options: StatOptions = {
    colorMode: BigValueColorMode.Value, graphMode: spec.sparkline ? BigValueGraphMode.Area : BigValueGraphMode.None,
    justifyMode: BigValueJustifyMode.Auto, percentChangeColorMode: PercentChangeColorMode.Standard, showPercentChange: false,
    textMode: spec.each ? BigValueTextMode.ValueAndName : BigValueTextMode.Value, wideLayout: true, orientation: VizOrientation.Auto,
    reduceOptions: { calcs: ["lastNotNull"], values: false, fields: "" },
  };
  const zero: FieldConfig["mappings"] =
    spec.zero === undefined ? [] : [{ type: MappingType.ValueToText, options: { "0": { text: spec.zero, index: 0 } } }];
  return panel("stat", spec, { ...options }, { thresholds: thresholds(spec.steps), mappings: zero, color: { mode: FieldColorModeId.Thresholds } });
}

/** Lines over time. */
export function lines(spec: Spec & { stacked?: boolean; steps?: boolean; max?: number; min?: number }): Panel {
  const options: TimeSeriesOptions = {
    legend: { calcs: ["lastNotNull", "max"], displayMode: LegendDisplayMode.Table, placement: "bottom", showLegend: true, sortBy: "Last *", sortDesc: true },
    tooltip: { mode: TooltipDisplayMode.Multi, sort: SortOrder.Descending },
  };
  const custom: TimeSeriesField = {
    lineWidth: 1, fillOpacity: spec.stacked ? 40 : 8, spanNulls: false, showPoints: "never" as TimeSeriesField["showPoints"],
    ...(spec.steps && { lineInterpolation: "stepAfter" as TimeSeriesField["lineInterpolation"] }),
    stacking: { mode: spec.stacked ? StackingMode.Normal : StackingMode.None, group: "A" },
  };
  return panel("timeseries", spec, { ...options }, {
    custom: { ...custom }, min: spec.min ?? 0, ...(spec.max !== undefined && { max: spec.max }), color: { mode: FieldColorModeId.PaletteClassic },
  });
}

/** A column of a table: the field, its name, and how it looks. */
export interface Column {
  field: string;
  name: string;
  unit?: Unit;
  width?: number;
  /** Where the value leads. */
  url?: string;
  /** Colours the cell. */
  steps?: Steps;
  /** Colours of words. */
  words?: Record<string, "green" | "yellow" | "red" | "blue">;
}

/** Rows of labels and values. Only the columns named are shown, in their order. */
export function table(spec: Omit<Spec, "unit"> & { columns: Column[]; sortBy: string; descending?: boolean; empty: string }): Panel {
  const options: TableOptions = {
    frameIndex: 0, showHeader: true, cellHeight: TableCellHeight.Sm, sortBy: [{ displayName: spec.sortBy, desc: spec.descending ?? false }],
  };
  const overrides: FieldConfigSource["overrides"] = spec.columns.map((column) => ({
    matcher: { id: "byName", options: column.field },
    properties: [
      { id: "displayName", value: column.name },
      ...(column.unit ? [{ id: "unit", value: column.unit }] : []),
      ...(column.width ? [{ id: "custom.width", value: column.width }] : []),
      ...(column.url ? [{ id: "links", value: [{ title: "Open in ringscope", url: column.url, targetBlank: true }] }] : []),
      ...(column.steps ? [{ id: "thresholds", value: thresholds(column.steps) }, COLOURED_TEXT, { id: "color", value: { mode: FieldColorModeId.Thresholds } }] : []),
      ...(column.words ? [{ id: "mappings", value: [wordColours(column.words)] }, COLOURED_TEXT] : []),
    ],
  }));
  const made = panel("table", { ...spec, unit: "none" }, { ...options }, { noValue: spec.empty }, overrides);
  const kept = spec.columns.map((column) => column.field);
  const order = Object.fromEntries(kept.map((field, index) => [field, index]));
  made.transformations = [
    ...(spec.targets.length > 1 ? [{ id: "merge", options: {} }] : []),
    { id: "filterFieldsByName", options: { include: { names: kept } } },
    { id: "organize", options: { indexByName: order } },
  ];
  return made;
}

const COLOURED_TEXT = { id: "custom.cellOptions", value: { type: TableCellDisplayMode.ColorText } };

function wordColours(words: NonNullable<Column["words"]>) {
  const options = Object.fromEntries(Object.entries(words).map(([word, color], index) => [word, { color, index, text: word }]));
  return { type: MappingType.ValueToText, options };
}

function thresholds(steps: Steps) {
  // JSON has no infinity: the schema's own word for "from the start" is null.
  return { mode: ThresholdsMode.Absolute, steps: steps.map(([value, color]) => ({ value, color })) };
}

function panel(
  type: string, spec: Spec, options: Record<string, unknown>, defaults: FieldConfig, overrides: FieldConfigSource["overrides"] = [],
): Panel {
  return {
    type, title: spec.title, description: spec.description, datasource: DATASOURCE, targets: spec.targets, options,
    gridPos: { x: 0, y: 0, w: spec.w, h: spec.h }, links: (spec.links ?? []).map(outside),
    fieldConfig: { defaults: { unit: spec.unit, ...defaults }, overrides },
  };
}

function outside({ title, url }: { title: string; url: string }): DashboardLink {
  return { title, url, type: "link", icon: "external link", tooltip: "", asDropdown: false, includeVars: false, keepTime: false, tags: [], targetBlank: true };
}
