#!/usr/bin/env bash
# Makes build/biocage-OS-ARCH.mcpb from bin/biocage, checked and packed by the
# format's own tool. The bundle holds one binary, so it is for one platform.
set -euo pipefail
cd "$(dirname "$0")/.."
platform=linux-$(go env GOARCH)
dir=build/mcpb/$platform out=build/biocage-$platform.mcpb
mcpb=(npx --yes @anthropic-ai/mcpb@2.1.2)

rm -rf "$dir" "$out"
mkdir -p "$dir/server"
install -m 755 bin/biocage "$dir/server/biocage"
cp docs/icon.png LICENSE "$dir/"
version=$(git describe --tags --match 'v[0-9]*' --abbrev=0 2>/dev/null || echo v0.0.0)
sed "s/\"version\": \"0.0.0\"/\"version\": \"${version#v}\"/" packaging/mcpb/manifest.json >"$dir/manifest.json"
"${mcpb[@]}" validate "$dir/manifest.json"
"${mcpb[@]}" pack "$dir" "$out"

# The entry for the MCP registry names the bundle by its digest.
digest=$(sha256sum "$out" | cut -d' ' -f1)
sed "s/VERSION/${version#v}/; s/PLATFORM/$platform/; s/SHA256/$digest/" packaging/server.json >build/server.json
