// An issuer of OAuth 2.1, as far as a resource server sees it: its metadata and keys, on a port of its own, which it prints.
// Each line of its input is the claims of a token; it answers with the token.
const { createServer } = require("node:http");
const { createInterface } = require("node:readline");
const jose = require("jose");

async function main() {
  const { publicKey, privateKey } = await jose.generateKeyPair("RS256");
  const keys = [{ ...(await jose.exportJWK(publicKey)), kid: "one", alg: "RS256", use: "sig" }];
  const server = createServer((request, response) => {
    const issuer = `http://${request.headers.host}`;
    const pages = {
      "/.well-known/oauth-authorization-server": { issuer, jwks_uri: `${issuer}/keys` },
      "/keys": { keys },
    };
    const page = pages[request.url];
    response.writeHead(page ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(page ?? {}));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  console.log(server.address().port);
  for await (const line of createInterface({ input: process.stdin })) {
    const claims = { iss: `http://127.0.0.1:${server.address().port}`, ...JSON.parse(line) };
    const header = { alg: "RS256", typ: "at+jwt", kid: "one" };
    console.log(await new jose.SignJWT(claims).setProtectedHeader(header).setExpirationTime("5m").sign(privateKey));
  }
}

main().catch((error) => { console.error(error); process.exit(1); });
