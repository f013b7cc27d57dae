/** A ring with a gap. */
export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <g fill="none" stroke-width="4.5">
        <path
          class="logo-ring"
          d="M18.1 4.2a12 12 0 0 1 9.7 9.7M27.8 18.1a12 12 0 0 1-9.7 9.7M13.9 27.8a12 12 0 0 1-9.7-9.7"
        />
        <path class="logo-gap" d="M4.2 13.9a12 12 0 0 1 9.7-9.7" />
      </g>
    </svg>
  );
}
