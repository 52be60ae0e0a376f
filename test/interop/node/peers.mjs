// The official TypeScript SDK in its versions 1 and 2: what a scenario may ask
// of each, and what it gets. `require` finds the packages where setup.sh put them.

const RESULT_KEY = "biocage/result";
const PATIENCE = 120_000; // milliseconds for one call; the SDK's own limit is a minute

const INFO = { name: "biocage-interop", version: "1" };

/** What differs between the versions. */
const SDKS = {
  ts1(require) {
    const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
    return {
      client: () => new Client(INFO),
      stdio: require("@modelcontextprotocol/sdk/client/stdio.js").StdioClientTransport,
      http: require("@modelcontextprotocol/sdk/client/streamableHttp.js").StreamableHTTPClientTransport,
      sse: require("@modelcontextprotocol/sdk/client/sse.js").SSEClientTransport,
      callTool: (client, params, options) => client.callTool(params, undefined, options),
    };
  },
  ts2(require) {
    const sdk = require("@modelcontextprotocol/client");
    return {
      client: () => new sdk.Client(INFO, { versionNegotiation: { mode: "auto" } }),
      stdio: require("@modelcontextprotocol/client/stdio").StdioClientTransport,
      http: sdk.StreamableHTTPClientTransport,
      sse: sdk.SSEClientTransport,
      callTool: (client, params, options) => client.callTool(params, options),
    };
  },
};

function transportOf(sdk, target) {
  if (target.url === undefined) {
    return new sdk.stdio({ command: target.command, args: target.args, env: target.env, stderr: "inherit" });
  }
  const headers = { Authorization: `Bearer ${target.token}` };
  const options = { requestInit: { headers } };
  return new (target.url.endsWith("/sse") ? sdk.sse : sdk.http)(new URL(target.url), options);
}

/** Open a connection. */
export async function connect(name, require, target) {
  const sdk = SDKS[name](require);
  const client = sdk.client();
  await client.connect(transportOf(sdk, target));
  return new Peer(sdk, client);
}

class Peer {
  constructor(sdk, client) {
    this.sdk = sdk;
    this.client = client;
    this.session = undefined;
    this.notices = [];
  }

  /** The revision that was agreed on, where the version tells it. */
  protocol() {
    return this.client.getNegotiatedProtocolVersion?.();
  }

  /** Names of the tools, in the order in which they came. */
  async tools() {
    return (await this.client.listTools()).tools.map((tool) => tool.name);
  }

  /** Call a tool in the session that the first answer told. */
  async call(name, args, { progress = false, signal } = {}) {
    const begin = performance.now();
    const options = { timeout: PATIENCE, signal };
    if (progress) {
      options.onprogress = (p) => this.notices.push({ at: performance.now(), value: p.progress });
    }
    const request = { name, arguments: this.session ? { session: this.session, ...args } : args };
    const done = await this.sdk.callTool(this.client, request, options);
    const result = done._meta?.[RESULT_KEY];
    this.session ??= result?.session;
    const of = (type) => done.content.filter((block) => block.type === type);
    return {
      is_error: done.isError === true,
      texts: of("text").map((block) => block.text),
      images: of("image").map((block) => ({ mime: block.mimeType, data: block.data })),
      links: of("resource_link").map((block) => block.uri),
      result,
      size: Buffer.byteLength(JSON.stringify(done)),
      seconds: (performance.now() - begin) / 1000,
    };
  }

  async close() {
    await this.client.close();
  }
}
