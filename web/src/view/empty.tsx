const isLoopback = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

/** Nothing to show yet: how to get something. */
export function Empty() {
  return (
    <section class="empty panel" aria-label="How to start">
      <h2>Start a job under ringscope</h2>
      <dl>
        <dt>Your own training job, on the machine of this daemon</dt>
        <dd>
          <code>ringscope run -- python train.py</code>
        </dd>
        <dt>On a cluster, once on each host, and then the same <code class="inline">ringscope run</code> before the program of each rank</dt>
        <dd>
          <code>ringscope agent --daemon {location.origin}</code>
          {isLoopback && <small>Put the name by which other hosts reach this machine in the place of {location.hostname}; the daemon must listen there: <code class="inline">ringscope serve --listen 0.0.0.0:{location.port || "9440"}</code>.</small>}
        </dd>
        <dt>A job runs, and nothing of it is here</dt>
        <dd>
          <code>ringscope doctor --pid PID</code>
          <small>on its host: what of that process can be seen, and what to do where it cannot.</small>
        </dd>
        <dt>A demonstration on this machine, no GPU needed</dt>
        <dd>
          <code>cargo xtask demo</code>
        </dd>
      </dl>
      <p class="quiet">It appears here as soon as its first communicator is made; nothing needs to be reloaded.</p>
    </section>
  );
}
