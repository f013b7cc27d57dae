import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { csv, curl, type CsvValue } from "../pure/csv";
import { API } from "../state/client";

/** What was copied last, so that the menu can say so. */
const copied = signal<string | null>(null);

export interface ExportProps {
  /** What the panel shows, below `/api/v1/`. */
  path: string;
  /** Name of the files, without an ending. */
  name: string;
  /** The table as rows, its head first. */
  rows?: () => CsvValue[][];
  /** A picture that the daemon draws, below `/api/v1/`, without its ending and with its parameters: `plots/rings.{}?comm=…`. */
  plot?: string;
  /** More to download: words and path below `/api/v1/`. */
  more?: { words: string; path: string; file: string }[];
}

/** A small menu at the head of a panel: take what it shows elsewhere. */
export function Export({ path, name, rows, plot, more = [] }: ExportProps) {
  const menu = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const away = (event: Event) => {
      if (menu.current?.open && !menu.current.contains(event.target as Node)) menu.current.open = false;
    };
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, []);
  const command = curl(document.baseURI, path);
  return (
    <details class="export" ref={menu} onKeyDown={(event) => close(event, menu.current)}>
      <summary aria-label={`Copy or download ${name}`} title="Copy or download">
        <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
          <path d="M8 2v8M4.500 7L8 10.500 11.500 7M2.500 13.500h11" />
        </svg>
      </summary>
      <ul>
        <li>
          <button type="button" onClick={() => void copy(command)}>
            {copied.value === command ? "Copied" : "Copy as curl"}
          </button>
          <input class="command" readOnly value={command} aria-label="The command" onFocus={(event) => event.currentTarget.select()} />
        </li>
        {rows !== undefined && (
          <li>
            <button type="button" onClick={() => save(`${name}.csv`, csv(rows()))}>
              Download CSV
            </button>
          </li>
        )}
        <li>
          <a href={API + path} download={`${name}.json`}>
            Download JSON
          </a>
        </li>
        {plot !== undefined &&
          ["svg", "png"].map((kind) => (
            <li key={kind}>
              <a href={API + plot.replace("{}", kind)} download={`${name}.${kind}`}>
                Download {kind.toUpperCase()}
              </a>
            </li>
          ))}
        {more.map((one) => (
          <li key={one.path}>
            <a href={API + one.path} download={one.file}>
              {one.words}
            </a>
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Where the page is not served over TLS a browser has no clipboard: the command stands beside the button. */
async function copy(command: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(command);
    copied.value = command;
  } catch {
    copied.value = null;
  }
}

function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function close(event: KeyboardEvent, menu: HTMLDetailsElement | null): void {
  if (event.key !== "Escape" || menu === null || !menu.open) return;
  event.stopPropagation();
  menu.open = false;
  menu.querySelector("summary")?.focus();
}
