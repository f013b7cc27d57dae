// Who looks: signing in and out.

import assert from "node:assert/strict";
import { counts, fits, goesTo, reads, says } from "./reading.mjs";

const TOKEN = `rsc_0123456789abcdef_${"0".repeat(64)}`;
const wants = { token: TOKEN, name: "the-whole-night-shift-of-the-training-cluster-in-frankfurt-and-everybody-who-is-ever-on-call", role: "operate" };

export const accessChecks = {
  async "a daemon that asks nobody shows no name and no way out"({ open }) {
    const { page } = await open("healthy");
    await reads(page, "h1", "All 4 hosts healthy");
    await counts(page, ".who, .sign-in", 0, "nobody signs in");
  },

  async "who is not known signs in, is named, and signs out"({ browserOpen, faults }) {
    for (const [width, dark] of [[1440, false], [390, true]]) {
      const { page } = await browserOpen("healthy", { wants, width, dark });
      await reads(page, "h1", "Sign in");
      await counts(page, ".masthead, .headline", 0, "nothing else is shown");
      await faults(page, `sign-in at ${width}`);
      await fits(page, `sign-in at ${width}`);
      await page.fill("input[name=token]", "rsc_wrong");
      await page.click(".sign-in button");
      await says(page, ".sign-in .fault", /Status 401 Unauthorized: this token is not known here/);
      await page.fill("input[name=token]", ` ${TOKEN} `);
      await page.keyboard.press("Enter");
      await reads(page, "h1", "All 4 hosts healthy");
      await says(page, ".who", /the-whole-night-shift.*operate/);
      await fits(page, `signed in at ${width}`);
      await faults(page, `signed in at ${width}`);
      assert.equal(await page.evaluate(() => document.cookie), "", "no script reads the cookie");
      await page.reload();
      await reads(page, "h1", "All 4 hosts healthy");
      await page.click(".who button");
      await reads(page, "h1", "Sign in");
    }
  },

  async "a sign-in that had no answer says so until the daemon answers again"({ browserOpen }) {
    const { page, mock } = await browserOpen("healthy", { wants });
    await says(page, ".sign-in", /ringscope token create --name NAME --role read/);
    mock.away(true);
    await page.fill("input[name=token]", TOKEN);
    await page.click(".sign-in button");
    await says(page, ".sign-in .fault", /The daemon does not answer/);
    mock.away(false);
    await page.waitForSelector(".sign-in .fault", { state: "detached" });
    await page.click(".sign-in button");
    await reads(page, "h1", "All 4 hosts healthy");
  },

  async "whom a proxy names without a role reads why, and may sign in with a token"({ browserOpen, faults }) {
    const noRole = "signed in as ann by the proxy, but none of the groups dev gives a role: ask whoever runs the daemon";
    const { page } = await browserOpen("healthy", { wants: { ...wants, noRole } });
    await says(page, ".sign-in .fault", /signed in as ann by the proxy, but none of the groups dev gives a role/);
    await faults(page, "no role");
    await page.fill("input[name=token]", TOKEN);
    await page.keyboard.press("Enter");
    await reads(page, "h1", "All 4 hosts healthy");
  },

  async "where people sign in elsewhere, the page leads there and says if that is away"({ browserOpen, faults }) {
    const address = "https://ring.example/api/v1/session/oidc";
    const oidc = { issuer_host: "login.example.org", address };
    const { page } = await browserOpen("healthy", { wants: { ...wants, oidc }, at: "#/hosts/host-2" });
    await says(page, ".sign-in .provider", /^Sign in with login\.example\.org$/);
    assert.equal(await page.getAttribute(".sign-in .provider a", "href"), `${address}?return=%2F%23%2Fhosts%2Fhost-2`);
    await reads(page, "h1", "Sign in");
    await faults(page, "sign-in elsewhere");
    const away = await browserOpen("healthy", { wants: { ...wants, oidc: { ...oidc, away: "connection refused" } }, width: 390 });
    await says(away.page, ".sign-in .provider .fault", /login\.example\.org cannot be asked: connection refused\. A token goes on to work/);
    await fits(away.page, "sign-in elsewhere that is away");
    await faults(away.page, "sign-in elsewhere that is away");
  },

  async "an admin sees who did what, a page at a time, by who and by what"({ browserOpen, faults }) {
    const admin = { known: true, name: "ann", role: "admin" };
    for (const [width, dark] of [[1440, false], [390, true]]) {
      const { page } = await browserOpen("healthy", { wants: admin, at: "#/audit", width, dark });
      await counts(page, ".audit-table tbody tr", 100);
      await says(page, ".audit-table tbody tr", /ann.*operate of acme, from 10\.0\.4\.17.*token 5e0f9a1c22d4b7e6.*acknowledged an incident.*by ann/);
      await says(page, ".audit-table tr.refused", /was refused making a token.*not allowed 403/);
      await fits(page, `audit at ${width}`);
      await faults(page, `audit at ${width}`);
      await page.click("text=Older entries");
      await counts(page, ".audit-table tbody tr", 30);
      await goesTo(page, /#\/audit\?before=100$/);
      await page.click("text=The newest");
      await page.selectOption(".filters select", "level");
      await goesTo(page, /#\/audit\?action=level$/);
      await says(page, ".audit-table", /set a level.*jobs\/llm-7b-pretrain\/level.*steps/);
      await page.fill(".filters input", "nobody");
      await page.keyboard.press("Enter");
      await says(page, "#audit", /No entry fits the filters/);
      await page.click(".who a[aria-current=page]");
      await counts(page, ".audit-table tbody tr", 100);
      await page.click(".audit-table .name a");
      await goesTo(page, /#\/audit\?who=ann$/);
      await page.click(".audit-table .what a");
      await goesTo(page, /#\/incidents\/f-rank_missing$/);
    }
  },

  async "who is no admin reads whom the audit trail is for"({ open }) {
    const { page, mock } = await open("healthy", { wants: { known: true, name: "ben", role: "operate" }, at: "#/audit" });
    await says(page, ".notice", /for admins, and ben has the role operate/);
    await counts(page, '.who >> text="Audit trail"', 0, "no way to what one may not see");
    assert.ok(!mock.asked().some((path) => path.includes("/audit")), "and nothing is asked for");
    const { page: open_ } = await open("healthy", { at: "#/audit" });
    await says(open_, ".notice", /ringscope audit --database shows it/);
  },

  async "a session that ends while the page is open leads to signing in, and back to where one was"({ browserOpen }) {
    const { page, mock } = await browserOpen("degraded", { wants, at: "#/hosts/host-2" });
    await page.fill("input[name=token]", TOKEN);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".who");
    mock.endSessions();
    await reads(page, "h1", "Sign in");
    await page.fill("input[name=token]", TOKEN);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".who");
    assert.match(page.url(), /#\/hosts\/host-2$/);
  },
};
