/** Nothing to show yet: how to get something. */
export function Empty() {
  return (
    <section class="empty panel" aria-label="How to start">
      <h2>Start a job under ringscope</h2>
      <dl>
        <dt>Your own training job</dt>
        <dd>
          <code>ringscope run -- python train.py</code>
        </dd>
        <dt>On a cluster, once on each host</dt>
        <dd>
          <code>ringscope agent --daemon {location.origin}</code>
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
