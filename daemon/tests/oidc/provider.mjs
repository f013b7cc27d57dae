// A real OpenID provider for the tests: PKCE is required, and somebody signs in without a page, by ?login=NAME.
// node provider.mjs PORT CALLBACK [userinfo] [foreign-keys] [tls=FOLDER with host.pem and host.key]
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { Provider } from "oidc-provider";

const [port, callback, ...modes] = process.argv.slice(2);
const files = modes.find((mode) => mode.startsWith("tls="))?.slice("tls=".length);
const issuer = `${files ? "https" : "http"}://127.0.0.1:${port}`;
const users = {
  alice: ["sre"],
  bob: [],
  carol: ["acme-staff"],
  dave: ["acme-staff", "globex-staff"],
  root: ["admins"],
};
// Another key at each start: as if it were changed.
const kid = randomUUID();
const key = () => ({ ...generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" }), kid, use: "sig", alg: "RS256" });
const provider = new Provider(issuer, {
  clients: [{ client_id: "ringscope", client_secret: "s3cret", redirect_uris: [callback], grant_types: ["authorization_code"], response_types: ["code"] }],
  jwks: { keys: [key()] },
  pkce: { required: () => true },
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"], email: ["email"] },
  conformIdTokenClaims: modes.includes("userinfo"),
  cookies: { keys: ["test"] },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_ctx, sub) => users[sub] && { accountId: sub, claims: async () => ({ sub, preferred_username: sub, groups: users[sub] }) },
  // Of its own house: nobody is asked whether the daemon may know them.
  loadExistingGrant: async (ctx) => {
    const grant = new provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
    grant.addOIDCScope("openid profile email");
    await grant.save();
    return grant;
  },
});
const { n, e } = key();
provider.use(async (ctx, next) => {
  if (ctx.path === "/jwks" && modes.includes("foreign-keys")) {
    ctx.body = { keys: [{ kty: "RSA", kid, use: "sig", alg: "RS256", n, e }] };
    return undefined;
  }
  if (!ctx.path.startsWith("/interaction/")) return next();
  const login = new URL(ctx.href).searchParams.get("login");
  const result = login === null ? { error: "access_denied", error_description: "nobody <b>signed</b> in" } : { login: { accountId: login } };
  await provider.interactionFinished(ctx.req, ctx.res, result);
  ctx.respond = false;
  return undefined;
});
const [cert, key_file] = ["host.pem", "host.key"].map((name) => files && readFileSync(`${files}/${name}`));
const server = files ? createServer({ cert, key: key_file }, provider.callback()) : provider;
server.listen(Number(port), "127.0.0.1");
