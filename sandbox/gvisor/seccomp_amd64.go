//go:build linux

package gvisor

import _ "embed"

//go:embed seccomp_amd64.gob
var precompiled []byte
