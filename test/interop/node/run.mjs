// Plays scenarios with one version of the TypeScript SDK and prints facts as JSON.
//
// usage: run.mjs PACKAGES, with a JSON object on standard input:
//   {sdk: "ts1"|"ts2", scenarios: [NAME], target: {command, args, env} or {url, token}}
//
// PACKAGES is the directory with node_modules. The output is one JSON object on
// standard output, a key for each scenario; one that failed on the client's
// side is {"failed": STACK}.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { connect } from "./peers.mjs";
import { SCENARIOS } from "./scenarios.mjs";

const require = createRequire(join(resolve(process.argv[2]), "run.js"));
const { sdk, scenarios, target } = JSON.parse(readFileSync(0, "utf8"));
const again = () => connect(sdk, require, target);

const facts = {};
for (const name of scenarios) {
  try {
    const peer = await again();
    facts[name] = await SCENARIOS[name](peer, again);
    if (name !== "kept") await peer.close();
  } catch (error) {
    facts[name] = { failed: String(error?.stack ?? error) };
  }
}
process.stdout.write(JSON.stringify(facts), () => process.exit(0));
