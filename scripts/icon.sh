#!/usr/bin/env bash
# Renders docs/icon.svg as the PNG files that are made from it, with resvg from
# npm below build/tools. What it renders is the same on every machine.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/tools/icon
npm --prefix "$tools" install --no-save --no-audit --no-fund --loglevel=error @resvg/resvg-js@2.6.2

NODE_PATH=$tools/node_modules node --input-type=commonjs --eval '
	const { Resvg } = require("@resvg/resvg-js");
	const { readFileSync, writeFileSync } = require("node:fs");
	const svg = readFileSync("docs/icon.svg");
	for (const [width, path] of [[512, "docs/icon.png"], [64, "internal/serve/icon.png"]])
		writeFileSync(path, new Resvg(svg, { fitTo: { mode: "width", value: width } }).render().asPng());
'
